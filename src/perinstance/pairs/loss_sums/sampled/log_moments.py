r"""The moments of one Poisson-sampled Gaussian step: ``log E[W e^{z lambda}]`` at complex z, person unseen.

``P = N(0, 1)``, ``Q = (1-q) N(0, 1) + q N(m, 1)``, ``w = dQ/dP = 1 - q + q e^{m x - m^2/2}``. With the person over
without them: ``lambda = log w``, ``W = w``; without over with: ``lambda = -log w``, ``W = 1``. All under P:

``A(z) = E[W e^{z lambda}] = 1 + z kl + E[W (e^{z lambda} - 1 - z lambda)]``, ``kl = E[W lambda]``:

nothing cancels on the real line, so log A is accurate relative to itself however small it is. The trapezoidal rule is
laid along ``x + i theta`` where ``e^{i y lambda}`` decays instead of turning fast; the integrand is analytic up to
``|Im x| = pi/m``, so that its step need not depend on y.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.laplace_atoms import exp

FARTHEST = 60.0  # the noise, in standard deviations, that deltas down to the smallest float can ask for
COARSE = 0.25  # step of the search for where the integrand lives
DEPTH = 44.0  # what is smaller than e^-44 of the largest value is left out
SHIFT = 1.5  # of the line into the complex plane, at most: it costs a factor e^{SHIFT^2/2}
LARGE = 8.0  # logarithms of moments from which the moment itself is summed, scaled
NORMAL = 0.5 * math.log(2.0 * math.pi)
ANCHOR = 16  # nodes after which rotations are started afresh
INVERSE = tuple(1.0 / max(k, 1) for k in range(16))
BEYOND = 1e200  # stands for a moment beyond the noise: infinite, but zero steps of it are zero
NOTHING = 2.0**-1074  # the smallest float: a logarithm of it is finite


class StepKind(NamedTuple):
    """One kind of step: its rate q, distance m, and whether Q over P is meant (the person with, over without)."""

    q: Any
    m: Any
    over: Any


class LiveRange(NamedTuple):
    """Where the integrand lives, from low to high; the largest exponent; whether all of it was found."""

    low: Any
    high: Any
    top: Any
    whole: Any


@kernel
def loss_at(x, theta, step):
    """Return ``log w(x + i theta)``."""
    q, m = step.q, step.m
    a = 1.0 - q
    real, turn = m * x - 0.5 * m * m, m * theta
    if real + math.log(q) > 30.0:
        back = exp(complex(-real, -turn)) * (a / q)
        return complex(math.log(q) + real + back.real, turn + back.imag)
    half = math.sin(0.5 * turn)
    y_real = q * (math.expm1(real) * math.cos(turn) - 2.0 * half * half)
    y_imag = q * math.exp(real) * math.sin(turn)
    if y_real > -0.5:
        log = 0.5 * math.log1p(y_real * (2.0 + y_real) + y_imag * y_imag)
        return complex(log, math.atan2(y_imag, 1.0 + y_real))
    w_real = a + q * math.exp(real) * math.cos(turn)
    return complex(math.log(math.hypot(w_real, y_imag)), math.atan2(y_imag, w_real))


@kernel
def _log_excess(r):
    """Return ``log(e^r - 1 - r)`` of a real number."""
    if r > 30.0:
        return r
    if abs(r) < 0.01:
        return math.log(0.5 * r * r * (1.0 + r / 3.0) + NOTHING)
    return math.log(math.expm1(r) - r)


@kernel
def excess(v):
    """Return ``e^v - 1 - v``."""
    size = v.real * v.real + v.imag * v.imag
    if size < 0.16:
        total = 1.0 + 0.0j
        for k in range(14 if size > 0.0025 else 8, 2, -1):
            total = 1.0 + v * total * INVERSE[k]
        return 0.5 * v * v * total
    return exp(v) - 1.0 - v


@kernel
def live_range(step, c):
    """Return where ``W |e^{c lambda} - 1 - c lambda| phi`` or ``W max(e^{c lambda}, 1) phi`` is not negligible."""
    count = int((2.0 * FARTHEST + 2.0 * step.m) / COARSE) + 2
    sizes = np.empty((2, count))
    top = -np.inf
    for i in range(count):
        x = -FARTHEST + i * COARSE
        loss = loss_at(x, 0.0, step).real
        rise = c * loss if step.over else -c * loss
        weight = (loss if step.over else 0.0) - 0.5 * x * x
        top = max(top, weight + rise)
        sizes[0, i] = weight + max(rise, 0.0)
        sizes[1, i] = weight + _log_excess(rise)
    low, high = count, -1
    for k in range(2):
        least = sizes[k].max() - DEPTH
        for i in range(count):
            if sizes[k, i] > least:
                low, high = min(low, i), max(high, i)
    whole = low > 0 and high < count - 1
    return LiveRange(-FARTHEST + (low - 1) * COARSE, -FARTHEST + (high + 1) * COARSE, top, whole)


@kernel
def _line_shift(step, c, live):
    """Return how far the line is moved into the complex plane: so far that the integrand does not grow by it."""
    theta = min(SHIFT, 0.5 * math.pi / step.m)
    if step.over:
        return theta
    for _ in range(12):
        growth = 0.0
        for i in range(int((live.high - live.low) / COARSE) + 1):
            x = live.low + i * COARSE
            plain, moved = loss_at(x, 0.0, step).real, loss_at(x, theta, step).real
            if -c * plain - 0.5 * x * x > live.top - 20.0:
                growth = max(growth, c * (plain - moved))
        if growth < 2.0:
            break
        theta *= 0.7
    return theta


@kernel
def divergence_of(step):
    """Return ``kl = E[W lambda]``."""
    live = live_range(step, 0.5)
    h = 4.0 * math.pi * min(SHIFT, 0.5 * math.pi / step.m) / DEPTH / 2.0
    total = 0.0
    n = int((max(live.high, 2.0 * step.m + 10.0) - live.low) / h) + 1
    for i in range(n):
        x = live.low + i * h
        loss = loss_at(x, 0.0, step).real
        density = -0.5 * x * x - NORMAL
        if abs(loss) < 0.01:
            # with w = e^loss: w loss - w + 1 and w - 1 - loss, by their series
            part = 0.0
            for k in range(9, 1, -1):
                part = part * loss / (k + 1.0) + ((k - 1.0) if step.over else 1.0)
            part *= 0.5 * loss * loss * math.exp(density)
        elif step.over:
            part = math.exp(loss + density) * (loss - 1.0) + math.exp(density)
        else:
            part = math.exp(loss + density) - (1.0 + loss) * math.exp(density)
        total += h * part
    return total


@kernel
def real_moments(step, kl, c):
    """Return ``K = log A`` and its first two derivatives at a real c >= 0, each ``BEYOND`` the noise where it is."""
    live = live_range(step, c)
    if not live.whole:
        return BEYOND, BEYOND, BEYOND
    h = 2.0 * math.pi * min(SHIFT, 0.5 * math.pi / step.m) / DEPTH
    scale = live.top if live.top > LARGE else 0.0
    moment, first, second = 0.0, 0.0, 0.0
    for i in range(int((live.high - live.low) / h) + 1):
        x = live.low + i * h
        loss = loss_at(x, 0.0, step).real
        slope = loss if step.over else -loss
        log = (loss if step.over else 0.0) - 0.5 * x * x - NORMAL - scale
        weight = h * math.exp(log)
        if scale > 0.0:
            raised = h * math.exp(log + c * slope)
            moment += raised
            first += raised * slope
        else:
            raised = h * math.exp(log + c * slope)
            if c * slope > 30.0:  # the power alone might overflow
                moment += raised - weight * (1.0 + c * slope)
                first += (raised - weight) * slope
            else:
                moment += weight * excess(complex(c * slope, 0.0)).real
                first += weight * math.expm1(c * slope) * slope
        second += raised * slope * slope
    if scale > 0.0:
        return scale + math.log(moment), first / moment, max(second / moment - (first / moment) ** 2, 0.0)
    A = 1.0 + c * kl + moment
    slope = (kl + first) / A
    return math.log1p(c * kl + moment), slope, max(second / A - slope * slope, 0.0)


@kernel
def log_one_plus(d):
    """Return ``log(1 + d)`` of a complex number, without loss for a small one."""
    if d.real > -0.5:
        size = d.real * (2.0 + d.real) + d.imag * d.imag
        return complex(0.5 * math.log1p(size), math.atan2(d.imag, 1.0 + d.real))
    return complex(math.log(math.hypot(1.0 + d.real, d.imag)), math.atan2(d.imag, 1.0 + d.real))


@kernel
def _nodes(step, c, live, scale):
    """Return the nodes of the rule over the noise: lambda, ``W phi``, ``W phi e^{c lambda - scale}``, roundings."""
    theta = _line_shift(step, c, live)
    h = 2.0 * math.pi * theta / DEPTH
    side = theta if step.over else -theta
    n = int((live.high - live.low) / h) + 1
    losses, weights, rounds = np.empty(n, np.complex128), np.empty((2, n), np.complex128), np.empty(n)
    for i in range(n):
        x = live.low + i * h
        loss = loss_at(x, side, step)
        losses[i] = loss if step.over else -loss
        log = complex(-0.5 * (x * x - side * side) - NORMAL, -x * side)
        if step.over:
            log += loss
        weights[0, i] = h * exp(log)
        weights[1, i] = h * exp(log + (c * losses[i] - scale))
        rounds[i] = 8.0 + 0.5 * x * x + (2.0 + 2.0 * c) * abs(loss) + scale
    return losses, weights, rounds


@kernel
def fill_log_moments(step, kl, c, spacing, out, error):
    """Fill ``log A(c + i k spacing)``, k = 0, 1, ..., and the absolute error of each."""
    live = live_range(step, c)
    if not live.whole:
        out[:] = BEYOND
        error[:] = 0.0
        return
    scale = live.top if live.top > LARGE else 0.0
    losses, weights, rounds = _nodes(step, c, live, scale)
    sizes, turns, terms = np.empty(losses.size), np.empty(losses.size, np.complex128), weights[1].copy()
    typical = 0.0
    for i in range(losses.size):
        sizes[i] = abs(losses[i])
        typical += abs(weights[0, i]) * sizes[i]
        turns[i] = exp(complex(-spacing * losses[i].imag, spacing * losses[i].real))
        rounds[i] += 3.0 * ANCHOR
    for k in range(out.size):
        y = k * spacing
        z = complex(c, y)
        total, lost = 0.0j, 0.0
        if scale > 0.0 or abs(z) * typical > 1.0:
            anchor = k % ANCHOR == 0 or not (scale > 0.0 or abs(complex(c, y - spacing)) * typical > 1.0)
            for i in range(losses.size):
                if anchor:
                    terms[i] = weights[1, i] * exp(complex(-y * losses[i].imag, y * losses[i].real))
                else:
                    terms[i] *= turns[i]
                total += terms[i]
                lost += (abs(terms[i].real) + abs(terms[i].imag)) * (rounds[i] + 2.0 * y * sizes[i])
            out[k] = complex(scale + math.log(abs(total)), math.atan2(total.imag, total.real))
            error[k] = NODE_ROUNDING * (lost / abs(total) + 2.0 + scale)
        else:
            for i in range(losses.size):
                v = z * losses[i]
                if v.real > 30.0:  # the power alone might overflow
                    part = weights[1, i] * exp(complex(-y * losses[i].imag, y * losses[i].real))
                    part -= weights[0, i] * (1.0 + v)
                else:
                    part = excess(v) * weights[0, i]
                total += part
                lost += (abs(part.real) + abs(part.imag)) * (rounds[i] + 2.0 * abs(z) * sizes[i])
            total += z * kl
            lost += 16.0 * abs(z) * kl
            out[k] = log_one_plus(total)
            error[k] = NODE_ROUNDING * (lost / abs(1.0 + total) + 2.0 * abs(out[k]))
