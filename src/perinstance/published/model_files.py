"""``load_model``: a published model from its JSON file, every field checked before it is used."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perinstance.checked_numbers import is_number, is_whole
from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import InvalidInput, InvalidModelFile, NewerModelFile
from perinstance.inference.published_inference import PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.published.model import PublishedModel
from perinstance.releases.base.model_document import FORMAT, FORMAT_VERSION, PublishedNumbers, checksum

LARGEST_FILE = 64 << 20  # bytes: a million coefficients take 25 MB

_NULL = type(None)
#: of each field, the types it may have; bool is no number here
_FIELDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("perinstance", "method", "published"), (str,)),
    **dict.fromkeys(("declared", "model", "released"), (dict,)),
    **dict.fromkeys(("promise", "bounds", "recipe"), (dict, _NULL)),
    **{"target": (str, _NULL), "features": (list, _NULL), "n_features": (int,), "grid": (float, int)},
}


def load_model(path: str | os.PathLike[str]) -> PublishedModel:
    """Read a published model that ``to_json`` or ``perinstance release`` wrote.

    Parameters
    ----------
    path
        The file. What is not such a file, is newer than this version, was cut off or edited, is refused.

    Examples
    --------
    >>> import pathlib, tempfile, perinstance as pi
    >>> release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0).fit([[0.5], [-0.5]], [0.3, -0.3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "model.json")
    ...     _ = file.write_text(release.to_json(features=["dose"], target="effect"), encoding="utf-8")
    ...     model = pi.load_model(file)
    >>> model
    PublishedModel(AdaSSP of 'effect', 1 feature, epsilon = 1, delta = 1e-06)
    """
    place = Path(path)
    name = repr(place.name)
    try:
        with place.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path cannot be used"
        raise InvalidModelFile(f"the model {name} cannot be read ({reason}); check the path") from None
    if len(data) > LARGEST_FILE:
        raise InvalidModelFile(f"{name} is larger than {LARGEST_FILE >> 20} MB; a model file is not")
    try:
        text = data.decode("utf-8-sig")
        document = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise InvalidModelFile(
            f"{name} is not complete JSON: it was cut off, or is another kind of file; copy it again"
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidModelFile(f"{name} is not a model of perinstance; pass what `perinstance release` wrote")
    version: Any = document.get("format_version")
    if not is_whole(version) or version < 1:
        raise InvalidModelFile(f"{name} does not say which version of the format it is; copy it again")
    if version > FORMAT_VERSION:
        raise NewerModelFile(
            f"{name} is in version {version} of the format, this perinstance knows up to {FORMAT_VERSION}; "
            "install a newer perinstance"
        )
    if document.get("checksum") != checksum(document):
        raise InvalidModelFile(
            f"{name} was changed after it was written: its checksum does not fit; copy the original again"
        )
    return model_of(document)


def model_of(document: Mapping[str, Any]) -> PublishedModel:
    """Check a document field by field, and make the model of it."""
    for name, kinds in _FIELDS.items():
        value = document.get(name)
        good = name in document and isinstance(value, kinds) and not isinstance(value, bool)
        _require(good, f"its field {name!r} is missing or of another type")
    promise, bounds, d, features = (document[name] for name in ("promise", "bounds", "n_features", "features"))
    named = features is None or (len(features) == d and all(isinstance(one, str) for one in features))
    _require(d >= 1 and named, "its features are not as many as it says")
    rows = None if promise is None else promise.get("rows_per_person")
    _require(rows is None or (is_whole(rows) and rows >= 1), "rows_per_person is no whole number >= 1")
    for name in () if promise is None else ("epsilon", "delta"):
        _require(is_number(promise.get(name)) and promise[name] > 0, f"{name} is missing or is no number > 0")
    try:  # older files say nothing of the uncertainty of their coefficients
        uncertain = document.get("inference", {}).items()
        known = {str(about): PublishedInference.from_json(one, d + 1) for about, one in uncertain}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unusable("its standard errors cannot be read") from None
    recipe = None
    if document["recipe"] is not None:
        try:  # it must make as many numbers of a row as the model has coefficients
            recipe = Recipe.from_dict(document["recipe"])
            made = d if recipe.columns is None else len(recipe.get_feature_names_out())
        except (InvalidInput, TypeError, ValueError):
            raise _unusable("its recipe cannot be read") from None
        _require(made == d, "its recipe makes more or fewer numbers than it has features")
    return PublishedModel(
        document=dict(document),
        method=document["method"],
        published=document["published"],
        promise=None if promise is None else (float(promise["epsilon"]), float(promise["delta"])),
        bounds=None if bounds is None else (_bound_of(bounds, "x_bound"), _bound_of(bounds, "y_bound")),
        target=document["target"],
        features=None if features is None else tuple(features),
        n_features=d,
        recipe=recipe,
        numbers=_published(document["model"], d),
        grid=float(document["grid"]),
        version=document["perinstance"],
        known=known,
        rows_per_person=rows,
    )


def _finite(word: str) -> float:
    """Read a number; NaN and Infinity are no JSON, 1e400 and 10**400 no numbers of a model."""
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(word)
    return value


def _whole(word: str) -> int:
    _finite(word)
    return int(word)


def _unusable(reason: str) -> InvalidModelFile:
    return InvalidModelFile(f"the model file cannot be used: {reason}; copy the original again")


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise _unusable(reason)


def _bound_of(record: Mapping[str, Any], name: str) -> Any:
    """Read one declared bound: a number > 0; a range; one of either per column; a classifier's labels have none."""
    value: Any = record.get(name)
    if name == "y_bound" and name not in record:
        return None
    if (
        isinstance(value, list)
        and value
        and all(
            len(one) == 2 and all(map(is_number, one)) if isinstance(one, list) else is_number(one) for one in value
        )
    ):
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)
    _require(is_number(value) and value > 0, f"{name} is missing or is neither a number > 0 nor a range")
    return float(value)


def _published(record: Mapping[str, Any], d: int) -> PublishedNumbers:
    """Check the coefficients: finite, and as many as there are features."""
    task = record.get("task")
    if task == "values":
        count = len(record["values"]) if isinstance(record.get("values"), list) else 0
        points = None if record.get("points") is None else _array(record, "points", (count, d))
        return PublishedNumbers("values", values=_array(record, "values", (count,)), points=points)
    if task == "regressor":
        link: Any = record.get("link")
        _require(link in ("identity", "log"), "its link is not known here")
        coef, intercept = _array(record, "coef", (d,)), float(_array(record, "intercept", ())[()])
        return PublishedNumbers("regressor", link, coef, intercept)
    _require(task == "classifier", "what it is made for is not known here")
    classes: Any = record.get("classes")
    several = isinstance(classes, list) and len(classes) >= 2 and len({type(one) for one in classes}) == 1
    _require(several, "a classifier needs its classes")
    rows, sure = 1 if len(classes) == 2 else len(classes), record.get("probabilities") is True
    coef, intercepts = _array(record, "coef", (rows, d)), _array(record, "intercept", (rows,))
    return PublishedNumbers("classifier", "", coef, intercepts, classes=np.array(classes), probabilities=sure)


def _array(record: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    try:
        values = np.array(record.get(name), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(math.nan)
    good = values.shape == shape and bool(np.isfinite(values).all())
    _require(good, f"{name} is not {' by '.join(map(str, shape)) or 'one'} finite numbers")
    return values
