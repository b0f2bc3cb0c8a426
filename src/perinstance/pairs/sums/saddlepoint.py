r"""The cumulant function of a person's loss on the real line, and the saddle point its contour goes through.

``L`` is a sum of independent losses. Coordinate j of the Gaussian ones is ``P: N(m, v)`` against ``Q: N(0, 1)``; with
``nu = v - 1``, ``a = 1 - t nu`` (the domain is ``a > 0``) and the levels of ``cumulant_levels.py``,

``K(t) = log E_P[e^{t L}] = t m^2/2 + t^2 v m^2/(2 a) - (log a + t log v)/2``
``     = t kl + m^2 v t^2/(2 a) - (log a + t nu)/2 = t edge + t m^2 v/(2 nu a) - (log a)/2``:

the second form wherever ``t nu > -1``, the third elsewhere, and nothing large is left but the level.
A Laplace loss of distance D has ``K(t) = t D + log(1 - t (1 - E)/(1 + 2t))``, ``E = e^{-(1 + 2t) D}``. The profile is
``delta(epsilon) = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))`` along any line right of 0; the exponent
``phi = K - t epsilon - log t - log(1 + t)`` is convex on the real line, so it has one minimum there: the saddle point.

A place on the line is given by x: ``t = e^x`` where every nu <= 0, else ``t = e^x/(1 + e^x)/max(nu)``, so that the
distance to the branch point keeps its digits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import one_less_product, plus, raised, two_product, two_sum
from perinstance.numerics.normal_tails import excess_of_log, expm1px, log1pmx
from perinstance.numerics.rounding import DIVERGENCE_UP, UNIT

#: Below this m is its series: the square would underflow before it is divided.
SHORT = 2.0**-30
FAR = 320.0  # |x| beyond which a saddle point counts as not there


class Losses(NamedTuple):
    """The independent losses of one person; of everybody, with one more axis in front.

    Gaussian coordinates (nu, v, m^2, levels), Laplace distances and how often each occurs.
    """

    nu: Any
    v: Any
    m2: Any
    levels: Any
    lap: Any
    count: Any


@kernel
def person(losses, i):
    """Return the losses of one person."""
    return Losses(losses.nu[i], losses.v[i], losses.m2[i], losses.levels[i], losses.lap[i], losses.count[i])


class LinePlace(NamedTuple):
    """A place t on the real line, and its distance ``a = 1 - t top`` to the branch point of the largest nu."""

    t: Any
    a: Any
    top: Any


@kernel
def _small(y):
    """Return ``1 - (1 - e^-y)/y``, >= 0 for y >= 0."""
    if abs(y) < 0.05:
        return y * (0.5 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y * (1 / 5040 - y / 40320))))))
    return 1.0 + math.expm1(-y) / y


@kernel
def divergence(losses):
    """Return ``KL(P || Q) = K'(0)``."""
    levels, lap, count = losses.levels, losses.lap, losses.count
    total = 0.0
    for j in range(levels.shape[0]):
        total += levels[j, 0]
    for g in range(lap.size):
        total += count[g] * lap[g] * _small(lap[g])
    return total


@kernel
def variance(losses):
    """Return ``Var_P[L] = K''(0)`` (of a Laplace loss: at most its square distance, which serves as well)."""
    nu, v, m2, _levels, lap, count = losses
    total = 0.0
    for j in range(nu.size):
        total += m2[j] * v[j] + 0.5 * nu[j] * nu[j]
    for g in range(lap.size):
        total += count[g] * lap[g] * lap[g]
    return total


@kernel
def place(x, top):
    """Return the place of x on the line, where top is the largest nu."""
    if top > 0.0:
        return LinePlace(1.0 / (1.0 + math.exp(-x)) / top, 1.0 / (1.0 + math.exp(x)), top)
    return LinePlace(math.exp(x), 1.0, top)


@kernel
def room(t, nu, top, a_top):
    """Return ``1 - t nu`` without cancellation."""
    if top > 0.0 and nu > 0.0:
        share = nu / top
        return (1.0 - share) + share * a_top
    return 1.0 - t * nu


@kernel
def slopes(here, epsilon, losses):
    """Return ``K'(t) - epsilon`` in three parts, ``level + lift - fall``, and ``K''(t)`` as those of lift and -fall."""
    t, a_top, top = here
    nu, v, m2, levels, lap, count = losses
    level, low = -epsilon, 0.0
    lift, fall, bend, bend_fall = 0.0, 0.0, 0.0, 0.0
    for j in range(nu.size):
        n = nu[j]
        if n == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, n, top, a_top)
        g = n / a
        c = m2[j] * v[j] / (a * a)
        curve = c / a + 0.5 * g * g
        if t * n > -1.0:
            bend += curve
            level, rest = two_sum(level, levels[j, 0])
            low += rest + levels[j, 1]
            lift += 0.5 * c * t * (1.0 + a) + 0.5 * n * g * t
        else:
            bend_fall += curve
            level, rest = two_sum(level, levels[j, 4])
            low += rest + levels[j, 5]
            fall -= 0.5 * c / n + 0.5 * g
    for k in range(lap.size):
        D, times = lap[k], count[k]
        if D == 0.0:
            continue
        y = (1.0 + 2.0 * t) * D
        E = math.exp(-y)
        F = 1.0 + t + t * E
        up = -t * math.expm1(-y) + _small(y)
        slope = 0.5 - y * (1 / 3 - y * (1 / 8 - y * (1 / 30 - y * (1 / 144 - y * (1 / 840 - y / 5760)))))
        if abs(y) >= 0.05:  # of ``_small``
            slope = (-math.expm1(-y) - y * math.exp(-y)) / (y * y)
        up_slope = -math.expm1(-y) + 2.0 * D * t * E + 2.0 * D * slope
        curve = times * max(D * (up_slope - up * (1.0 + E - 2.0 * t * D * E) / F) / F, 0.0)
        if y > 1.0:
            bend_fall += curve
            high, rest = two_product(times, D)
            fall += times * D * ((1.0 - _small(y)) + 2.0 * t * E) / F
        else:
            bend += curve
            high, rest = times * D * _small(D), 0.0
            lift += times * (D * up / F - D * _small(D))
        level, more = two_sum(level, high)
        low += more + rest
    return level + low, lift, fall, bend, bend_fall


@kernel
def minus_legendre(here, losses):
    """Return ``K(t) - t K'(t)`` <= 0, minus the Legendre transform of K at ``K'(t)``: for a first guess."""
    t, a_top, top = here
    nu, v, m2, _levels, lap, count = losses
    gap = 0.0
    for j in range(nu.size):
        if nu[j] == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, nu[j], top, a_top)
        gap -= 0.5 * m2[j] * v[j] / (a * a) * t * t + 0.5 * (t * nu[j] / a + math.log(a))
    for k in range(lap.size):
        D = lap[k]
        if D == 0.0:
            continue
        y = (1.0 + 2.0 * t) * D
        E = math.exp(-y)
        F = 1.0 + t + t * E
        fall = D * ((1.0 - _small(y)) + 2.0 * t * E) / F
        gap += count[k] * (math.log1p(t * math.expm1(-y) / (1.0 + 2.0 * t)) + t * fall)
    return gap


@kernel
def saddle(top, epsilon, losses):
    """Return the x of the saddle point right of 0, to a thousandth; infinity where there is none.

    The contour need not pass exactly through it.
    """
    low, high = -FAR, FAR
    while high - low > 1e-3:
        x = 0.5 * (low + high)
        here = place(x, top)
        level, lift, fall, _bend, _bend_fall = slopes(here, epsilon, losses)
        if level + lift - fall - 1.0 / here.t - 1.0 / (1.0 + here.t) > 0.0:
            high = x
        else:
            low = x
    return high if high < FAR else math.inf


@kernel
def middle(epsilon, losses):
    """Return the saddle point between the poles at -1 and 0, where ``phi = K - t epsilon - log(-t) - log(1 + t)``."""
    low, high = -40.0, 41.0  # never halved at x = 0: at t = -1/2 a Laplace loss has 0/0
    x = 0.5
    while high - low > 1e-3:
        x = 0.5 * (low + high)
        t = -1.0 / (1.0 + math.exp(x))
        level, lift, fall, _bend, _bend_fall = slopes(LinePlace(t, 1.0, 0.0), epsilon, losses)
        if level + lift - fall - 1.0 / t - 1.0 / (1.0 + t) > 0.0:
            high = x
        else:
            low = x
    return -1.0 / (1.0 + math.exp(x))


@kernel
def highest(nu):
    """Return the largest nu, or 0."""
    top = 0.0
    for j in range(nu.size):
        top = max(top, nu[j])
    return top


@kernel
def ceiling(losses):
    """Return the essential supremum of L as a pair: finite where no coordinate has ``nu > 0`` or a pure shift."""
    nu, _v, m2, levels, lap, count = losses
    total, low = 0.0, 0.0
    for j in range(nu.size):
        if nu[j] > 0.0 or (nu[j] == 0.0 and m2[j] > 0.0):
            return np.inf, 0.0
        if nu[j] < 0.0:
            total, low = plus(total, low, levels[j, 4], levels[j, 5])
    for g in range(lap.size):
        high, rest = two_product(count[g], lap[g])
        total, low = plus(total, low, high, rest)
    return total, low


@kernel
def largest_loss(losses):
    """Return the essential supremum of L, rounded up."""
    high, low = ceiling(losses)
    return raised(high, low)


@kernel
def laplace_renyi(D, alpha, out):
    """Fill ``out`` with the Renyi divergence of every Laplace pair, rounded up.

    With ``m(x) = log1p(x) - x``, ``a = alpha - 1``, ``k = a/(2a + 1)`` and ``y = (2a + 1) D`` it is
    ``(e^-y - 1 + y)/(2a + 1) + m(k (e^-y - 1))/a``.
    """
    for i in range(D.size):
        a = alpha[i] - 1.0
        if D[i] == math.inf or a == math.inf:
            out[i] = D[i]  # the largest loss, of which nothing was lost
        elif a == 0.0:
            out[i] = min(expm1px(D[i]) * DIVERGENCE_UP, D[i])
        else:
            y = (2.0 * a + 1.0) * D[i]
            share = -math.expm1(-y) / (2.0 * a + 1.0)
            x = a * share
            less = -0.5 * x * share * (1.0 + 2.0 / 3.0 * x) if x < SHORT else log1pmx(-x) / a
            out[i] = min((expm1px(y) / (2.0 * a + 1.0) + less) * DIVERGENCE_UP, D[i])


@kernel
def renyis(alpha, losses, nu_low, out):
    """Fill in ``K(t)/t`` at ``t = alpha - 1``, the KL divergence at t = 0 and the largest loss at t = infinity.

    Of the Gaussian coordinates alone:
    ``K(t)/t = sum m^2/2 + t v m^2/(2a) + (nu - log v)/2 + (x - log(1 + x))/(2t)``, ``x = -t nu``, ``a = 1 + x > 0``.
    ``nu_low`` is what nu was rounded by: next to the order from which all is infinite, a is a small difference.
    """
    nu, v, m2, levels, _lap, _count = losses
    none = np.empty(0)
    for i in range(out.size):
        t = alpha[i] - 1.0
        if t == np.inf:
            out[i] = largest_loss(Losses(nu[i], v[i], m2[i], levels[i], none, none))
            continue
        total = 0.0
        for j in range(nu.shape[1]):
            n, m = nu[i, j], m2[i, j]
            if n == 0.0:
                total += 0.5 * m * alpha[i]
                continue
            a = one_less_product(*two_sum(alpha[i], -1.0), n, nu_low[i, j]) if n > 0.0 else 1.0 - t * n
            if not a > 0.0:
                total = np.inf
                break
            total += 0.5 * m + 0.5 * t * v[i, j] * m / a + 0.5 * excess_of_log(n, v[i, j])
            if t > 0.0:
                total += 0.5 * excess_of_log(-t * n, a) / t
        total *= DIVERGENCE_UP + UNIT * nu.shape[1]
        out[i] = max(total, 0.0) if math.isfinite(total) else np.inf
