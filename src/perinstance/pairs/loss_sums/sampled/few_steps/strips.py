r"""The integral over the noise of one step, up to where it takes half of epsilon, of the other step's profile.

``int_{-inf}^d f``, ``f(x) = phi(x) w(x) delta_2(epsilon - l(x))`` (with) or ``phi(x) delta_2(epsilon + l(x))``, by
panels of Gauss's rule from d to the left, each as long as its error allows.

**The error of a panel** of half length H is at most ``(64/15) H M RHO^{-2(n - 1)}/(1 - RHO^-2)``, M a bound of ``|f|``
on the ellipse around it the sum of whose axes is ``RHO H`` (Trefethen, Approximation Theory and Approximation Practice,
19.3). M is the largest of the bounds on boxes ``x_1 <= Re x <= x_2``, ``|Im x| <= eta`` that cover the ellipse. On such
a box, with ``r = q e^{m x - m^2/2}`` and ``theta = m eta`` of the first step (``w = p + r e^{i m Im x}``):

* ``|phi(x)| <= phi(nearest real x) e^{eta^2/2}``, ``|w| <= w(x_2)``;
* ``|arg w| <= alpha``: ``arg(p + r_2 e^{i theta})`` if ``theta <= pi/2``, where it grows with r and theta; else
  ``arcsin(r_2/p)`` if ``r_2 < p``, or ``theta + arcsin(p/r_1)`` if ``r_1 > p``;
* ``z = e^epsilon/w`` (with) or ``e^-epsilon/w`` has ``|z| >= z(x_2)`` and ``|arg z| = |arg w|``, so that
  ``|arg(z - p_2)| <= arg(z(x_2) e^{i alpha} - p_2)`` if ``z(x_2) cos alpha > p_2``: it grows with the angle and falls
  with ``|z|``; or ``alpha + arcsin(p_2/z(x_2))`` if ``z(x_2) > p_2``;
* ``z(x_2) - p_2 <= |z - p_2|``, and ``|z - p_2|^2 <= (|z|_2 - p_2)^2 + 4 |z|_2 p_2 sin^2(alpha/2)`` with the largest
  ``|z|``, that of ``|w|_1 = p + r_1 cos theta`` or ``p - r_2`` or ``r_1 - p``;
* ``E = +-log((z - p_2)/q_2)`` (+ with), so ``|Im u| = |arg(z - p_2)|/m_2``, and Re E lies between two numbers;
* ``|f/phi|`` is ``q_2 |w S(u)|`` (with) or ``e^epsilon |w (z - p_2) S(u)|``, and ``|S(u)| <= e^{(Im u)^2/2} S(Re u)``;
* where E is negative it is also at most ``|w - e^epsilon| + |e^epsilon - p_2 w| |S(u')|`` (with) or
  ``|1 - e^epsilon w| + q_2 e^epsilon |w| |S(u')|``, ``u' = -u - m_2`` (``one_step.py``).

Nothing is singular in the box while these exist.

**Beyond the last panel** ``w delta_2(epsilon - l)`` falls to the left with x, and ``delta_2(epsilon + l)`` is at most
its limit: a tail of the noise times one value. Right of ``RIGHT`` (with: and m) f is at most the density of the noise
with the person, or without.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import NORMAL, log_upper, loss_at, scaled, step_bound

RHO = 4.0
ALONG, ACROSS = 0.5 * (RHO + 1.0 / RHO), 0.5 * (RHO - 1.0 / RHO)
SLICES = 6
#: What one panel, or the tail, may add: e^-36 of delta.
SMALL = 36.0
MOST_PANELS = 600
MOST_TRIES = 3000
LONGEST = 1.5
NARROW = 1.0 / 1024.0
LEFT, RIGHT = -45.0, 40.0  # where the panels end and begin, at the latest (RIGHT: under both laws of the noise)


class Strip(NamedTuple):
    """``e^-scale`` times an upper bound of the integral, about what of it is charged, and ``-d/d epsilon`` of it."""

    value: Any
    charged: Any
    slope: Any


@kernel
def _box_angle(low, high, theta, step):
    """Return alpha and the least ``|w|`` on a box whose r lies between two numbers; infinite where there is none."""
    p = step.p
    if theta <= 0.5 * math.pi:
        c = math.cos(theta)
        return math.atan2(high * math.sin(theta), p + high * c), p + low * c
    if high < p:
        return math.asin(high / p), p - high
    if low > p:
        return theta + math.asin(p / low), low - p
    return np.inf, 0.0


@kernel
def box_bound(epsilon, box, first, second):
    """Return the logarithm of a bound of ``|f|`` on a box (its real ends and height); infinite where there is none."""
    left, right, eta = box
    m = first.m
    high = first.q * math.exp(min(m * (right - 0.5 * m), 600.0))
    low = first.q * math.exp(min(m * (left - 0.5 * m), 600.0))
    alpha, least = _box_angle(low, high, m * eta, first)
    if not alpha < np.inf:
        return np.inf
    loss, _share, off = loss_at(right, first)
    off += UNIT * (abs(epsilon) + abs(loss))
    e = epsilon - first.sign * loss
    # z(x_2) in units of p_2, inverted
    back = second.p * math.exp(min(-second.sign * e, 600.0))
    if alpha < 0.5 * math.pi and back < math.cos(alpha):
        turned = math.atan2(math.sin(alpha), math.cos(alpha) - back)
    elif back < 1.0:
        turned = alpha + math.asin(back)
    else:
        return np.inf
    near = left if left > 0.0 else (right if right < 0.0 else 0.0)
    b = turned / second.m
    power = 0.5 * (eta * eta - near * near) - NORMAL + 0.01
    # the largest |z| - p_2 by logarithms, for q may be tiny
    log_least = math.log(least + NOT_ZERO)
    if least > 0.5 and m * eta <= 0.5 * math.pi:
        log_least = math.log1p(low * math.cos(m * eta) - first.q)
    most = min(first.sign * epsilon - log_least, 600.0)
    size = math.exp(most)
    more = second.q + math.expm1(most) + 8.0 * UNIT * size * (abs(epsilon) + abs(log_least) + second.q)
    wide = math.hypot(max(more, 0.0), 2.0 * math.sqrt(size * second.p) * math.sin(min(0.5 * alpha, 1.57)))
    bound = step_bound(e, off, second, 1.0)  # at the right end
    if first.sign > 0.0:
        plain = loss + bound.power + math.log(bound.factor + NOT_ZERO) + 0.5 * b * b
        turn, before = math.log(wide / second.q + NOT_ZERO), max(epsilon, second.log_p + loss)
    else:
        if not more > 0.0:
            return np.inf
        turn, before = bound.E + 2.0 * bound.moved, second.log_q + epsilon + loss
        plain = epsilon + loss + math.log(wide) + _log_shift(-math.log(wide / second.q), second.m) + 0.5 * b * b
    if not turn < 0.0:
        return power + plain
    other = before + _log_shift(-turn, second.m) + 0.5 * b * b
    simple = max(epsilon, loss) if first.sign > 0.0 else max(epsilon + loss, 0.0)
    return power + min(plain, max(other, simple) + 1.5)


@kernel
def _log_shift(E, m):
    """Return a bound of ``log S`` at E: ``1 - e^{-m t} <= m t`` and ``-R' <= 1/(1 + u^2)``, ``R <= 1/u``."""
    u = E / m - 0.5 * m
    if u < 0.0:
        return min(math.log(m) + math.log(0.4 - u), 0.0)
    return -0.5 * u * u - NORMAL + min(math.log(m) - math.log(1.0 + u * u), -math.log(max(u, 0.5)))


@kernel
def panel_bound(epsilon, middle, half, first, second):
    """Return the logarithm of a bound of ``|f|`` on the ellipse around a panel."""
    worst = -np.inf
    for k in range(SLICES):
        one, two = 2.0 * k / SLICES - 1.0, 2.0 * (k + 1.0) / SLICES - 1.0
        inner = 0.0 if one <= 0.0 <= two else min(abs(one), abs(two))
        height = ACROSS * half * math.sqrt(1.0 - inner * inner)
        box = (middle + ALONG * half * one, middle + ALONG * half * two, height)
        worst = max(worst, box_bound(epsilon, box, first, second))
        if not worst < np.inf:
            break
    return worst


@kernel
def value_at(x, epsilon, first, second):
    """Return the logarithm of a factor of f and the rest of it, rounded up, and the threshold of the second step."""
    loss, _share, off = loss_at(x, first)
    e = epsilon - first.sign * loss
    bound = step_bound(e, off + UNIT * (abs(epsilon) + abs(loss)), second, 1.0)
    power = -0.5 * x * x - NORMAL + bound.power
    lost = UNIT * (16.0 + 4.0 * x * x + 2.0 * abs(bound.power))
    if first.sign > 0.0:
        power += loss
        lost += off + UNIT * abs(loss)
    return power, bound.factor * (1.0 + lost), bound.u, loss


@kernel
def _slope_at(x, u, loss, epsilon, first, second):
    """Return the logarithm of ``-df/d epsilon``, about: ``e^epsilon P`` (with) or ``e^epsilon Q`` of what is beyond."""
    if first.sign > 0.0:
        tail = log_upper(u + second.m)
    else:
        tail = loss + math.log(
            second.p * math.exp(log_upper(u)) + second.q * math.exp(log_upper(u + second.m)) + NOT_ZERO
        )
    return -0.5 * x * x - NORMAL + epsilon + tail


@kernel
def _tail(x, epsilon, first, second):
    """Return the logarithm of what lies left of x, at most."""
    if first.sign > 0.0:
        power, factor, _u, _loss = value_at(x, epsilon, first, second)
        return power + 0.5 * x * x + NORMAL + log_upper(-x) + math.log(factor + NOT_ZERO) + 0.01
    bound = step_bound(epsilon + first.log_p, 4.0 * UNIT * (abs(epsilon) + abs(first.log_p)), second, 1.0)
    return log_upper(-x) + bound.power + math.log(bound.factor + NOT_ZERO) + 0.01


@kernel
def _begin(end, first):
    """Return where the panels of a strip begin."""
    return min(end, RIGHT + (first.m if first.sign > 0.0 else 0.0))


@kernel
def log_peak(epsilon, end, steps):
    """Return the logarithm of f where it is about largest: what errors of a strip are compared with."""
    first, second = steps
    x, found = _begin(end, first), -np.inf
    step = NARROW
    while x > LEFT:
        power, factor, _u, _loss = value_at(x, epsilon, first, second)
        found = max(found, power + math.log(factor + NOT_ZERO))
        x -= step
        step = min(2.0 * step, 1.0)
    return found - 1.0


@kernel
def strip(epsilon, end, scale, steps, rule):
    """Integrate f of two steps, in this order, up to an end; errors are small beside ``e^scale``."""
    first, second = steps
    n = rule.shape[1]
    missed = math.log(64.0 / 15.0 / (1.0 - RHO**-2.0)) - 2.0 * (n - 1.0) * math.log(RHO)
    right = _begin(end, first)
    half = 0.25 * min(1.0, 4.0 / first.m)
    value, slope, panels = 0.0, 0.0, 0
    charged = scaled(log_upper(RIGHT) - scale) if right < end else 0.0
    for _ in range(MOST_TRIES):
        tail = _tail(right, epsilon, first, second)
        if tail < scale - SMALL or right < LEFT:
            charged += scaled(tail - scale)
            return Strip(value * (1.0 + UNIT * (2.0 * n + panels + 8.0)) + charged, charged, slope)
        if panels == MOST_PANELS or not half > 0.0:
            break
        middle = right - half
        bound = panel_bound(epsilon, middle, half, first, second) + math.log(half) + missed
        if not bound < scale - SMALL:
            half *= 0.6
            continue
        charged += math.exp(bound - scale)
        total, rate = 0.0, 0.0
        for i in range(n):
            x = middle + half * rule[0, i]
            power, factor, u, loss = value_at(x, epsilon, first, second)
            total += rule[1, i] * factor * scaled(power - scale)
            rate += rule[1, i] * math.exp(min(_slope_at(x, u, loss, epsilon, first, second) - scale, 600.0))
        value += half * total * (1.0 + UNIT * (abs(scale) + 8.0))
        slope += half * rate
        right = middle - half
        power, factor, _u, _loss = value_at(right, epsilon, first, second)  # panels meet up to a rounding
        charged += 8.0 * UNIT * (abs(right) + half) * factor * scaled(power - scale)
        half = min(1.5 * half, LONGEST)
        panels += 1
    return Strip(np.inf, np.inf, 1.0)
