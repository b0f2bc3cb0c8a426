"""From delta back to epsilon, person by person: the saddle-point approximation, then Newton steps on the inversion.

Above one half it is ``1 - delta`` that is met, which there says more. Answers are good to 1e-9 of themselves; next to
zero, where delta hardly moves with epsilon, to ``PROMISED_ABSOLUTE``. Among atoms the last steps are taken with a finer
tolerance of the quadrature.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    BELOW_LARGEST_LOSS,
    BRACKET,
    FINE,
    LAST_STEP,
    LAST_SUM,
    LOGARITHM,
    SLACK_ABSOLUTE,
    SLACK_RELATIVE,
    TIGHT,
    TWO_ROUNDINGS,
    USABLE_STEP,
)
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.profile import above, below, scratch_for
from perinstance.pairs.loss_sums.quadrature import evaluate, extent
from perinstance.pairs.loss_sums.records import EXACT, Losses, Tolerance
from perinstance.pairs.loss_sums.saddlepoint import (
    divergence,
    first_guess,
    highest,
    largest_loss,
    minus_legendre,
    place,
    saddle,
    slopes,
    variance,
)

NEAR = 0.2  # how far epsilon may move without a new contour, in units of the fastest wave that is alive on it
SURE = 1.1  # errors are added with this factor: for those of second order
UP = 1.0 + LAST_SUM


class Excess(NamedTuple):
    """The logarithm of a profile less its goal, minus its slope, and its error.

    ``sign`` is -1 where it is 1 - delta that is met.
    """

    value: Any
    rate: Any
    error: Any
    sign: Any


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
def _first_epsilon(target, s2, losses):
    """Return the epsilon >= 0 at which the saddle-point approximation of log delta meets the target."""
    top = highest(losses.nu)
    x = saddle(first_guess(divergence(losses), s2, top), top, 0.0, losses)
    low, high, span = x, x, 0.5
    found = False
    while high < 300.0 and not found:
        low, high, span = high, high + span, 2.0 * span
        found = _approximate(high, top, losses)[0] < target
    while high - low > 1e-4:
        x = 0.5 * (low + high)
        if _approximate(x, top, losses)[0] < target:
            high = x
        else:
            low = x
    return max(_approximate(0.5 * (low + high), top, losses)[1], 0.0)


@kernel
def _along_contour(epsilon, step, excess, found, scratch):
    """Take the last steps on one contour: only e^{-t d} changes, and little wherever the integrand lives.

    Returns whether that served, the new epsilon and its slack.
    """
    n, t, w = found.n, found.t, found.w
    where, weight, _terms = scratch
    if n == 0 or not abs(step) * w * extent(n, where, weight) < NEAR:
        return False, 0.0, 0.0
    d, last, rate = 0.0, np.inf, excess.rate
    total = evaluate(0.0, w, n, where, weight)[0]
    for _newton in range(8):
        there, moved = evaluate(d, w, n, where, weight)
        rate = excess.sign * (t + w * moved / there)
        last = (excess.value + excess.sign * (math.log(there / total) - t * d)) / rate
        d += last
        if not abs(d) < 2.0 * abs(step) or abs(last) * rate < LAST_STEP:
            break
    slack = (excess.error + abs(last) * rate) / rate
    served = abs(d) < 2.0 * abs(step) and abs(last) * rate < USABLE_STEP and epsilon + d >= 0.0
    return served, epsilon + d, slack


@kernel
def solve_one(delta, losses, scratch):
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, never below it."""
    edge, s2 = largest_loss(losses), variance(losses)
    if delta == 0.0:
        return edge
    if s2 == 0.0:
        return 0.0
    epsilon = min(_first_epsilon(math.log(delta), s2, losses), edge * (1.0 - BELOW_LARGEST_LOSS))
    low, high = 0.0, edge  # the answer lies between
    tight, proposed, deep = TIGHT, False, delta > 0.5
    for _ in range(100):
        found = below(epsilon, tight, losses, scratch) if deep else above(epsilon, tight, losses, scratch)
        if deep and not found.error < 1e-6:
            deep = False
            continue
        n = found.n
        sign, target = (-1.0, math.log1p(-delta)) if deep else (1.0, math.log(delta))
        error, rate = found.error + LOGARITHM * (1.0 + abs(target)), sign * found.rate
        excess = Excess(sign * (found.log - target), rate, error, sign)
        slack, step = error / rate, excess.value / rate
        if excess.value <= -error and (proposed or epsilon == 0.0):
            return epsilon
        if abs(step) <= slack + (UP - 1.0) * epsilon:
            if n == 0 and slack > max(SLACK_RELATIVE * epsilon, SLACK_ABSOLUTE) and tight > FINE:
                tight = FINE
                continue
            epsilon = min(max(epsilon + step + SURE * slack, 0.0) * UP, edge)
            if n > 0 or epsilon == edge:
                return epsilon
            proposed = True  # among atoms the slope may change just here: the answer itself must pass
            continue
        proposed = False
        if excess.value > 0.0:
            low = epsilon
        else:
            high = epsilon
        if high - low <= BRACKET * high and high < np.inf:
            return high
        served, moved, last_slack = _along_contour(epsilon, step, excess, found, scratch)
        if served:
            return min((moved + SURE * last_slack) * UP, edge)
        epsilon += step
        if epsilon <= low and low == 0.0:
            epsilon = 0.0
        elif not low < epsilon < high:
            epsilon = 0.5 * (low + high)
    return high


@kernel
def epsilons(delta, losses, terms, out):
    """Fill in epsilon for each person."""
    nu, v, m2, levels, lap, count = losses
    scratch = scratch_for(terms)
    for i in range(out.size):
        out[i] = solve_one(delta[i], Losses(nu[i], v[i], m2[i], levels[i], lap[i], count[i]), scratch)


def epsilon_of_sum(coordinates: LossCoordinates, delta: Floats, direction: str, most: Tolerance = EXACT) -> Floats:
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, one delta per person; never below the truth.

    That of sampled steps may be above it by ``most``.

    Of what is known from above only: ``epsilon(delta - tail) + offset``, infinite where delta does not exceed the tail.
    """
    offset, tail = coordinates.offset, coordinates.tail
    left = np.where(tail > 0, np.nextafter(delta - tail, -np.inf), delta)
    known = (left > 0) | ((left == 0) & (tail == 0))
    inner = _epsilon(coordinates, np.where(known, left, 0.5), direction, most)
    return np.where(known, np.where(offset > 0, (inner + offset) * (1 + TWO_ROUNDINGS), inner), np.inf)


def _epsilon(coordinates: LossCoordinates, delta: Floats, direction: str, most: Tolerance) -> Floats:
    """Return epsilon of the coordinates alone."""
    n = len(delta)
    views = coordinates.views(direction)
    out = np.zeros((2, n))
    for i, view in enumerate(views if coordinates.has_others or not coordinates.samples.all() else []):
        epsilons(delta, view.losses, view.terms, out[i])
    rows = np.flatnonzero(coordinates.samples)
    if rows.size:
        from perinstance.pairs.loss_sums.sampled.epsilon import epsilon_of_steps

        for i, view in enumerate(views):  # the tables of steps are wide: they are not copied where all have some
            some = view if rows.size == n else view[rows]
            out[i, rows] = epsilon_of_steps(some, delta[rows], most)
    worst = out.max(axis=0)
    worst[coordinates.infinite] = np.inf
    return worst
