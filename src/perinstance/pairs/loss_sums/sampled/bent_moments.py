r"""Log moments where the contour of z is bent towards larger powers of w, and the real line of the noise would cancel.

``E[w^p]`` with ``p = P + i tau``: along the real line the size of the integrand is that of ``w^P``, far larger than the
moment. The noise is integrated along ``x = s + i Im(s)`` instead. While ``g = q/(1-q) e^{m x - m^2/2}`` is small,
``w^p ~ (1-q)^p e^{p g}`` decays where ``arg p + m Im(s)`` lies beyond a right angle; where g is large,
``w^p ~ e^{p m x}`` decays where Im grows faster than ``P/tau``. Both hold along a curve that passes between the
zeros of w, which lie at ``g = -1``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.laplace_atoms import exp
from perinstance.pairs.loss_sums.sampled.log_moments import (
    COARSE,
    DEPTH,
    FARTHEST,
    LARGE,
    NORMAL,
    SHIFT,
    StepKind,
    excess,
    log_one_plus,
    loss_at,
)

STEEPEST = 0.8  # slope of the curve: below 1, where the density of the noise still decays
MARGIN = 1.3  # how much steeper than necessary


class NoiseCurve(NamedTuple):
    """The curve of the noise: its height left, a first rise by ``lift`` at ``first``, then a slope from ``last``."""

    height: Any
    lift: Any
    first: Any
    slope: Any
    last: Any


@kernel
def _curve(step, z, c):
    """Return the curve for a place z of a contour that crosses the real line at c."""
    q, m = step.q, step.m
    height = min(SHIFT, 0.5 * math.pi / m)
    last = 0.5 * m + math.log((1.0 - q) / q) / m
    first = last - math.log1p(abs(z)) / m
    lift = max(0.5 * math.pi / m - height, 0.0) if first > 4.0 else 0.0
    more = z.real - c if step.over else c - z.real
    slope = min(STEEPEST, MARGIN * max(more, 0.0) / z.imag) if z.imag > 0.0 else 0.0
    return NoiseCurve(height, lift, first, slope, last)


@kernel
def _sigmoid(v):
    return 1.0 / (1.0 + math.exp(-v)) if v > -700.0 else 0.0


@kernel
def _node(s, step, curve):
    """Return lambda, the logarithm of ``W phi`` and the direction of the curve at s."""
    m = step.m
    one, two = _sigmoid(m * (s - curve.first)), _sigmoid(m * (s - curve.last))
    ahead = m * (s - curve.last)
    rise = (ahead + math.log1p(math.exp(-ahead)) if ahead > 0.0 else math.log1p(math.exp(ahead))) / m
    imag = curve.height + curve.lift * one + curve.slope * rise
    slant = curve.lift * m * one * (1.0 - one) + curve.slope * two
    loss = loss_at(s, imag, step)
    if ahead > 0.0:  # the argument of w follows that of g, beyond half a turn too
        turns = round((m * imag - loss.imag) / (2.0 * math.pi))
        loss += complex(0.0, 2.0 * math.pi * turns)
    if not step.over:  # the mirror image
        loss, imag, slant = loss.conjugate(), -imag, -slant
    log = complex(-0.5 * (s * s - imag * imag) - NORMAL, -s * imag)
    if step.over:
        return loss, log + loss, complex(1.0, slant)
    return -loss, log, complex(1.0, slant)


@kernel
def bent_log_moment(step, kl, z, c):
    """Return ``log E[W e^{z lambda}]`` and its absolute error."""
    curve = _curve(step, z, c)
    count = int((2.0 * FARTHEST + 2.0 * step.m) / COARSE) + 2
    sizes = np.empty((2, count))
    for i in range(count):
        loss, log, _slant = _node(-FARTHEST + i * COARSE, step, curve)
        sizes[0, i] = log.real + (z * loss).real
        sizes[1, i] = log.real + max((z * loss).real, 0.0)
    large = abs(sizes[0].max()) > LARGE
    sizes[1] = sizes[0] if large else sizes[1]
    top = sizes[1].max()
    low, high = count, -1
    for i in range(count):
        if sizes[1, i] > top - DEPTH:
            low, high = min(low, i), max(high, i)
    if high >= count - 1 or low <= 0:
        return complex(0.0, 0.0), np.inf
    start, end = -FARTHEST + (low - 1) * COARSE, -FARTHEST + (high + 1) * COARSE
    h = min(0.2, 0.11 / step.m)
    scale = top if large else 0.0
    total, lost, small, small_lost, typical = 0.0j, 0.0, 0.0j, 0.0, 0.0
    for i in range(int((end - start) / h) + 1):
        s = start + i * h
        loss, log, slant = _node(s, step, curve)
        v = z * loss
        rounds = 8.0 + 0.5 * s * s + 2.0 * abs(v) + abs(loss) + abs(scale)
        part = h * slant * exp(log + v - scale)
        total += part
        lost += abs(part) * rounds
        if not large:
            weight = h * slant * exp(log)
            typical += abs(weight) * abs(v)
            part = part - weight * (1.0 + v) if v.real > 30.0 else weight * excess(v)
            small += part
            small_lost += abs(part) * rounds
    if large or typical > 1.0:
        size = abs(total)
        return complex(scale + math.log(size), math.atan2(total.imag, total.real)), NODE_ROUNDING * (
            lost / size + 2.0 + abs(scale)
        )
    small += z * kl
    out = log_one_plus(small)
    return out, NODE_ROUNDING * ((small_lost + 16.0 * abs(z) * kl) / abs(1.0 + small) + 2.0 * abs(out))


@kernel
def fill_bent(rates, distances, kl, over, places, values, error):
    """Fill in the log moments of every kind at places, the first on the real line; errors relative to that one."""
    n = places.size
    for j in range(rates.size):
        step = StepKind(rates[j], distances[j], over)
        for k in range(n):
            out, lost = bent_log_moment(step, kl[j], places[k], places[0].real)
            values[j, k], values[j, n + k] = out.real, out.imag
            lost += NODE_ROUNDING * rates.size * (abs(out.real) + abs(out.imag))
            error[k] = max(error[k], lost / values[j, 0])
