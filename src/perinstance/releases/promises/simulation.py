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
    """Simulate one release; rows must lie within the estimator's bounds (nothing is clipped here)."""
    if not isinstance(estimator, Promised):
        raise InvalidInput(f"AdaOPS and AdaSSP can be simulated, got {type(estimator).__name__}")
    thrown_away = clone(estimator)
    thrown_away._publish(SimulatedWindow(np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64), rng))
    return thrown_away.coef_
