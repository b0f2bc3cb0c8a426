"""A published model as JSON: coefficients, public parameters, promise, grid, version. Nothing else leaves the room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance._version import __version__
from perinstance.errors import InvalidInput

if TYPE_CHECKING:
    from perinstance.releases.promises.estimator import Promised

FORMAT = 1


def model_record(estimator: Promised, features: Sequence[str], target: str) -> dict[str, Any]:
    """Gather what may be published: declared parameters and the release itself, nothing else that saw the data."""
    from perinstance.sampling.grid_draw import GRID

    declared = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    released = {name: _plain(value) for name, value in estimator.published_parameters().items()}
    return {
        "format": FORMAT,
        "perinstance": __version__,
        "method": estimator.mechanism().name,
        "promise": {
            "epsilon": float(estimator.epsilon),
            "delta": float(estimator.delta),
            "neighbours": "add or remove one row",
        },
        "declared": declared,
        "target": target,
        "features": list(features),
        "coef": [float(value) for value in np.ravel(estimator.coef_)],
        "intercept": float(estimator.intercept_),
        "released": released,
        "grid": GRID,  # released numbers are roundings of ideal draws to multiples of this
    }


def write_model(estimator: Promised, path: Path, features: Sequence[str], target: str) -> dict[str, Any]:
    """Write the model; until the curator opens it up, readable by its owner alone."""
    from perinstance.data import private_file

    record = model_record(estimator, features, target)
    with private_file(path) as stream:
        stream.write((json.dumps(record, indent=2, allow_nan=False) + "\n").encode())
    return record


def earlier_promise(path: Path, again: bool) -> tuple[float, float] | None:
    """Return epsilon and delta of a model that lies there already; without ``--again`` refuse to publish once more."""
    if not path.exists():
        return None
    if not again:
        raise InvalidInput(
            f"{path.name!r} exists: publishing about the same people once more is a second release, and the two "
            "promises add up; pass --again if that is meant, or name another file with --out"
        )
    try:
        promise = json.loads(path.read_text(encoding="utf-8"))["promise"]
        return float(promise["epsilon"]), float(promise["delta"])
    except (OSError, ValueError, KeyError, TypeError):  # some other file
        return None


def _plain(value: Any) -> Any:
    """JSON knows no numpy numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, str | int | float | bool | list | type(None)) else str(value)
