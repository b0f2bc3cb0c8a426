"""The slow road from two Gaussians to epsilon: whiten, find where the densities cross, add up probabilities. mpmath.

A claimed epsilon e is confirmed by the profile itself: delta(e (1 - t)) is above delta, delta(e (1 + t)) is not.
"""

from __future__ import annotations

import mpmath as mp

TOLERANCE = mp.mpf(10) ** -9


def confirm(epsilon: float, delta: float, *profiles, rel=TOLERANCE) -> bool:
    """Whether the smallest epsilon >= 0 at which all profiles are at most delta is the claimed one, to ``rel``."""
    claimed, delta = mp.mpf(float(epsilon)), mp.mpf(delta)
    above = max(profile(claimed * (1 + rel)) for profile in profiles)
    if claimed == 0:
        return above <= delta
    below = max(profile(claimed * (1 - rel)) for profile in profiles)
    return above <= delta < below


def shift_profile(D):
    """Same covariance, D apart: Phi(D/2 - e/D) - exp(e) Phi(-D/2 - e/D)."""
    D = mp.mpf(D)

    def profile(e):
        if D == 0:
            return mp.mpf(0)
        return mp.ncdf(D / 2 - e / D) - mp.exp(e) * mp.ncdf(-D / 2 - e / D)

    return profile


def axes(P, Q):
    """Coordinates in which Q is standard and P is a product: [(mean, variance)] of P where the two differ."""
    (m0, S0), (m1, S1) = P, Q
    L = mp.cholesky(S1)
    inverse = mp.inverse(L)
    S = inverse * S0 * inverse.T
    values, vectors = mp.eigsy((S + S.T) / 2)
    shift = vectors.T * (inverse * (m0 - m1))
    tiny = mp.mpf(10) ** (-mp.mp.dps // 2)
    return [(shift[k], values[k]) for k in range(S0.rows) if abs(values[k] - 1) > tiny or abs(shift[k]) > tiny]


def interval(low, high, mean, deviation):
    """The probability of (low, high), without cancellation in either tail."""
    low, high = (low - mean) / deviation, (high - mean) / deviation
    if low > 0:
        low, high = -high, -low
    return mp.ncdf(high) - mp.ncdf(low) if high > low else mp.mpf(0)


def ratio_above(mean, variance, e):
    """Where log p/q > e for p = N(mean, variance), q = N(0, 1): intervals, and those where it is below."""
    s2 = variance
    k2, k1 = (1 - 1 / s2) / 2, mean / s2
    k0 = -(mean**2) / (2 * s2) - mp.log(s2) / 2 - e
    if abs(k2) < mp.mpf(10) ** (-mp.mp.dps + 5):
        root = -k0 / k1
        halves = [(root, mp.inf)], [(-mp.inf, root)]
        return halves if k1 > 0 else halves[::-1]
    disc = k1**2 - 4 * k2 * k0
    if disc <= 0:
        whole = [(-mp.inf, mp.inf)], []
        return whole if k2 > 0 else whole[::-1]
    first, second = sorted(((-k1 - mp.sqrt(disc)) / (2 * k2), (-k1 + mp.sqrt(disc)) / (2 * k2)))
    outer, inner = [(-mp.inf, first), (second, mp.inf)], [(first, second)]
    return (outer, inner) if k2 > 0 else (inner, outer)


def one_axis_profiles(mean, variance):
    """N(mean, variance) against N(0, 1): P over Q and Q over P."""
    s = mp.sqrt(variance)

    def p_over_q(e):
        where, _ = ratio_above(mean, variance, e)
        return sum(interval(u, v, mean, s) - mp.exp(e) * interval(u, v, 0, 1) for u, v in where)

    def q_over_p(e):
        _, where = ratio_above(mean, variance, -e)
        return sum(interval(u, v, 0, 1) - mp.exp(e) * interval(u, v, mean, s) for u, v in where)

    return p_over_q, q_over_p


def gaussian_profiles(P, Q):
    """Two Gaussians that differ along one axis only."""
    found = axes(P, Q)
    if not found:
        return (lambda e: mp.mpf(0),)
    assert len(found) == 1, "more than one axis: not a rank-one neighbour"
    return one_axis_profiles(*found[0])
