"""What a release published, as one JSON document: enough to predict, and nothing that was not published.

The document is gathered from a list of what may leave the room (declared parameters and the draw itself), never from
the estimator's attributes at large. Its checksum finds files that were cut off or edited by accident; it is not a
signature.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from perinstance._version import __version__
from perinstance.checked_numbers import is_number, is_unicode
from perinstance.errors import InvalidInput
from perinstance.inference.table import About
from perinstance.releases.base.release import Mechanism
from perinstance.sampling import GRID
from perinstance.shown_decimals import declared_text

FORMAT = "perinstance.model"
STATED_DELTA = 1e-6  #: at which a promise is written down whose noise was declared instead
FORMAT_VERSION = 2  # since a bound may be a list: of ranges, or of columns
NEIGHBOURS = "add or remove one row"
PEOPLE_AS_NEIGHBOURS = "add or remove one person with all their rows, of which at most {} are used"

Task = Literal["regressor", "classifier", "values"]


@dataclass(frozen=True, slots=True)
class PublishedNumbers:
    """The draw, and how it answers questions."""

    task: Task
    link: str = "identity"  #: of a regressor: "identity" or "log"
    coef: Any = None  #: (d,) of a regressor, (1 or classes, d) of a classifier
    intercept: Any = None
    classes: Any = None  #: of a classifier; they are taken to be public
    probabilities: bool = False  #: whether a classifier's scores are log odds
    values: Any = None  #: numbers that are published as they are
    points: Any = None  #: the public points that ``values`` belong to


def document_of(
    release: Any, features: Sequence[str] | None = None, target: str | None = None, recipe: Any = None
) -> dict[str, Any]:
    """Gather what may be published, without its checksum."""
    mechanism: Mechanism = release.mechanism()
    numbers: PublishedNumbers = release.published_numbers()
    d = int(release.n_features_in_)
    recipe = _bounding_recipe(release) if recipe is None else recipe
    if features is None:
        features = feature_names(release, recipe)
    fitted = [str(name) for name in getattr(release, "feature_names_in_", ())]
    if features is not None and list(features) != fitted and sorted(map(str, features)) == sorted(fitted):
        raise InvalidInput("features names the fitted columns in another order; leave it away, fit kept their names")
    if features is not None and len(features) != d:
        raise InvalidInput(f"features must name the {d} columns that were fitted, got {len(features)} names")
    parameters = release.get_params(deep=False)
    declared = {name: parameters[name] for name in ("x_bound", "y_bound") if parameters.get(name) is not None}
    bounds = {name: plain_bound(bound) for name, bound in declared.items()} or None
    return {
        "format": FORMAT,
        # the oldest that holds these bounds: older readers know no lists
        "format_version": 2 if any(isinstance(one, list) for one in (bounds or {}).values()) else 1,
        "perinstance": __version__,
        "method": mechanism.name,
        "published": "".join(w if isinstance(w, str) else declared_text(w) for w in mechanism.words),
        "promise": promise_of(release, mechanism, parameters),
        "bounds": bounds,
        "declared": _named(parameters) | (bounds or {}),
        "grid": float(parameters.get("grid", GRID)),  # what was drawn is a multiple of this
        "target": target,
        "n_features": d,
        "features": None if features is None else [str(name) for name in features],
        "recipe": None if recipe is None else recipe.to_dict(),
        "model": {name: _plain(getattr(numbers, name)) for name in PublishedNumbers.__dataclass_fields__},
        "released": _named(release.published_parameters()),
        "inference": {about: release.uncertainty(about).to_json() for about in get_args(About)},
    }


def feature_names(release: Any, recipe: Any = None) -> list[str] | None:
    """Return the names of the columns: those that a recipe makes, or that ``fit`` saw; None where there are none."""
    recipe = _bounding_recipe(release) if recipe is None else recipe
    names = recipe.get_feature_names_out() if recipe is not None else getattr(release, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _bounding_recipe(release: Any) -> Any:
    """Return the recipe that was declared as the bound of rows: who has the file has raw rows.

    Its target is kept where the targets were bounded by it too; others are in the unit that they were fitted in.
    """
    recipe: Any = getattr(release, "x_bound", None)
    if not hasattr(recipe, "ranges") or not hasattr(recipe, "to_dict"):
        return None
    if recipe.target is not None and getattr(release, "y_bound", None) != recipe.target_range:
        return type(recipe)(**{**recipe.get_params(), "target": None})
    return recipe


def document_text(document: dict[str, Any]) -> str:
    """Write the document with its checksum."""
    whole = {**document, "checksum": checksum(document)}
    text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if not is_unicode(text):
        raise InvalidInput("a name holds half a character (a lone surrogate), which no file can; rename it")
    return text


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything else in the document."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


def promise_of(release: Any, mechanism: Mechanism, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a release promises, as a file states it; None for one that promises nothing."""
    if not mechanism.promises:
        return None
    if parameters["epsilon"] is None:  # the noise was declared: state one point of the curve that it promises
        epsilon, delta = float(release.promise(int(release.n_features_in_)).epsilon(STATED_DELTA)), STATED_DELTA
    else:
        epsilon, delta = float(parameters["epsilon"]), float(parameters["delta"])
    rows = parameters.get("rows_per_person")
    if rows is None:
        return {"epsilon": epsilon, "delta": delta, "neighbours": NEIGHBOURS}
    neighbours = PEOPLE_AS_NEIGHBOURS.format(rows)
    return {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "rows_per_person": int(rows)}


def plain_bound(bound: Any) -> Any:
    """Return a declared bound as numbers and lists: one number, a range, one of either per column, or a recipe's.

    >>> plain_bound(2), plain_bound([1, (0, 3)])
    (2.0, [1.0, [0.0, 3.0]])
    """
    if hasattr(bound, "ranges"):
        bound = bound.ranges
    return float(bound) if is_number(bound) else [plain_bound(one) for one in bound]


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is null, with a flag beside it."""
    plain = {name: _plain(value) for name, value in values.items()}
    endless = [name for name, value in values.items() if isinstance(value, float) and value == math.inf]
    return plain | {f"{name}_infinite": True for name in endless}


def _plain(value: Any) -> Any:
    """Return what JSON can hold; of an object that it cannot, its class and, from scikit-learn, its parameters.

    A model of our own may carry a fit (its starting point): only its name is written.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    kind = type(value)
    if kind.__module__.split(".")[0] == "sklearn" and hasattr(value, "get_params"):
        return {"class": kind.__name__, **_named(value.get_params(deep=False))}
    return {"class": kind.__name__}
