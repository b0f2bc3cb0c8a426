"""The most powerful membership test against a posterior sample.

By Neyman and Pearson it says "in" when the likelihood ratio is small, which is ``|w| < c``. Under P (without
them) ``w/s ~ N(r, 1)``, ``r = rho/s``; under Q (with them) ``w t/s ~ N(r/t, 1)``. So with ``a = c/s``:
rate = ``P(|Z + r| < a)`` and power = ``P(|Z + r/t| < a t)``.
"""

from __future__ import annotations

import math

from perinstance.numerics.normal_tails import central_mass, mills, phi
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO, TEST_STEP
from perinstance.pairs.closed_form.profile import HUGE


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
    far = r > 40.0
    # 1 - Phi(z) <= exp(-z^2/2)/2 on either side
    high = math.sqrt(-2.0 * math.log1p(-rate)) + NOT_ZERO
    low = -math.inf if complement else -math.sqrt(-2.0 * math.log(rate))
    low = max(low, -r)
    x = high
    if not far:
        low, high, x = low + r, high + r, high + r
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
            new = 0.5 * (low + high)
        moved = abs(new - x)
        x = new
        if moved <= TEST_STEP * abs(x):
            break
    return (r + x, x) if far else (x, x - r)


@kernel
def posterior_power(mu, rho, rate, out):
    """Fill ``out`` with the power of the best test against every posterior sample."""
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
            a, u = _threshold(rate[i], r)
            # a t - r/t, with a = r + u
            ahead = u * t + s * rho[i] / t
            out[i] = min(1.0, max(rate[i], central_mass(a * t, r / t, ahead)))
