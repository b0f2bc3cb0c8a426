r"""One sampled step at an epsilon that is known up to an error: bounds of its profile, as a logarithm and a factor.

With ``sign = +1`` (the person with, over without) or -1, ``1 + v = (e^{sign epsilon} - 1 + q)/q`` and
``E = sign log(1 + v)`` one step is ``q S(u)`` (with) or ``q e^{epsilon - E} S(u)``, ``u = E/m - m/2``, where

``S(u) = int_0^inf phi(u + t) (1 - e^{-m t}) dt = phi(u) (R(u) - R(u + m))``

is the profile of a shift by m (``closed_form/sampled_step.py``). It falls with u, so an upper bound is its value at a u
that is rounded down by all that u may be wrong by: no condition number is needed. The integral defines S for complex u
as well, and says that ``|S(a + ib)| <= e^{b^2/2} S(a)``. Left of E = 0, ``S(u) = 1 - e^E + e^E S(-u - m)``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.normal_tails import MILLS_FROM, mills, mills_drop, phi
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import MILLS_ERROR, NOT_ZERO, UNIT

LARGE = 30.0  # exponentials beyond are not formed
SMALL = -3.0
HALVINGS = 64  # of an interval in which an epsilon lies
HUGE = 1e300
FAR = 60.0  # from this threshold on a plain bound of S is as good
NORMAL = 0.5 * math.log(2.0 * math.pi)


class StepLaw(NamedTuple):
    """A kind of step: rate q, p = 1 - q, their logarithms, the distance m, +1 (with) or -1."""

    q: Any
    p: Any
    log_q: Any
    log_p: Any
    m: Any
    sign: Any


class Bounded(NamedTuple):
    """``factor e^power`` is a bound of the profile; u, E and by how much E was moved."""

    power: Any
    factor: Any
    u: Any
    E: Any
    moved: Any


@kernel
def make_step(q, m, sign):
    """Return the record of a kind of step."""
    return StepLaw(q, 1.0 - q, math.log(q), math.log1p(-q), m, sign)


@kernel
def loss_at(x, step):
    """Return ``l(x) = log(1 - q + q e^{m x - m^2/2})``, the person's share of the density there, and the error of l.

    The error includes what a node that is off by two roundings of x changes.
    """
    a, extra = step.m * (x - 0.5 * step.m), 0.0
    if a > LARGE:
        extra = abs(step.log_q)
        loss = step.log_q + a + math.log1p(step.p / step.q * math.exp(-a))
    else:
        grown = step.q * math.expm1(a)
        loss = math.log1p(grown) if abs(grown) < 0.5 else math.log(step.p + step.q * math.exp(a))
    share = min(math.exp(min(step.log_q + a - loss, 0.0)), 1.0)
    return loss, share, UNIT * (4.0 * share * step.m * (abs(x) + step.m) + 8.0 * abs(loss) + extra)


@kernel
def threshold(epsilon, off, step):
    """Return E and its error for an epsilon with an error; infinite at and beyond the largest loss (without)."""
    t = step.sign * epsilon
    if t > LARGE:
        rest = step.p * math.exp(-t)
        E = t - step.log_q + math.log1p(-rest)
        return step.sign * E, off / (1.0 - rest) + 4.0 * UNIT * (t + abs(step.log_q) + 1.0)
    if t < SMALL:  # p is small: ``1 + v = p/q (e^{t - log p} - 1)``
        above = t - step.log_p
        if not above > 0.0:
            return np.inf if step.sign < 0.0 else -np.inf, np.inf
        grown = math.expm1(above)
        E = step.log_p - step.log_q + math.log(grown)
        moved = (off + UNIT * (abs(t) + abs(step.log_p))) * (1.0 + 1.0 / grown)
        moved += 8.0 * UNIT * (1.0 + abs(E) + abs(step.log_p))
        return step.sign * E, 1.2 * moved if moved < 0.1 else np.inf
    v = math.expm1(t) / step.q
    left = 1.0 + v
    if not left > 0.0:
        return np.inf if step.sign < 0.0 else -np.inf, np.inf
    E = math.log1p(v)
    moved = off * math.exp(t) / (step.q * left) + UNIT * (4.0 * abs(v) / left + 2.0 * abs(E))
    if not moved < 0.1:
        return step.sign * E, np.inf
    return step.sign * E, 1.2 * moved  # the logarithm of ``1 + v`` moves by at most this


@kernel
def shift_drop(u, m):
    """Return ``R(u) - R(u + m)`` and its relative error, for u >= -1.5."""
    if u > FAR:  # 1/u - 1/(u + m) is larger than the difference: -R' <= 1/u^2
        return min(m / (u * u), 1.0 / u), 4.0 * UNIT
    drop = mills_drop(u, m)
    if m > 0.04:
        return drop, 4.0 * MILLS_ERROR * mills(u) / drop
    # Taylor's: ``u R(u) - 1`` is off by twelve units, times ``e^{u m}`` in all later terms, and above ``1/(3 + u^2)``
    return drop, 4.0 * MILLS_ERROR * (3.0 + u * u) * math.exp(max(u * m, 0.0)) * (12.0 if u < 0.0 else 1.0)


@kernel
def _right_of_zero(u, m):
    """Return the logarithm of a factor of S, the rest of it, and the relative error, where E >= 0."""
    if u >= MILLS_FROM:
        drop, lost = shift_drop(u, m)
        return -0.5 * u * u - NORMAL, drop, lost + UNIT * (8.0 + u * u)
    return 0.0, 1.0 - phi(u) * (mills(-u) + mills(max(u + m, 0.5 * m))), 8.0 * MILLS_ERROR


@kernel
def shift_bound(u, E, m):
    """Return the same at any E, to which u belongs: ``S(E) = 1 - e^E + e^E S(-E)`` left of zero."""
    if E >= 0.0:
        return _right_of_zero(u, m)
    u = -E / m - 0.5 * m
    power, factor, lost = _right_of_zero(u, m)
    back = math.exp(E + power) * factor
    total = back - math.expm1(E)
    lost += 4.0 * UNIT * (1.0 + abs(u)) * (abs(E) / m + m)
    return 0.0, total, lost * back / total + 8.0 * UNIT if total > 0.0 else 0.0


@kernel
def step_bound(epsilon, off, step, up):
    """Return a bound of the profile at an epsilon that is known up to an error: an upper (+1) or a lower (-1) one."""
    E, moved = threshold(epsilon, off, step)
    if not moved < np.inf:
        return Bounded(0.0, 1.0 if up > 0.0 else 0.0, -np.inf, E, np.inf)
    E -= up * moved
    u = E / step.m - 0.5 * step.m
    shifted = 4.0 * UNIT * (abs(E) / step.m + step.m)
    u -= up * shifted
    power, factor, lost = shift_bound(u, E - up * shifted * step.m, step.m)
    power += step.log_q
    lost += 8.0 * UNIT * (2.0 + abs(step.log_q))
    if step.sign < 0.0:
        power += epsilon - E + up * (off + moved)
        lost += 4.0 * UNIT * (abs(epsilon) + abs(E))
    return Bounded(power, max(factor, 0.0) * (1.0 + up * lost), u, E, moved + shifted * step.m)


@kernel
def log_upper(t):
    """Return ``log(1 - Phi(t))``, good to some twelve digits."""
    if t >= MILLS_FROM:
        return -0.5 * t * t - NORMAL + math.log(mills(t))
    return math.log1p(-phi(t) * mills(-t) + NOT_ZERO)


@kernel
def hazard(t):
    """Return at least ``phi(t)/(1 - Phi(t))``, by which ``log(1 - Phi)`` falls."""
    return 1.01 / mills(t) if t >= MILLS_FROM else 1.1 * phi(t)


@kernel
def one_step_epsilon(goal, step):
    """Return an epsilon at which the profile of this step alone is proved to be at most ``e^goal``."""
    low, high = 0.0, -step.log_p * (1.0 + 4.0 * UNIT) if step.sign < 0.0 else 1.0
    while step.sign > 0.0 and not log_value(high, step) <= goal:
        low, high = high, 2.0 * high
        if high > HUGE:
            return np.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if log_value(middle, step) <= goal:
            high = middle
        else:
            low = middle
    return high


@kernel
def log_value(epsilon, step):
    """Return the logarithm of the upper bound of the profile."""
    bound = step_bound(epsilon, 0.0, step, 1.0)
    return bound.power + math.log(bound.factor + NOT_ZERO)


@kernel
def scaled(power):
    """Return ``e^power``, infinite where that is too large: never less than it is."""
    return math.exp(power) if power < 700.0 else np.inf
