r"""Moments of many distances of one rate from those of a few: polynomials in ``v = log m``, with a proved remainder.

With ``u = m x - m^2/2``, the logarithm of the likelihood ratio of a step that was sampled, and ``w = 1 - q + q e^u``,

``A_m(z) = int w(u)^p phi_m(u) du``,  ``phi_m(u) = e^{-(u + m^2/2)^2/(2 m^2)}/(m sqrt(2 pi))``,

p = 1 + z with the person and -z without. Only phi depends on m, and it is analytic in the sector ``|arg m| < pi/4``:
``|phi_m(u)| = e^{-(u^2 C/r^2 + u + r^2 C/4)/2}/(r sqrt(2 pi))`` for ``m = r e^{i t}``, ``C = cos 2t``. So for every
height of z, ``|A_m(z) - w_0^p|`` is at most the integral of ``|w^p - w_0^p|`` times the largest of these, whatever
w_0 is, and that of ``|w^p - 1 - p (w - 1)|``, as ``int (w - 1) phi_m = 0``. With b the smallest of these bounds on the
ellipse around a piece ``|v - v_0| <= L`` that has semi-axes ``L (s + 1/s)/2`` and ``L (s - 1/s)/2``,

``|A - P| <= 4 b s^{1 - N}/(s - 1)``

for the polynomial P through N of Chebyshev's points (they are of the first kind), for any s > 1; the best of a few
is taken. Where ``|A/w_0^p - 1| <= b < 1``, the same holds for log A with ``-log(1 - b)``; it is the principal one if
its angle stays below pi. All integrals are sums over cells of u of bounds on each.

**Rounding.** Points, and the distances asked for, lie within ``PIECE_PLACE`` of where they are thought to be; that
moves P by at most ``(1 + largest sum of weights)`` of it times a bound of dA/dv, by Cauchy's estimate from the same
ellipses. The weights of a sum are products, and lose some half units each. Moments are meant of noise up to ``REACH``
(``noise_cells.py``), A of all of it: what lies beyond is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import PIECE_PLACE, PIECE_TAIL, PIECE_WIDER
from perinstance.pairs.loss_sums.sampled.noise_cells import REACH

#: Points of a piece, and how many times as many distances are worth them.
POINTS, WORTH = 32, 1.5
#: Ellipses that are tried.
ELLIPSES = np.array([1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])
#: The largest sum of weights of so many points, or more.
LARGEST_WEIGHTS = 3.5
#: Pieces an octave up to each of some distances, and beyond.
PARTS, ENDS = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.25, math.sqrt(0.5), 2.0])
#: The same where moments of low orders are meant.
LOW_ORDERS = np.array([0.25, math.sqrt(2.0), 4.0])
#: A cell of u, over the least distance, and the most of them.
CELL, MOST_CELLS = 0.125, 8000
#: A piece is not divided whose ends lie closer than this.
NARROW = 2.0**0.1
#: Above this rate logarithms of w lose digits, and pieces are not made.
LARGEST_RATE = 0.99
#: Nodes of a line at which remainders are computed.
ASKED = 24
#: Exponents: of a cell from which on none counts, and of a moment that is too large for pieces.
NO_CELL, TOO_LARGE = -140.0, 600.0
#: An ellipse keeps this far, twice, from the sector in which phi is analytic; and angles of moments from pi.
WIDEST, LARGEST_ANGLE = 1.4, 3.0


@dataclass(frozen=True)
class DistancePiece:
    """The distances between two ends, at one rate."""

    rate: float
    low: float
    high: float
    count: int = POINTS

    @property
    def half(self) -> float:
        """Return L."""
        return 0.5 * math.log(self.high / self.low)

    @cached_property
    def points(self) -> Floats:
        """Return N distances."""
        angles = math.pi * (np.arange(self.count) + 0.5) / self.count
        return self.middle * np.exp(self.half * np.cos(angles))

    @property
    def middle(self) -> float:
        """Return ``e^{v_0}``."""
        return math.sqrt(self.low * self.high)

    def places(self, distances: Floats) -> Floats:
        """Return where distances lie, from -1 to 1."""
        return np.log(distances / self.middle) / self.half

    def weights(self, distances: Floats) -> Floats:
        """Return the weights of the points, a row for each distance."""
        at = self.places(self.points)
        apart = at[:, None] - at[None, :]
        np.fill_diagonal(apart, 1.0)
        out = np.empty((distances.size, self.count))
        fill_weights(self.places(distances), at, 1.0 / apart.prod(axis=1), out)
        return out

    def halves(self, distances: Floats, people: int = 1) -> list[tuple[DistancePiece, NDArray[np.intp]]]:
        """Return the halves in which enough of some distances lie, with the positions of these; none of a small one."""
        middle, out = self.middle, []
        if self.high < NARROW * self.low:
            return []
        for low, high, inside in ((self.low, middle, distances < middle), (middle, self.high, distances >= middle)):
            rows = np.flatnonzero(inside)
            if people * rows.size >= WORTH * self.count:
                out.append((DistancePiece(self.rate, low / PIECE_WIDER, high * PIECE_WIDER, self.count), rows))
        return out

    def remainders(self, over: bool, c: float, spacing: float, nodes: int, of_logs: bool = False) -> Floats:
        """Return by how much a moment of a distance in the piece may differ from the polynomial, at nodes of a line.

        Or its logarithm, whose points and weights are taken to be exact. They grow along the line, and are computed at
        some of its nodes.
        """
        some = np.unique(np.append(np.geomspace(1.0, nodes, ASKED).astype(np.intp) - 1, nodes - 1))
        out = np.empty(some.size)
        fill_remainders((self.rate, self.low, self.high, self.count), over, c, spacing * some, of_logs, out)
        return out[np.searchsorted(some, np.arange(nodes))]


def pieces_of(
    rates: Floats, distances: Floats, count: int = POINTS, people: int = 1, ends: Floats = ENDS
) -> list[tuple[DistancePiece, NDArray[np.intp]]]:
    """Return pieces of so many points in which more distances lie, each with the positions of these.

    Or of as many people as there are, who have about as many each.
    """
    parts = PARTS[np.searchsorted(ends, distances, side="right")]
    which = np.stack([rates, parts, np.floor(parts * np.log2(distances))], axis=1)
    found, inverse, counts = np.unique(which, axis=0, return_inverse=True, return_counts=True)
    order, starts = np.argsort(inverse.ravel(), kind="stable"), np.concatenate([[0], np.cumsum(counts)])
    out = []
    for j in np.flatnonzero((people * counts >= WORTH * count) & (found[:, 0] <= LARGEST_RATE)):
        rate, part, k = found[j].tolist()
        piece = DistancePiece(rate, 2.0 ** (k / part) / PIECE_WIDER, 2.0 ** ((k + 1.0) / part) * PIECE_WIDER, count)
        out.append((piece, order[starts[j] : starts[j + 1]]))
    return out


@kernel
def fill_weights(places, points, scales, out):
    """Fill in the weights of N points at some places: ``prod_{i != j} (t - t_i)/(t_j - t_i)``."""
    n = points.size
    for k in range(places.size):
        whole, hit = 1.0, -1
        for j in range(n):
            away = places[k] - points[j]
            whole *= away
            hit = j if away == 0.0 else hit
        for j in range(n):
            if hit < 0:
                out[k, j] = whole * scales[j] / (places[k] - points[j])
            else:
                out[k, j] = 1.0 if j == hit else 0.0


@kernel
def _log_density(u2, u, low2, high2, cosine):
    """Return the largest ``log |phi_m|`` for ``|m|^2`` between two numbers and ``cos 2t`` from one on, and its place.

    ``u2`` and u are the least u^2 and the least u of a cell.
    """
    best = 2.0 * (math.sqrt(1.0 + cosine * cosine * u2) - 1.0) / cosine
    best = min(max(best, low2), high2)
    return -0.5 * (math.log(2.0 * math.pi * best) + u2 * cosine / best + u + 0.25 * best * cosine), best


@kernel
def _cells(q, ends, power, s):
    """Return cells of u for an ellipse, columns as in ``_bounds``, and how much of ``|w^p|`` lies beyond the noise.

    No cells where that would take too many.
    """
    low, high = ends
    half, stretch = 0.5 * math.log(high / low), math.exp(0.5 * math.log(high / low) * (s + 1.0 / s))
    cosine = math.cos(half * (s - 1.0 / s))
    low2, high2 = low * high / stretch, low * high * stretch
    wide = CELL * low
    grows, never = max(power, 1.0), -math.log1p(-q)
    out, count, beyond = np.empty((MOST_CELLS, 7)), 0, 0.0
    for side in (-1.0, 1.0):
        ended = False
        for i in range(MOST_CELLS - count):
            near, far = side * i * wide, side * (i + 1) * wide
            left, right = min(near, far), max(near, far)
            if right > TOO_LARGE:
                break
            log, at = _log_density(near * near, left, low2, high2, cosine)
            small, large = math.log1p(q * math.expm1(left)), math.log1p(q * math.expm1(right))
            if max(abs(power) * never, power * (large + never)) > TOO_LARGE:
                break
            row = out[count]
            row[0] = math.exp(log) * wide
            for j in range(2):  # w_0: 1 - q and 1
                first = -never if j == 0 else 0.0
                raised = max(power * (small - first), power * (large - first))
                row[1 + 2 * j] = max(abs(small - first), abs(large - first)) * math.exp(max(raised, 0.0))
                row[2 + 2 * j] = 1.0 + math.exp(raised)
            row[5] = q * max(abs(math.expm1(left)), abs(math.expm1(right)))
            row[6] = 0.5 * row[5] * row[5] * math.exp(max((power - 2.0) * small, (power - 2.0) * large, 0.0))
            if right > REACH * low or left < -REACH * low:
                beyond += row[0] * row[4]
            count += 1
            # from here on, all that is bounded falls as fast, or faster
            falls = cosine * abs(near) / high2 + 0.5 * side - (grows if side > 0.0 else 0.0)
            size = log + math.log(wide) + abs(power) * never + (grows * large if side > 0.0 else 0.0)
            if falls * falls * high2 > 1.0 and falls > 0.0 and at == high2 and size < NO_CELL:
                ended = True
                break
        if not ended:
            return out[:0], 0.0
    return out[:count], beyond


@kernel
def _bounds(cells, size, square):
    """Return bounds of ``|A/(1 - q)^p - 1|`` and of ``|A - 1|``, for ``|p| = size`` and ``|p (p - 1)| = square``."""
    sums = np.zeros(3)
    for i in range(cells.shape[0]):
        weight, row = cells[i, 0], cells[i]
        sums[0] += weight * min(size * row[1], row[2])
        sums[1] += weight * min(size * row[3], row[4])
        sums[2] += weight * min(square * row[6], row[4] + size * row[5])
    tail = PIECE_TAIL * (2.0 + size)
    return 1.001 * (sums[0] + tail), 1.001 * (min(sums[1], sums[2]) + tail)


@kernel
def _largest(q, power, height, bounds, of_logs):
    """Return the smallest bound of A less a constant, or of log A less one, on an ellipse."""
    first, other = bounds
    if not of_logs:
        return min(first * math.exp(power * math.log1p(-q)), other)
    best = -math.log1p(-other) if other < 1.0 else np.inf
    if first < 1.0 and -height * math.log1p(-q) + 0.5 * math.pi * first < LARGEST_ANGLE:
        best = min(best, -math.log1p(-first))
    return best


@kernel
def fill_remainders(piece, over, c, heights, of_logs, out):
    """Fill in the remainders at ``c + i y`` for some y."""
    q, low, high, count = piece
    power = 1.0 + c if over else -c
    half = 0.5 * math.log(high / low)
    left_out, moved, beyond = np.full(heights.size, np.inf), np.full(heights.size, np.inf), np.inf
    for s in ELLIPSES:
        if half * (s - 1.0 / s) > WIDEST:
            break
        cells, more = _cells(q, (low, high), power, s)
        if cells.shape[0] == 0:
            break
        beyond = min(beyond, more + PIECE_TAIL)
        room = half * (0.5 * (s + 1.0 / s) - 1.0)
        for k in range(heights.size):
            y2 = heights[k] ** 2
            found = _bounds(cells, math.sqrt(power * power + y2), math.sqrt((c * c + y2) * ((1.0 + c) ** 2 + y2)))
            most = _largest(q, power, heights[k], found, of_logs)
            left_out[k] = min(left_out[k], 4.0 * most * s ** (1.0 - count) / (s - 1.0))
            moved[k] = min(moved[k], most if of_logs else most / room)
    for k in range(heights.size):
        if of_logs:  # |A| is at least e^-most, times the constant
            lost = 2.0 * beyond * math.exp(moved[k] - abs(power) * math.log1p(-q))
        else:
            lost = beyond + PIECE_PLACE * moved[k]
        out[k] = left_out[k] + (1.0 + LARGEST_WEIGHTS) * lost
