"""Tables of many columns: the rows of X W by a library's product, and the sums over them.

Where W is upper triangular it is cut into a few panels of columns, and each is multiplied down to its last entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import sum_kernel


@dataclass(slots=True)
class Products:
    """A matrix W, cut into columns, and room for the image of one piece of rows."""

    panels: list[Floats]
    offset: Floats  #: what is added to x W
    image: Floats
    weights: Floats
    lift: Floats | None  #: the squared length is ``||q lift||^2`` instead of ``sum weights_j q_j^2``
    room: list[Floats]

    @classmethod
    def of(
        cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool, lift: Floats | None
    ) -> Products:
        """Cut W; where it is upper triangular the rows below are zero and cost nothing."""
        d, r = W.shape
        count = max(1, min(4, r // 24)) if triangular else 1
        cuts = np.linspace(0, r, count + 1).astype(int)
        panels = (
            [W]
            if count == 1
            else [np.ascontiguousarray(W[: min(b, d), a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]
        )
        return cls(panels, offset, image, weights, lift, [np.empty((0, panel.shape[1])) for panel in panels])

    def sums(self, X: NDArray, m: Floats, t: Floats, square: Floats) -> None:
        """Write, with ``q = x W + offset``, ``sum q_j^2``, ``sum q_j image_j`` and, unless ``square`` is empty,
        the squared length of each row.
        """
        if len(self.room[0]) != len(X):
            self.room = [np.empty((len(X), panel.shape[1])) for panel in self.panels]
        m[:], t[:], square[:] = 0.0, 0.0, 0.0
        at = 0
        for panel, q in zip(self.panels, self.room, strict=True):
            np.matmul(X[:, : len(panel)], panel, out=q)
            run = slice(at, at + q.shape[1])
            if len(square) and self.lift is None:
                _three_sums(q, self.offset[run], self.image[run], self.weights[run], m, t, square)
            else:
                _two_sums(q, self.offset[run], self.image[run], m, t)
            at = run.stop
        if self.lift is not None:
            v = (np.hstack(self.room) + self.offset) @ self.lift
            np.einsum("ij,ij->i", v, v, out=square)


@sum_kernel
def _two_sums(q, offset, image, m, t):  # pragma: no cover - compiled
    """Add to the leverages and the predictions; four rows at a time share the loads of offset and image."""
    n, width = q.shape
    last = n - n % 4
    for i in range(0, last, 4):
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        for j in range(width):
            o, c = offset[j], image[j]
            v0, v1, v2, v3 = q[i, j] + o, q[i + 1, j] + o, q[i + 2, j] + o, q[i + 3, j] + o
            a0 += v0 * v0
            a1 += v1 * v1
            a2 += v2 * v2
            a3 += v3 * v3
            b0 += v0 * c
            b1 += v1 * c
            b2 += v2 * c
            b3 += v3 * c
        m[i] += a0
        m[i + 1] += a1
        m[i + 2] += a2
        m[i + 3] += a3
        t[i] += b0
        t[i + 1] += b1
        t[i + 2] += b2
        t[i + 3] += b3
    for i in range(last, n):
        for j in range(width):
            v = q[i, j] + offset[j]
            m[i] += v * v
            t[i] += v * image[j]


@sum_kernel
def _three_sums(q, offset, image, weights, m, t, square):  # pragma: no cover - compiled
    """Add to the leverages, the predictions and the squared movements; two rows at a time."""
    n, width = q.shape
    last = n - n % 2
    for i in range(0, last, 2):
        a0 = a1 = b0 = b1 = c0 = c1 = 0.0
        for j in range(width):
            o, c, w = offset[j], image[j], weights[j]
            v0, v1 = q[i, j] + o, q[i + 1, j] + o
            s0, s1 = v0 * v0, v1 * v1
            a0 += s0
            a1 += s1
            b0 += v0 * c
            b1 += v1 * c
            c0 += w * s0
            c1 += w * s1
        m[i] += a0
        m[i + 1] += a1
        t[i] += b0
        t[i + 1] += b1
        square[i] += c0
        square[i + 1] += c1
    for i in range(last, n):
        for j in range(width):
            v = q[i, j] + offset[j]
            m[i] += v * v
            t[i] += v * image[j]
            square[i] += weights[j] * (v * v)
