r"""The cumulant function of a person's loss on the real line, and the saddle point its contour goes through.

``L`` is a sum of independent losses. Coordinate j of the Gaussian ones is ``P: N(m, v)`` against ``Q: N(0, 1)``; with
``nu = v - 1``, ``a = 1 - t nu`` (the domain is ``a > 0``),

``K(t) = log E_P[e^{t L}] = t m^2/2 + t^2 v m^2/(2 a) - (log a + t log v)/2``.

A Laplace loss of distance D has ``K(t) = t D + log(1 - t (1 - E)/(1 + 2t))``, ``E = e^{-(1 + 2t) D}``. The profile is
``delta(epsilon) = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))`` along any line right of 0; the exponent
``phi = K - t epsilon - log t - log(1 + t)`` is convex on the real line, so it has one minimum there: the saddle point.

A place on the line is given by x: ``t = e^x`` where every nu <= 0, else ``t = e^x/(1 + e^x)/max(nu)``, so that the
distance to the branch point keeps its digits.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.pairs.compiled import kernel

FAR = 320.0  # |x| beyond which a saddle point counts as not there


@kernel
def _small(y):
    """Return ``1 - (1 - e^-y)/y``, >= 0."""
    if y < 0.05:
        return y * (0.5 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y * (1 / 5040 - y / 40320))))))
    return 1.0 + math.expm1(-y) / y


@kernel
def _small_slope(y):
    """Return the derivative of ``_small``."""
    if y < 0.05:
        return 0.5 - y * (1 / 3 - y * (1 / 8 - y * (1 / 30 - y * (1 / 144 - y * (1 / 840 - y / 5760)))))
    return (-math.expm1(-y) - y * math.exp(-y)) / (y * y)


@kernel
def excess_of_log(nu, v):
    """Return ``nu - log(1 + nu)`` >= 0, accurate for small nu and for v = 1 + nu near 0."""
    if abs(nu) > 0.05:
        return nu - math.log(v)
    z = nu / (2.0 + nu)  # log1p(nu) = 2 atanh(z)
    s = z * z
    series = 1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s / 13))))
    return nu * z - 2.0 * z * s * series


@kernel
def divergence(nu, v, m2, lap, count):
    """Return ``KL(P || Q) = K'(0)``."""
    total = 0.0
    for j in range(nu.size):
        total += 0.5 * m2[j] + 0.5 * excess_of_log(nu[j], v[j])
    for g in range(lap.size):
        total += count[g] * lap[g] * _small(lap[g])
    return total


@kernel
def variance(nu, v, m2, lap, count):
    """Return ``Var_P[L] = K''(0)`` (of a Laplace loss: at most its square distance, which serves as well)."""
    total = 0.0
    for j in range(nu.size):
        total += m2[j] * v[j] + 0.5 * nu[j] * nu[j]
    for g in range(lap.size):
        total += count[g] * lap[g] * lap[g]
    return total


@kernel
def place(x, top):
    """Return t and the distance ``a`` to the branch point of the largest nu = top."""
    if top > 0.0:
        return 1.0 / (1.0 + math.exp(-x)) / top, 1.0 / (1.0 + math.exp(x))
    return math.exp(x), 1.0


@kernel
def room(t, nu, top, a_top):
    """Return ``1 - t nu`` without cancellation."""
    if top > 0.0 and nu > 0.0:
        share = nu / top
        return (1.0 - share) + share * a_top
    return 1.0 - t * nu


@kernel
def slopes(t, a_top, top, nu, v, m2, lap, count):
    """Return ``K'(t) - K'(0)``, ``K''(t)`` and ``K(t) - t K'(t)``."""
    rise, bend, gap = 0.0, 0.0, 0.0
    for j in range(nu.size):
        n = nu[j]
        if n == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, n, top, a_top)
        g = n / a
        c = m2[j] * v[j] / (a * a)
        rise += 0.5 * c * t * (1.0 + a) + 0.5 * n * g * t
        bend += c / a + 0.5 * g * g
        z = t * g  # log a + (1 - a)/a = z - log1p(z)
        gap -= 0.5 * c * t * t + 0.5 * excess_of_log(z, 1.0 / a)
    for k in range(lap.size):
        D = lap[k]
        if D == 0.0:
            continue
        y = (1.0 + 2.0 * t) * D
        E = math.exp(-y)
        F = 1.0 + t + t * E
        up = -t * math.expm1(-y) + _small(y)
        up_slope = -math.expm1(-y) + 2.0 * D * t * E + 2.0 * D * _small_slope(y)
        first = D * up / F
        second = D * (up_slope - up * (1.0 + E - 2.0 * t * D * E) / F) / F
        rise += count[k] * (first - D * _small(D))
        bend += count[k] * max(second, 0.0)
        gap += count[k] * (t * D + math.log1p(t * math.expm1(-y) / (1.0 + 2.0 * t)) - t * first)
    return rise, bend, gap


@kernel
def saddle(B, start, top, nu, v, m2, lap, count):
    """Return the x of the saddle point right of 0, for ``B = K'(0) - epsilon``; infinity where there is none.

    ``rise + max(B, 0) = 1/t + 1/(1 + t) + max(-B, 0)``, both sides positive: Newton on the logarithm of their ratio.
    A thousandth of the scale is close enough, the contour need not pass exactly through it.
    """
    low, high = -FAR, FAR
    x = start
    for _ in range(200):
        t, a = place(x, top)
        rise, bend, _gap = slopes(t, a, top, nu, v, m2, lap, count)
        P = max(rise, 0.0) + max(B, 0.0)
        N = 1.0 / t + 1.0 / (1.0 + t) + max(-B, 0.0)
        if P >= N:
            high = x
        else:
            low = x
        dt = t * a if top > 0.0 else t
        slope = (bend / P + (1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t))) / N) * dt if P > 0.0 else 0.0
        step = -math.log(P / N) / slope if slope > 0.0 and P > 0.0 else math.inf
        if abs(step) < 1e-3:
            return x + step
        new = x + min(max(step, -8.0), 8.0)
        if not (low < new < high):
            if high - low < 1e-3:
                return x
            new = 0.5 * (low + high) if low > -FAR and high < FAR else x + (8.0 if P < N else -8.0)
        x = new
        if x >= FAR:
            return math.inf
        if x <= -FAR:
            return -FAR
    return x


@kernel
def middle(B, nu, v, m2, lap, count):
    """Return the saddle point between the poles at -1 and 0, where ``phi = K - t epsilon - log(-t) - log(1 + t)``."""
    low, high = -40.0, 40.0
    x = 0.0
    for _ in range(60):
        x = 0.5 * (low + high)
        t = -1.0 / (1.0 + math.exp(x))
        rise, _bend, _gap = slopes(t, 1.0, 0.0, nu, v, m2, lap, count)
        if B + rise - 1.0 / t - 1.0 / (1.0 + t) > 0.0:
            high = x
        else:
            low = x
        if high - low < 1e-9:
            break
    return -1.0 / (1.0 + math.exp(x))


@kernel
def first_guess(B, s2, top):
    """Return an x near the saddle point, from the first two cumulants."""
    root = math.sqrt(B * B + 6.0 * s2)
    t = (root - B) / (2.0 * s2) if B < 0.0 else 3.0 / (B + root)
    x = math.log(t) + (math.log(top) if top > 0.0 else 0.0)
    return min(max(x, 1.0 - FAR), FAR - 1.0)


@kernel
def highest(nu):
    """Return the largest nu, or 0."""
    top = 0.0
    for j in range(nu.size):
        top = max(top, nu[j])
    return top


@kernel
def ceiling(nu, v, m2, lap, count):
    """Return the essential supremum of L: finite where no coordinate has ``nu > 0`` or a pure shift."""
    total = 0.0
    for j in range(nu.size):
        if nu[j] > 0.0 or (nu[j] == 0.0 and m2[j] > 0.0):
            return np.inf
        if nu[j] < 0.0:
            total += -0.5 * math.log(v[j]) - 0.5 * m2[j] / nu[j]
    for g in range(lap.size):
        total += count[g] * lap[g]
    return total
