"""One person: the smallest epsilon >= 0 at which a profile is at most delta, never below the truth.

The threshold of ``profile.py`` is the unknown: ``log delta`` (or ``log(1 - delta)`` above one half) is nearly
quadratic in it, its derivative is free, and a bracket is known: ``delta <= 2 (1 - Phi(u))`` gives
``u <= sqrt(-2 log delta)``, and epsilon = 0 gives the lower end.
"""

from __future__ import annotations

import math

from perinstance.numerics.normal_tails import mills, mills_drop, phi, upper_tail
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    BRACKET_ROOM,
    CANCELLING_SUM,
    PROFILE_AT_THRESHOLD,
    SOLVER_ABSOLUTE,
    SOLVER_RELATIVE,
    STOPPED_THRESHOLD,
    THRESHOLD_STEP,
    ZERO_BEYOND_DOUBT,
)
from perinstance.pairs.closed_form.profile import (
    HUGE,
    MILLS_FROM,
    WIDEST_LEVERAGE,
    with_at,
    without_at,
    without_complement,
)

SHIFT, WITHOUT, WITH = 0, 1, 2  # families


@kernel
def _at(family, threshold, mu, rho, complement):
    """Return delta (or 1 - delta) at a threshold, and the size of its derivative."""
    if family == SHIFT:
        tail = phi(threshold) * mills(threshold + rho)
        if complement:
            return upper_tail(-threshold) + tail, rho * tail
        return phi(threshold) * mills_drop(threshold, rho), rho * tail
    s = math.sqrt(mu)
    if family == WITHOUT:
        c = max(rho + s * threshold, rho / math.sqrt(1.0 + mu))  # the sum may cancel; epsilon >= 0 from q on
        if complement:
            value, B = without_complement(threshold, c, mu, rho)
        else:
            value, B = without_at(threshold, c, mu, rho)
        return value, s * c * B
    t = math.sqrt(1.0 + mu)
    c = max(0.0, (rho / t - s * threshold) / t)
    delta, B = with_at(threshold, c, mu, rho)
    if complement:
        if threshold < MILLS_FROM:
            E = math.exp(-2.0 * c * rho / mu)
            outside = phi(threshold) * (mills(-threshold) + E * mills((c * t + rho / t) / s))
            return outside + B, s * c * B / t
        return 1.0 - delta, s * c * B / t
    return delta, s * c * B / t


@kernel
def _lost(family, threshold, mu, rho, value):
    """Return what rounding may have taken from a profile at a threshold.

    Q over P between -c and c is a difference of two tails, t times each; near the centre it is integrated instead.
    """
    wide = 0.0
    if family == WITH:
        s, t = math.sqrt(mu), math.sqrt(1.0 + mu)
        c = max(0.0, (rho / t - s * threshold) / t)
        if c * t >= 5.0 * s:
            wide = t * math.exp(-2.0 * c * rho / mu) * phi(threshold)
    return PROFILE_AT_THRESHOLD * (value + wide)


@kernel
def threshold(family, low, high, mu, rho, delta, guess):
    """Solve for the threshold at which the profile is delta, within [low, high]: bracketed Newton on the logarithm.

    The logarithm is concave, so that Newton does not overshoot from the end where it lies below its goal; that end is
    taken when there is no guess (NaN).
    """
    complement = delta > 0.5
    goal = math.log1p(-delta) if complement else math.log(delta)
    sign = -1.0 if complement else 1.0
    end = max(low, -40.0) if complement else high
    x = guess if low < guess < high else end
    for _ in range(200):
        value, slope = _at(family, x, mu, rho, complement)
        # where delta underflowed the root lies below, where 1 - delta did it lies above
        step = sign * ((math.log(value) - goal) * value / slope if value > 0.0 else -math.inf)
        if step > 0.0:
            low = x
        else:
            high = x
        new = x + step
        if not low < new < high:
            new = 0.5 * (low + high)
        moved = abs(new - x)
        x = new
        still = THRESHOLD_STEP * (1.0 + abs(x))
        if moved <= still or high - low <= still:
            break
    return x


@kernel
def _solve(family, low, mu, rho, delta):
    """Return the threshold, not below that of epsilon = 0 (``low``); NaN when epsilon is 0 beyond doubt."""
    complement = delta > 0.5
    # P over Q: at this threshold delta is larger than asked for, whoever it is (1 - delta <= 2.5 phi + Phi there)
    least = -math.inf if family == WITH else (-9.0 if complement else MILLS_FROM)
    if low >= least:
        value, _ = _at(family, low, mu, rho, complement)
        excess = (1.0 - delta) / value if complement else value / delta
        doubt = ZERO_BEYOND_DOUBT + 2.0 * _lost(family, low, mu, rho, value) / value
        if excess < 1.0 - doubt:
            return math.nan
    else:
        low = least
    return threshold(family, low, math.sqrt(-2.0 * math.log(delta)) + BRACKET_ROOM, mu, rho, delta, math.nan)


@kernel
def rounded_up(epsilon, scale):
    """Raise an epsilon by more than the solver's error; ``scale`` is the distance between the distributions."""
    return max(0.0, epsilon + SOLVER_RELATIVE * abs(epsilon) + SOLVER_ABSOLUTE * min(1.0, scale))


@kernel
def _settled(family, x, mu, rho, delta, epsilon, size, scale):
    """Raise the epsilon of a threshold x; tell whether that takes more than ``rounded_up`` adds.

    ``size`` is that of the terms which epsilon is the sum of: they cancel where the leverage is large, epsilon small.
    Next to delta = 1 the profile moves so little that its last digits decide.
    """
    value, slope = _at(family, x, mu, rho, delta > 0.5)
    s = math.sqrt(mu)
    if family == SHIFT:
        gain = rho
    elif family == WITHOUT:
        gain = s * (rho + s * x)
    else:
        gain = s * max(0.0, rho - s * math.sqrt(1.0 + mu) * x) / (1.0 + mu) ** 1.5
    moved = STOPPED_THRESHOLD * (1.0 + abs(x)) + (_lost(family, x, mu, rho, value) / slope if slope > 0.0 else 0.0)
    error = 2.0 * (CANCELLING_SUM * size + gain * moved)
    usual = rounded_up(epsilon, scale)
    return max(usual, epsilon + error), error > usual - epsilon


@kernel
def doubted_shift(D, delta):
    """Return epsilon of one shift by D: ``D (u + D/2)``, and whether it is raised by more than usual."""
    if D == 0.0:
        return 0.0, False
    if delta == 0.0:
        return math.inf, False
    if D > HUGE:
        return rounded_up(D * (math.sqrt(-2.0 * math.log(delta)) + 0.5 * D), D), False
    u = _solve(SHIFT, -0.5 * D, 0.0, D, delta)
    if math.isnan(u):
        return 0.0, False
    return _settled(SHIFT, u, 0.0, D, delta, D * (u + 0.5 * D), D * (abs(u) + 0.5 * D), D)


@kernel
def _bound_without(mu, rho, delta):
    """Return an upper bound of epsilon, P over Q, for parameters of any size.

    At ``c = rho + s u`` with ``u = sqrt(-2 log delta)`` it holds that ``P(|w| > c) <= 2 (1 - Phi(u)) <= delta``; the
    loss there is ``((s u)^2 + 2 s u rho + rho^2 mu/(1 + mu) - log1p(mu))/2``, whose last term is left out.
    """
    reach = math.sqrt(mu) * math.sqrt(-2.0 * math.log(delta))
    moved = math.sqrt(mu / (1.0 + mu)) * rho
    return rounded_up(reach * (0.5 * reach + rho) + 0.5 * moved * moved, 1.0)


@kernel
def doubted_without(mu, rho, delta):
    """Return epsilon of one posterior sample, P over Q, and whether it is raised by more than usual.

    ``s u rho + mu (u^2 + q^2)/2 - log1p(mu)/2``
    """
    if mu == 0.0:
        return 0.0, False
    if delta == 0.0 or mu == math.inf:
        return math.inf, False
    if mu > WIDEST_LEVERAGE or rho > HUGE:
        return _bound_without(mu, rho, delta), False
    s = math.sqrt(mu)
    q2 = rho * rho / (1.0 + mu)
    log1p = math.log1p(mu)
    u = _solve(WITHOUT, (log1p - mu * q2) / (s * (math.sqrt(log1p + q2) + rho)), mu, rho, delta)
    if math.isnan(u):
        return 0.0, False
    across, along = s * u * rho, 0.5 * mu * (u * u + q2)
    epsilon = s * u * rho + 0.5 * (mu * (u * u + q2) - log1p)
    return _settled(WITHOUT, u, mu, rho, delta, epsilon, abs(across) + along + 0.5 * log1p, s * rho + mu)


@kernel
def doubted_with(mu, rho, delta):
    """Return epsilon of one posterior sample, Q over P, and whether it is raised by more than usual.

    At most ``(log1p(mu) + q^2)/2``, also at delta = 0.
    """
    if mu == 0.0:
        return 0.0, False
    if mu == math.inf or rho == math.inf:
        return math.inf, False
    s = math.sqrt(mu)
    t = math.sqrt(1.0 + mu)
    q = rho / t
    log1p = math.log1p(mu)
    top = q / s  # c = 0: nothing lies beyond
    if delta > 0.0 and mu <= WIDEST_LEVERAGE and rho <= HUGE:
        low = -(t * t * log1p + mu * q * q) / (s * (q + t * math.sqrt(log1p + q * q)))
        x = _solve(WITH, low, mu, rho, delta)
        if math.isnan(x):
            return 0.0, False
        if x < top:
            epsilon = 0.5 * (log1p + s * (s * q * q + x * (2.0 * q - s * x)) / (t * t))
            size = 0.5 * (log1p + s * (s * q * q + abs(x) * (2.0 * q + s * abs(x))) / (t * t))
            return _settled(WITH, x, mu, rho, delta, epsilon, size, s * rho + mu)
    return rounded_up(0.5 * (log1p + q * q), s * rho + mu), False


@kernel
def solve_shift(D, delta):
    """Return epsilon of one shift by D."""
    return doubted_shift(D, delta)[0]


@kernel
def solve_without(mu, rho, delta):
    """Return epsilon of one posterior sample, P over Q."""
    return doubted_without(mu, rho, delta)[0]
