"""One product per person gives everything a linear release asks: ``q = x W`` with ``H^-1 = W W'``.

- leverage ``x'H^-1x = sum_j q_j^2``
- prediction ``x'theta = sum_j q_j b_j`` with ``b = W'X'y``, because ``theta = W W'X'y``
- movement ``||H^-1x||_A^2 = sum_j a_j q_j^2`` when W is chosen such that ``W'AW = diag(a)``

A block is walked in pieces whose rows and image stay in the second-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perinstance.models.gram import PIECE_BYTES

Floats = NDArray[np.float64]

_FAST = {"reassoc", "contract", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


@dataclass(frozen=True, slots=True)
class Rows:
    """One entry per row of a block."""

    leverage: Floats  #: x'H^-1x, H as in the fit
    prediction: Floats  #: x'theta
    movement: Floats  #: ||H^-1x||_A^2; empty when no weights were asked for


def sweep_rows(X: NDArray, W: Floats, image: Floats, weights: Floats | None, intercept: bool) -> Rows:
    """Walk over one block. ``W`` has one row per column of X and, with an intercept, one more at the end."""
    n, d = X.shape
    r = W.shape[1]
    offset = np.ascontiguousarray(W[d]) if intercept else np.zeros(r)
    inner = np.ascontiguousarray(W[:d])
    leverage, prediction = np.empty(n), np.empty(n)
    movement = np.empty(n if weights is not None else 0)
    rows = max(64, PIECE_BYTES // (8 * max(r, d, 1)))
    Q = np.empty((min(rows, n), r))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        q = np.matmul(X[start:stop], inner, out=Q[: stop - start])
        if weights is None:
            _two_sums(q, offset, image, leverage[start:stop], prediction[start:stop])
        else:
            _three_sums(q, offset, image, weights, leverage[start:stop], prediction[start:stop], movement[start:stop])
    return Rows(leverage, prediction, movement)


@njit(nogil=True, cache=True, fastmath=_FAST)
def _two_sums(q, offset, image, leverage, prediction):  # pragma: no cover - compiled
    for i in range(q.shape[0]):
        m = 0.0
        t = 0.0
        for j in range(q.shape[1]):
            v = q[i, j] + offset[j]
            m += v * v
            t += v * image[j]
        leverage[i] = m
        prediction[i] = t


@njit(nogil=True, cache=True, fastmath=_FAST)
def _three_sums(q, offset, image, weights, leverage, prediction, movement):  # pragma: no cover - compiled
    for i in range(q.shape[0]):
        m = 0.0
        t = 0.0
        a = 0.0
        for j in range(q.shape[1]):
            v = q[i, j] + offset[j]
            m += v * v
            t += v * image[j]
            a += weights[j] * (v * v)
        leverage[i] = m
        prediction[i] = t
        movement[i] = a
