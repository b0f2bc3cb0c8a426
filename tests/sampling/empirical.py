"""What draws alone can prove about a privacy promise: hockey-stick lower bounds with exact binomial confidence.

For an event S that was fixed before these draws, ``delta(epsilon) >= P(S) - e^epsilon Q(S)``. Counts give
Clopper-Pearson bounds on P(S) from below and Q(S) from above, each wrong with probability at most
``(1 - confidence)/2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv


def probability_bounds(hits: int, draws: int, confidence: float = 0.999) -> tuple[float, float]:
    """Clopper-Pearson interval, each side at ``(1 - confidence)/2``."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, draws - hits + 1, tail))
    high = 1.0 if hits == draws else float(betaincinv(hits + 1, draws - hits, 1 - tail))
    return low, high


def delta_lower_bound(in_P: np.ndarray, in_Q: np.ndarray, epsilon: float, confidence: float = 0.999) -> float:
    """Lower bound on delta(epsilon) of P over Q; the arrays say which draws fell into the event."""
    low, _ = probability_bounds(int(np.sum(in_P)), len(in_P), confidence)
    _, high = probability_bounds(int(np.sum(in_Q)), len(in_Q), confidence)
    return max(0.0, low - math.exp(epsilon) * high)


def audited_delta(
    P: np.ndarray,
    Q: np.ndarray,
    epsilon: float,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    confidence: float = 0.999,
) -> float:
    """The better of both directions with the Neyman-Pearson events ``log p/q > epsilon`` and ``log q/p > epsilon``.

    ``log_ratio`` maps draws (one per row) to ``log p/q``; it must not depend on these draws.
    """
    over_P, over_Q = log_ratio(P), log_ratio(Q)
    half = 1 - (1 - confidence) / 2  # two events are tried
    return max(
        delta_lower_bound(over_P > epsilon, over_Q > epsilon, epsilon, half),
        delta_lower_bound(over_Q < -epsilon, over_P < -epsilon, epsilon, half),
    )
