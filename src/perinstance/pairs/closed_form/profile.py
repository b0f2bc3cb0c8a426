r"""The privacy profile of one person, ``delta(epsilon) = sup_S P(S) - e^epsilon Q(S)``, in closed form.

Of a posterior sample, P over Q, the event is ``|w| > c``. It is written in the standardised threshold u, because that
is where the accuracy lies: ``c = rho + s u``, ``s = sqrt(mu)``, ``t = sqrt(1 + mu)``, ``q = rho/t`` and

``delta = phi(u) {[R(u) - R(u + h1)/t] + E [R(a) - R(a + h2)/t]}`` with ``a = (c + rho)/s``,
``h1 = s (c + q)/(1 + t)``, ``h2 = s (c - q)/(1 + t)``, ``E = exp(-2 c rho/mu)``.

At a threshold the two densities differ by exactly ``e^epsilon``, so no exponential of epsilon is ever formed.
For epsilon < 0, ``delta_QP(epsilon) = (1 - e^epsilon) + e^epsilon delta_PQ(-epsilon)``: two terms of one sign. Q over P
at epsilon > 0 is inverted (``sums/``).

A Gaussian shift by D is the limit ``mu = 0``, ``s rho = D``, and is asked for as that posterior sample.
Everything is rounded up by what the sums may have lost, and by what underflow may: some 1e-13 of a delta that is not
below 1e-20, at most 1e-11 of any.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import over, times, two_product, two_sum
from perinstance.numerics.normal_tails import MILLS_FROM, central_mass, drop_lost, mills, mills_drop, phi
from perinstance.numerics.rounding import (
    FEW_ROUNDINGS,
    LEAST_PARAMETER,
    MILLS_ERROR,
    PROFILE_ROUNDING,
    SETTLED_POWER,
    UNDERFLOWN_PROFILE,
    UNIT,
)

#: A leverage, residual or distance beyond this counts as infinite in a profile: squares would overflow.
HUGE = 1e150
#: The root of the leverage that stands for none, in units of a distance of at most one: it moves no digit.
NO_LEVERAGE = 2.0**-80
#: From this threshold on the normal density underflows.
BEYOND = 39.0
#: Halvings of the bracket of the best test's threshold.
HALVINGS = 60


def as_posterior(distance: Floats) -> tuple[Floats, Floats]:
    """Return leverages and residuals of posterior samples that lose what Gaussian shifts by these distances do."""
    distance = np.where(distance > 0.0, np.maximum(distance, LEAST_PARAMETER), 0.0)
    root = NO_LEVERAGE * np.minimum(distance, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return root**2, np.where(distance > 0.0, distance / root, 0.0)


@kernel
def left_of_zero(epsilon, other):
    """Return delta at epsilon < 0, where ``other`` is that of the other direction at -epsilon; rounded up."""
    return min(1.0, (-math.expm1(epsilon) + math.exp(epsilon) * other) * (1.0 + FEW_ROUNDINGS))


@kernel
def without_at(u, c, mu, rho):
    """Return delta, P over Q, at the threshold ``c = rho + s u``, ``B = e^epsilon Q(|w| > c)``, and what delta lost.

    c is given as well as u because the sum cancels where the leverage is large; it must be at least q. All terms are
    positive, so nothing cancels here. Needs u >= -1.5.
    """
    s, t = math.sqrt(mu), math.sqrt(1.0 + mu)
    q = rho / t
    h1 = s * (c + q) / (1.0 + t)
    E = math.exp(-2.0 * c * rho / mu)
    tail, lost = mills(u + h1) / t, drop_lost(u, h1)
    near = mills_drop(u, h1) + tail * (mu / (1.0 + t))
    if E > 0.0:
        a, h2 = (c + rho) / s, s * (c - q) / (1.0 + t)
        far_tail = mills(a + h2) / t
        near += E * (mills_drop(a, h2) + far_tail * (mu / (1.0 + t)))
        tail += E * far_tail
        lost += E * drop_lost(a, h2)
    lost += near * (MILLS_ERROR + PROFILE_ROUNDING * (5.0 + u * u))
    return phi(u) * near, phi(u) * tail, phi(u) * lost


@kernel
def _without(mu, rho, epsilon):
    """Return delta, P over Q, of a posterior sample at epsilon >= 0, rounded up."""
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
    log1p, s = math.log1p(mu), math.sqrt(mu)
    c = math.sqrt(log1p + q2 + 2.0 * epsilon)
    u = (((2.0 * epsilon - p) - p_low) + log1p) / (s * (c + rho))
    if u >= BEYOND:
        return UNDERFLOWN_PROFILE
    if u >= MILLS_FROM:
        delta, _B, lost = without_at(u, c, mu, rho)
        return delta + lost + UNDERFLOWN_PROFILE
    # 1 - delta = P(|w| < c) + B
    t = math.sqrt(1.0 + mu)
    E, q = math.exp(-2.0 * c * rho / mu), rho / t
    tail = mills(u + s * (c + q) / (1.0 + t))
    if E > 0.0:
        tail += E * mills((c + rho) / s + s * (c - q) / (1.0 + t))
    rest = central_mass(c / s, rho / s, u) + phi(u) * tail / t
    return 1.0 - rest * (1.0 - MILLS_ERROR - PROFILE_ROUNDING * (5.0 + u * u)) + UNIT


@kernel
def posterior_deltas(mu, rho, epsilon, out):
    """Fill ``out`` with the delta of posterior samples: P over Q at epsilon >= 0, Q over P left of zero."""
    for i in range(mu.size):
        delta = min(1.0, _without(mu[i], rho[i], abs(epsilon[i])))
        out[i] = delta if epsilon[i] >= 0.0 else left_of_zero(epsilon[i], delta)


def shift_deltas(distance: Floats, epsilon: Floats) -> Floats:
    """Return the delta of Gaussian shifts; the two directions agree."""
    mu, rho = as_posterior(distance)
    out = np.empty(len(distance))
    posterior_deltas(mu, rho, np.ascontiguousarray(epsilon), out)
    return out


def posterior_powers(leverage: Floats, residual: Floats, rate: Floats) -> Floats:
    """Return the power of the best test of each posterior sample at a rate in (0, 1), rounded up.

    NaN where too many digits cancel. The test is ``|w| < c``. With ``t = (c - rho)/sqrt(mu)``, ``k = sqrt(1 + mu)``,
    ``m = rho sqrt(mu/(1 + mu))`` and A the samples below c,

        P(A) = Phi(t) - Phi(-t - 2 m k/mu),    Q(A) = Phi(k t + m) - Phi(-k t - m (2 + mu)/mu),
        epsilon = log q/p at c = (log(1 + mu) - m^2 - 2 m k t - mu t^2)/2.

    ``Q(A) + e^epsilon (r - P(A))`` bounds the power at a rate r whatever t is, and is the power where ``P(A) = r``
    (Neyman and Pearson's lemma): an error of t counts by its square.
    """
    with np.errstate(all="ignore"):
        k, m = np.sqrt(1.0 + leverage), residual * np.sqrt(leverage / (1.0 + leverage))
        beyond, beyond_q = 2.0 * m * k / leverage, m * (2.0 + leverage) / leverage
        low, high = np.maximum(ndtri(rate), -0.5 * beyond), ndtri(0.5 * (1.0 + rate))
        for _ in range(HALVINGS):
            t = 0.5 * (low + high)
            enough = ndtr(t) - ndtr(-t - beyond) >= rate
            low, high = np.where(enough, low, t), np.where(enough, t, high)
        t = high
        ends = np.stack([t, -t - beyond, k * t + m, -k * t - beyond_q])
        sizes = np.stack([np.abs(t), np.abs(t) + beyond, k * np.abs(t) + m, k * np.abs(t) + beyond_q])
        tails = ndtr(ends)
        lost = tails * (PROFILE_ROUNDING * (5.0 + ends**2) + 8.0 * UNIT * sizes * (1.0 + np.abs(ends)))
        terms = np.stack([np.log1p(leverage), m**2, 2.0 * m * k * np.abs(t), leverage * t**2])
        factor = np.exp(0.5 * (terms[0] - terms[1] - np.copysign(terms[2], t) - terms[3]))
        rest = rate - (tails[0] - tails[1])
        charge = (
            lost[2] + lost[3] + factor * (lost[0] + lost[1] + 8.0 * UNIT * np.abs(rest) * (1.0 + terms.sum(axis=0)))
        )
        power = tails[2] - tails[3] + factor * rest + charge
        return np.where(charge <= SETTLED_POWER * power, power * (1.0 + 4.0 * UNIT), np.nan)
