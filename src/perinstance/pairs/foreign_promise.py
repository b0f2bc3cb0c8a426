"""A plain (epsilon, delta) promise of another tool, as pairs that can be composed: a Gaussian shift that is never less.

Two distributions with losses up to epsilon have a trade-off curve above the chords through ``(0, 1)``, ``(p, p)`` and
``(1, 0)``, ``p = 1/(1 + e^epsilon)``. The curve of a Gaussian shift D is convex, so it lies below those chords if it
meets ``(p, p)``: ``D = -2 Phi^-1(p)`` (Dong, Roth and Su 2022). delta is a probability of anything at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import BOUND_UP
from perinstance.pairs.bounded_shift import Dominated
from perinstance.pairs.gaussian_shift import Shift


def pairs_of_promise(epsilon: ArrayLike, delta: ArrayLike, people: int) -> Shift | Dominated:
    """Return pairs, labelled ``upper``, that lose at least what the promise allows.

    >>> pairs_of_promise(1.0, 0.0, 1).epsilon(1e-6).round(2)
    array([5.21])
    """
    e = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (people,))
    d = np.broadcast_to(np.asarray(delta, dtype=np.float64), (people,))
    if not ((e >= 0) & (d >= 0) & (d < 1)).all():
        raise InvalidInput("a promise has epsilon >= 0 and delta in [0, 1); check what the other tool states")
    with np.errstate(over="ignore"):
        distance = -2.0 * ndtri_exp(-np.logaddexp(0.0, e)) * BOUND_UP
    distance = np.where(np.isinf(e), np.inf, np.maximum(distance, 0.0))
    return Dominated(distance, np.zeros(people), d) if d.any() else Shift(distance, "upper")
