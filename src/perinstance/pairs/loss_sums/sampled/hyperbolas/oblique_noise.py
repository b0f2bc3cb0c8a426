r"""The noise of one step along a path that rises: nodes of a trapezoidal sum that serves everywhere along a hyperbola.

Far along a hyperbola (``z = x + i y``, x a share of y) the integrand ``w^{1+z} phi`` is next to nothing only if
``arg w`` grows with ``log |w|``. So the noise is ``u = t + i theta(t)``,
``theta = k (g(t - t0) - g(t - t1) + g(t - t2))`` with ``g(s) = (s + root(s^2 + b^2))/2``: from t0 to t1 the path rises
until w has turned by about ``pi/2``, less without the person, and from t2 on, behind its zero at t*, it rises again. As
a function of t the integrand is analytic up to a height eta on both sides (eta < b), where the edges stay away from the
zero; the sum over steps d of t is off by at most

``(sum of the integrals of its size along both edges) / (e^{2 pi eta/d} - 1)``,

and by the terms that are left out. Sizes are bounded on cells of the edges, as on the legs of ``moment_bounds.py``, for
groups of neighbouring nodes of the hyperbola at once. On a cell of half width d, u differs from that in the middle by
at most ``r = d (|u'| + 2.4 k d/b)`` where ``2 eta <= b``, and the exponent of the density by ``r (|u| + r)``.
"""

from __future__ import annotations

import cmath
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import over, plus, times, two_product, two_sum
from perinstance.numerics.double_double import root as root_of
from perinstance.numerics.double_double_complex import product, scaled, total
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.numba_compile import exact_kernel, kernel
from perinstance.numerics.rounding import (
    CELL_SUM,
    NODE_ROUNDING,
    PAIR_EXPONENTIAL,
    PAIR_PRODUCT,
    PAIR_SUM,
    PI_LOW,
    VANISHED,
)
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola import Hyperbola
from perinstance.pairs.loss_sums.sampled.hyperbolas.moment_bounds import log_w_at, spread_at, zero_of
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.noise_pairs import loss_of_noise, root_of_two_pi
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import exp_complex
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import BITS, in_pairs

#: The path begins to rise here, with this slope, less with the person at large distances; and again so far behind t*,
#: in units of 1/m, with and without. (At m it has risen by k m/2 or so: weights have grown by half of its square.)
BEGINS, SLOPE, HIGHER, AGAIN = -2.0, 0.6, 6.0, (2.0, 0.0)
#: In units of pi/m, with and without the person: its height at t*, that of a strip, and of the upper edge there.
#: (Without, along the real line to the left, ``w^{1+z}`` grows where ``|arg w| > pi/2``.)
HEIGHTS, STRIPS, HIGHEST = (0.45, 0.26), (0.4, 0.17), (0.92, 0.5)
#: Height of a strip at most; shares of it that are tried.
WIDEST, SHARES = 2.5, (1.0, 0.6, 0.35)
#: Cells of an edge: between these, and growing beyond, up to so far on the left; up to BEHIND/m behind the zero they
#: stay below FINE/m.
CELL, LOW, HIGH, GROWING, LEFT, FURTHEST, BEHIND, FINE, OUTER = 0.125, -16.0, 24.0, 0.1, 32.0, 64.0, 4.0, 0.15, 64
#: What is left out may be e^-DEPTH of one.
DEPTH = 76.0
#: ``3/2 (4/3)^{3/2}``: the path's second derivative is at most this times k/b.
BENDS = 2.4
#: Nodes of a hyperbola that share bounds.
TOGETHER = 16
#: Nodes of the noise at most, and exponents.
MOST_NOISE, LARGEST = 1 << 16, 300.0


class ObliqueNoise(NamedTuple):
    """Weights ``a_j = d (1 + i k) phi w^{1+p}`` and losses ``log w``, four rows each, and what each has lost.

    ``missed`` is what the sum over them misses at each node of the hyperbola, and at p itself.
    """

    weights: Floats
    losses: Floats
    lost: Floats
    missed: Floats


class NoisePath(NamedTuple):
    """``theta(t) = k (g(t - t0) - g(t - t1) + g(t - t2))``, ``g(s) = (s + root(s^2 + b^2))/2``."""

    k: float
    t0: float
    t1: float
    t2: float
    b: float

    def at(self, t: Any) -> Any:
        """Return u at real or complex t, and its derivative."""
        roots = [np.sqrt((t - corner) ** 2 + self.b**2) for corner in (self.t0, self.t1, self.t2)]
        up = (t - self.t0 + roots[0]) - (t - self.t1 + roots[1]) + (t - self.t2 + roots[2])
        slope = (t - self.t0) / roots[0] - (t - self.t1) / roots[1] + 1.0 + (t - self.t2) / roots[2]
        return t + 0.5j * self.k * up, 1.0 + 0.5j * self.k * slope


def slope_of(m: float) -> float:
    """Return the slope of a path with the person."""
    return min(SLOPE, HIGHER / m)


def path_of(q: float, m: float, over: bool) -> tuple[NoisePath, float]:
    """Return the path of one kind of step, and the largest height of a strip around it."""
    height, strip, highest = (part[0 if over else 1] * math.pi / m for part in (HEIGHTS, STRIPS, HIGHEST))
    slope = slope_of(m) if over else SLOPE
    zero, strip, behind = zero_of(q, m), min(strip, WIDEST), BEGINS + height / slope
    path = NoisePath(slope, BEGINS, behind, max(zero + AGAIN[0 if over else 1] / m, behind), 2.0 * strip)
    for _ in range(40):  # both edges pass below the zero
        t = np.linspace(zero - 2.0 * strip, zero + 2.0 * strip, 65)
        edge = path.at(t + 1j * strip)[0]
        if np.interp(zero, edge.real, edge.imag) < highest:
            break
        strip *= 0.9
    return path, strip


def noise_along(q: float, m: float, shape: Hyperbola) -> ObliqueNoise:
    """Return the noise for moments at p and at the nodes of a hyperbola, which are bounded in groups."""
    path, strip = path_of(q, m, shape.p == 0.0)
    boxes, groups = corners_of_nodes(shape)
    least = math.log1p(-q) if shape.p else 0.0
    corners = _corners(m, path)
    middle = _sizes(q, m, least, path, 0.0, corners, boxes)
    inside = np.flatnonzero(middle.max(axis=0) > -DEPTH)
    ends = float(corners[inside[0]]), float(corners[inside[-1] + 1])
    for share in SHARES:  # the first that serves
        nodes, above, edges = _edges(q, m, least, path, strip * share, corners, boxes, ends)
        if nodes <= MOST_NOISE:
            break
    if not (nodes <= MOST_NOISE and max(middle[:, 0].max(), middle[:, -1].max()) < -LARGEST):
        raise NotPreciseError(f"a step of rate {q} and distance {m} along a hyperbola")
    count = int(nodes)
    step = (ends[1] - ends[0]) / count
    width = np.diff(corners) + step
    width[inside[0] : inside[-1] + 1] = 0.0
    outside = (np.exp(np.minimum(middle, LARGEST)) * width).sum(axis=1)
    each = 1.1 * (math.exp(-2.0 * math.pi * above / step) * np.array(edges) + outside) + VANISHED
    missed = each[groups]
    weights, losses, lost = np.empty((4, count)), np.empty((4, count)), np.empty((2, count))
    fill_oblique(
        q, m, path, np.array([*ends, shape.p, *(least_loss(q) if shape.p else (0.0, 0.0))]), weights, losses, lost
    )
    return ObliqueNoise(weights, losses, lost, missed)


def least_loss(q: float) -> tuple[float, float]:
    """Return ``log(1 - q)`` as a pair."""
    from flint import acb, arb

    with working_precision(BITS):
        high, low = in_pairs([acb((1 - arb(q)).log())])[:, 0].real.tolist()
    return high, low


def corners_of_nodes(shape: Hyperbola) -> tuple[Any, NDArray[np.intp]]:
    """Return three corners of triangles around groups of nodes, the last around p; and the group of each node, and p.

    An arc from s to t lies within both ends and ``p + 2 |zeta| cosh((s + t)/2 + i theta)/cosh((t - s)/2)``, where its
    tangents meet.
    """
    first = np.arange(0, shape.nodes, TOGETHER)
    s, t = (shape.spacing * n for n in (first, np.minimum(first + TOGETHER, shape.nodes) - 1))
    turn = 1j * cmath.phase(shape.zeta)
    away = [np.cosh(s + turn), np.cosh(0.5 * (s + t) + turn) / np.cosh(0.5 * (t - s)), np.cosh(t + turn)]
    z = shape.p + 2.0 * abs(shape.zeta) * np.stack([*away], axis=1)
    groups = np.append(np.repeat(np.arange(len(first)), TOGETHER)[: shape.nodes], len(first))
    return np.vstack([z, np.full(3, shape.p)]), groups


def _corners(m: float, path: NoisePath) -> Floats:
    """Return the corners of cells of a line, by their real parts."""
    width, far = CELL / max(1.0, 0.5 * m), max(path.t2 + BEHIND / m, HIGH + m)
    core = LOW + width * np.arange(int((HIGH + m - LOW) / width) + 1)
    grown = np.cumsum(width * (1.0 + GROWING) ** np.arange(math.ceil(math.log(FURTHEST / width) / GROWING)))
    left = grown[grown < LEFT]
    right, last = list(core[-1] + grown), core[-1]
    longest = FINE / m
    near = int(np.searchsorted(np.diff(grown), longest))
    if right[near] < far:  # cells stay short up to there
        last = right[near]
        between = last + longest * np.arange(1.0, math.ceil((far - last) / longest) + 1.0)
        right = [
            *right[: near + 1],
            *between,
            *(between[-1] + np.cumsum(longest * (1.0 + GROWING) ** np.arange(OUTER))),
        ]
    return np.concatenate([core[0] - left[::-1], core, right])


def _edges(
    q: float,
    m: float,
    least: float,
    path: NoisePath,
    above: float,
    corners: Floats,
    boxes: Floats,
    ends: tuple[float, float],
) -> tuple[float, float, list[float]]:
    """Return how many nodes a strip of some height asks for, the height, and the integrals along both edges."""
    both = np.logaddexp(
        *(_total(_sizes(q, m, least, path, side * above, corners, boxes), corners) for side in (1.0, -1.0))
    )
    depth = DEPTH + max(float(both.max()), 0.0)
    nodes = (ends[1] - ends[0]) * depth / (2.0 * math.pi * above) + 1.0
    if not depth < LARGEST:
        return np.inf, above, []
    return nodes, above, np.exp(both).tolist()


def _total(sizes: Floats, corners: Floats) -> Floats:
    """Return the logarithm of the integral over cells, for each box."""
    logs = sizes + np.log(np.diff(corners))
    top = np.maximum(logs.max(axis=1), -LARGEST)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1) + VANISHED) + CELL_SUM)


def _sizes(q: float, m: float, least: float, path: NoisePath, above: float, corners: Floats, boxes: Floats) -> Floats:
    """Return the logarithms of the integrand's size on cells of an edge, at most, a row for each box."""
    half = 0.5 * np.diff(corners)
    u, slope = path.at(0.5 * (corners[1:] + corners[:-1]) + 1j * above)
    longest = np.minimum(np.abs(slope) + BENDS * path.k / path.b * half, 1.0 + 2.0 * path.k)  # |u'|
    radius = longest * half
    weight = 0.5 * (u.imag**2 - u.real**2) + radius * (np.abs(u) + radius) - NORMAL + np.log(longest)
    out = np.empty((len(boxes), len(u)))
    fill_sizes(q, m, least, u, radius, weight, boxes, out)
    return out


@kernel
def fill_sizes(q, m, least, u, radius, weight, boxes, out):
    """Fill in exponents on cells for corners z around some nodes: ``weight + Re (1 + z) log w``, at most."""
    for j in range(weight.size):
        off, loss = spread_at(q, m, u[j], radius[j]), log_w_at(q, m, u[j]) - least
        for i in range(boxes.shape[0]):
            out[i, j] = -np.inf
            for k in range(boxes.shape[1]):
                x, y = 1.0 + boxes[i, k].real, boxes[i, k].imag
                size = math.hypot(x, y)
                rounding = 8.0 * NODE_ROUNDING * (size * (abs(loss.real) + abs(loss.imag)) + abs(weight[j]))
                here = weight[j] + x * loss.real - y * loss.imag + size * off + rounding
                out[i, j] = max(out[i, j], here) if here < np.inf else np.inf


@exact_kernel
def _continued(q, m, u, log, low):
    """Return ``log w`` continued from the real line, given it on the main branch."""
    odds = complex(m * u.real - 0.5 * m * m + math.log(q) - math.log1p(-q), m * u.imag)
    turned = 0.0
    if odds.real > 0.0:
        back = math.exp(-odds.real)
        turned = odds.imag + math.atan2(-back * math.sin(odds.imag), 1.0 + back * math.cos(odds.imag))
        turned = np.rint((turned - log.imag) / (2.0 * math.pi))
    if turned == 0.0:
        return log, low
    more, more_low = times(turned, 0.0, 2.0 * math.pi, 2.0 * PI_LOW)
    return total(log, low, complex(0.0, more), complex(0.0, more_low))


@exact_kernel
def _corner(t, t_low, corner, b):
    """Return ``g(t - corner)`` and its derivative as pairs: the root by one Newton step."""
    s, s_low = plus(t, t_low, -corner, 0.0)
    square, square_low = times(s, s_low, s, s_low)
    more, more_low = two_product(b, b)
    square, square_low = plus(square, square_low, more, more_low)
    root, root_low = root_of(square, square_low)
    share, share_low = over(s, s_low, root, root_low)
    share, share_low = plus(share, share_low, 1.0, 0.0)
    root, root_low = plus(root, root_low, s, s_low)
    return 0.5 * root, 0.5 * root_low, 0.5 * share, 0.5 * share_low


@exact_kernel
def _height(path, t, t_low):
    """Return theta and its derivative as pairs."""
    up, up_low, slope, slope_low = _corner(t, t_low, path.t0, path.b)
    for corner, sign in ((path.t1, -1.0), (path.t2, 1.0)):
        more, more_low, share, share_low = _corner(t, t_low, corner, path.b)
        up, up_low = plus(up, up_low, sign * more, sign * more_low)
        slope, slope_low = plus(slope, slope_low, sign * share, sign * share_low)
    up, up_low = times(up, up_low, path.k, 0.0)
    slope, slope_low = times(slope, slope_low, path.k, 0.0)
    return up, up_low, slope, slope_low


@exact_kernel
def fill_oblique(q, m, path, place, weights, losses, lost):
    """Fill in the nodes of a window; ``place``: both ends, p, a pair that losses are less; ``lost`` by both."""
    low, high, p, least, least_low = place
    nodes = weights.shape[1]
    wide, wide_low = two_sum(high, -low)
    half, half_low = over(wide, wide_low, 2.0 * nodes, 0.0)
    root, root_low = root_of_two_pi()
    unit, unit_low = over(2.0 * half, 2.0 * half_low, root, root_low)
    power, power_low = two_sum(p, 1.0)
    for i in range(nodes):
        t, t_low = times(half, half_low, 2.0 * i + 1.0, 0.0)
        t, t_low = plus(t, t_low, low, 0.0)
        up, up_low, slope, slope_low = _height(path, t, t_low)
        u, u_low = complex(t, up), complex(t_low, up_low)
        off_u = 32.0 * PAIR_SUM * (abs(low) + abs(t) + wide + abs(path.t0) + path.t1 + path.t2 + path.b)
        log, log_low, off = loss_of_noise(q, m, u, u_low, off_u)
        log, log_low = _continued(q, m, u, log, log_low)
        log, log_low = total(log, log_low, complex(-least, 0.0), complex(-least_low, 0.0))
        off += 4.0 * PAIR_SUM * (abs(log) + abs(least))
        square, square_low = product(u, u_low, u, u_low)
        a, a_low = scaled(log, log_low, power, power_low)
        off_a = 1.01 * abs(power) * off + off_u * abs(u) + 2.0 * PAIR_PRODUCT * (abs(a) + abs(square))
        a, a_low = total(a, a_low, -0.5 * square, -0.5 * square_low)
        off_a += 1.01 * PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(a)) + 16.0 * PAIR_PRODUCT
        losses[0, i], losses[1, i], losses[2, i], losses[3, i] = log.real, log.imag, log_low.real, log_low.imag
        if a.real < -LARGEST:  # next to nothing, and as much too much
            a, off_a = complex(-LARGEST, a.imag), 2.0
        a, a_low = exp_complex(a, a_low)
        a, a_low = scaled(a, a_low, unit, unit_low)
        a, a_low = product(a, a_low, complex(1.0, slope), complex(0.0, slope_low))
        weights[0, i], weights[1, i], weights[2, i], weights[3, i] = a.real, a.imag, a_low.real, a_low.imag
        lost[0, i], lost[1, i] = 1.01 * abs(a) * off_a, 1.01 * off
