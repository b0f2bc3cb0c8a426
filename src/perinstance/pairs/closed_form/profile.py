r"""The privacy profile of one person, ``delta(epsilon) = sup_S P(S) - e^epsilon Q(S)``, as scalar kernels.

Each profile is written in the standardised position of the threshold, because that is where the accuracy lies:

* shift: ``u = epsilon/D - D/2``, ``delta = phi(u) [R(u) - R(u + D)]``;
* posterior, P over Q: the event is ``|w| > c``, ``c = rho + s u``, with ``s = sqrt(mu)``, ``t = sqrt(1 + mu)``,
  ``q = rho/t``: ``delta = phi(u) {[R(u) - R(u + h1)/t] + E [R(a) - R(a + h2)/t]}`` with ``a = (c + rho)/s``,
  ``h1 = s (c + q)/(1 + t)``, ``h2 = s (c - q)/(1 + t)``, ``E = exp(-2 c rho/mu)``;
* posterior, Q over P: the event is ``|w| < c``, ``c = (q - s x)/t``:
  ``delta = phi(x) {[R(x) - t R(x + h1)] - E [R(a') - t R(a' - h2)]}``, ``a' = (c t + q)/s``.

At a threshold the two densities differ by exactly ``e^epsilon``, so no exponential of epsilon is ever formed.
For epsilon < 0, ``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)``: two terms of one sign.

``shift_profile`` and ``posterior_profile`` are rounded up by what their sums may have lost, and by what underflow may:
some 1e-13 of a delta that is not below 1e-20, at most 1e-11 of any.
"""

from __future__ import annotations

import math

from perinstance.numerics.double_double import log1p_pair, over, times, two_product, two_sum
from perinstance.numerics.normal_tails import (
    INV_SQRT_2PI,
    MILLS_FROM,
    NODES,
    WEIGHTS,
    central_mass,
    drop_lost,
    mills,
    mills_drop,
    phi,
)
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    FEW_ROUNDINGS,
    MILLS_ERROR,
    PAIR_ROOT,
    PROFILE_ROUNDING,
    UNDERFLOWN_PROFILE,
    UNIT,
)

#: A leverage, residual or distance beyond this counts as infinite in a profile: squares would overflow.
HUGE = 1e150
#: Beyond this leverage the two distributions are so different in width that thresholds lose their digits: epsilon is a
#: plain upper bound there (``one_epsilon.py``), and so is every other number.
WIDEST_LEVERAGE = 1e12
#: From this threshold on the normal density underflows.
BEYOND = 39.0


@kernel
def _share_lost(u):
    """Return what a sum of positive terms at the threshold u may have lost, relatively."""
    return MILLS_ERROR + PROFILE_ROUNDING * (5.0 + u * u)


@kernel
def left_of_zero(epsilon, other):
    """Return delta at epsilon < 0, where ``other`` is that of the other direction at -epsilon; rounded up."""
    return min(1.0, (-math.expm1(epsilon) + math.exp(epsilon) * other) * (1.0 + FEW_ROUNDINGS))


@kernel
def shift_at(u, D):
    """Return delta of a shift at the threshold u, rounded up."""
    if u >= BEYOND:
        return UNDERFLOWN_PROFILE
    if u >= MILLS_FROM:
        lost = phi(u) * (mills_drop(u, D) * _share_lost(u) + drop_lost(u, D))
        return phi(u) * mills_drop(u, D) + lost + UNDERFLOWN_PROFILE
    return min(1.0, 1.0 - phi(u) * (mills(-u) + mills(u + D)) * (1.0 - _share_lost(u)) + UNIT)


@kernel
def shift_profile(D, epsilon):
    """Return delta of a shift by D for any real epsilon (the two directions agree), rounded up."""
    if epsilon < 0.0:
        return left_of_zero(epsilon, shift_profile_positive(D, -epsilon))
    return shift_profile_positive(D, epsilon)


@kernel
def shift_profile_positive(D, epsilon):
    """Return delta of a shift by D at epsilon >= 0, rounded up."""
    if D > HUGE:
        return 1.0
    if D == 0.0 or epsilon == math.inf:
        return 0.0
    square, rest = two_product(D, D)
    u = ((2.0 * epsilon - square) - rest) / (2.0 * D)
    return shift_at(u, D)


@kernel
def without_at(u, c, mu, rho):
    """P over Q at the threshold ``c = rho + s u``: delta, and ``B = e^epsilon Q(|w| > c)``.

    c is given as well as u because the sum cancels where the leverage is large; it must be at least q. All terms are
    positive, so nothing cancels here. Needs u >= -1.5; see ``without_complement`` for the rest.
    """
    s = math.sqrt(mu)
    t = math.sqrt(1.0 + mu)
    q = rho / t
    a = (c + rho) / s
    h1 = s * (c + q) / (1.0 + t)
    h2 = s * (c - q) / (1.0 + t)
    E = math.exp(-2.0 * c * rho / mu)
    tail = mills(u + h1) / t
    near = mills_drop(u, h1) + tail * (mu / (1.0 + t))
    if E > 0.0:
        far_tail = mills(a + h2) / t
        near += E * (mills_drop(a, h2) + far_tail * (mu / (1.0 + t)))
        tail += E * far_tail
    return phi(u) * near, phi(u) * tail


@kernel
def _without_lost(u, c, mu, rho):
    """Return what rounding may have taken from the delta of ``without_at``."""
    s, t = math.sqrt(mu), math.sqrt(1.0 + mu)
    q = rho / t
    lost = drop_lost(u, s * (c + q) / (1.0 + t))
    E = math.exp(-2.0 * c * rho / mu)
    if E > 0.0:
        lost += E * drop_lost((c + rho) / s, s * (c - q) / (1.0 + t))
    return phi(u) * lost + without_at(u, c, mu, rho)[0] * _share_lost(u)


@kernel
def without_complement(u, c, mu, rho):
    """P over Q at the threshold ``c = rho + s u >= q``: ``1 - delta = P(|w| < c) + B``, and B."""
    s = math.sqrt(mu)
    t = math.sqrt(1.0 + mu)
    q = rho / t
    h1 = s * (c + q) / (1.0 + t)
    h2 = s * (c - q) / (1.0 + t)
    E = math.exp(-2.0 * c * rho / mu)
    tail = mills(u + h1)
    if E > 0.0:
        tail += E * mills((c + rho) / s + h2)
    B = phi(u) * tail / t
    return central_mass(c / s, rho / s, u) + B, B


@kernel
def with_at(x, c, mu, rho):
    """Q over P at the threshold ``c = (q - s x)/t``: delta, and ``B = e^epsilon P(|w| < c)``."""
    s = math.sqrt(mu)
    t = math.sqrt(1.0 + mu)
    q = rho / t
    E = math.exp(-2.0 * c * rho / mu)
    if c * t < 5.0 * s and E > 1e-3:
        return _with_by_quadrature(c, mu, rho)
    h1 = s * (c + q) / (1.0 + t)
    h2 = s * (c - q) / (1.0 + t)
    a = (c * t + q) / s
    B = t * (mills(x + h1) - E * mills(a - h2))
    if x < MILLS_FROM:
        return 1.0 - phi(x) * (mills(-x) + E * mills(a) + B), phi(x) * B
    growth = mu / (1.0 + t)  # t - 1
    drop = mills_drop(x, h1) - growth * mills(x + h1)
    if E > 0.0:
        far = mills_drop(a, -h2) if h2 < 0.0 else -mills_drop(a - h2, h2)
        drop -= E * (far - growth * mills(a - h2))
    return phi(x) * drop, phi(x) * B


@kernel
def _with_lost(x, c, mu, rho):
    """Return what rounding may have taken from the delta of ``with_at``, whose terms cancel.

    The threshold is good to ``1 + |x|`` times a few units, and so is a; what follows from an error of either is the
    difference of two slopes. E is good to as many units as its exponent.
    """
    s, t = math.sqrt(mu), math.sqrt(1.0 + mu)
    q = rho / t
    y = 2.0 * c * rho / mu
    E = math.exp(-y)
    a = (c * t + q) / s
    if c * t < 5.0 * s and E > 1e-3:
        return _with_by_quadrature(c, mu, rho)[0] * _share_lost(a)
    h1, h2 = s * (c + q) / (1.0 + t), s * (c - q) / (1.0 + t)
    near, far = mills(x + h1), mills(a - h2)
    if x < MILLS_FROM:
        return phi(x) * (mills(-x) + E * mills(a) + t * (near + E * far)) * (_share_lost(x) + PROFILE_ROUNDING * y * E)
    growth = mu / (1.0 + t)
    drop = mills_drop(x, h1) + growth * near
    lost = drop_lost(x, h1) + drop * _share_lost(x)
    lost += PROFILE_ROUNDING * (1.0 + abs(x) + math.log1p(mu)) * abs(growth - t * h1 * near)
    lost += PROFILE_ROUNDING * t * h1 * abs(1.0 - (x + h1) * near)
    if E > 0.0:
        back = mills_drop(a, -h2) if h2 < 0.0 else mills_drop(a - h2, h2)
        lost += E * drop_lost(min(a, a - h2), abs(h2))
        lost += E * (back + growth * far) * (_share_lost(x) + PROFILE_ROUNDING * y)
        lost += E * PROFILE_ROUNDING * ((1.0 + a) * (growth + 2.0 * abs(h2)) + h1)
    return phi(x) * lost


@kernel
def _with_by_quadrature(c, mu, rho):
    """Q over P as ``int_{-c}^{c} q(w) (1 - exp(-(c^2 - w^2)/2)) dw``, for thresholds near the centre."""
    s = math.sqrt(mu)
    t = math.sqrt(1.0 + mu)
    delta = 0.0
    B = 0.0
    for node, weight in zip(NODES, WEIGHTS):  # noqa: B905 - numba knows no strict
        w = c * node
        left = (t * w + rho / t) / s
        right = (t * w - rho / t) / s
        density = weight * (math.exp(-0.5 * left * left) + math.exp(-0.5 * right * right))
        less = -0.5 * (c - w) * (c + w)
        delta -= density * math.expm1(less)
        B += density * math.exp(less)  # not one less the other: far from c that has no digits
    scale = INV_SQRT_2PI * c * t / s
    return scale * delta, scale * B


@kernel
def posterior_without(mu, rho, epsilon):
    """P over Q of a posterior sample at epsilon >= 0, rounded up."""
    if mu == 0.0:
        return 0.0
    if mu > HUGE or rho > HUGE:
        return 1.0
    if epsilon == math.inf:
        return 0.0
    a, a_low = two_sum(1.0, mu)
    square, square_low = two_product(rho, rho)
    q2, q2_low = over(square, square_low, a, a_low)
    p, p_low = times(q2, q2_low, mu, 0.0)  # rho^2 - q^2: it cancels against 2 epsilon
    log1p = math.log1p(mu)
    c = math.sqrt(log1p + q2 + 2.0 * epsilon)
    u = (((2.0 * epsilon - p) - p_low) + log1p) / (math.sqrt(mu) * (c + rho))
    if u >= BEYOND:
        return UNDERFLOWN_PROFILE
    if u >= MILLS_FROM:
        return without_at(u, c, mu, rho)[0] + _without_lost(u, c, mu, rho) + UNDERFLOWN_PROFILE
    return 1.0 - without_complement(u, c, mu, rho)[0] * (1.0 - _share_lost(u)) + UNIT


@kernel
def posterior_with(mu, rho, epsilon):
    """Q over P of a posterior sample at epsilon >= 0, rounded up."""
    if mu == 0.0:
        return 0.0
    if mu > HUGE or rho > HUGE:
        return 1.0
    if epsilon == math.inf:
        return 0.0
    a, a_low = two_sum(1.0, mu)
    square, square_low = two_product(rho, rho)
    q2, q2_low = over(square, square_low, a, a_low)
    log1p, log1p_low = log1p_pair(mu)
    b, b_low = two_sum(log1p, q2)
    c2 = (b - 2.0 * epsilon) + (b_low + q2_low + log1p_low) + PAIR_ROOT * b
    if c2 <= 0.0:
        return 0.0
    c = math.sqrt(c2)
    p, p_low = times(q2, q2_low, mu, 0.0)
    e, e_low = times(2.0 * epsilon, 0.0, a, a_low)
    x = ((((e - p) - p_low) + e_low) - a * log1p) / (math.sqrt(mu) * (math.sqrt(q2) + c * math.sqrt(a)))
    if x >= BEYOND:
        return UNDERFLOWN_PROFILE
    return with_at(x, c, mu, rho)[0] + _with_lost(x, c, mu, rho) + (UNIT if x < MILLS_FROM else UNDERFLOWN_PROFILE)


@kernel
def posterior_profile(mu, rho, epsilon, with_over_without):
    """Return delta of a posterior sample for any real epsilon, in one direction, rounded up."""
    size = abs(epsilon)
    flipped = with_over_without == (epsilon >= 0.0)
    delta = posterior_with(mu, rho, size) if flipped else posterior_without(mu, rho, size)
    return min(1.0, delta) if epsilon >= 0.0 else left_of_zero(epsilon, delta)


@kernel
def shift_deltas(D, epsilon, out):
    """Fill ``out`` with the delta of every shift."""
    for i in range(D.size):
        out[i] = shift_profile(D[i], epsilon[i])


@kernel
def posterior_deltas(mu, rho, epsilon, direction, out):
    """Fill ``out`` with the delta of every posterior sample (0: P over Q, 1: Q over P, 2: the larger)."""
    for i in range(mu.size):
        # P over Q is the larger one for epsilon >= 0, so by the flip of signs Q over P is for epsilon <= 0
        with_over_without = epsilon[i] < 0.0 if direction == 2 else direction == 1
        out[i] = posterior_profile(mu[i], rho[i], epsilon[i], with_over_without)
