"""Coefficients that AdaOPS or AdaSSP *would* publish, with floating-point noise of a seeded generator.

For experiments and benchmarks only: such numbers are **not private**. They come as a bare array, never as a fitted
estimator, so that they cannot be taken for a release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from perinstance.errors import InvalidInput
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.noisy_queries import SimulatedWindow


def simulated_coefficients(estimator: Any, X: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    """Simulate one release: the coefficients in the user's units and, with an intercept, the intercept last."""
    if not isinstance(estimator, Promised):
        raise InvalidInput(f"AdaOPS and AdaSSP can be simulated, got {type(estimator).__name__}")
    thrown_away, rows = clone(estimator), np.asarray(X, dtype=np.float64)
    box = thrown_away._box(rows.shape[1])
    seen = box.rows(rows, np.asarray(y, dtype=np.float64))
    coef, intercept = box.in_user_units(thrown_away._publish(SimulatedWindow(seen.X, seen.y, rng), box))
    return np.append(coef, intercept) if box.weight else coef
