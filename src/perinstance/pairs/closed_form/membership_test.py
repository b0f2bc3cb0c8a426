"""The most powerful membership test against a posterior sample.

By Neyman and Pearson it says "in" when the likelihood ratio is small, which is ``|w| < c``. Under P (without
them) ``w/s ~ N(r, 1)``, ``r = rho/s``; under Q (with them) ``w t/s ~ N(r/t, 1)``. So with ``a = c/s``:
rate = ``P(|Z + r| < a)`` and power = ``P(|Z + r/t| < a t)``.

The power is rounded up. It is concave in the rate and zero at zero, so a threshold whose rate is short by some share
has a power that is short by no more.
"""

from __future__ import annotations

import math

from perinstance.numerics.normal_tails import central_mass, mills, phi
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import MILLS_ERROR, NOT_ZERO, PROFILE_ROUNDING, TEST_ROUNDING, TEST_STEP, TINY
from perinstance.pairs.closed_form.profile import HUGE

#: From here on only ``u = a - r`` says where the threshold is.
FAR = 40.0


@kernel
def _outside(a, r, u):
    """``P(|Z + r| > a)``, with ``u = a - r``."""
    if u > 0.0:
        return phi(u) * mills(u) + phi(a + r) * mills(a + r)
    return 1.0 - central_mass(a, r, u)


@kernel
def _threshold(rate, r):
    """Solve ``P(|Z + r| < a) = rate`` for a and ``u = a - r``.

    Bracketed Newton, in log a where a may be tiny, in u where r is so large that only u says where a is.
    """
    complement = rate > 0.5
    goal = math.log1p(-rate) if complement else math.log(rate)
    far = r > FAR
    # 1 - Phi(z) <= exp(-z^2/2)/2 on either side
    high = math.sqrt(-2.0 * math.log1p(-rate)) + NOT_ZERO
    low = -math.inf if complement else -math.sqrt(-2.0 * math.log(rate))
    low = max(low, -r)
    x = high
    if not far:
        low, high, x = max(low + r, 1.25 * rate), high + r, high + r  # the density is at most 0.4
    for _ in range(300):
        a, u = (r + x, x) if far else (x, x - r)
        value = _outside(a, r, u) if complement else central_mass(a, r, u)
        density = phi(u) + phi(a + r)
        error = math.log(value) - goal if value > 0.0 else -math.inf
        if complement:
            error = -error
        if error > 0.0:
            high = x
        else:
            low = x
        step = -error * value / density if density > 0.0 else math.nan
        new = x + step if far else x * math.exp(step / x)
        if not low < new < high:
            new = math.sqrt(low) * math.sqrt(high) if not far and high > 4.0 * low else 0.5 * (low + high)
        moved = abs(new - x)
        x = new
        if moved <= TEST_STEP * abs(x):
            break
    return (r + x, x) if far else (x, x - r)


@kernel
def _share_lost(a, r, u, ahead, size):
    """Return what the power may have lost, relatively; ``size`` is the size of the two terms of ``ahead``.

    The logarithm of a mass below the mean moves by ``1 + |u|`` times what its threshold does; that is good to a few
    units of a, r and u, or of u alone where r is large.
    """
    where = abs(u) if r > FAR else a + r + abs(u)
    lost = 4.0 * MILLS_ERROR + PROFILE_ROUNDING * (10.0 + u * u + min(ahead, 0.0) ** 2)
    lost += TEST_ROUNDING * (1.0 + where) * (1.0 + max(-u, 0.0))
    return lost + TEST_ROUNDING * size * (1.0 + max(-ahead, 0.0))


@kernel
def posterior_power(mu, rho, rate, out):
    """Fill ``out`` with the power of the best test against every posterior sample, rounded up."""
    for i in range(mu.size):
        if rate[i] == 1.0 or mu[i] == 0.0:
            out[i] = rate[i]
        elif mu[i] > HUGE or rho[i] > HUGE:
            out[i] = 1.0
        elif rate[i] == 0.0:
            out[i] = 0.0
        else:
            s = math.sqrt(mu[i])
            t = math.sqrt(1.0 + mu[i])
            r = rho[i] / s
            a, u = _threshold(max(rate[i], TINY), r)
            # a t - r/t, with a = r + u
            ahead = u * t + s * rho[i] / t
            lost = _share_lost(a, r, u, ahead, abs(u) * t + s * rho[i] / t)
            out[i] = min(1.0, max(rate[i], central_mass(a * t, r / t, ahead) * (1.0 + lost)))
