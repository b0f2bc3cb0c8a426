"""Pairs to and from privacy profiles, delta as a function of epsilon: what OpenDP, and any other accountant, can state.

A pair that is handed out keeps its profile. A profile that comes in says less than a pair: the answer is the smallest
Gaussian shift that, with a probability of anything at all, is nowhere below it. If ``delta(e) <= T(e) + tail`` for all
``e >= 0`` in both directions, T the shift's profile, then at ``-e`` ``1 - exp(-e) (1 - delta(e)) <= T(-e) + tail``: it
holds at every real number, which is what composition needs (``pairs.bounded``). So it is a pair like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from perinstance.checked_numbers import probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, PROFILE_UP
from perinstance.pairs import Pairs, Shift
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.composition import pairs_of_promise
from perinstance.pairs.kinds import is_bound

POINTS = 1500  # at which an incoming profile is looked at; the pair is above it by at most one step of epsilon:
FIRST_STEP = 2.0**-12  # of the whole range; then each is half a percent longer than the one before
LARGEST_EPSILON = 512.0
LEFT_OUT = 2.0**-13  # of the delta that is asked for: charged as a probability of anything at all, for the far tail
HALVINGS = 50
LARGEST_DISTANCE = 64.0


def profile(pairs: Pairs) -> Callable[[float], float]:
    """Return delta as a function of epsilon, both directions, of one person: what OpenDP's privacy profiles take.

    With OpenDP: ``opendp.measures.new_privacy_profile(profile(pairs[i]))``.
    """
    if len(pairs) != 1:
        raise InvalidInput(f"one person at a time, got {len(pairs)}; take pairs[i]")
    if not is_bound(pairs.kind):
        raise InvalidInput("an estimate is no bound, and a profile would not say so; audit with method='exact'")

    def delta(epsilon: float) -> float:
        if math.isnan(epsilon):
            raise InvalidInput("epsilon must be a number, got NaN")
        return min(1.0, max(0.0, float(pairs.delta(epsilon)[0])))

    return delta


def from_profile(delta: Callable[[Any], Any], at: float = 1e-6) -> Pairs:
    """Return pairs of one person, labelled ``upper``, that lose at least what a profile of another tool states.

    ``delta`` is a falling function of ``epsilon >= 0`` that holds in both directions, such as OpenDP's
    ``PrivacyProfile.delta``. On each step of epsilon the profile at its beginning is below the pair's at its end. Where
    the profile ends (pure or approximate differential privacy), the pair of that promise is taken if it loses less at
    the delta ``at``; a share of that, a ten-thousandth, is charged for the profile's tail.

    >>> pairs = from_profile(profile(Shift([0.5])))
    >>> bool(0.5 < pairs.distance[0] < 0.504), pairs.kind
    (True, 'upper')
    """
    tail = probability("at", at) * LEFT_OUT
    last = _last(delta, tail)
    remainder = max(_stated(delta, last), tail)
    if remainder >= 1.0:
        return Shift([np.inf], "upper")
    edges = np.concatenate([[0.0], np.geomspace(last * FIRST_STEP, last, POINTS)])
    wanted = np.maximum([_stated(delta, e) - remainder for e in edges[:-1].tolist()], 0.0) * BOUND_UP
    ended = np.append(wanted, 0.0) == 0.0  # from there on a promise holds: nothing but the remainder is left
    promise = pairs_of_promise(float(edges[int(np.argmax(ended))]), remainder, 1)
    shift = _smallest_shift(edges[1:], wanted)
    if not np.isfinite(shift):
        return promise
    found = Dominated([shift], [0.0], [remainder])
    return min((found, promise), key=lambda pairs: float(pairs.epsilon(at)[0]))


def _smallest_shift(epsilons: Floats, wanted: Floats) -> float:
    """Return the smallest distance, rounded up, whose profile is as high as wanted everywhere."""
    low, high = np.zeros(len(wanted)), np.full(len(wanted), LARGEST_DISTANCE)
    if not (Shift(high).delta(epsilons) >= wanted * PROFILE_UP).all():
        return math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = Shift(middle).delta(epsilons) >= wanted * PROFILE_UP
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float(np.where(wanted > 0.0, high, 0.0).max())


def _last(delta: Callable[[float], float], tail: float) -> float:
    """Return an epsilon beyond which the profile is next to nothing, or does not fall any more."""
    last = 1.0
    while last < LARGEST_EPSILON:
        here = _stated(delta, last)
        if here <= tail or here == _stated(delta, 2.0 * last) == _stated(delta, LARGEST_EPSILON):
            return last
        last *= 2.0
    return last


def _stated(delta: Callable[[float], float], epsilon: float) -> float:
    try:
        value: Any = float(delta(epsilon))
    except (TypeError, ValueError):
        raise InvalidInput("a profile must return a number for every epsilon >= 0") from None
    if not 0.0 <= value <= 1.0:
        raise InvalidInput("a profile must return delta in [0, 1]")
    return float(value)
