"""The table of an audit as a source of blocks: by a recipe or the steps of a Pipeline, for any kind of target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.data import read_table
from perinstance.data.files.load_whole import two_classes, yes_or_no
from perinstance.data.memory.columns import DeclaredWords, plain_array
from perinstance.data.persons import by_person
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.source import Source
from perinstance.engines.cuda import device_source, is_on_device
from perinstance.engines.dask import dask_source, is_dask, zeros_for
from perinstance.engines.protocol import TableSweep
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.releases.base.publishing import is_classifier
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
    declared, with_target = declared_words(release), release.mechanism().needs_target
    if is_on_device(X):
        if not with_target or classes or declared:
            raise InvalidTable(
                f"{type(release).__name__} of an array on a device is not supported; copy it to the host"
            )
        return device_source(X, y, target=target, **named)
    classifies = hasattr(release, "problem") and is_classifier(release.problem())
    scanned, words = hasattr(X, "select_columns"), declared or (classes if classifies else None)
    if not with_target:
        if y is not None or target is not None:
            raise InvalidTable(f"{type(release).__name__} has no target; pass the columns to be averaged as X alone")
        if preparation is not None:
            named["preparation"] = replace(preparation, target=None)
        if scanned:
            if preparation is not None and preparation.columns is not None:
                named["features"] = preparation.columns
            return X.select_columns(target=None, **named)
        if is_dask(X):
            return dask_source(X, zeros_for(X), **named)
        if isinstance(X, (list, tuple)) or getattr(X, "ndim", 2) == 1:
            X = plain_array(X, "the table")
            X = X[:, None] if X.ndim == 1 else X
        countable = hasattr(X, "__len__") and not hasattr(X, "nnz")  # what is no table is refused as one
        y = np.zeros(len(X) if countable else 0)
    elif words is not None and preparation is None and scanned:
        if declared:
            named["preparation"] = yes_or_no(target, declared[0], declared[1], others_missing=True)
        else:
            named["preparation"] = two_classes(X, target)
    if is_dask(X):
        return dask_source(X, y, target=target, classes=words, **named)
    table = read_table(X, y, target=target, classes=words, several=True, **named)
    # ids of a file are known when it was read; the rows of a promise may hold anything
    return by_person(table, not release.mechanism().promises) if table.ids is not None else table


def outsiders_of(outsiders: Any) -> tuple[Any, Any, None, Any]:
    """Return people outside as ``read_rows`` takes them."""
    if not isinstance(outsiders, (tuple, list)) or not 1 <= len(outsiders) <= 3:
        raise InvalidInput("outsiders must be (X_new, y_new) or (X_new, y_new, ids_new)")
    X, y, ids = (*outsiders, None, None)[:3]
    return X, y, None, ids


def read_again(
    audit: Any, X: Any, y: Any = None, target: Any = None, ids: Any = None, features: Any = None, **more: Any
) -> Source:
    """Read the audited table once more, or people outside it: where both have names, columns are those of the audit."""
    audit.refuse_weights()
    by_recipe = audit.preparation is not None and audit.preparation.columns is not None
    own = None if audit.features is None or by_recipe else columns_named(X, audit.features)
    if own is not None and features is not None and sorted(map(str, features)) != sorted(audit.features):
        raise InvalidTable("features= names other columns than those audited; leave it away")
    table = read_rows(audit.release, X, y, target, ids, features if own is None else own, audit.preparation, **more)
    return table if audit.n_rows is None else by_person(table)


def column_labels(X: Any) -> tuple[Any, ...] | None:
    """Return how a table calls its columns; None where it does not."""
    labels = getattr(X, "column_names", getattr(X, "columns", None))  # of a pyarrow table, of every other one
    return None if labels is None or getattr(X, "unnamed", False) else tuple(labels)


def columns_named(X: Any, names: Sequence[str]) -> list[Any] | None:
    """Return the table's own labels of the columns with these names; None where it has no names."""
    labels = column_labels(X)
    if labels is None:
        return None
    own = {str(label): label for label in labels}
    return [own.get(name, name) for name in names]


def feature_names(X: Any, source: Source, target: Any, ids: Any, features: Any) -> tuple[str, ...] | None:
    """Return the names of the caller's columns that are the features, or the raw ones that they are made of."""
    labels = column_labels(X)
    if source.names is None or labels is None:
        return source.names
    return tuple(str(label) for label in _used(labels, target, ids, features))


def _used(labels: Sequence[Any], target: Any, ids: Any, features: Any) -> Sequence[Any]:
    """Return the labels of the features: all but those of target and ids where none are chosen."""
    named = [one for one in (target, ids) if isinstance(one, str | int)]
    return [label for label in labels if label not in named] if features is None else features


def features_but(X: Any, weight: Any, target: Any, ids: Any) -> list[Any]:
    """Return all columns of a table but the target, the ids and that of the weights, which is one of them."""
    labels = column_labels(X)
    if labels is None:  # columns of a matrix are counted from its end too
        labels, weight = tuple(range(np.shape(X)[1])), weight % np.shape(X)[1]
    return [one for one in _used(labels, target, ids, None) if one != weight]


def in_fitted_order(release: Any, X: Any, target: Any, ids: Any, features: Any) -> Any:
    """Return the features in the order of the release's ``fit``, where it knows them: bounds are declared in it."""
    fitted, labels = getattr(release, "feature_names_in_", None), column_labels(X)
    if fitted is None or labels is None:
        return features
    used = _used(labels, target, ids, features)
    return columns_named(X, fitted) if sorted(map(str, used)) == sorted(map(str, fitted)) else features


def refuse_other_names(published: Any, source: Source) -> None:
    """Refuse what was published of the same columns in another order: numbers would be taken for each other's."""
    names = getattr(published, "features", getattr(published, "feature_names_in_", None))
    if names is None or source.names is None or tuple(names) == source.names:
        return
    if sorted(map(str, names)) == sorted(source.names):
        raise InvalidTable(
            "what was published has the same features in another order than the audited table; audit with features= "
            "in the order of the publication"
        )


def declared_words(release: Any) -> tuple[str, ...]:
    """Return the classes of a release that declares them in words, sorted as their codes are; none of any other."""
    classes: Any = getattr(release, "classes", None)
    words = [one for one in classes if isinstance(one, str)] if hasattr(classes, "__len__") else []
    return DeclaredWords(sorted(words)) if len(words) == 2 else ()


def refuse_other_people(audit: Any, table: Source, sweep: TableSweep) -> None:
    """Refuse a table whose ids (or index) are not those of the audit; ``sweep`` goes over the table."""
    if audit.ids is not None and table.has_ids:
        if sweep.ids is None:  # they are known after a pass
            sweep.fold(len)
        text, found = pa.large_string(), sweep.ids
        same = found is not None and audit.ids.cast(text).equals(found.cast(text))
    else:
        before, now = audit.flavour.index, table.flavour.index
        same = before is None or now is None or before.equals(now)
    if not same:
        raise InvalidInput(
            "the table has other people than the audit, or the same ones in another order; pass the table that was "
            "audited, with its rows in the same order"
        )
