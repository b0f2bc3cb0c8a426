r"""One sampled step on a lattice: the law of its likelihood ratio, cell by cell moved to the two ends of the cell.

With ``1 + y = L/(1 - q)``, ``y = q/(1 - q) e^{m x - m^2/2}``, the loss above its least value is ``g = log(1 + y)``. The
lattice is ``start + j spacing``. In the cell between the noise x of one point and that of the next the share
``(e^{m (x - x_j)} - 1)/(e^{m (x_{j+1} - x_j)} - 1)`` goes to the upper end: that keeps the mean of L.

**Gauss's rule** of five nodes on a piece of width w errs by ``3.95e-13 w^11 f^(10)``. ``|He_n(x)| <= (|x| + 2)^n`` for
n <= 10, and the i-th derivative of the share is at most ``m^{i - 1} e^{m w}/width`` in a cell of one piece, half of
``m^{i - 1} e/width`` in one of several with ``m width <= 1``, ``1.6 m^i`` in others. So with ``M = |x| + m + 2`` and
``w M <= 0.4`` it errs by at most 4e-15 of the mass of the cell, for both shares.
Within a cell mass may go to either end almost for nothing: both ends are charged with all that it may lack, piece by
piece, because the bulk of a seldom step lies in one cell of a thousand pieces.

**Places.** x_j is rounded; it is the exact place of a loss next to ``start + j spacing``, off by at most a share of it.
With the person a mass at ``g + off`` counts at most as much as one of which a part f went from g to the next point,
``f (e^spacing - 1) = e^off - 1``: delta is convex in the ratio, and grows. Without, the share is charged to the sum.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import FIVE_NODES, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import LARGE, NORMAL

PIECE = 0.4  # of a cell, in units of the scale on which the density changes
FAR_OUT = 38.0  # beyond the person's share of the noise
WIDE = 600.0  # from here on e^{m w} - 1 is not formed
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
NODES, WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


@kernel
def above_least(x, step):
    """Return ``g(x) = log(1 + y)``, the loss above its least value."""
    a = step.log_q - step.log_p + step.m * (x - 0.5 * step.m)
    return a + math.log1p(math.exp(-a)) if a > 0.0 else math.log1p(math.exp(a))


@kernel
def noise_at(g, step):
    """Return the x at which the loss is g above its least value, and by how much g may be off there."""
    log_y = g + math.log1p(-math.exp(-g)) if g > LARGE else math.log(math.expm1(g))
    odds = step.log_q - step.log_p
    x = (log_y - odds) / step.m + 0.5 * step.m
    slope = -math.expm1(-g)
    size = abs(log_y) + abs(step.log_q) + abs(step.log_p) + step.m * (abs(x) + step.m)
    return x, UNIT * (g + 4.0 * slope * (4.0 + size))


@kernel
def _cell(x, width, power, m):
    """Return the masses that go to the lower and the upper end of a cell, times ``e^power``, and what they may lack.

    What lies far out, less than ``phi(x)/x``, goes to both. Sums of many pieces keep what additions round off.
    """
    far, low, up, lack = FAR_OUT + m, 0.0, 0.0, 0.0
    if x + width > far:
        end = max(x, far)
        low = up = math.exp(power - 0.5 * end * end - NORMAL) / end
        lack = low * UNIT * (24.0 + 2.0 * end * end)
        if x >= far:
            return low, up, lack
    inner = min(width, far - x)
    pieces = int(inner * (max(abs(x), abs(x + inner)) + m + 2.0) / PIECE) + 1
    whole = math.expm1(m * width) if m * width < WIDE else np.inf
    part = inner / pieces
    low_lost, up_lost = 0.0, 0.0
    for k in range(pieces):
        down, right = 0.0, 0.0
        for i in range(NODES.size):
            s = part * (k + NODES[i])
            mass = WEIGHTS[i] * math.exp(power - 0.5 * (x + s) * (x + s) - NORMAL)
            share = math.expm1(m * s) / whole if whole < np.inf else math.exp(m * (s - width))
            right += mass * share
            down += mass * (1.0 - share)
        size = max(abs(x + part * k), abs(x + part * (k + 1)))
        lack += part * (down + right) * (UNIT * (24.0 + 2.0 * size * size) + FIVE_NODES)
        lack += part * right * (2.0 * UNIT * m * width)  # of exponents m s and m width, whose quotient the share is
        low, low_lost = _added(low, part * down, low_lost)
        up, up_lost = _added(up, part * right, up_lost)
    return low + low_lost, up + up_lost, lack + 2.0 * UNIT * abs(power) * (low + up)


@kernel
def _added(total, more, lost):
    """Return the sum of positive numbers, and what all its roundings lost (Neumaier)."""
    found = total + more
    return found, lost + ((total - found) + more if total >= more else (more - found) + total)


@kernel
def spread_step(step, grid, order, first, out, places):
    """Fill in the masses at the points of a grid, times ``e^{order g}``, g above the start, and the noise there.

    ``grid`` are the start, the spacing, and how many points from the start the first one is; ``first`` is the noise at
    it. Returns the noise at the last point, the most that a point may be off, and as a share of its loss.
    """
    start, spacing, skip = grid
    out[:] = 0.0
    x, off, share = first, 0.0, 0.0
    places[0] = first
    if start > 0.0:
        off = noise_at(start, step)[1]
        share = off / start
    jump = math.exp(order * spacing) * (1.0 + UNIT * (4.0 + abs(order) * spacing))
    for j in range(out.size - 1):
        ahead, wrong = noise_at(start + spacing * (skip + j + 1), step)
        off, share = max(off, wrong), max(share, wrong / (start + spacing * (skip + j + 1)))
        width = ahead - x
        places[j + 1] = ahead
        if not width > 0.0:  # points that rounding does not tell apart
            continue
        power = order * (spacing * (skip + j))
        low, up, lack = _cell(x, width, power, step.m)
        out[j] += (low + lack) * (1.0 + 8.0 * UNIT)
        out[j + 1] += (up + lack) * (1.0 + 8.0 * UNIT) * jump
        x = ahead
    return x, off, share


@kernel
def move_up(masses, start, spacing, order, share):
    """Move masses up by as much as their points may be off; returns what that adds to the excess above the last.

    It is infinite, and nothing is known, where points are closer than that, or too far apart for floats.
    """
    wrong = 1.0 + UNIT * (8.0 + 2.0 * (1.0 + abs(order)) * spacing)
    arrives = math.exp((order - 1.0) * spacing) / -math.expm1(-spacing) * wrong
    leaves = (1.0 - 8.0 * UNIT) / math.expm1(spacing)
    last = masses.size - 1
    most = math.expm1(share * (start + spacing * last)) * (1.0 + 8.0 * UNIT)
    if not (most * leaves < 0.5 and most * arrives < 1.0):
        return np.inf
    above = masses[last] * most
    for j in range(last - 1, -1, -1):
        off = math.expm1(share * (start + spacing * j))
        masses[j + 1] = (masses[j + 1] + masses[j] * off * arrives) * (1.0 + 2.0 * UNIT)
        masses[j] *= (1.0 - off * leaves) * (1.0 + 2.0 * UNIT)
    return above
