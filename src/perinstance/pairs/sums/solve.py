"""From delta back to epsilon, person by person: the saddle-point approximation, then Newton steps on the inversion.

Above one half it is ``1 - delta`` that is met, which there says more. An answer is an epsilon whose own delta, with its
error, was found to be small enough: some 1e-9 of itself above the least, next to zero ``PROMISED_ABSOLUTE`` at most.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import (
    BELOW_LARGEST_LOSS,
    BRACKET,
    LOGARITHM,
    SOLVED_ABSOLUTE,
    SOLVED_RELATIVE,
    TWO_ROUNDINGS,
)
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.profile import above, below
from perinstance.pairs.sums.saddlepoint import (
    FAR,
    highest,
    largest_loss,
    minus_legendre,
    person,
    place,
    slopes,
    variance,
)


@kernel
def _approximate(x, top, losses):
    """Return the saddle-point approximation of log delta at the epsilon whose saddle point is x, and that epsilon.

    ``log delta ~ (K - t K') + 1 + t/(1 + t) - log(t (1 + t)) - log(2 pi phi'')/2``.
    """
    here = place(x, top)
    t = here.t
    level, lift, fall, bend, bend_fall = slopes(here, 0.0, losses)
    curve = bend + bend_fall + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t))
    ratio = 1.0 / (1.0 + 1.0 / t)
    gap = minus_legendre(here, losses)
    log = gap + 1.0 + ratio - math.log(t) - math.log1p(t) - 0.5 * math.log(2.0 * np.pi * curve)
    return log, level + lift - fall - 1.0 / t - 1.0 / (1.0 + t)


@kernel
def _first_epsilon(target, losses):
    """Return the epsilon >= 0 at which the saddle-point approximation of log delta meets the target."""
    top, low, high = highest(losses.nu), -FAR, FAR
    while high - low > 1e-3:
        x = 0.5 * (low + high)
        if _approximate(x, top, losses)[0] < target:
            high = x
        else:
            low = x
    return max(_approximate(high, top, losses)[1], 0.0)


@kernel
def solve_one(delta, losses):
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, never below it."""
    edge = largest_loss(losses)
    if delta == 0.0:
        return edge
    if variance(losses) == 0.0:
        return 0.0
    epsilon = min(_first_epsilon(math.log(delta), losses), edge * (1.0 - BELOW_LARGEST_LOSS))
    low, high, deep = 0.0, edge, delta > 0.5  # the answer lies between
    raised, proposed = 0.5, False
    for _ in range(100):
        found = below(epsilon, losses) if deep else above(epsilon, losses)
        if deep and not found.error < 1e-6:
            deep = False
            continue
        sign, target = (-1.0, math.log1p(-delta)) if deep else (1.0, math.log(delta))
        error, rate, excess = (
            found.error + LOGARITHM * (1.0 + abs(target)),
            sign * found.rate,
            sign * (found.log - target),
        )
        if excess <= -error and (proposed or epsilon == 0.0):
            return epsilon
        if excess > -error:  # only what is proved to be enough bounds the answer from above
            low = epsilon
        else:
            high = epsilon
        if high - low <= BRACKET * high and high < np.inf:
            return high
        step = excess / rate
        close = SOLVED_RELATIVE * epsilon + SOLVED_ABSOLUTE
        proposed = rate * step * step <= close and abs(step) < math.inf
        if proposed:  # what is next asked for must pass, or more is added
            raised *= 2.0
            epsilon = min(max(epsilon + step, 0.0) + raised * (close + error / rate), edge)
        else:
            epsilon += step
            if epsilon <= low and low == 0.0:
                epsilon = 0.0
            elif not low < epsilon < high:
                epsilon = 0.5 * (low + high)
    return high


@kernel
def _as_before(losses, i):
    """Tell whether person i has the losses of the one before, as those of a table of equal rows have."""
    nu, v, m2, levels, lap, count = losses
    if not ((nu[i] == nu[i - 1]).all() and (v[i] == v[i - 1]).all() and (m2[i] == m2[i - 1]).all()):
        return False
    same = (lap[i] == lap[i - 1]).all() and (count[i] == count[i - 1]).all()
    return same and (levels[i] == levels[i - 1]).all()


@kernel
def epsilons(delta, losses, known, out):
    """Fill in epsilon for each person, or ``known`` where that is at least as large."""
    for i in range(out.size):
        if i > 0 and delta[i] == delta[i - 1] and known[i] == known[i - 1] and _as_before(losses, i):
            out[i] = out[i - 1]
            continue
        one = person(losses, i)
        if known[i] > 0.0 and known[i] < np.inf and delta[i] > 0.0 and delta[i] <= 0.5:
            found, target = above(known[i], one), math.log(delta[i])
            if found.log - target <= -(found.error + LOGARITHM * (1.0 + abs(target))):
                out[i] = known[i]
                continue
        out[i] = solve_one(delta[i], one)


def less_tail(delta: Floats, tail: Floats) -> Floats:
    """Return what a tail leaves of delta, rounded down."""
    return np.asarray(np.where(tail > 0, np.nextafter(delta - tail, -np.inf), delta))


def epsilon_of_sum(coordinates: LossCoordinates, delta: Floats, direction: str) -> Floats:
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, one delta per person; never below the truth.

    Of what is known from above only: ``epsilon(delta - tail) + offset``, infinite where delta does not exceed the tail.
    """
    offset, tail = coordinates.offset, coordinates.tail
    left = less_tail(delta, tail)
    known = (left > 0) | ((left == 0) & (tail == 0))
    inner = _epsilon(coordinates, np.where(known, left, 0.5), direction)
    return np.where(known, np.where(offset > 0, (inner + offset) * (1 + TWO_ROUNDINGS), inner), np.inf)


def _epsilon(coordinates: LossCoordinates, delta: Floats, direction: str) -> Floats:
    """Return epsilon of the coordinates alone."""
    n = len(delta)
    views = coordinates.views(direction)
    out = np.zeros((2, n))
    for i, view in enumerate(views if coordinates.has_others or not coordinates.samples.all() else []):
        epsilons(delta, view.losses, out[i - 1], out[i])  # of the second direction only what exceeds the first counts
    rows = np.flatnonzero(coordinates.samples)
    if rows.size:
        from perinstance.pairs.sampled.answers import epsilon_of_steps

        for i, view in enumerate(views):  # the tables of steps are wide: they are not copied where all have some
            some = view if rows.size == n else view[rows]
            out[i, rows] = epsilon_of_steps(some, delta[rows])
    worst = out.max(axis=0)
    worst[coordinates.infinite] = np.inf
    return worst
