"""How large a convex form ``x'Mx`` can be on a slab of a box, exactly: it is largest at a corner of what is cut out.

The corners of ``{|x_j| <= B_j, low <= x'theta <= high}`` are corners of the box inside the slab, and points of its
edges at both ends. With d features there are ``2^d`` corners and ``d 2^(d-1)`` edges: some thousand up to ten features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import EDGE_ERROR, SHORT_EDGE, UNIT

MOST_FEATURES = 10
#: numbers in one temporary
CHUNK = 1 << 21


@dataclass(frozen=True, slots=True)
class SlabMaxima:
    """One form over the slabs of a box; slabs are told in the sigma of the ellipsoid around it."""

    sigma: Floats  #: of each corner of the box, increasing
    value: Floats
    start: Floats  #: (edges,) sigma at the lower end of each edge
    stop: Floats
    along: Floats  #: (3, edges) the form along the edge is ``along_0 + along_1 t + along_2 t^2``, 0 <= t <= 1

    def upper(self, low: Floats, high: Floats) -> Floats:
        """Return the largest value for sigma in [low, high], one for each interval."""
        ends, which = np.unique(np.concatenate([low, high]), return_inverse=True)
        cut = self._cut(ends)[which].reshape(2, -1).max(axis=0)
        first, last = np.searchsorted(self.sigma, low, "left"), np.searchsorted(self.sigma, high, "right")
        padded = np.append(self.value, -np.inf)  # so that an empty or a last run has somewhere to point
        inside = np.maximum.reduceat(padded, np.column_stack([first, np.maximum(last, first)]).ravel())[::2]
        best = np.maximum(cut, np.where(last > first, inside, -np.inf))
        slack = EDGE_ERROR * float(np.abs(self.value).max())  # short edges are not cut but taken whole
        return np.where(np.isfinite(best), best, 0.0) + slack  # an interval without anybody

    def _cut(self, at: Floats) -> Floats:
        """Return the largest value on each of these planes."""
        best = np.full(len(at), -np.inf)
        rows = max(1, CHUNK // len(self.start))
        for i in range(0, len(at), rows):
            s = at[i : i + rows, None]
            t = (s - self.start) / (self.stop - self.start)
            value = self.along[0] + t * (self.along[1] + t * self.along[2])
            best[i : i + rows] = np.where((t >= 0) & (t <= 1), value, -np.inf).max(axis=1)
        return best


@dataclass(frozen=True, slots=True)
class Box:
    """The corners and edges of a box, an intercept's constant behind them."""

    x: Floats  #: (corners, p)
    first: NDArray[np.intp]  #: edges: from this corner
    second: NDArray[np.intp]  #: to that one

    def slab_maxima(self, M: Floats, sigma: Floats) -> SlabMaxima:
        """Prepare a positive semidefinite form M; ``sigma`` belongs to each corner."""
        xM = self.x @ M
        value = np.einsum("ij,ij->i", xM, self.x)
        swap = sigma[self.first] > sigma[self.second]
        a, b = np.where(swap, self.second, self.first), np.where(swap, self.first, self.second)
        between = np.einsum("ij,ij->i", xM[a], self.x[b])
        # x = x_a + t (x_b - x_a); widened by a hair so that no crossing is missed
        hair = 8 * UNIT * (1 + np.abs(sigma).max())
        flat = sigma[b] - sigma[a] < SHORT_EDGE * (1 + np.abs(sigma).max())
        along = np.stack([value[a], 2 * (between - value[a]), value[a] + value[b] - 2 * between])
        along[:, flat] = 0.0
        along[0, flat] = np.maximum(value[a], value[b])[flat]
        order = np.argsort(sigma)
        return SlabMaxima(sigma[order], value[order], sigma[a] - hair, sigma[b] + hair, along)


def box(bounds: Floats, intercept: bool) -> Box | None:
    """Return the corners of a box; None when there are too many features to list them."""
    d = len(bounds)
    if d > MOST_FEATURES:
        return None
    signs = 1.0 - 2.0 * ((np.arange(2**d)[:, None] >> np.arange(d)) & 1)
    x = np.concatenate([signs * bounds, np.ones((2**d, int(intercept)))], axis=1)
    places = np.arange(2**d)
    first = np.concatenate([places[(places >> j) & 1 == 0] for j in range(d)])
    second = np.concatenate([places[(places >> j) & 1 == 0] | (1 << j) for j in range(d)])
    return Box(x, first, second)
