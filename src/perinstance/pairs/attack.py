"""The most powerful membership test against a posterior sample.

By Neyman and Pearson it says "she is in" when the likelihood ratio is small, which is ``|w| < c``. Under P (without
her) ``w/s ~ N(r, 1)``, ``r = rho/s``; under Q (with her) ``w t/s ~ N(r/t, 1)``. So with ``a = c/s``:
rate = ``P(|Z + r| < a)`` and power = ``P(|Z + r/t| < a t)``.
"""

from __future__ import annotations

import math

from perinstance.pairs.compiled import kernel
from perinstance.pairs.special import central_mass, mills, phi


@kernel
def _outside(a, r):
    """``P(|Z + r| > a)``."""
    u = a - r
    if u > 0.0:
        return phi(u) * mills(u) + phi(a + r) * mills(a + r)
    return 1.0 - central_mass(a, r)


@kernel
def _half_width(rate, r):
    """Solve ``P(|Z + r| < a) = rate`` for a: bracketed Newton in log a."""
    complement = rate > 0.5
    goal = math.log1p(-rate) if complement else math.log(rate)
    # 1 - Phi(z) <= exp(-z^2/2)/2 on either side
    high = r + math.sqrt(-2.0 * math.log1p(-rate)) + 1e-300
    low = 0.0
    if not complement:
        low = max(0.0, r - math.sqrt(-2.0 * math.log(rate)))
    a = high
    for _ in range(300):
        value = _outside(a, r) if complement else central_mass(a, r)
        density = phi(a - r) + phi(a + r)
        error = math.log(value) - goal if value > 0.0 else -math.inf
        if complement:
            error = -error
        if error > 0.0:
            high = a
        else:
            low = a
        new = a * math.exp(-error * value / (a * density)) if density > 0.0 else math.nan
        if not low < new < high:
            new = 0.5 * (low + high)
        moved = abs(new - a)
        a = new
        if moved <= 2e-16 * a:
            break
    return a


@kernel
def posterior_power(mu, rho, rate, out):
    """Fill ``out`` with the power of the best test against every posterior sample."""
    for i in range(mu.size):
        if rate[i] == 0.0 or rate[i] == 1.0 or mu[i] == 0.0:
            out[i] = rate[i]
        elif mu[i] == math.inf or rho[i] == math.inf:
            out[i] = 1.0
        else:
            s = math.sqrt(mu[i])
            t = math.sqrt(1.0 + mu[i])
            r = rho[i] / s
            a = _half_width(rate[i], r)
            out[i] = min(1.0, max(rate[i], central_mass(a * t, r / t)))
