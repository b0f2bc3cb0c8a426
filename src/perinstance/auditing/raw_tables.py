"""The table of an audit as a source of blocks: by a recipe or the steps of a Pipeline, for any kind of target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from perinstance.data import read_table
from perinstance.data.files.target_words import two_classes, yes_or_no
from perinstance.data.memory.class_words import DeclaredWords
from perinstance.data.memory.columns import plain_array
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.source import Source
from perinstance.engines.cuda import device_source, is_on_device
from perinstance.engines.dask import dask_source, is_dask, zeros_for
from perinstance.errors import InvalidTable
from perinstance.releases.base.predicting import is_classifier
from perinstance.releases.base.release import Release


def read_rows(
    release: Release,
    X: Any,
    y: Any = None,
    target: Any = None,
    ids: Any = None,
    features: Any = None,
    preparation: Preparation | None = None,
    classes: tuple[str, ...] = (),
) -> Source:
    """Make a source; a release without a target (a mean) gets one of zeros.

    A classifier's target may be words: ``classes`` are those of the table that was fitted, none when this is it.
    """
    named: dict[str, Any] = {"ids": ids, "features": features, "preparation": preparation}
    if is_on_device(X):
        if not release.mechanism().needs_target or classes or declared_words(release):
            raise InvalidTable(
                f"{type(release).__name__} of an array on a device is not supported; copy it to the host"
            )
        return device_source(X, y, target=target, **named)
    if is_dask(X) and release.mechanism().needs_target:
        words = declared_words(release) or (classes if classifies(release) else None)
        return dask_source(X, y, target=target, classes=words, **named)
    if release.mechanism().needs_target:
        declared = declared_words(release)
        words = declared or (classes if classifies(release) else None)
        if words is not None and preparation is None and hasattr(X, "select_columns"):
            if declared:
                named["preparation"] = yes_or_no(target, declared[0], declared[1], others_missing=True)
            else:
                named["preparation"] = two_classes(X, target)
        return read_table(X, y, target=target, classes=words, **named)
    if preparation is not None:
        named["preparation"] = replace(preparation, target=None)
    if y is not None or target is not None:
        raise InvalidTable(f"{type(release).__name__} has no target; pass the columns to be averaged as X alone")
    if is_dask(X):
        return dask_source(X, zeros_for(X), **named)
    if hasattr(X, "select_columns"):  # a scan
        if preparation is not None and preparation.columns is not None:
            named["features"] = preparation.columns
        return X.select_columns(target=None, **named)
    if isinstance(X, (list, tuple)) or getattr(X, "ndim", 2) == 1:
        X = plain_array(X, "the table")
        X = X[:, None] if X.ndim == 1 else X
    countable = hasattr(X, "__len__") and not hasattr(X, "nnz")  # what is no table is refused as one
    return read_table(X, np.zeros(len(X) if countable else 0), **named)


def classifies(release: Any) -> bool:
    """Tell whether the release's targets are classes."""
    return hasattr(release, "problem") and is_classifier(release.problem())


def declared_words(release: Any) -> tuple[str, ...]:
    """Return the classes of a release that declares them in words, sorted as their codes are; none of any other."""
    classes: Any = getattr(release, "classes", None)
    words = [one for one in classes if isinstance(one, str)] if hasattr(classes, "__len__") else []
    return DeclaredWords(sorted(words)) if len(words) == 2 else ()
