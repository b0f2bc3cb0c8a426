"""Group privacy by the chain of single losses: what people who join one after the other lose together, at most.

It goes person by person, ``Z, [Z, z_1], .., [Z, z_1:k]``: ``eps = sum eps_i``, and because the weights run
forward in one direction and backward in the other, delta is the larger of ``sum_i delta_i e^{eps_1 + .. + eps_{i-1}}``
and ``sum_i delta_i e^{eps_{i+1} + .. + eps_k}``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ADDITION
from perinstance.pairs import Pairs
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable

EXPONENT = 1e3  # beyond, exponentials are infinite


@dataclass(frozen=True, slots=True)
class Chain(ShownAsTable):
    """The chain bound of group privacy: both directions hold at (epsilon, delta)."""

    epsilon: float
    delta: float  #: the larger of the two below
    delta_without: float  #: P over Q: weights of those who come before
    delta_with: float  #: Q over P: weights of those who come after
    kind: Kind = "upper"
    assumptions: tuple[str, ...] = ("the losses are those of each person joining all who come before",)


def chain_bound(epsilon: ArrayLike, delta: ArrayLike, kind: Kind = "upper") -> Chain:
    """Add up single losses ``(eps_i, delta_i)`` of some kind in the order in which the people join.

    >>> c = chain_bound([1.0, 2.0], [1e-6, 1e-6])
    >>> round(c.epsilon, 9), round(c.delta_without * 1e6, 3), round(c.delta_with * 1e6, 3)
    (3.0, 3.718, 8.389)
    """
    eps, deltas = real_values("epsilon", epsilon), real_values("delta", delta)
    if deltas.shape not in ((), eps.shape):
        raise InvalidInput(f"pass one delta, or one per person ({eps.size}), got shape {deltas.shape}")
    deltas = np.broadcast_to(deltas, eps.shape)
    if eps.ndim != 1 or not (eps >= 0).all() or not (deltas >= 0).all():
        raise InvalidInput("epsilon and delta must be one number >= 0 per person, in the order in which they join")
    before = np.concatenate([[0.0], np.cumsum(eps)[:-1]])
    after = np.concatenate([np.cumsum(eps[::-1])[::-1][1:], [0.0]])
    forward, backward = (_weighted(deltas, w) for w in (before, after))
    # one addition each: the sum of the losses is rounded up
    total = float(eps.sum()) * (1 + ADDITION * len(eps))
    return Chain(total, max(forward, backward), forward, backward, weakest("upper", kind))


def _weighted(deltas: Floats, weights: Floats) -> float:
    """``sum delta_i e^{w_i}``, rounded up: what adding n losses up to w loses of w, the exponential loses n w times."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(np.where(deltas > 0, deltas * np.exp(weights), 0.0)))
    up = 1 + ADDITION * (len(deltas) + 1) * (1 + min(float(weights.max(initial=0.0)), EXPONENT))
    return min(total * up, 1.0)


def chain(pairs: Pairs, delta: float) -> Chain:
    """Return the chain bound at a total delta: everybody gets the same share, as large as both directions allow."""
    delta = float(delta_array(delta, 1, zero=False))
    if not len(pairs):
        raise InvalidInput("a chain needs at least one person")
    kind = weakest("upper", pairs.kind)
    if np.isinf(pairs.epsilon(0.5)).any():
        return Chain(np.inf, delta, delta, delta, kind)
    low, high = np.log(delta) - 700.0, np.log(delta / len(pairs))
    best = chain_bound(pairs.epsilon(np.exp(high)), np.exp(high), kind)
    if best.delta <= delta:
        return best
    answer = None
    for _ in range(60):
        middle = 0.5 * (low + high)
        share = float(np.exp(middle))
        trial = chain_bound(pairs.epsilon(share), share, kind)
        if trial.delta <= delta:
            low, answer = middle, trial
        else:
            high = middle
        if high - low < 1e-6:
            break
    return answer if answer is not None else Chain(np.inf, delta, delta, delta, kind)
