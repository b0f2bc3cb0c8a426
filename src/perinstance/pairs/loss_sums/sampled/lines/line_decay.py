r"""How fast the transform of one step dies along a line, proved for the whole rest of the line at once.

``|A(c + iy)|/A(c)`` is the modulus of the characteristic function of lambda under the law that is tilted by c, whose
density over lambda is ``g = W w^{+-c} phi/(A |d lambda/dx|)``. From below g is bounded by a step function over the
cells of a grid, and that is a sum of boxes (each spans some neighbouring cells, is as high as the lowest of them allows
and stands on the boxes that span more). The characteristic function of a box of width D and mass p is ``p sin(v)/v`` in
size, ``v = y D/2``, and of whatever lies above the step function at most its mass. With ``S(u)``, the largest
``|sin(v)/v|`` from u on,

``|A(c + iy)|/A(c) <= 1 - sum_boxes p (1 - S(Y D/2))``  for all y >= Y.

On a cell, log g lies above its lower end less ``d^2/8`` of how much it may bend upwards,
``(p + 1) m^2 r(1 - r) - 1`` for the power p of w; its width in lambda is ``log(1 + r (e^{m d} - 1))``.

**Several distances at once.** Over ``u = m x - m^2/2``, on which lambda depends alone, the density of a step is
``e^{-u^2/(2 m^2) - u/2 - m^2/8}/(m sqrt(2 pi))``, and its logarithm is concave in log m: between two distances it is at
least the smaller of both. A grows with m (w and its powers are convex in e^u, whose mean is one, and which spreads),
and so does the bend of log g over u. What lies below g for both ends, with A of the larger, lies below it for all.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL
from perinstance.pairs.loss_sums.sampled.noise_cells import largest_spread, loss_at, noise_window, share_at

WIDTH = 0.125  # of a cell, at most
STEEP = 0.25  # and of the distance, over m
SURE = 0.999  # what the rounding of boxes and of their masses may have added is far less
TALLEST = 600.0  # a cell whose density has a larger logarithm is left out: it is no wider than e^-600
SIDE_LOBE = 0.2173  # the largest |sin(v)/v| beyond the first zero


@kernel
def largest_sine(u):
    """Return ``max over v >= u of |sin(v)/v|``, or a little more."""
    if u < 0.02:
        return 1.0 - u * u * (1.0 - 0.05 * u * u) / 6.0
    if u * SIDE_LOBE > 1.0:
        return 1.0 / u
    return max(math.sin(u) / u, SIDE_LOBE) if u < math.pi else SIDE_LOBE


@kernel
def _missing_sine(u):
    """Return ``1 - S(u)``, without loss for small u."""
    if u < 0.02:
        return u * u * (1.0 - 0.05 * u * u) / 6.0
    return 1.0 - largest_sine(u)


@kernel
def _step_function(step, nearest, c, log_moment):
    """Return the heights of the cells and their widths in lambda, for all distances from the nearest on."""
    window = noise_window(step, c)
    flatter, lower = 0.5 * (nearest**-2 - step.m**-2), 0.125 * (nearest**2 - step.m**2) + math.log(nearest / step.m)
    n = int((window.high - window.low) / min(WIDTH, STEEP / step.m)) + 1
    d = (window.high - window.low) / n
    power = 2.0 + c if step.over else 1.0 - c
    heights, widths = np.empty(n), np.empty(n)
    before, share = 0.0, 0.0
    for i in range(n + 1):
        x = window.low + i * d
        new = share_at(x, step)
        loss = loss_at(x, 0.0, step).real
        log = power * loss - 0.5 * x * x - NORMAL - step.m * x + 0.5 * step.m**2 - math.log(step.m * step.q)
        log -= log_moment
        log -= max(flatter * (step.m * x - 0.5 * step.m**2) ** 2 + lower, 0.0)
        if i > 0:
            bend = max(power * step.m * step.m * largest_spread(share, new) - 1.0, 0.0)
            height = min(before, log) - 0.125 * d * d * bend
            widths[i - 1] = math.log1p(share * math.expm1(step.m * d))
            heights[i - 1] = math.exp(height) if height < TALLEST else 0.0
        before, share = log, new
    return heights, widths


@kernel
def boxes(step, nearest, c, log_moment):
    """Return masses and widths of boxes below the density, for all distances from the nearest to that of the step."""
    heights, widths = _step_function(step, nearest, c, log_moment)
    n = heights.size
    out, count = np.zeros((2, n + 1)), 0
    stack_height, stack_start, top = np.empty(n + 1), np.empty(n + 1), 0
    place = 0.0
    for i in range(n + 1):
        height = heights[i] if i < n else 0.0
        start = place
        while top > 0 and stack_height[top - 1] >= height:
            top -= 1
            start = stack_start[top]
            below = max(height, stack_height[top - 1] if top > 0 else 0.0)
            width = place - start
            out[0, count], out[1, count] = (stack_height[top] - below) * width, width
            count += 1
        stack_height[top], stack_start[top] = height, start
        top += 1
        if i < n:
            place += widths[i]
    return out[:, :count]


@kernel
def fill_decay(step, nearest, c, log_moment, places, out):
    """Fill in a lower bound of ``-log |A(c + iy)|/A(c)`` for all y from each of some places on.

    For all distances from the nearest to that of the step, whose log moment is given.
    """
    if not log_moment < np.inf:
        out[:] = 0.0
        return
    found = boxes(step, nearest, c, log_moment)
    for k in range(places.size):
        gone = 0.0
        for j in range(found.shape[1]):
            gone += found[0, j] * _missing_sine(0.5 * places[k] * found[1, j])
        out[k] = -math.log1p(-min(SURE * gone, SURE))
