r"""The moments of one Poisson-sampled Gaussian step: ``log E[W e^{z lambda}]`` at complex z, and their errors.

``P = N(0, 1)``, ``Q = (1-q) N(0, 1) + q N(m, 1)``, ``w = dQ/dP = 1 - q + q e^{m x - m^2/2}``. With the person over
without them: ``lambda = log w``, ``W = w``; without over with: ``lambda = -log w``, ``W = 1``. All under P:

``A(z) = E[W e^{z lambda}] = 1 + z kl + E[W (e^{z lambda} - 1 - z lambda)]``, ``kl = E[W lambda]``:

nothing cancels, so log A is accurate relative to itself however small it is.

**Quadrature.** The trapezoidal rule with step d is laid along ``x + i theta``, theta > 0 with the person and < 0
without, where ``|e^{i y lambda}| = e^{-y |arg w|}`` decays for y >= 0. The integrand F is analytic in the strip between
the real line and ``2 i theta`` (its singularities, w = 0, lie at ``pi/m``), and nowhere in it is ``|F|`` larger than at
y = 0. Its integral over a window is the sum over the middles of its steps up to

``2 e^{-D}/(1 - e^{-D}) (integral of |F| along an edge of the strip)  + (sides of the strip, and what lies outside)``,

``D = 2 pi theta/d``, for every y (residues of ``F/(1 - e^{2 pi i x/d})`` between the edges, on whose sides
the factor is at most 1). Both brackets are bounded, for ``W e^{z lambda}``, W and ``W lambda``, in ``noise_cells``.

**Rounding.** Each term's is counted, in half units in the last place: of the exponents, of lambda
(``10 |lambda| + 1.4 r m (|x| + 39 + m)``, where r is the share of w that moves with x, whose nodes are rounded too), of
the sum.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import KL_QUADRATURE, NODE_ROUNDING, NOT_ZERO
from perinstance.pairs.loss_sums.laplace_atoms import exp
from perinstance.pairs.loss_sums.sampled.moment_sums import LANES, excess_sums
from perinstance.pairs.loss_sums.sampled.noise_cells import (
    DEPTH,
    HIGHEST,
    REACH,
    WIDEST,
    StepKind,
    loss_at,
    noise_window,
    share_at,
)

__all__ = ["BEYOND", "StepKind", "divergence_of", "fill_log_moments", "real_moments"]

LARGE = 8.0  # logarithms of moments from which the moment itself is summed, scaled
NORMAL = 0.5 * math.log(2.0 * math.pi)
ANCHOR = 16  # nodes after which rotations are started afresh
INVERSE = tuple(1.0 / max(k, 1) for k in range(24))
BEYOND = 1e200  # stands for a moment beyond the noise: infinite, but zero steps of it are zero
VAGUE = 0.1  # a relative error of A from which on its phase counts as unknown
FINEST_KL = 90.0  # the same as DEPTH, for the divergence, which is small


@kernel
def excess(v):
    """Return ``e^v - 1 - v``; below a size of 1 to the last digits."""
    size = v.real * v.real + v.imag * v.imag
    if size < 1.0:
        total = 1.0 + 0.0j
        for k in range(20 if size > 0.04 else 12, 2, -1):
            total = 1.0 + v * total * INVERSE[k]
        return 0.5 * v * v * total
    return exp(v) - 1.0 - v


@kernel
def log_one_plus(d):
    """Return ``log(1 + d)`` of a complex number, without loss for a small one."""
    if d.real > -0.5:
        size = d.real * (2.0 + d.real) + d.imag * d.imag
        return complex(0.5 * math.log1p(size), math.atan2(d.imag, 1.0 + d.real))
    return complex(math.log(math.hypot(1.0 + d.real, d.imag)), math.atan2(d.imag, 1.0 + d.real))


@kernel
def _loss_rounding(x, step, loss):
    """Return the error of lambda at x, in half units: of its own size, and of ``m x - m^2/2`` where it depends on x."""
    return 10.0 * loss + 1.4 * share_at(x, step) * step.m * (abs(x) + REACH + step.m)


@kernel
def divergence_of(step):
    """Return ``kl = E[W lambda]``, as the mean of a positive function, and its absolute error."""
    strip = min(HIGHEST, WIDEST / step.m)
    n = int((2.0 * REACH + step.m) * FINEST_KL / (2.0 * math.pi * strip)) + 1
    h = (2.0 * REACH + step.m) / n
    total, low, lost = 0.0, 0.0, 0.0
    for i in range(n):
        x = -REACH + (i + 0.5) * h
        loss = loss_at(x, 0.0, step).real
        base = -0.5 * x * x - NORMAL
        density, raised = h * math.exp(base), h * math.exp(base + loss)
        if abs(loss) < 0.5:
            # with w = e^loss: w loss - w + 1 and w - 1 - loss, by their series
            part = 0.0
            for k in range(18, 1, -1):
                part = part * loss / (k + 1.0) + ((k - 1.0) if step.over else 1.0)
            part *= 0.5 * loss * loss * density
        elif step.over:
            part = raised * (loss - 1.0) + density
        else:
            part = raised - (1.0 + loss) * density
        steep = abs(loss) * raised if step.over else abs(raised - density)
        lost += part * (40.0 + 4.0 * x * x) + 3.0 * steep * _loss_rounding(x, step, abs(loss))
        new = total + part  # Neumaier's sum
        low += (total - new) + part if total >= part else (part - new) + total
        total = new
    return total + low, NODE_ROUNDING * lost + KL_QUADRATURE * (1.0 + step.m * step.m)


@kernel
def real_moments(step, kl, c):
    """Return ``K = log A`` and its first two derivatives at a real c >= 0: to place a line, without a proof."""
    window = noise_window(step, c)
    if not window.whole:
        return BEYOND, BEYOND, BEYOND
    h = 2.0 * math.pi * min(HIGHEST, WIDEST / step.m) / 40.0
    scale = window.top if window.top > LARGE else 0.0
    moment, first, second = 0.0, 0.0, 0.0
    for i in range(int((window.high - window.low) / h) + 1):
        x = window.low + i * h
        loss = loss_at(x, 0.0, step).real
        slope = loss if step.over else -loss
        log = (loss if step.over else 0.0) - 0.5 * x * x - NORMAL - scale
        weight = h * math.exp(log)
        raised = h * math.exp(log + c * slope)
        if scale > 0.0:
            moment += raised
            first += raised * slope
        elif c * slope > 30.0:  # the power alone might overflow
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
def _nodes(step, c, window, scale):
    """Return the nodes of the rule: lambda, ``W phi``, ``W phi e^{c lambda - scale}``; roundings of weights, of lambda.

    The nodes are the middles of n steps that fill the window, so that its sides pass between two of them.
    """
    n = int((window.high - window.low) * DEPTH / (2.0 * math.pi * window.theta)) + 1
    h = (window.high - window.low) / n
    side = window.theta if step.over else -window.theta
    losses, weights, rounds = np.empty(n, np.complex128), np.empty((2, n), np.complex128), np.empty((2, n))
    for i in range(n):
        x = window.low + (i + 0.5) * h
        loss = loss_at(x, side, step)
        losses[i] = loss if step.over else -loss
        log = complex(-0.5 * (x * x - side * side) - NORMAL, -x * side)
        if step.over:
            log += loss
        weights[0, i] = h * exp(log)
        weights[1, i] = h * exp(log + (c * losses[i] - scale))
        rounds[1, i] = _loss_rounding(x, step, abs(loss))
        rounds[0, i] = 60.0 + 4.0 * x * x + (rounds[1, i] if step.over else 0.0)
    return losses, weights, rounds


@kernel
def _in_rows(losses, weights, rounds):
    """Return the noise for sums of its excess (``moment_sums.py``), and a bound of all losses from some node inwards.

    ``|lambda|`` falls and rises again; where it does not, the bound does.
    """
    n = losses.size
    rows, around = np.empty(6 * n), np.empty(n)
    least = 0
    for i in range(n):
        rows[i], rows[n + i] = losses[i].real, losses[i].imag
        rows[2 * n + i], rows[3 * n + i] = weights[0, i].real, weights[0, i].imag
        around[i] = abs(losses[i])
        rows[4 * n + i] = rounds[0, i] + 40.0
        rows[5 * n + i] = 2.0 * abs(weights[0, i]) * around[i] * rounds[1, i]
        least = i if around[i] < around[least] else least
    for i in range(least + 1, n):
        around[i] = max(around[i], around[i - 1])
    for i in range(least - 1, -1, -1):
        around[i] = max(around[i], around[i + 1])
    return rows, around


@kernel
def _small_moment(z, losses, weights, rounds, rows, around):
    """Return ``E[W (e^v - 1 - v)]``, ``v = z lambda``, and the rounding in half units."""
    n = losses.size
    first, last = 0, n
    while first < last and abs(z) * around[first] >= 1.0:
        first += 1
    while first < last and abs(z) * around[last - 1] >= 1.0:
        last -= 1
    last -= (last - first) % LANES
    sums = excess_sums(z, rows, n, first, last)
    total, size = complex(sums[0], sums[1]), sums[2]
    lost = sums[3] + abs(z) * abs(z) * sums[4]
    for i in range(n):
        if first <= i < last:
            continue
        v = z * losses[i]
        wide = abs(v)
        moved = abs(z) * rounds[1, i]
        plain = abs(weights[0, i])
        if wide < 1.0:
            part = excess(v) * weights[0, i]
            lost += abs(part) * (rounds[0, i] + 40.0) + 2.0 * plain * wide * moved
        else:
            # the power alone might overflow: weights[1] is relative to e^c lambda
            raised = weights[1, i] * exp(complex(-z.imag * losses[i].imag, z.imag * losses[i].real))
            part = raised - weights[0, i] * (1.0 + v)
            lost += abs(raised) * (rounds[0, i] + 2.0 * moved + 16.0 + wide)
            lost += plain * ((1.0 + wide) * (rounds[0, i] + 8.0) + moved)
        total += part
        size += abs(part)
    return total, lost + n * size


@kernel
def fill_log_moments(step, kl, c, spacing, out, error):
    """Fill ``log A(c + i k spacing)``, k = 0, 1, ..., and the absolute error of each; kl is given with its error."""
    window = noise_window(step, c)
    if not window.whole:
        out[:] = BEYOND
        error[:] = 0.0
        return
    scale = window.scale if window.scale > LARGE else 0.0
    losses, weights, rounds = _nodes(step, c, window, scale)
    n = losses.size
    rows, around = _in_rows(losses, weights, rounds)
    turns, terms = np.empty(n, np.complex128), weights[1].copy()
    typical = 0.0
    for i in range(n):
        typical += abs(weights[0, i]) * abs(losses[i])
        turns[i] = exp(complex(-spacing * losses[i].imag, spacing * losses[i].real))
    unit = math.exp(window.scale - scale)
    depth = 2.0 * math.pi * window.theta * n / (window.high - window.low)
    missed = 2.1 * math.exp(-depth)
    fresh = True
    for k in range(out.size):
        y = k * spacing
        z = complex(c, y)
        outside = unit * (missed * (3.0 * window.strip + abs(z) * window.strip_loss))
        outside += unit * (3.0 * window.out + abs(z) * window.out_loss)
        if scale > 0.0 or abs(z) * typical > 1.0:
            total, lost, size = 0.0j, 0.0, 0.0
            fresh = fresh or k % ANCHOR == 0
            for i in range(n):
                if fresh:
                    terms[i] = weights[1, i] * exp(complex(-y * losses[i].imag, y * losses[i].real))
                else:
                    terms[i] *= turns[i]
                total += terms[i]
                part = abs(terms[i].real) + abs(terms[i].imag)
                size += part
                lost += part * (rounds[0, i] + (c + 2.0 * y) * rounds[1, i])
            fresh = False
            lost += size * (n + scale + 4.0 * ANCHOR)
            out[k] = complex(scale + math.log(max(abs(total), NOT_ZERO)), math.atan2(total.imag, total.real))
            relative = (NODE_ROUNDING * lost + outside) / max(abs(total), NOT_ZERO)
            rest = NODE_ROUNDING * (4.0 + scale + abs(out[k]))
        else:
            total, lost = _small_moment(z, losses, weights, rounds, rows, around)
            fresh = True
            total += z * kl[0]
            lost += 4.0 * abs(z) * kl[0]
            out[k] = log_one_plus(total)
            relative = (NODE_ROUNDING * lost + abs(z) * kl[1] + outside) / abs(1.0 + total)
            rest = NODE_ROUNDING * 4.0 * abs(out[k])
        # of log A; where little of A is left, of log |A| from above (see ``line_integral.py``)
        error[k] = rest + (1.1 * relative if relative < VAGUE else max(math.log1p(relative), VAGUE))
