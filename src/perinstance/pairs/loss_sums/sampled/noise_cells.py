r"""Where the noise of one sampled step counts: a window of the real line, and bounds for all that lies around it.

The noise is cut off at ``REACH`` standard deviations on both sides of both laws. Whatever happens beyond is charged to
delta in full: ``delta <= delta of what is left + steps 2 Phi(-REACH)``, and that is less than 1e-331 a step.

Inside, ``F = W e^{z lambda} phi`` (``log_moments.py``) is bounded on cells of the real line, and on the strip of height
``2 theta`` above them: ``|w(x + i t)| = w sqrt(1 - 2 r (1 - r)(1 - cos m t))`` with ``r = q e^{mx - m^2/2}/w``, so with
the person (powers of w above 0) nothing grows off the real line, and without them by at most
``(1 - 2 r (1 - r)(1 - cos 2 m theta))^{-c/2}``. Along the real line ``log(W w^p phi)`` bends by -1 at the least with
the person, so that it exceeds the ends of a cell of width d by at most ``d^2/8``; without them it is concave.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.loss_sums.laplace_atoms import exp

REACH = 39.0  # standard deviations of the noise that count
LOG_OUTSIDE = -762.0  # of 1e-331, and 2 Phi(-REACH) is less
CELL = 0.25
DEPTH = 60.0  # the window ends where the integrand, in the whole strip, is e^-60 of its largest value or of 1
HIGHEST = 1.0  # the line lies at most so far off the real line: the strip is twice as high
WIDEST = 1.4  # 2 theta m stays below pi: w has no zero in the strip
GROWTH = 8.0  # exponent by which the strip may exceed the real line


class StepKind(NamedTuple):
    """One kind of step: its rate q, distance m, and whether Q over P is meant (the person with, over without).

    ``far`` is how far beyond ``REACH`` the noise is followed, towards where the moment lies: 0 for profiles.
    """

    q: Any
    m: Any
    over: Any
    far: Any


class NoiseWindow(NamedTuple):
    """The window from low to high; the height theta of the line; the scale that bounds are relative to (an exponent).

    ``strip`` and ``strip_loss`` bound the integrals over the strip of the integrand's size, and of that times
    ``|lambda|``; ``out`` and ``out_loss`` the same outside of the window and on its sides. ``whole``: whether the
    integrand has died at both ends of the noise.
    """

    low: Any
    high: Any
    theta: Any
    scale: Any
    top: Any
    strip: Any
    strip_loss: Any
    out: Any
    out_loss: Any
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
def share_at(x, step):
    """Return ``r = q e^{m x - m^2/2}/w``: how much of w at x comes from samples with the person."""
    odds = step.m * x - 0.5 * step.m * step.m + math.log(step.q) - math.log1p(-step.q)
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


@kernel
def largest_spread(left, right):
    """Return the largest ``r (1 - r)`` between two shares."""
    if left < 0.5 < right:
        return 0.25
    return max(left * (1.0 - left), right * (1.0 - right))


@kernel
def _largest(left, right, slope_left, slope_right, bend):
    """Return a bound on a cell of a function with these ends and slopes: it bends by at least -1, or is concave."""
    ends = max(left, right)
    if not bend and slope_left > 0.0 > slope_right:  # below both its tangents
        return min(left + slope_left * CELL, right - slope_right * CELL)
    return ends + (0.125 * CELL * CELL if bend else 0.0)


@kernel
def _cells(step, c):
    """Return where cells start, ``|lambda|``, bounds of ``log W max(|e^{c lambda}|, 1) phi``, the largest r(1 - r)."""
    start = -REACH - (0.0 if step.over else step.far)
    n = int((REACH + step.m + (step.far if step.over else 0.0) - start) / CELL) + 1
    losses, bounds, spread = np.empty(n), np.empty(n), np.empty(n)
    last_loss, last_high, last_slope, last_share = 0.0, 0.0, 0.0, 0.0
    for i in range(n + 1):
        x = start + i * CELL
        loss = loss_at(x, 0.0, step).real
        share = share_at(x, step)
        if step.over:
            high, slope = loss + max(c * loss, 0.0) - 0.5 * x * x, 0.0
        else:
            high, slope = -c * loss - 0.5 * x * x, -x - c * step.m * share
        if i > 0:
            bound = _largest(last_high, high, last_slope, slope, step.over)
            if not step.over:  # the density alone, which bends by -1
                bound = max(bound, -0.5 * min(x * x, (x - CELL) ** 2) + 0.125 * CELL * CELL)
            bounds[i - 1] = bound
            spread[i - 1] = largest_spread(last_share, share)
            losses[i - 1] = max(abs(last_loss), abs(loss)) + math.pi
        last_loss, last_high, last_slope, last_share = loss, high, slope, share
    return start, losses, bounds, spread


@kernel
def _lift(step, c, bounds, spread):
    """Return the height of the line, and raise the bounds of the cells to those of the strip."""
    theta = min(HIGHEST, WIDEST / step.m)
    scale = max(bounds.max(), 0.0)
    raised = bounds.copy()
    for _ in range(60):
        turned = 1.0 - math.cos(2.0 * theta * step.m)
        total = 0.0
        for i in range(bounds.size):
            growth = 0.0 if step.over else -0.5 * c * math.log1p(-2.0 * spread[i] * turned)
            raised[i] = bounds[i] + growth + 2.0 * theta * theta
            total += CELL * math.exp(min(raised[i] - scale, 700.0))
        if total < math.exp(GROWTH):
            break
        theta *= 0.75
    return theta, scale, raised


@kernel
def noise_window(step, c, depth=DEPTH):
    """Return the window for moments of order c."""
    start, losses, bounds, spread = _cells(step, c)
    theta, scale, raised = _lift(step, c, bounds, spread)
    n = bounds.size
    low, high = n, -1
    for i in range(n):
        if raised[i] > scale - depth:
            low, high = min(low, i), max(high, i)
    whole = low > 1 and high < n - 2
    low, high = max(low - 1, 0), min(high + 1, n - 1)
    strip, strip_loss, out, out_loss = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        size = math.exp(min(raised[i] - scale, 700.0))
        strip += CELL * size
        strip_loss += CELL * size * losses[i]
        if i <= low or i >= high:  # of the line itself and of the sides of the strip, one of them in this cell
            out += (CELL + 4.0 * theta) * size
            out_loss += (CELL + 4.0 * theta) * size * losses[i]
    return NoiseWindow(
        start + low * CELL,
        start + (high + 1) * CELL,
        theta,
        scale,
        bounds.max(),
        strip,
        strip_loss,
        out,
        out_loss,
        whole,
    )
