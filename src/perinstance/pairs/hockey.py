r"""Hockey-stick profiles of sums of losses, person by person: delta at epsilon, epsilon at delta, the best attack.

A person is a set of rows: the Gaussian coordinates (nu, v, m^2) of P over Q, the same of Q over P, and the Laplace
distances with their counts. For epsilon < 0 ``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)``, two
terms of one sign; where epsilon >= 0 lies below the mean loss the contour passes between the poles and gives 1 - delta.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.pairs.compiled import kernel
from perinstance.pairs.contour import NODES, contour, evaluate, reach
from perinstance.pairs.saddlepoint import (
    ceiling,
    divergence,
    first_guess,
    highest,
    middle,
    place,
    saddle,
    slopes,
    variance,
)

DEEP = 1.0  # standard deviations below the mean from which 1 - delta is the better target
NEAR = 0.2  # how far epsilon may move without a new contour, in units of the fastest wave that is alive on it


@kernel
def _above(epsilon, nu, v, m2, lap, count, terms, where, weight):
    """Return ``log delta``, ``-d log delta/d epsilon`` and the relative error at epsilon >= 0.

    Then the place, the unit and the number of nodes of the contour, from which epsilon can be moved (0: it cannot).
    """
    none = lap[:0]
    s2 = variance(nu, v, m2, lap, count)
    if s2 == 0.0 or epsilon >= ceiling(nu, v, m2, lap, count):
        return -np.inf, np.inf, 0.0, 0.0, 0.0, 0
    kl = divergence(nu, v, m2, none, none)
    B = divergence(nu, v, m2, lap, count) - epsilon
    deep = lap.size == 0 and DEEP * math.sqrt(s2) < B
    top = 0.0 if deep else highest(nu)
    if deep:
        t, a = middle(B, nu, v, m2, lap, count), 1.0
    else:
        x = saddle(B, first_guess(B, s2, top), top, nu, v, m2, lap, count)
        if x == np.inf:
            return -np.inf, np.inf, 0.0, 0.0, 0.0, 0
        t, a = place(x, top)
    base, w, n, error, total, moved = contour(t, a, top, epsilon, kl, nu, v, m2, lap, count, terms, where, weight)
    if deep:
        rest = math.exp(base) * w / np.pi * total
        if not rest > 1e-17 or not error < 0.1:
            return 0.0, 0.0, 2e-16, 0.0, 0.0, 0
        rate = -rest * (t + w * moved / total) / (1.0 - rest)
        return math.log1p(-rest), rate, error * rest / (1.0 - rest) + 2e-16, 0.0, 0.0, 0
    if not (total > 0.0 and error < 0.1):
        # out of reach of the quadrature: Chernoff's bound, (1 - e^-x)_+ <= e^{tx} t^t/(1 + t)^{1 + t}
        rounding = 1e-15 * (1.0 + t * (kl + epsilon))
        return base + (1.0 + t) * math.log(t) - t * math.log1p(t) + rounding, t, rounding, 0.0, 0.0, 0
    return base + math.log(w / np.pi * total), t + w * moved / total, error, t, w, n if lap.size == 0 else 0


@kernel
def profile(epsilon, nu, v, m2, back_nu, back_v, back_m2, lap, count, terms, where, weight):
    """Return ``delta`` (rounded up), ``-d delta/d epsilon`` and the relative error, for any real epsilon."""
    if epsilon < 0.0:
        nu, v, m2 = back_nu, back_v, back_m2
    log_delta, rate, error, _t, _w, _n = _above(abs(epsilon), nu, v, m2, lap, count, terms, where, weight)
    delta = math.exp(min(log_delta, 0.0))
    slope = delta * rate if delta > 0.0 else 0.0
    if epsilon < 0.0:
        back, scale = delta, math.exp(epsilon)
        delta = -math.expm1(epsilon) + scale * back
        slope = scale * (1.0 - back - slope)  # of (1 - e^epsilon) + e^epsilon back(-epsilon)
        error = error * scale * back / delta + 2e-16
    return min(delta * (1.0 + error), 1.0), slope, error


@kernel
def _approximate(x, top, nu, v, m2, lap, count):
    """Return the saddle-point approximation of log delta at the epsilon whose saddle point is x, its rise and t.

    ``log delta ~ (K - t K') + 1 + t/(1 + t) - log(t (1 + t)) - log(2 pi phi'')/2``.
    """
    t, a = place(x, top)
    rise, bend, gap = slopes(t, a, top, nu, v, m2, lap, count)
    curve = bend + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t))
    ratio = 1.0 / (1.0 + 1.0 / t)
    return gap + 1.0 + ratio - math.log(t) - math.log1p(t) - 0.5 * math.log(2.0 * np.pi * curve), rise, t


@kernel
def _first_epsilon(target, full, x, top, nu, v, m2, lap, count):
    """Return the epsilon >= 0 at which the saddle-point approximation of log delta meets the target."""
    low, high, span = x, x, 0.5
    found = False
    while high < 300.0 and not found:
        low, high, span = high, high + span, 2.0 * span
        found = _approximate(high, top, nu, v, m2, lap, count)[0] < target
    while high - low > 1e-4:
        x = 0.5 * (low + high)
        if _approximate(x, top, nu, v, m2, lap, count)[0] < target:
            high = x
        else:
            low = x
    _log, rise, t = _approximate(0.5 * (low + high), top, nu, v, m2, lap, count)
    return max(full + rise - 1.0 / t - 1.0 / (1.0 + t), 0.0)


@kernel
def solve(delta, nu, v, m2, lap, count, terms, where, weight):
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, never below it."""
    edge = ceiling(nu, v, m2, lap, count)
    if delta == 0.0:
        return edge
    s2 = variance(nu, v, m2, lap, count)
    if s2 == 0.0:
        return 0.0
    target = math.log(delta)
    full, top = divergence(nu, v, m2, lap, count), highest(nu)
    x = saddle(full, first_guess(full, s2, top), top, nu, v, m2, lap, count)
    epsilon = min(_first_epsilon(target, full, x, top, nu, v, m2, lap, count), edge * (1.0 - 1e-9))
    low, high = 0.0, edge  # the answer lies between
    for _ in range(100):
        log_delta, rate, error, t, w, n = _above(epsilon, nu, v, m2, lap, count, terms, where, weight)
        excess = log_delta - target
        step = excess / rate
        slack = (error + 1e-13) / rate
        if abs(step) <= slack or (epsilon == 0.0 and excess <= 0.0):
            return min(max(epsilon + step + 2.0 * slack, 0.0), edge)
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        if high - low <= 1e-13 * high and high < np.inf:
            return high
        if n > 0 and abs(step) * w * reach(n, where, weight) < NEAR:
            # the same contour serves for the last steps: only e^{-t d} changes, and little wherever the integrand lives
            d, last = 0.0, np.inf
            total = evaluate(0.0, w, n, where, weight)[0]
            for _newton in range(8):
                there, moved = evaluate(d, w, n, where, weight)
                rate = t + w * moved / there
                last = (excess - t * d + math.log(there / total)) / rate
                d += last
                if not abs(d) < 2.0 * abs(step) or abs(last) * rate < 1e-14:
                    break
            if abs(d) < 2.0 * abs(step) and abs(last) * rate < 1e-13 and epsilon + d >= 0.0:
                return min(epsilon + d + 2.0 * (error + 1e-13) / rate, edge)
        epsilon += step
        if epsilon <= low and low == 0.0:
            epsilon = 0.0
        elif not low < epsilon < high:
            epsilon = 0.5 * (low + high)
    return high


@kernel
def deltas(epsilon, nu, v, m2, back_nu, back_v, back_m2, lap, count, terms, out):
    """Fill in delta for each person."""
    where, weight = np.empty(NODES, np.complex128), np.empty(NODES, np.complex128)
    for i in range(out.size):
        out[i] = profile(
            epsilon[i], nu[i], v[i], m2[i], back_nu[i], back_v[i], back_m2[i], lap[i], count[i], terms, where, weight
        )[0]


@kernel
def epsilons(delta, nu, v, m2, lap, count, terms, out):
    """Fill in epsilon for each person."""
    where, weight = np.empty(NODES, np.complex128), np.empty(NODES, np.complex128)
    for i in range(out.size):
        out[i] = solve(delta[i], nu[i], v[i], m2[i], lap[i], count[i], terms, where, weight)


@kernel
def powers(level, nu, v, m2, back_nu, back_v, back_m2, lap, count, terms, out):
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
                e, nu[i], v[i], m2[i], back_nu[i], back_v[i], back_m2[i], lap[i], count[i], terms, where, weight
            )
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
