"""A plain (epsilon, delta) promise of another tool, as pairs that can be composed and never lose less.

Two distributions with losses up to epsilon have a trade-off curve above the chords through ``(0, 1)``, ``(p, p)`` and
``(1, 0)``, ``p = 1/(1 + e^epsilon)`` (Wasserman and Zhou 2010). The curve of a Laplace shift D is convex and symmetric,
so it lies below those chords if it meets ``(p, p)``: ``D = 2 log((1 + e^epsilon)/2)``, a little more than epsilon while
that is small. delta is the probability of anything at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import BOUND_UP
from perinstance.pairs.bounded_shift import Dominated
from perinstance.pairs.composition import Composed
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.laplace_shift import Laplace


def pairs_of_promise(epsilon: ArrayLike, delta: ArrayLike, people: int) -> Pairs:
    """Return pairs, labelled ``upper``, that lose at least what the promise allows.

    >>> pairs_of_promise(0.5, 0.0, 1).epsilon(1e-6).round(3)
    array([0.562])
    """
    e = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (people,))
    d = np.broadcast_to(np.asarray(delta, dtype=np.float64), (people,))
    if not ((e >= 0) & (d >= 0) & (d < 1)).all():
        raise InvalidInput("a promise has epsilon >= 0 and delta in [0, 1); check what the other tool states")
    # log((1 + e^epsilon)/2) without cancellation: epsilon/2 + log cosh(epsilon/2)
    half = e / 2
    log_cosh = half + np.log1p(np.expm1(-2 * half) / 2)
    distance = 2 * (half + log_cosh) * BOUND_UP
    pure = Laplace(distance, "upper")
    return Composed([pure, Dominated(np.zeros(people), np.zeros(people), d)]) if d.any() else pure
