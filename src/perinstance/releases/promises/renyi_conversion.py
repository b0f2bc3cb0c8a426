"""From a Renyi divergence of one order to (epsilon, delta) and back (Canonne, Kamath and Steinke 2020), rounded up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS


def renyi_to_epsilon(divergence: ArrayLike, order: float, delta: float) -> Floats:
    """``D + log(1 - 1/a) - (log delta + log a)/(a - 1)``, never below 0: epsilon at delta.

    The terms may cancel: what each of them loses by rounding is added.
    """
    D = np.asarray(divergence, dtype=np.float64)
    near, far = np.log1p(-1 / order), (np.log(delta) + np.log(order)) / (order - 1)
    lost = _lost(order, near, delta) + 2 * FEW_ROUNDINGS * D
    return np.maximum(D + near - far + lost, 0.0)


def renyi_to_delta(divergence: float, order: float, epsilon: float) -> float:
    """Turn it into delta at epsilon, at most 1: the same formula solved for delta.

    >>> round(float(renyi_to_epsilon(0.5, 8.0, renyi_to_delta(0.5, 8.0, 2.0))), 9)
    2.0
    """
    near = np.log1p(-1 / order)
    log_delta = (order - 1) * (divergence + near - epsilon) - np.log(order)
    lost = _lost(order, near, 1.0) + 2 * FEW_ROUNDINGS * (divergence + abs(epsilon))
    up = log_delta + (order - 1) * lost
    return float(min(np.exp(min(up, 0.0)) * (1.0 + FEW_ROUNDINGS), 1.0))


def _lost(order: float, near: float, delta: float) -> float:
    """Bound what the terms without the divergence lose; the 1 is what ``1/a`` loses within the logarithm."""
    return float(2 * FEW_ROUNDINGS * (abs(near) + (abs(np.log(delta)) + np.log(order) + 1) / (order - 1)))
