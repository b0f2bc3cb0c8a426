r"""Hockey-stick profiles of sums of losses, person by person: delta at epsilon, and the best attack.

A person is a record of ``Losses``, of P over Q or of Q over P. For epsilon < 0 two terms of one sign,
``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)``; where epsilon >= 0 lies below the mean loss the
contour passes between the poles and gives 1 - delta.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import (
    CHERNOFF,
    FEW_ROUNDINGS,
    NOT_ZERO,
    ONE_ROUNDING,
    POWER_BRACKET,
    TINY,
    UNDERFLOWN_PROFILE,
)
from perinstance.pairs.sums.contour import integrate_along
from perinstance.pairs.sums.laplace_atoms import leftmost
from perinstance.pairs.sums.saddlepoint import (
    LinePlace,
    Losses,
    ceiling,
    divergence,
    highest,
    middle,
    person,
    place,
    saddle,
    variance,
)

DEEP = 1.0  # standard deviations below the mean from which 1 - delta is the better target
MOSTLY = 0.75  # and the delta from which it is in any case


class Profiled(NamedTuple):
    """A logarithm of delta or of 1 - delta, minus its slope in epsilon, and its error."""

    log: Any
    rate: Any
    error: Any


@kernel
def above(epsilon, losses):
    """Return ``log delta``, ``-d log delta/d epsilon`` and the relative error at epsilon >= 0.

    Beyond what the quadrature reaches the answer is Chernoff's bound.
    """
    edge, edge_low = ceiling(losses)
    if variance(losses) == 0.0 or (edge - epsilon) + edge_low <= 0.0:
        return Profiled(-np.inf, np.inf, 0.0)
    top = highest(losses.nu)
    x = saddle(top, epsilon, losses)
    if x == np.inf:
        return Profiled(-np.inf, np.inf, 0.0)
    here = place(x, top)
    t = here.t
    base, w, error, total, moved = integrate_along(here, epsilon, losses)
    if not (total > 0.0 and error < 0.1):
        # beyond the quadrature: Chernoff's bound, (1 - e^-x)_+ <= e^{tx} t^t/(1 + t)^{1 + t}
        rounding = CHERNOFF * (10.0 + abs(base))
        return Profiled(base + (1.0 + t) * math.log(t) - t * math.log1p(t) + rounding, t, rounding)
    log = base + math.log(w / np.pi * total)
    return Profiled(log, t + w * moved / total, error + ONE_ROUNDING * (5.0 + abs(log)))


@kernel
def _exchanged(losses):
    """Return the losses of Q over P."""
    nu, v, m2, levels, lap, count = losses
    k = nu.size
    back, back_v, back_m2, there = np.empty(k), np.empty(k), np.empty(k), np.empty((k, 6))
    for j in range(k):
        back[j], back_v[j], back_m2[j] = -nu[j] / v[j], 1.0 / v[j], m2[j] / v[j]
        there[j, 0], there[j, 1], there[j, 2], there[j, 3] = levels[j, 2], levels[j, 3], levels[j, 0], levels[j, 1]
        there[j, 4], there[j, 5] = -levels[j, 4], -levels[j, 5]
    return Losses(back, back_v, back_m2, there, lap, count)


@kernel
def below(epsilon, losses):
    """Return ``log(1 - delta)``, minus its slope in epsilon, and the relative error (0.1: no answer).

    ``1 - delta_PQ(epsilon) = e^epsilon (1 - delta_QP(-epsilon))``, by ``t -> -1 - t``: of the two the one whose saddle
    point lies right of -1/2 has Laplace losses that hardly cancel.
    """
    t = middle(epsilon, losses)
    lap, count = losses.lap, losses.count
    flipped = lap.size > 0 and t < -0.5
    if flipped:
        losses = _exchanged(losses)
        t, epsilon = -1.0 - t, -epsilon
    left = leftmost(lap, count)
    found = integrate_along(LinePlace(t, 1.0, 0.0), epsilon, losses)
    if not found.error < 1e-6 and lap.size > 0 and t < left:
        t = left
        found = integrate_along(LinePlace(t, 1.0, 0.0), epsilon, losses)
    base, w, error, total, moved = found
    if not (total > 0.0 and error < 0.1):
        return Profiled(-np.inf, 0.0, 0.1)
    log, slope = base + math.log(w / np.pi * total), t + w * moved / total
    error += ONE_ROUNDING * (5.0 + abs(log))  # of the sum, and of its exponential
    if flipped:
        return Profiled(log - epsilon, -1.0 - slope, error + ONE_ROUNDING * abs(epsilon))
    return Profiled(log, slope, error)


@kernel
def _positive(epsilon, losses):
    """Return delta, ``-d delta/d epsilon`` and the relative error at epsilon >= 0."""
    if epsilon == np.inf:
        return 0.0, 0.0, 0.0
    deep = DEEP * math.sqrt(variance(losses)) < divergence(losses) - epsilon
    delta, rate, error = 1.0, 0.0, 0.0
    for turn in range(2):
        if turn == 1 or not deep:
            log_delta, rate, error = above(epsilon, losses)
            delta = math.exp(min(log_delta, 0.0))
        if turn == 1 or not (deep or delta > MOSTLY):
            break
        log_rest, slope, rest_error = below(epsilon, losses)
        if rest_error < 1e-6:
            rest = math.exp(min(log_rest, 0.0))
            delta = 1.0 - rest
            return delta, -rest * slope, rest_error * rest / max(delta, NOT_ZERO) + ONE_ROUNDING
        if not deep:
            break
    return delta, delta * rate if delta > 0.0 else 0.0, error


@kernel
def delta_at(epsilon, losses, back):
    """Return ``delta`` (rounded up), ``-d delta/d epsilon`` and the relative error, for any real epsilon.

    ``back`` are the losses with P and Q exchanged.
    """
    these = back if epsilon < 0.0 else losses
    delta, slope, error = _positive(abs(epsilon), these)
    if delta < TINY and variance(these) > 0.0:
        edge, edge_low = ceiling(these)
        if (edge - abs(epsilon)) + edge_low > 0.0:
            delta += UNDERFLOWN_PROFILE
    if epsilon < 0.0:
        other, scale = delta, math.exp(epsilon)
        delta = -math.expm1(epsilon) + scale * other
        slope = scale * (1.0 - other - slope)  # of (1 - e^epsilon) + e^epsilon other(-epsilon)
        error = error * scale * other / delta + FEW_ROUNDINGS
    return min(delta * (1.0 + error), 1.0), slope, error


@kernel
def deltas(epsilon, losses, back, out):
    """Fill in delta for each person."""
    for i in range(out.size):
        out[i] = delta_at(epsilon[i], person(losses, i), person(back, i))[0]


@kernel
def _power(level, losses, back):
    """Return ``min_epsilon delta(epsilon) + e^epsilon level`` at a level between 0 and 1."""
    low, high, span = -np.inf, np.inf, math.sqrt(variance(losses))
    best = 1.0
    e, f_low, f_high = 0.0, 0.0, 0.0
    side = 0
    for _ in range(100):
        delta, slope, _error = delta_at(e, losses, back)
        best = min(best, (delta + math.exp(e) * level) * (1.0 + FEW_ROUNDINGS))
        tail = slope * math.exp(-e)
        f = math.log(tail / level) if tail > 0.0 else -745.0
        if f > 0.0:
            f_high = 0.5 * f_high if side == 1 else f_high
            low, f_low, side = e, f, 1
        else:
            f_low = 0.5 * f_low if side == -1 else f_low
            high, f_high, side = e, f, -1
        if abs(f) < 1e-7 or high - low < POWER_BRACKET * span:
            break
        if low == -np.inf:
            e = high - span
            span *= 2.0
        elif high == np.inf:
            e = low + span
            span *= 2.0
        else:
            e = (low * f_high - high * f_low) / (f_high - f_low)
            if not (low < e < high):
                e = 0.5 * (low + high)
    return best


@kernel
def powers(level, losses, back, out):
    """Fill in ``min_epsilon delta_QP(epsilon) + e^epsilon level``, the power of the best test at a level.

    The minimum lies where the null probability of ``log q/p > epsilon``, which is ``-e^-epsilon d delta/d epsilon``,
    equals the level. ``losses`` are those of Q over P here. Every epsilon gives an upper bound; the best is kept.
    """
    for i in range(out.size):
        out[i] = level[i]
        if 0.0 < level[i] < 1.0:
            out[i] = min(_power(level[i], person(losses, i), person(back, i)), 1.0)
