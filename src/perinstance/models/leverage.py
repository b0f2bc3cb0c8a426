"""One product per person gives everything a linear release asks: ``q = x W`` with ``H^-1 = W W'``.

- leverage ``m = x'H^-1x = sum_j q_j^2``
- prediction ``x'theta = sum_j q_j b_j`` with ``b = W'X'y``, because ``theta = W W'X'y``
- movement ``||H^-1x||_A^2 = sum_j a_j q_j^2`` when W is chosen such that ``W'AW = diag(a)``; where the a_j are so far
  apart that they are not known to full precision, by a second product: ``||C W q||^2`` with ``A = C'C``

A block is walked in pieces whose rows and image stay in the second-level cache; what follows from the sums for one
person (``mu``, ``r``, rounded outwards) is done while they are in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perinstance.models.gram import pieces

Floats = NDArray[np.float64]

_FAST = {"reassoc", "contract", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning

#: an in-sample leverage above this is answered by a factorisation without the person: 1 - m would lose digits
HARD_LEVERAGE = 0.95
#: rounding beyond this share of a number makes the answer an upper bound instead of an exact one
EXACT_SHARE = 1e-6


@dataclass(frozen=True, slots=True)
class Rounding:
    """What rounding can have taken from a person's numbers; it is added wherever a loss is stated.

    With G the scaled H and s the scale, ``||x s||^2 <= lambda_max(G) m``. So the error ``sqrt(p) u |x| |W|`` of a row
    of X W is at most ``sqrt(p) u sqrt(lambda_max(G) m) ||W_j / s||`` in column j: all errors are multiples of sqrt(m).
    """

    leverage: float  #: of sqrt(m): relative
    residual: float  #: of e = y - x'theta, per sqrt(m)
    length: float  #: of ||H^-1x||_A, per sqrt(m)
    share: float  #: of ||H^-1x||_A: relative


@dataclass(frozen=True, slots=True)
class Norm:
    """How ``||H^-1x||_A`` follows from q: by weights when they are accurate, by a second product otherwise."""

    weights: Floats  #: (rank,) a_j; empty when ``lift`` is used
    lift: Floats | None  #: (rank, p) (C W)'


@dataclass(frozen=True, slots=True)
class Rows:
    """One entry per row of a block, rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r
    length: Floats  #: ||H_with^-1 x||_A; empty when there is no norm
    grade: NDArray[np.uint8]  #: 0 exact, 1 upper: rounding took too much
    open: NDArray[np.bool_] | None  #: people of the data whose leverage is near one: not answered here


def leverages(X: NDArray, W: Floats, intercept: bool) -> Floats:
    """Return ``x'H^-1x`` of each row."""
    n, d = X.shape
    out = np.empty(n)
    inner, offset = _split(W, d, intercept)
    for run in pieces(X, max(W.shape)):
        q = X[run] @ inner
        q += offset
        out[run] = np.einsum("ij,ij->i", q, q)
    return out


def walk(
    X: NDArray,
    y: NDArray,
    W: Floats,
    image: Floats,
    norm: Norm | None,
    intercept: bool,
    rounding: Rounding,
    inside: bool,
    triangular: bool = False,
) -> Rows:
    """Answer for one block. ``W`` has one row per column of X and, with an intercept, one more at the end."""
    n, d = X.shape
    inner, offset = _split(W, d, intercept)
    panels = _panels(inner, triangular)
    lift = None if norm is None else norm.lift
    a = np.zeros(len(image)) if norm is None or lift is not None else norm.weights
    how = 0 if norm is None else 1 if lift is None else 2
    mu, r, length = np.empty(n), np.empty(n), np.empty(n if how else 0)
    grade = np.empty(n, dtype=np.uint8)
    limits = (rounding.leverage, rounding.residual, rounding.length, rounding.share)
    hard, Q = 0, [np.empty((0, panel.shape[1])) for panel in panels]
    for run in pieces(X, max(W.shape)):
        if len(Q[0]) != run.stop - run.start:
            Q = [np.empty((run.stop - run.start, panel.shape[1])) for panel in panels]
        mu[run], r[run] = 0.0, 0.0
        at = 0
        for panel, q in zip(panels, Q, strict=True):
            np.matmul(X[run, : len(panel)], panel, out=q)
            stop = at + q.shape[1]
            if how == 1:
                _three_sums(q, offset[at:stop], image[at:stop], a[at:stop], mu[run], r[run], length[run])
            else:
                _two_sums(q, offset[at:stop], image[at:stop], mu[run], r[run])
            at = stop
        if lift is not None:
            v = (np.hstack(Q) + offset) @ lift
            np.einsum("ij,ij->i", v, v, out=length[run])
        hard += _finish(y[run], limits, inside, mu[run], r[run], length[run], grade[run])
    return Rows(mu, r, length, grade, grade == 2 if hard else None)


def _panels(inner: Floats, triangular: bool) -> list[Floats]:
    """Cut W into a few columns each; where it is upper triangular the rows below are zero and cost nothing."""
    d, r = inner.shape
    count = min(4, r // 24) if triangular else 1
    if count < 2:
        return [inner]
    cuts = np.linspace(0, r, count + 1).astype(int)
    return [np.ascontiguousarray(inner[: min(b, d), a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def _split(W: Floats, d: int, intercept: bool) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(W[:d]), np.ascontiguousarray(W[d]) if intercept else np.zeros(W.shape[1])


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
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


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def _three_sums(q, offset, image, weights, m, t, square):  # pragma: no cover - compiled
    """Add to the leverages and the predictions and write the squared movements; two rows at a time."""
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
        square[i] = c0
        square[i + 1] = c1
    for i in range(last, n):
        square[i] = 0.0
        for j in range(width):
            v = q[i, j] + offset[j]
            m[i] += v * v
            t[i] += v * image[j]
            square[i] += weights[j] * (v * v)


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _finish(y, limits, inside, mu, r, length, grade):  # pragma: no cover - compiled
    """Turn m, x'theta and the squared length into mu, r and the length, rounded away from zero; count the hard."""
    u = 2.220446049250313e-16
    moves = len(length) > 0
    vague = limits[0] > 1e-6
    hard = 0
    for i in range(len(y)):
        m = mu[i]
        t = r[i]
        e = y[i] - t
        root = np.sqrt(m) * (1.0 + limits[0])
        lost = root * limits[1] + u * abs(y[i])
        up = root * root
        near = inside and m > 0.95  # HARD_LEVERAGE: answered elsewhere
        rest = 1.0 / (1.0 - up if inside and not near else 1.0)
        mu[i] = up * rest
        r[i] = np.copysign((abs(e) + lost) * rest, e)
        g = vague or (lost > 1e-6 * abs(e) and lost > 1e-9 * (abs(y[i]) + abs(t)))
        grade[i] = 2 if near else 1 if g else 0
        hard += near
    if moves:
        for i in range(len(y)):
            b = np.sqrt(length[i])
            m = mu[i] / (1.0 + mu[i]) if inside else mu[i]
            away = np.sqrt(m) * limits[2] + b * limits[3]
            length[i] = (b + away) / (1.0 if inside else 1.0 + m * (1.0 - 2.0 * limits[0]))
            if away > 1e-6 * b and grade[i] == 0:
                grade[i] = 1
    return hard
