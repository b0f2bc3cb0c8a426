r"""How the slanted line is laid: panels with Gauss's rule, each as long as its error allows, until the rest is nothing.

On an ellipse around a panel (half length H, the sum of whose axes is ``RHO H``) the integrand is bounded by corners: it
lies in a box ``a_1 <= Re p <= a_2``, ``Im p >= y_1``, and there ``prod_j N_j(p)^{n_j} |e^{-z epsilon}|`` is
at most the larger of its values at the two lower corners (``noise_path.py``). Gauss's rule with n nodes then misses at
most ``(64/15) H M RHO^{-2(n - 1)}/(1 - RHO^-2)`` (Trefethen, Approximation Theory and Approximation Practice, 19.3).

Beyond the last panel: on the path of height 1 that bends at 0, ``log |1 + e^zeta| <= TANGENT arg(1 + e^zeta)``, so that
every N falls along the line; what is left is at most the integrand's bound over ``cos(phi)`` and over how far epsilon
is from that end of the loss next to which most of it lies.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING, NOT_ZERO
from perinstance.pairs.loss_sums.sampled.slanted_line.noise_path import (
    DEEP,
    alive,
    coarse_size,
    finely,
    lay_path,
    line_size,
    moment,
)

TANGENT = 2.5
COSINE = 1.0 / math.sqrt(1.0 + TANGENT * TANGENT)
SINE = TANGENT * COSINE
RHO = 3.0
ALONG, ACROSS = 0.5 * (RHO + 1.0 / RHO), 0.5 * (RHO - 1.0 / RHO)
REACH = (
    math.sqrt((ALONG * COSINE) ** 2 + (ACROSS * SINE) ** 2),
    math.sqrt((ALONG * SINE) ** 2 + (ACROSS * COSINE) ** 2),
)
BENDS = (0.0, 3.0, 8.0, 20.0, 50.0, 125.0, 300.0, np.inf)
HEIGHTS = (1.0, 0.4, 0.1)
SKETCH = 240
MOST_PANELS = 96
#: What one panel, or the rest, may add: e^-36 of delta.
SMALL = 36.0
#: From so many steps on the moments are summed up less one.
MANY = 40.0
HIGH = 1.0  # of the path on which the rest is bounded
LARGEST_WORK = 1.2e7  # nodes of the noise, times nodes of the line or how often they are looked at


class SlantedLine(NamedTuple):
    """Nodes ``z`` (p is z + 1 or -z; see ``slanted_line.py``), ``log prod A^n``, its error, weights.

    Of each panel, and last of the rest: for both corners ``log prod N^n`` with the rule's factors, and Re p; of the
    rest it is still to be divided by how far epsilon is from the end.
    """

    p: Any
    log: Any
    error: Any
    weight: Any
    corner: Any
    real: Any
    done: Any


@kernel
def _candidates(most, q, m):
    """Return height and bend of paths for one kind of step: the first is that for the rest of the line."""
    where = m * m * max(most, 0.0) + math.log(q) - math.log1p(-q) - 0.5 * m * m + 4.0 * m
    found = np.empty((len(BENDS) * len(HEIGHTS) + 1, 2))
    found[0, 0], found[0, 1] = HIGH, 0.0
    count = 1
    for k in range(len(HEIGHTS)):
        high = min(HEIGHTS[k], 4.0 * m)
        for bend in BENDS:
            inside = bend == np.inf or bend <= max(where, 1.0)
            if inside and (k == 0 or high == HEIGHTS[k]) and not (bend == 0.0 and high == HIGH):
                found[count, 0], found[count, 1] = high, bend
                count += 1
    return found[:count]


@kernel
def missed_at(path, a, y):
    """Return the logarithm of what the rule over the noise, and its window, miss at a corner."""
    beyond = line_size(path, 1, a, y)[1]
    low, high = line_size(path, 0, a, y)[0], line_size(path, 2, a, y)[0]
    if not max(low, high, beyond) < np.inf:
        return np.inf
    missed = max(low, high) + math.log(2.1) - DEEP
    beyond += math.log(2.0)  # between the corners it is at most the sum of what it is there
    top = max(missed, beyond)
    return top + math.log(math.exp(missed - top) + math.exp(beyond - top))


@kernel
def _pole_distance(low, high, y):
    """Return a lower bound of ``|p (p - 1)|`` for Re p between two numbers and Im p >= y; zero if a pole may be in."""
    zero = max(low, -high, 0.0)
    one = max(low - 1.0, 1.0 - high, 0.0)
    up = max(y, 0.0)
    return math.hypot(zero, up) * math.hypot(one, up)


@kernel
def _best_path(paths, first, last, p):
    """Return which of some paths is best for p."""
    best, size = first, np.inf
    for k in range(first, last):
        found = coarse_size(paths[k], p)
        if found < size:
            best, size = k, found
    return best


@kernel
def _sketch(steps, start):
    """Return sketches of all paths, and where those of each kind begin."""
    sketches = [lay_path(steps[0, 0], steps[1, 0], HIGH, 0.0, 20.0, SKETCH)]
    first = np.ones(steps.shape[1] + 1, np.int64)
    for j in range(steps.shape[1]):
        q, m = steps[0, j], steps[1, j]
        shapes = _candidates(start, q, m)
        for k in range(shapes.shape[0]):
            farthest = 20.0 + 1.4 * m * max(start, 0.0)
            sketches.append(lay_path(q, m, shapes[k, 0], shapes[k, 1], farthest, SKETCH))
        first[j + 1] = len(sketches)
    return sketches, first


@kernel
def _box(start, s, half, wide, high):
    """Return the lower corners of a box around a part of the line: from s on, of half a length, and its reach."""
    corners = np.empty((2, 2))
    corners[0, 0], corners[1, 0] = start + (s + half) * COSINE - wide, start + (s + half) * COSINE + wide
    corners[:, 1] = (s + half) * SINE - high
    return corners


@kernel
def _draw(paths, drawn, k):
    """Make a path of a sketch when it is first used."""
    if not drawn[k]:
        paths[k] = finely(paths[k])
        drawn[k] = True


@kernel
def _exponent(a, epsilon, sign):
    """Return the real part of ``-z epsilon`` at Re p = a."""
    return -(a - 1.0) * epsilon if sign > 0.0 else a * epsilon


@kernel
def _judge(paths, chosen, counts, corners, inner):
    """Return the logarithms of ``prod N^n`` at the corners, and what the rule over the noise misses, for each kind.

    The last number is by how much that may change the product, relative to the bound at the corners.
    """
    sizes, miss, moved = np.zeros(2), np.full(counts.size, -np.inf), 0.0
    for j in range(counts.size):
        path = paths[chosen[j]]
        worst = -np.inf
        for k in range(2):
            size = line_size(path, 1, corners[k, 0], corners[k, 1])[0]
            sizes[k] += counts[j] * size
            worst = max(worst, size)
            miss[j] = max(miss[j], missed_at(path, inner[k, 0], inner[k, 1]))
        moved += counts[j] * math.exp(min(miss[j] - worst, 0.0)) if worst < np.inf else np.inf
    return sizes, miss, moved


@kernel
def _rest(paths, first, steps, last):
    """Return the logarithm of ``prod N^n`` at the end of the line, on the paths along which it falls from there on."""
    total = 0.0
    for j in range(steps.shape[1]):
        total += steps[2, j] * line_size(paths[first[j]], 1, last.real, last.imag)[0]
    return total


@kernel
def lay_panels(steps, place, rule):
    """Return the line from ``place``: p at its start, +1 (with) or -1, epsilon, log delta, edge.

    Steps: a row of rates, one of distances, one of how many.
    """
    start, sign, epsilon, log_delta, edge = place
    paths, first = _sketch(steps, start)
    drawn = np.zeros(len(paths), np.bool_)
    for j in range(first.size - 1):
        _draw(paths, drawn, first[j])
    n = rule.shape[1]
    line = _empty(n)
    missed = math.log(64.0 / 15.0 / (1.0 - RHO**-2.0)) - 2.0 * (n - 1.0) * math.log(RHO)
    away = edge + sign * epsilon  # how far epsilon is from the end
    half = min(0.3 * (start - 1.0 if sign > 0.0 else -start), 2.0 / away)
    s, panels, work = 0.0, 0, 0.0
    chosen = np.zeros(steps.shape[1], np.int64)
    for _ in range(4 * MOST_PANELS):
        if panels == MOST_PANELS or work > LARGEST_WORK:
            break
        middle = complex(start + (s + half) * COSINE, (s + half) * SINE)
        corners = _box(start, s, half, REACH[0] * half, REACH[1] * half)
        near = _pole_distance(corners[0, 0], corners[1, 0], corners[0, 1])
        if not near > 0.0:
            half *= 0.6
            continue
        for j in range(chosen.size):
            chosen[j] = _best_path(paths, first[j], first[j + 1], middle)
            _draw(paths, drawn, chosen[j])
        inner = _box(start, s, half, COSINE * half, SINE * half)
        for j in range(chosen.size):
            work += 4.0 * paths[chosen[j]].base.shape[1]
        sizes, miss, moved = _judge(paths, chosen, steps[2], corners, inner)
        fits = True
        for k in range(2):
            line.real[panels, k] = corners[k, 0]
            bound = sizes[k] + math.log(half) - math.log(near) - corners[k, 0] * edge
            line.corner[panels, k] = bound + missed
            bound += _exponent(corners[k, 0], epsilon, sign)
            fits = fits and bound + math.log(math.exp(missed) + moved) < log_delta - SMALL
        if not fits:
            half *= 0.6
            continue
        for j in range(chosen.size):
            out = (line, panels * n, j == 0)
            work += _fill_panel(paths[chosen[j]], (middle, half), inner, miss[j], steps[2, j], rule, out)
        panels += 1
        s += 2.0 * half
        half *= 1.5
        last = complex(start + s * COSINE, s * SINE)
        rest = _rest(paths, first, steps, last) - last.real * edge - math.log(COSINE) - 2.0 * math.log(last.imag)
        if rest + _exponent(last.real, epsilon, sign) - math.log(away) < log_delta - SMALL:
            line.corner[panels, :], line.real[panels, :] = rest, last.real
            return _cut(line, panels, n, True)
    return _cut(line, panels, n, False)


@kernel
def _empty(n):
    """Return room for a line."""
    m = MOST_PANELS * n
    return SlantedLine(
        np.empty(m, np.complex128), np.empty(m, np.complex128), np.empty(m), np.empty(m),
        np.empty((MOST_PANELS + 1, 2)), np.empty((MOST_PANELS + 1, 2)), False,
    )  # fmt: skip


@kernel
def _cut(line, panels, n, done):
    """Return the panels that were laid."""
    m = panels * n
    return SlantedLine(
        line.p[:m], line.log[:m], line.error[:m], line.weight[:m], line.corner[: panels + 1], line.real[: panels + 1],
        done,
    )  # fmt: skip


@kernel
def _fill_panel(path, panel, inner, miss, count, rule, out):
    """Add one kind of steps to the nodes of a panel; returns the work."""
    (middle, half), (line, start, fresh) = panel, out
    live = alive(path, middle, inner)
    excess = count > MANY and live.scale == 0.0
    scale = live.scale
    extra = max(miss, live.left)
    extra = extra + math.log(math.exp(miss - extra) + math.exp(live.left - extra))
    if excess:
        plain = missed_at(path, 0.0, 0.0)
        extra = max(extra, plain) + math.log(2.0)
    for i in range(rule.shape[1]):
        k = start + i
        at = complex(middle.real + half * rule[0, i] * COSINE, middle.imag + half * rule[0, i] * SINE)
        value, lost = moment(path, at, live, excess)
        lost += math.exp(min(extra - scale, 700.0))
        if excess:
            value += 1.0
            lost += 2.0 * NODE_ROUNDING * abs(value)
        size = abs(value)
        if size > 2.0 * lost:
            found = complex(scale + math.log(size), math.atan2(value.imag, value.real))
            off = 1.1 * lost / size if lost < 0.1 * size else 0.8
            if excess:
                less = value - 1.0
                if less.real > -0.5:
                    found = complex(0.5 * math.log1p(less.real * (2.0 + less.real) + less.imag * less.imag), found.imag)
                off = 1.2 * (lost + 2.0 * NODE_ROUNDING * abs(less)) / size if lost < 0.1 * size else 0.8
        else:  # nothing is known but how large it is at most
            found, off = complex(scale + math.log(size + lost + NOT_ZERO), 0.0), 1.0
        if fresh:
            line.p[k], line.weight[k] = at, half * rule[1, i]
            line.log[k], line.error[k] = 0.0j, 0.0
        line.log[k] += count * found
        line.error[k] += count * (off + 4.0 * NODE_ROUNDING * (2.0 + abs(found)))
    return float(rule.shape[1] * (live.last - live.first))
