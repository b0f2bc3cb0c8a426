"""``load``: a published model from its JSON file, every field checked before it is used."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import InvalidInput, InvalidModelFile, NewerModelFile
from perinstance.inference.table import PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.published.model import PublishedModel
from perinstance.releases.base.model_document import FORMAT, FORMAT_VERSION, PublishedNumbers, checksum

LARGEST_FILE = 64 << 20  # bytes: a million coefficients take 25 MB

#: of each field, the types it may have; bool is no number here
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "perinstance": (str,),
    "method": (str,),
    "published": (str,),
    "promise": (dict, type(None)),
    "bounds": (dict, type(None)),
    "declared": (dict,),
    "grid": (float, int),
    "target": (str, type(None)),
    "n_features": (int,),
    "features": (list, type(None)),
    "recipe": (dict, type(None)),
    "model": (dict,),
    "released": (dict,),
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
    return model_of(_read(Path(path)))


def model_of(document: Mapping[str, Any]) -> PublishedModel:
    """Check a document field by field, and make the model of it."""
    for name, kinds in _FIELDS.items():
        value = document.get(name)
        if name not in document or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _unusable(f"its field {name!r} is missing or of another type")
    promise, bounds, d = document["promise"], document["bounds"], document["n_features"]
    features = document["features"]
    recipe = _recipe(document["recipe"], d)
    if d < 1 or (features is not None and (len(features) != d or not all(isinstance(one, str) for one in features))):
        raise _unusable("its features are not as many as it says")
    return PublishedModel(
        document=dict(document),
        method=document["method"],
        published=document["published"],
        promise=None if promise is None else _numbers_of(promise, "epsilon", "delta"),
        bounds=None if bounds is None else (_bound_of(bounds, "x_bound"), _bound_of(bounds, "y_bound")),
        target=document["target"],
        features=None if features is None else tuple(features),
        n_features=d,
        recipe=recipe,
        numbers=_published(document["model"], d),
        grid=float(document["grid"]),
        version=document["perinstance"],
        known=_known(document.get("inference", {}), d),
        rows_per_person=None if promise is None else _rows_of(promise),
    )


def _read(path: Path) -> dict[str, Any]:
    name = path.name
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path cannot be used"
        raise InvalidModelFile(f"the model {name!r} cannot be read ({reason}); check the path") from None
    if len(data) > LARGEST_FILE:
        raise InvalidModelFile(f"{name!r} is larger than {LARGEST_FILE >> 20} MB; a model file is not")
    try:
        document = json.loads(
            data.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_int=_whole, parse_float=_real
        )
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise InvalidModelFile(
            f"{name!r} is not complete JSON: it was cut off, or is another kind of file; copy it again"
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidModelFile(f"{name!r} is not a model of perinstance; pass what `perinstance release` wrote")
    version = document.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidModelFile(f"{name!r} does not say which version of the format it is; copy it again")
    if version > FORMAT_VERSION:
        raise NewerModelFile(
            f"{name!r} is in version {version} of the format, this perinstance knows up to {FORMAT_VERSION}; "
            "install a newer perinstance"
        )
    if document.get("checksum") != checksum(document):
        raise InvalidModelFile(
            f"{name!r} was changed after it was written: its checksum does not fit; copy the original again"
        )
    return document


def _refuse_constant(word: str) -> float:
    raise ValueError(word)  # NaN and Infinity are no JSON


def _whole(word: str) -> int:
    _real(word)
    return int(word)


def _real(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(word)  # 1e400 and 10**400 are no numbers of a model
    return value


def _unusable(reason: str) -> InvalidModelFile:
    return InvalidModelFile(f"the model file cannot be used: {reason}; copy the original again")


def _numbers_of(record: Mapping[str, Any], *names: str) -> tuple[float, float]:
    for name in names:
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise _unusable(f"{name} is missing or is no number > 0")
    first, second = (float(record[name]) for name in names)
    return first, second


def _rows_of(promise: Mapping[str, Any]) -> int | None:
    """Read how many rows of a person are used at most; None where the promise is made to rows."""
    rows: Any = promise.get("rows_per_person")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise _unusable("rows_per_person is no whole number >= 1")
    return rows


def _bound_of(record: Mapping[str, Any], name: str) -> Any:
    """Read one declared bound: a number > 0; a range; one of either per column."""
    value: Any = record.get(name)
    if name == "y_bound" and name not in record:  # a classifier's labels have no bound
        return None
    if isinstance(value, list) and value and all(_is_bound(one) for one in value):
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)
    if not _is_bound(value) or not (isinstance(value, list) or value > 0):
        raise _unusable(f"{name} is missing or is neither a number > 0 nor a range")
    return tuple(value) if isinstance(value, list) else float(value)


def _is_bound(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and all(_is_bound(one) and not isinstance(one, list) for one in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _recipe(record: Mapping[str, Any] | None, d: int) -> Recipe | None:
    """Read the recipe, which must make as many numbers of a row as the model has coefficients."""
    if record is None:
        return None
    try:
        recipe = Recipe.from_dict(record)
        made = None if recipe.columns is None else len(recipe.get_feature_names_out())
    except (InvalidInput, TypeError, ValueError):
        raise _unusable("its recipe cannot be read") from None
    if made not in (None, d):
        raise _unusable("its recipe makes more or fewer numbers than it has features")
    return recipe


def _known(record: Any, d: int) -> dict[str, PublishedInference]:
    """Read what the file says of the uncertainty of its coefficients; older files say nothing."""
    try:
        return {str(about): PublishedInference.from_json(one, d + 1) for about, one in record.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unusable("its standard errors cannot be read") from None


def _published(record: Mapping[str, Any], d: int) -> PublishedNumbers:
    """Check the coefficients: finite, and as many as there are features."""
    task = record.get("task")
    if task == "regressor":
        link = record.get("link")
        if link not in ("identity", "log"):
            raise _unusable("its link is not known here")
        return PublishedNumbers(
            "regressor", link, _array(record, "coef", (d,)), float(_array(record, "intercept", ())[()])
        )
    if task == "classifier":
        classes = record.get("classes")
        if not isinstance(classes, list) or len(classes) < 2 or len({type(one) for one in classes}) > 1:
            raise _unusable("a classifier needs its classes")
        rows = 1 if len(classes) == 2 else len(classes)
        return PublishedNumbers(
            "classifier",
            "",
            _array(record, "coef", (rows, d)),
            _array(record, "intercept", (rows,)),
            classes=np.array(classes),
            probabilities=record.get("probabilities") is True,
        )
    if task == "values":
        values = record.get("values")
        points = record.get("points")
        return PublishedNumbers(
            "values",
            values=_array(record, "values", (len(values) if isinstance(values, list) else 0,)),
            points=None if points is None else _array(record, "points", (len(values or ()), d)),
        )
    raise _unusable("what it is made for is not known here")


def _array(record: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    try:
        values = np.array(record.get(name), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(math.nan)
    if values.shape != shape or not np.isfinite(values).all():
        raise _unusable(f"{name} is not {' by '.join(map(str, shape)) or 'one'} finite numbers")
    return values
