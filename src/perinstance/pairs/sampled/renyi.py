r"""Moments to all digits, for Renyi divergences and for Chernoff's bound: of sampled steps, and of the Gaussian and
Laplace losses of other releases on the same people.

``E_P[w^p] - 1 = E_P[w^p - 1 - p (w - 1)]``, a convex function, so that nothing cancels: p is ``1 + t`` with the person,
``-t`` without them. A trapezoidal sum of step h misses at most ``2 M/(e^{2 pi a/h} - 1)``, M a bound of the integral of
the modulus on ``|Im x| = a``. There ``|phi|`` is ``e^{a^2/2}`` larger, and with ``theta = a m <= pi/2``, ``|w| <= w``
and ``|w|^2 >= w^2 cos^2(theta/2)``. The step is chosen such that this is ``e^-DIGITS`` of the moment.

The logarithm of the integrand falls faster than that of a normal density beyond its mode (without the person) or beyond
``p m`` (with them): what is left out on each side, ``REACH`` standard deviations away, is below e^-80 of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import CHERNOFF, FEW_ROUNDINGS, PROMISED, QUADRATURE_UP, UNIT
from perinstance.pairs.sampled.step_law import LARGE
from perinstance.pairs.sampled.step_tables import RUNGS
from perinstance.pairs.sampled.steps import StepsTaken
from perinstance.pairs.sums.coordinates import LossCoordinates

#: How small, as exponents, the error of the trapezoidal sum is, and standard deviations to the ends of the noise.
DIGITS, REACH = 90.0, 13.0
#: The most nodes of a moment; beyond, a bound serves.
NODES = 1 << 19
#: ``(1 - e^-x)_+ <= e^{cx} c^c/(1 + c)^{1 + c}``: the logarithm of that factor.
PIECE = RUNGS * np.log(RUNGS) - (1.0 + RUNGS) * np.log1p(RUNGS)
#: Every so many places c are asked by Chernoff's bound where lines fail (changes the width).
STRIDE = 4


def log_moment(q: float, m: float, over: bool, t: float) -> tuple[float, bool]:
    """Return ``log E e^{t loss}`` for t > 0, or the mean loss for t = 0, rounded up; and whether it is but a bound."""
    p, turn = (1.0 + t if over else -t), 0.5 * math.pi
    if over:
        low, high = -REACH, p * m + REACH
    else:
        left, right = -t * m, 0.0  # the mode is where x = -t m q u/w
        for _ in range(60):
            at = 0.5 * (left + right)
            falls = -at - t * m * expit(m * at - 0.5 * m * m + math.log(q) - math.log1p(-q))
            left, right = (at, right) if falls > 0.0 else (left, at)
        low, high, turn = left - REACH, max(right, m) + REACH, min(turn, 4.0 / math.sqrt(t + 1.0))
    a = min(turn / m, 6.0)
    h = 2.0 * math.pi * a / (DIGITS + 0.5 * a * a - (0.0 if over else t * math.log(math.cos(0.5 * a * m))))
    if not high - low < NODES * h:
        return _bound(q, m, over, t)
    x = low + h * np.arange(math.ceil((high - low) / h) + 1)
    E = m * x - 0.5 * m * m
    v = q * np.expm1(np.minimum(E, LARGE))
    w = np.where(E < LARGE, np.log1p(v), math.log(q) + E)
    density = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    missed = math.exp(4.0 - DIGITS) * (1.0 + t) * (high - low)
    if t == 0.0:
        value = np.exp(density + w) * w - np.exp(density) * v if over else np.exp(density) * (v - w)
        near = np.where(np.abs(v) < 0.05, v, 0.0)
        series = sum((-near) ** k / (k * (k - 1) if over else k) for k in range(2, 14))
        value = np.where(np.abs(v) < 0.05, np.exp(density) * series, value)
        return float(value.sum() * h) * QUADRATURE_UP + missed, False
    # w^p - 1 - p v = w^b (w^{p - b} - 1) - (p - b) v, b = 1 or 0
    b, power = (w, t) if over else (0.0, -t)
    top = max(float(np.max(density + p * w)), 0.0)
    least, close = np.exp(density - top), np.abs(power * w) < 1.0
    raised = np.where(close, np.expm1(np.where(close, power * w, 0.0)) * np.exp(density + b - top), 0.0)
    raised += np.where(close, 0.0, np.exp(density + p * w - top) - np.exp(density + b - top))
    near = np.where(np.abs(p * v) + np.abs(v) < 0.05, v, 0.0)
    term, series = 0.5 * t * (1.0 + t) * near**2, np.zeros_like(v)
    for k in range(3, 16):
        series += term
        term = term * near * ((p - k + 1.0) / k)
    value = np.where(near != 0.0, least * series, raised - least * power * v)
    total = float(value.sum() * h) * QUADRATURE_UP + missed
    if top == 0.0:
        return math.log1p(total), False
    return top + math.log(math.exp(-top) + total) + FEW_ROUNDINGS * (1.0 + top), False


def _bound(q: float, m: float, over: bool, t: float) -> tuple[float, bool]:
    """Return a bound of ``log E e^{t loss}``, and whether it may be more than ``PROMISED`` above that.

    Powers are convex: ``E[w^p] <= s^-t (1 - q)^p + (1 - s)^-t q^p e^{t p m^2/2}`` for every s in (0, 1), ``p = 1 + t``;
    the last factors alone are less. Without the person ``w >= 1 - q``, and ``E[w^-t] >= Phi(x) w(x)^-t`` for every x.
    The mean, of distances beyond 200 only: a sample is told from none but for noise beyond 50 standard deviations.
    """
    if t == 0.0:
        stay = math.log1p(-q)
        return (1.0 - q) * stay + q * (math.log(q) + 0.5 * m * m) if over else -stay, False
    if not over:
        k = np.linspace(5.0, 80.0, 76)  # w(x) = 1 - q + e^-k
        least = np.max(log_ndtr(0.5 * m - (k + math.log(q)) / m) - t * np.log1p(np.exp(-k) - q))
        most = -math.log1p(-q) * t
        return most, not most <= least * (1.0 + PROMISED)
    p = 1.0 + t
    sampled = p * math.log(q) + 0.5 * m * m * p * t
    shares = (FEW_ROUNDINGS / p, 0.5 / p, 0.5, 1.0 - q)
    most = float(min(np.logaddexp(p * math.log1p(-q) - t * math.log(s), sampled - t * math.log1p(-s)) for s in shares))
    return most, not most <= sampled * (1.0 + PROMISED)


def moments(steps: StepsTaken, orders: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the sums of the log moments of everybody's steps, and of whom it is a bound at some order."""
    kinds = steps.kinds()
    rates = steps.rates[kinds].tolist(), steps.distances[kinds].tolist()
    each = [[log_moment(q, m, steps.over, t) for t in orders.tolist()] for q, m in zip(*rates, strict=True)]
    table = np.array(each, dtype=np.float64).reshape(kinds.size, len(orders), 2)
    K = steps.total(np.ascontiguousarray(table[:, :, 0]), kinds)
    return K, np.asarray(steps.total(np.ascontiguousarray(table[:, :, 1]), kinds).any(axis=1))


def renyi_of_steps(steps: StepsTaken, alpha: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the divergence ``K(alpha - 1)/(alpha - 1)`` of sampled steps, rounded up, and whether it is a bound."""
    out, bound, t = steps.largest_loss(), np.zeros(len(steps), dtype=bool), alpha - 1.0
    for order in np.unique(t[np.isfinite(t)]):
        rows = np.flatnonzero(t == order)
        K, bound[rows] = moments(steps[rows], np.array([order]))
        out[rows] = np.minimum(out[rows], K[:, 0] / max(order, FEW_ROUNDINGS if order else 1.0))
    return out * QUADRATURE_UP, bound


def plain_shifts(view: LossCoordinates) -> Floats:
    """Return the sum of m^2 of the coordinates of equal variances, rounded up: the variance of their losses."""
    return np.asarray(np.where(view.nu == 0.0, view.m2, 0.0).sum(axis=1)) * (1.0 + 4.0 * UNIT * (1 + view.nu.shape[1]))


@kernel
def add_cumulants(places, losses, values, steep):
    """Add ``log E e^{z loss}`` at some places, infinite beyond a branch point; raise ``steep`` by ``|log|/|z|``.

    A Gaussian coordinate (``coordinates.py``) has ``z kl + m^2 v z^2/(2 (1 - z nu)) - (log(1 - z nu) + z nu)/2``, a
    Laplace loss of distance D has ``z D + log(1 - z (1 - e^-y)/(1 + 2 z))``, ``y = (1 + 2z) D``.
    """
    for i in range(values.shape[0]):
        most, nu, v, m2 = 0.0, losses.nu[i], losses.v[i], losses.m2[i]
        levels, lap, count = losses.levels[i], losses.lap[i], losses.count[i]
        for k in range(places.size):
            z, total, size = places[k], 0.0j, 0.0
            for j in range(nu.size):
                if nu[j] == 0.0:
                    continue
                x = z * nu[j]
                if x.real >= 1.0:
                    total, size = complex(math.inf, 0.0), 0.0
                    break
                log = np.log(1.0 - x) + x
                if abs(x) < 0.1:
                    log = 0.0j
                    for power in range(18, 1, -1):
                        log = log * x - 1.0 / power
                    log *= x * x
                a, b = z * levels[j, 0], 0.5 * m2[j] * v[j] * z * z / (1.0 - x)
                total += a + b - 0.5 * log
                size += abs(a) + abs(b) + 2.0 * abs(x) + 1.0
            for j in range(lap.size):
                y = (1.0 + 2.0 * z) * lap[j]
                fall = lap[j] * (1.0 - 0.5 * y) if abs(y) < 1e-6 else lap[j] * (1.0 - np.exp(-y)) / y
                log = np.log(1.0 - z * fall)
                total += count[j] * (z * lap[j] + log)
                size += count[j] * (abs(z) * lap[j] + abs(log) + 4.0)
            values[i, k] += total
            most = max(most, size / abs(z))
        steep[i] += 8.0 * most


def chernoff(view: LossCoordinates) -> tuple[Floats, Floats]:
    """Return places c and, for each person, ``K(c)`` and the factor of Chernoff's bound there, rounded up."""
    c = RUNGS[::STRIDE]
    assert view.sampled is not None
    K = moments(view.sampled, c)[0]
    if view.has_others:
        values = np.zeros(K.shape, complex)
        add_cumulants(c + 0j, view.losses, values, np.zeros(len(K)))
        K = K + values.real
    K = K + 0.5 * plain_shifts(view)[:, None] * (c * c + c)
    return c, K * (1.0 + 64.0 * CHERNOFF) + PIECE[::STRIDE] + CHERNOFF * 64.0 * (1.0 + c)
