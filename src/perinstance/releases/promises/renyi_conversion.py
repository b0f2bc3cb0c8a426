"""From a Renyi divergence of one order to (epsilon, delta) and back (Canonne, Kamath and Steinke 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats


def renyi_to_epsilon(divergence: ArrayLike, order: float, delta: float) -> Floats:
    """Turn a Renyi divergence of one order into epsilon at delta, never below 0."""
    overhead = np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
    return np.maximum(np.asarray(divergence, dtype=np.float64) + overhead, 0.0)


def renyi_to_delta(divergence: float, order: float, epsilon: float) -> float:
    """Turn it into delta at epsilon, at most 1: the same formula solved for delta.

    >>> round(float(renyi_to_epsilon(0.5, 8.0, renyi_to_delta(0.5, 8.0, 2.0))), 9)
    2.0
    """
    log_delta = (order - 1) * (divergence + np.log1p(-1 / order) - epsilon) - np.log(order)
    return float(min(np.exp(min(log_delta, 0.0)), 1.0))
