r"""Hockey-stick profiles of sums of losses, person by person: delta at epsilon, epsilon at delta, the best attack.

A person is a set of rows: the Gaussian coordinates (nu, v, m^2) of P over Q, the same of Q over P, and the Laplace
distances with their counts. For epsilon < 0 ``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)``, two
terms of one sign; where epsilon >= 0 lies below the mean loss the contour passes between the poles and gives 1 - delta.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.loss_sums.contour_integral import FINE, NODES, TIGHT, contour, evaluate, reach
from perinstance.pairs.loss_sums.laplace_atoms import leftmost
from perinstance.pairs.loss_sums.saddlepoint import (
    ceiling,
    divergence,
    first_guess,
    highest,
    largest_loss,
    middle,
    place,
    saddle,
    slopes,
    tilt,
    variance,
)

DEEP = 1.0  # standard deviations below the mean from which 1 - delta is the better target
MOSTLY = 0.75  # and the delta from which it is in any case
NEAR = 0.2  # how far epsilon may move without a new contour, in units of the fastest wave that is alive on it
LOGARITHM = 2.5e-16  # relative error of the logarithms that are compared
SURE = 1.1  # errors are added with this factor: for those of second order
UP = 1.0 + 4.5e-16  # what the last sum may have lost
NOWHERE = (0.0, 0.0, 0.0, 0.0)


@kernel
def _above(epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight):
    """Return ``log delta``, ``-d log delta/d epsilon`` and the relative error at epsilon >= 0.

    Then the number of nodes of the contour, from which epsilon can be moved (0: it cannot), and how it was laid: its
    place t, its unit, its bend and its step.
    """
    s2 = variance(nu, v, m2, lap, count)
    edge, edge_low = ceiling(nu, m2, levels, lap, count)
    if s2 == 0.0 or (edge - epsilon) + edge_low <= 0.0:
        return -np.inf, np.inf, 0.0, 0, NOWHERE
    top = highest(nu)
    B = divergence(levels, lap, count) - epsilon
    x = saddle(first_guess(B, s2, top), top, epsilon, nu, v, m2, levels, lap, count)
    if x == np.inf:
        return -np.inf, np.inf, 0.0, 0, NOWHERE
    t, a = place(x, top)
    base, w, n, error, total, moved, bend, step = contour(
        t, a, top, epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight
    )
    if not (total > 0.0 and error < 0.1):
        # out of reach of the quadrature: Chernoff's bound, (1 - e^-x)_+ <= e^{tx} t^t/(1 + t)^{1 + t}
        rounding = 1e-15 * (10.0 + abs(base))
        return base + (1.0 + t) * math.log(t) - t * math.log1p(t) + rounding, t, rounding, 0, NOWHERE
    return base + math.log(w / np.pi * total), t + w * moved / total, error, n, (t, w, bend, step)


@kernel
def _exchanged(nu, v, m2, levels):
    """Return the coordinates of Q over P."""
    there = levels.copy()
    for j in range(nu.size):
        there[j, 0], there[j, 1], there[j, 2], there[j, 3] = levels[j, 2], levels[j, 3], levels[j, 0], levels[j, 1]
        there[j, 4], there[j, 5] = -levels[j, 4], -levels[j, 5]
    return -nu / v, 1.0 / v, m2 / v, there


@kernel
def _below(epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight):
    """Return the same of ``1 - delta``: its logarithm, the slope of that, the relative error (0.1: no answer).

    ``1 - delta_PQ(epsilon) = e^epsilon (1 - delta_QP(-epsilon))``, by ``t -> -1 - t``: of the two the one whose saddle
    point lies right of -1/2 has Laplace losses that hardly cancel.
    """
    t = middle(epsilon, nu, v, m2, levels, lap, count)
    flipped = lap.size > 0 and t < -0.5
    if flipped:
        nu, v, m2, levels = _exchanged(nu, v, m2, levels)
        t, epsilon = -1.0 - t, -epsilon
    left = leftmost(lap, count)
    base, w, n, error, total, moved, bend, step = 0.0, 0.0, 0, np.inf, 0.0, 0.0, 0.0, 0.0
    for turn in range(2):
        if turn == 1:
            t = left
        base, w, n, error, total, moved, bend, step = contour(
            t, 1.0, 0.0, epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight
        )
        if error < 1e-6 or lap.size == 0 or t >= left:
            break
    if not (total > 0.0 and error < 0.1):
        return -np.inf, 0.0, 0.1, 0, NOWHERE
    log, slope = base + math.log(w / np.pi * total), t + w * moved / total
    if flipped:
        bend = -bend if step > 0.0 else 2.0 * w * np.sum(lap * count) - bend
        return log - epsilon, -1.0 - slope, error + 2e-16 * abs(epsilon), 0, (-1.0 - t, w, bend, step)
    return log, slope, error, n, (t, w, bend, step)


@kernel
def _positive(epsilon, nu, v, m2, levels, lap, count, terms, where, weight):
    """Return delta, ``-d delta/d epsilon`` and the relative error at epsilon >= 0."""
    if epsilon == np.inf:
        return 0.0, 0.0, 0.0
    deep = DEEP * math.sqrt(variance(nu, v, m2, lap, count)) < divergence(levels, lap, count) - epsilon
    delta, rate, error = 1.0, 0.0, 0.0
    if not deep:
        log_delta, rate, error, _n, _laid = _above(epsilon, TIGHT, nu, v, m2, levels, lap, count, terms, where, weight)
        delta = math.exp(min(log_delta, 0.0))
    if deep or delta > MOSTLY:
        log_rest, slope, rest_error, _n, _laid = _below(
            epsilon, TIGHT, nu, v, m2, levels, lap, count, terms, where, weight
        )
        if rest_error < 1e-6:
            rest = math.exp(min(log_rest, 0.0))
            delta = 1.0 - rest
            return delta, -rest * slope, rest_error * rest / max(delta, 1e-300) + 2e-16
        if deep:
            log_delta, rate, error, _n, _laid = _above(
                epsilon, TIGHT, nu, v, m2, levels, lap, count, terms, where, weight
            )
            delta = math.exp(min(log_delta, 0.0))
    return delta, delta * rate if delta > 0.0 else 0.0, error


@kernel
def profile(epsilon, nu, v, m2, levels, back_nu, back_v, back_m2, back_levels, lap, count, terms, where, weight):
    """Return ``delta`` (rounded up), ``-d delta/d epsilon`` and the relative error, for any real epsilon."""
    if epsilon < 0.0:
        nu, v, m2, levels = back_nu, back_v, back_m2, back_levels
    delta, slope, error = _positive(abs(epsilon), nu, v, m2, levels, lap, count, terms, where, weight)
    if epsilon < 0.0:
        back, scale = delta, math.exp(epsilon)
        delta = -math.expm1(epsilon) + scale * back
        slope = scale * (1.0 - back - slope)  # of (1 - e^epsilon) + e^epsilon back(-epsilon)
        error = error * scale * back / delta + 2e-16
    return min(delta * (1.0 + error), 1.0), slope, error


@kernel
def _approximate(x, top, nu, v, m2, levels, lap, count):
    """Return the saddle-point approximation of log delta at the epsilon whose saddle point is x, and that epsilon.

    ``log delta ~ (K - t K') + 1 + t/(1 + t) - log(t (1 + t)) - log(2 pi phi'')/2``.
    """
    t, a = place(x, top)
    level, lift, fall, bend, bend_fall = slopes(t, a, top, 0.0, nu, v, m2, levels, lap, count)
    curve = bend + bend_fall + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t))
    ratio = 1.0 / (1.0 + 1.0 / t)
    gap = tilt(t, a, top, nu, v, m2, lap, count)
    log = gap + 1.0 + ratio - math.log(t) - math.log1p(t) - 0.5 * math.log(2.0 * np.pi * curve)
    return log, level + lift - fall - 1.0 / t - 1.0 / (1.0 + t)


@kernel
def _first_epsilon(target, x, top, nu, v, m2, levels, lap, count):
    """Return the epsilon >= 0 at which the saddle-point approximation of log delta meets the target."""
    low, high, span = x, x, 0.5
    found = False
    while high < 300.0 and not found:
        low, high, span = high, high + span, 2.0 * span
        found = _approximate(high, top, nu, v, m2, levels, lap, count)[0] < target
    while high - low > 1e-4:
        x = 0.5 * (low + high)
        if _approximate(x, top, nu, v, m2, levels, lap, count)[0] < target:
            high = x
        else:
            low = x
    return max(_approximate(0.5 * (low + high), top, nu, v, m2, levels, lap, count)[1], 0.0)


@kernel
def solve(delta, nu, v, m2, levels, lap, count, terms, where, weight):
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, never below it, and what it may be above.

    Then how the last contour was laid. Above one half it is ``1 - delta`` that is met, which there says more. Answers
    must be good to 1e-9 of themselves or to 1e-13. Where the usual tolerance of the quadrature does not give that
    ``refined.py`` takes over; among atoms the last steps are taken with a finer one.
    """
    edge = largest_loss(nu, m2, levels, lap, count)
    if delta == 0.0:
        return edge, 0.0, NOWHERE
    s2 = variance(nu, v, m2, lap, count)
    if s2 == 0.0:
        return 0.0, 0.0, NOWHERE
    top = highest(nu)
    full = divergence(levels, lap, count)
    x = saddle(first_guess(full, s2, top), top, 0.0, nu, v, m2, levels, lap, count)
    start = _first_epsilon(math.log(delta), x, top, nu, v, m2, levels, lap, count)
    epsilon = min(start, edge * (1.0 - 1e-9))
    low, high = 0.0, edge  # the answer lies between
    tight, proposed = TIGHT, False
    deep = delta > 0.5
    for _ in range(100):
        log_value, rate, error, n, laid = 0.0, 0.0, 0.0, 0, NOWHERE
        if deep:
            log_value, rate, error, n, laid = _below(
                epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight
            )
            deep = error < 1e-6
        if not deep:
            log_value, rate, error, n, laid = _above(
                epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight
            )
        sign = -1.0 if deep else 1.0
        target = math.log1p(-delta) if deep else math.log(delta)
        excess, rate = sign * (log_value - target), sign * rate
        step = excess / rate
        error += LOGARITHM * (1.0 + abs(target))
        slack = error / rate
        if excess <= -error and (proposed or epsilon == 0.0):
            return epsilon, 0.0 if epsilon == 0.0 else slack - step, laid
        if abs(step) <= slack + (UP - 1.0) * epsilon:
            if n == 0 and slack > max(2e-10 * epsilon, 5e-14) and tight > FINE:
                tight = FINE
                continue
            epsilon = min(max(epsilon + step + SURE * slack, 0.0) * UP, edge)
            if n > 0 or epsilon == edge:
                return epsilon, 2.0 * SURE * slack, laid
            proposed = True  # among atoms the slope may change just here: the answer itself must pass
            continue
        proposed = False
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        if high - low <= 1e-13 * high and high < np.inf:
            return high, high - low, laid
        t, w, _bend, _step = laid
        if n > 0 and abs(step) * w * reach(n, where, weight) < NEAR:
            # the same contour serves for the last steps: only e^{-t d} changes, and little wherever the integrand lives
            d, last = 0.0, np.inf
            total = evaluate(0.0, w, n, where, weight)[0]
            for _newton in range(8):
                there, moved = evaluate(d, w, n, where, weight)
                rate = sign * (t + w * moved / there)
                last = (excess + sign * (math.log(there / total) - t * d)) / rate
                d += last
                if not abs(d) < 2.0 * abs(step) or abs(last) * rate < 1e-14:
                    break
            slack = (error + abs(last) * rate) / rate
            if abs(d) < 2.0 * abs(step) and abs(last) * rate < 1e-13 and epsilon + d >= 0.0:
                return min((epsilon + d + SURE * slack) * UP, edge), 2.0 * SURE * slack, laid
        epsilon += step
        if epsilon <= low and low == 0.0:
            epsilon = 0.0
        elif not low < epsilon < high:
            epsilon = 0.5 * (low + high)
    return high, np.inf, NOWHERE


@kernel
def deltas(epsilon, nu, v, m2, levels, back_nu, back_v, back_m2, back_levels, lap, count, terms, out):
    """Fill in delta for each person."""
    where, weight = np.empty(NODES, np.complex128), np.empty(NODES, np.complex128)
    for i in range(out.size):
        out[i] = profile(
            epsilon[i], nu[i], v[i], m2[i], levels[i], back_nu[i], back_v[i], back_m2[i], back_levels[i],
            lap[i], count[i], terms, where, weight,
        )[0]  # fmt: skip


@kernel
def epsilons(delta, nu, v, m2, levels, lap, count, terms, out, above, laid):
    """Fill in epsilon for each person, what it may be above the truth, and how the last contour was laid."""
    where, weight = np.empty(NODES, np.complex128), np.empty(NODES, np.complex128)
    for i in range(out.size):
        out[i], above[i], last = solve(delta[i], nu[i], v[i], m2[i], levels[i], lap[i], count[i], terms, where, weight)
        laid[i, 0], laid[i, 1], laid[i, 2], laid[i, 3] = last


@kernel
def powers(level, nu, v, m2, levels, back_nu, back_v, back_m2, back_levels, lap, count, terms, out):
    """Fill in ``min_epsilon delta_QP(epsilon) + e^epsilon level``, the power of the best test at a level.

    The minimum lies where the null probability of ``log q/p > epsilon``, which is ``-e^-epsilon d delta/d epsilon``,
    equals the level. (nu, v, m2) are those of Q over P here. Every epsilon gives an upper bound; the best is kept.
    """
    where, weight = np.empty(NODES, np.complex128), np.empty(NODES, np.complex128)
    for i in range(out.size):
        alpha = level[i]
        if alpha == 0.0 or alpha == 1.0:
            out[i] = alpha
            continue
        low, high, span = -np.inf, np.inf, math.sqrt(variance(nu[i], v[i], m2[i], lap[i], count[i]))
        best = 1.0
        e, f_low, f_high = 0.0, 0.0, 0.0
        side = 0
        for _ in range(100):
            delta, slope, _error = profile(
                e, nu[i], v[i], m2[i], levels[i], back_nu[i], back_v[i], back_m2[i], back_levels[i],
                lap[i], count[i], terms, where, weight,
            )  # fmt: skip
            best = min(best, delta + math.exp(e) * alpha)
            tail = slope * math.exp(-e)
            f = math.log(tail / alpha) if tail > 0.0 else -745.0
            if f > 0.0:
                f_high = 0.5 * f_high if side == 1 else f_high
                low, f_low, side = e, f, 1
            else:
                f_low = 0.5 * f_low if side == -1 else f_low
                high, f_high, side = e, f, -1
            if abs(f) < 1e-7 or high - low < 1e-10 * span:
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
        out[i] = min(best, 1.0)
