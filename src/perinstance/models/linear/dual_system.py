"""Everybody without themselves, and outsiders, from one n x n matrix in floats.

With ``K = XX' + alpha I`` and ``k_i = (K^-1)_ii``, without person i and without a difference of near numbers,

    mu = 1 / (alpha k_i) - 1,    r = (K^-1 y)_i / k_i,    H_with^-1 x = X' K^-1 e_i.

For any row x, in the data or not, with ``c = X x`` and ``b = K^-1 c`` (means taken off where there is an intercept):

    x'H^-1x = (x'x - c'b) / alpha (+ 1/n),    x'theta = b'y (+ mean),    H^-1 x = (x - X'b) / alpha.

Rounding makes ``K + E`` of K, with ``|E| <= B`` entry by entry, whatever the order of the sums: products lose
``p u |X||X|'``, the factorisation and the triangular solves ``3 n u |L||L|'`` (Higham 2002, chapters 3, 8, 10). Then
``eta = ||K^-1/2 E K^-1/2||`` is at most the spectral radius of ``|K^-1| B``, hence at most ``max (|K^-1| B d)_i / d_i``
for any d > 0 (Collatz and Wielandt). The numbers ``k_i`` are known to ``eta / (1 - eta)``, relatively, and ``u'K^-1 v``
to that share of ``sqrt(u'K^-1u  v'K^-1v)``; c is off by ``p u |X||x|``. Losses are rounded up by as much.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, LONG_UNIT, TINY, UNIT, USABLE_ERROR

#: columns that are multiplied at once: a sum of all of them in some order would lose more
RUN = 128


def product(A: Floats, B: Floats) -> Floats:
    """Return ``A B'`` as a sum of products of few columns each: a term goes through ``depth`` operations at most."""
    total = A[:, :RUN] @ B[:, :RUN].T
    for start in range(RUN, A.shape[1], RUN):
        total += A[:, start : start + RUN] @ B[:, start : start + RUN].T
    return total


def depth(p: int) -> float:
    """Return how many units in the last place of ``|A||B|'`` the product over p columns loses at most."""
    return float(min(p, RUN + p // RUN + 1) + 2)


@dataclass(frozen=True, slots=True)
class ReflectedRows:
    """The rows, and the unit vectors of people in the same coordinates."""

    X: Floats  #: (m, p), m = n, or n - 1 with an intercept
    y: Floats
    units: Floats | None  #: (m, n); None is the identity
    lost: Floats | None  #: (m, p) what the reflection may have taken from X; None without one

    @classmethod
    def of(cls, X: Floats, y: Floats, intercept: bool) -> ReflectedRows:
        """Reflect by ``I - 2 v v' / v'v``, v = ones + sqrt(n) e_1, and leave the first row out."""
        if not intercept:
            return cls(X, y, None, None)
        n = len(X)
        v = np.ones(n)
        v[0] += np.sqrt(n)
        share = 2 * v / (2 * (n + np.sqrt(n)))
        units = np.eye(n) - np.outer(v, share)
        lost = HALF_UNIT * np.abs(X) + (n + 8) * HALF_UNIT * np.outer(v, share @ np.abs(X))
        return cls((X - np.outer(v, share @ X))[1:], (y - v * (share @ y))[1:], units[1:].copy(), lost[1:])

    def backward_error(self, rows: Floats, lower: Floats, d: Floats) -> Floats:
        """Return ``B d``; ``rows`` and ``lower`` are ``|X|`` and ``|L|``."""
        m, p = rows.shape
        seen = rows.T @ d
        total = depth(p) * HALF_UNIT * (rows @ seen) + 3 * (m + 2) * HALF_UNIT * (lower @ (lower.T @ d))
        if self.lost is not None:
            total += rows @ (self.lost.T @ d) + self.lost @ seen
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class DualAnswers:
    """What holds without each of these people, rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r
    length: Floats  #: ``||H_with^-1 x||_A``; empty when no length was asked for
    rough: Floats  #: relative error of mu
    error: Floats  #: that of 1 + mu, with the relative error of the length
    lost: Floats  #: what was added to the residual for rounding

    def picked(self, at: Any) -> DualAnswers:
        """Return what holds of some of these people."""
        columns = (getattr(self, one.name) for one in fields(self))
        return DualAnswers(*(column[at] if len(column) else column for column in columns))


@dataclass(frozen=True, slots=True)
class Lengths:
    """The norm in which a movement is measured: ``v'Av``; None is the Euclidean one."""

    precision: Floats | None

    def of(self, moved: Floats, off: Floats) -> tuple[Floats, Floats]:
        """Return the lengths of rows that are off by ``off``, rounded up, and the share that was added."""
        if self.precision is None:
            plain = np.sqrt(np.einsum("ij,ij->i", moved, moved))
            off = off + (moved.shape[1] + 4) * HALF_UNIT * plain
            length = plain + off
        else:
            C = np.linalg.cholesky(self.precision).T
            # terms of a sum may cancel, here and in A = C'C: rounding goes by their sizes
            sizes = 4 * len(C) * UNIT * ((np.abs(moved) @ np.abs(C).T) ** 2).sum(axis=1)
            off = off * float(np.sqrt(np.linalg.norm(C, 1) * np.linalg.norm(C, np.inf)))
            length = np.sqrt(((moved @ C.T) ** 2).sum(axis=1) + sizes) + off
        return length, np.divide(off, length, out=np.zeros(len(off)), where=length > 0)


@dataclass(frozen=True, slots=True)
class DualSystem:
    """K factorised, and what rounding took from it."""

    rows: ReflectedRows
    alpha: float
    mean: Floats | None  #: (p,) of the columns, with an intercept
    mean_lost: Floats | None  #: (p,) what rounding took from it, at most
    target: tuple[float, float]  #: the mean of y and ``||y||``
    n: int
    L: Floats
    Z: Floats  #: L^-1 of the unit vectors
    z: Floats  #: L^-1 y
    eta: float
    condition: float  #: of K with its diagonal scaled to one, at most

    @classmethod
    def of(cls, X: Floats, y: Floats, alpha: float, intercept: bool) -> DualSystem | None:
        """Factorise; None where floats leave nothing certain."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = ReflectedRows.of(X, y, intercept)
            K = product(rows.X, rows.X)
            K.flat[:: len(K) + 1] += alpha
            if not np.isfinite(K).all() or not np.isfinite(rows.y @ rows.y):
                return None
            L, failed = dpotrf(K, lower=1, clean=1)
            if failed:
                return None
            inverse = _solved(L, np.eye(len(L)))
            size = np.abs(inverse.T @ inverse)
            # of ||K^-1/2 E K^-1/2||; twice, because |K^-1| is rounded itself
            across, lower = np.abs(rows.X), np.abs(L)
            d = size @ rows.backward_error(across, lower, np.ones(len(L)))
            eta = 2 * float((size @ rows.backward_error(across, lower, d) / d).max()) if (d > 0).all() else np.inf
            if not eta < USABLE_ERROR:
                return None
        scale = np.sqrt(K.diagonal())
        condition = float((size @ scale * scale).max() * (np.abs(K) @ (1 / scale) / scale).max())
        units = rows.units
        Z = inverse if units is None else _solved(L, units)
        mean = mean_lost = None
        if intercept:
            mean, mean_lost = X.mean(axis=0), (len(X) + 2) * HALF_UNIT * np.abs(X).mean(axis=0)
        target = (float(y.mean()) if intercept else 0.0, float(np.linalg.norm(y)))
        return cls(rows, alpha, mean, mean_lost, target, len(X), L, Z, _solved(L, rows.y), eta, condition)

    @property
    def theta(self) -> Floats:
        """The estimate, the intercept last."""
        coef = self.rows.X.T @ _solved(self.L, self.z, transposed=True)
        return coef if self.mean is None else np.append(coef, self.target[0] - self.mean @ coef)

    @property
    def share(self) -> float:
        """What ``u'K^-1u`` may have lost, relatively."""
        return 2 * self.eta + 2 * self.n * UNIT

    def inside(self, X: Floats, y: Floats, lengths: Lengths | None) -> DualAnswers:
        """Answer for everybody of the data."""
        Z, alpha = self.Z, self.alpha
        k = np.einsum("ij,ij->j", Z, Z)
        # eta / (1 - eta), sums of n products, and the unit vectors, which are rounded where they were reflected
        rounded = 2 * self.n * UNIT + 16 * UNIT / np.sqrt(alpha * k)
        share = np.minimum((1 + 2 * self.eta) * self.eta + rounded, 1.0)
        solved, lost = self._solution(X, y, share, k)
        # a leverage that is raised by 2 share (1 + mu) takes the residual along: a posterior sample loses no less then
        residual = solved / k
        lost = lost / k + 4 * share * np.abs(residual)
        leverage = (1 + 2 * share) / (alpha * k) - 1
        length, added = np.empty(0), np.zeros(self.n)
        rough = 4 * share * (1 + leverage) / np.maximum(leverage, TINY)
        if lengths is not None:
            w = _solved(self.L, Z, transposed=True)  # K^-1 e_i, off by share sqrt(k) as K sees it: so is X'w
            moved = product(w.T, self.rows.X.T)
            across = float(np.linalg.norm(self.rows.X)) * np.linalg.norm(w, axis=0)  # at least || |X|'|w| ||
            reflected = 0.0 if self.rows.lost is None else np.linalg.norm(self.rows.lost) * np.linalg.norm(w, axis=0)
            off = (self.share + rounded) * np.sqrt(k) + depth(len(w)) * UNIT * across + reflected
            moved, off = self._with_intercept(moved, off)
            length, added = lengths.of(moved, off)
        return DualAnswers(leverage, residual + np.copysign(lost, residual), length, rough, 4 * share + added, lost)

    def _solution(self, X: Floats, y: Floats, share: Floats, k: Floats) -> tuple[Floats, Floats]:
        """Return ``P y`` (without an intercept ``K^-1 y``) and what it may have lost, by one step of refinement.

        With ``rho = y - K w - c 1``, ``P y = w + P rho - q 1'w``, ``q = K^-1 1 / 1'K^-1 1``. The first w is good to a
        share of ``||L^-1 y||``, the second one to that share of ``||L^-1 rho||``, and rho, in longer floats, to
        ``(n + p) u |X||X|'|w|``.
        """
        wide, free = np.longdouble, self.mean is not None
        units = self.rows.units
        w = self.Z.T @ self.z
        rows, first = X.astype(wide), w.astype(wide)
        rho = y - self.alpha * first - rows @ (first @ rows)
        rho = rho - rho.mean() if free else rho
        unit = LONG_UNIT
        size = np.abs(X)
        off = unit * ((sum(X.shape) + 8) * (size @ (np.abs(w) @ size)) + 8 * (np.abs(y) + self.alpha * np.abs(w)))
        left = np.asarray(rho, dtype=np.float64)
        seen = self.Z @ left if units is None else _solved(self.L, units @ left)
        found = w + self.Z.T @ seen
        norm, root = float(np.linalg.norm(left)), float(np.sqrt(self.alpha))
        lost = share * float(np.linalg.norm(seen)) + (float(np.linalg.norm(off)) + (self.n + 8) * UNIT * norm) / root
        lost += (self.n + 8) * UNIT * norm * float(np.linalg.norm(self.Z))
        lost = np.sqrt(k) * lost + 4 * UNIT * np.abs(found)
        if free:
            most = np.sqrt((self.alpha + float(np.linalg.norm(X)) ** 2) / (self.alpha * self.n))  # of q
            lost += 2 * float(abs(first.sum())) * most + self.n * unit * float(np.abs(w).sum()) * most
        return found, lost

    def _with_intercept(self, moved: Floats, off: Floats) -> tuple[Floats, Floats]:
        """Append how the intercept moves, by ``1/n - mean'moved``."""
        if self.mean is None or self.mean_lost is None:
            return moved, off
        slack = self.n * UNIT * (1 + np.abs(moved) @ (np.abs(self.mean) + self.mean_lost))
        slack += np.abs(moved) @ self.mean_lost
        grown = float(np.sqrt(1 + self.mean @ self.mean))
        return np.column_stack([moved, 1 / self.n - moved @ self.mean]), (off + slack) * grown

    def outside(self, X: Floats, y: Floats, lengths: Lengths | None) -> DualAnswers:
        """Answer for rows that are not in the data, by the second formula."""
        rows, alpha, u = self.rows, self.alpha, HALF_UNIT
        n, p = self.n, X.shape[1]
        size = np.abs(rows.X)
        at, moved_by = X, np.zeros(X.shape)
        if self.mean is not None and self.mean_lost is not None:
            at = X - self.mean
            moved_by = u * np.abs(at) + self.mean_lost
        c, far = product(rows.X, at), np.abs(at)
        dc = depth(p) * u * (size @ far.T) + size @ moved_by.T
        if rows.lost is not None:
            dc += rows.lost @ far.T
        v = _solved(self.L, c)
        b = _solved(self.L, v, transposed=True)
        w = np.abs(_solved(self.L, self.z, transposed=True))
        square, explained = np.einsum("ij,ij->i", at, at), np.einsum("ij,ij->j", v, v)
        norm_v, norm_z, root = np.sqrt(explained), float(np.linalg.norm(self.z)), float(np.sqrt(alpha))
        norm_dc = np.linalg.norm(dc, axis=0)
        b_dc = np.einsum("ij,ij->j", np.abs(b), dc) + self.share * norm_v * norm_dc / root
        lost_m = (p + 4) * UNIT * square + self.share * explained + 2 * b_dc + norm_dc**2 / alpha
        lost_m += np.einsum("ij,ij->i", 2 * far + moved_by, moved_by)
        m, lost_m = (square - explained) / alpha, lost_m / alpha
        prediction = v.T @ self.z + self.target[0]
        lost = self.share * norm_v * norm_z + w @ dc + self.share * norm_z * norm_dc / root
        lost += 2 * UNIT * (np.abs(prediction) + np.abs(y))
        if self.mean is not None:
            m, lost_m = m + 1 / n, lost_m + UNIT / n
            lost += (n + 8) * UNIT * self.target[1] * (norm_v / root + 1 / np.sqrt(n))
        m = np.maximum(m, 0.0)
        length, added = np.empty(0), np.zeros(len(X))
        if lengths is not None:
            moved = (at - (rows.X.T @ b).T) / alpha
            off = self.share * norm_v + norm_dc / root + np.linalg.norm(moved_by, axis=1)
            off += (n + 4) * u * (np.linalg.norm(size.T @ np.abs(b), axis=0) + np.sqrt(square))
            if rows.lost is not None:
                off += np.linalg.norm(rows.lost.T @ np.abs(b), axis=0)
            length, added = lengths.of(*self._with_intercept(moved, off / alpha))
        e, up = y - prediction, m + lost_m
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            low = 1 + np.maximum(m - lost_m, 0.0)
            # a larger leverage tells more only together with sqrt((1 + mu') / (1 + mu)) times the residual
            lost = (np.abs(e) + lost) * (1 + 2 * lost_m / low) * (1 + 4 * UNIT) - np.abs(e)
            size = np.abs(e) + lost
            size = np.where(np.isfinite(size), size, np.inf)
            relative = np.where(np.isfinite(up), 2 * lost_m / m, np.inf)
            leverage = np.where(np.isfinite(up), up * (1 + 4 * UNIT), np.inf)
            length = length / low if len(length) else length
        return DualAnswers(leverage, np.copysign(size, e), length, relative, relative + added, lost)


def _solved(L: Floats, right: Floats, transposed: bool = False) -> Floats:
    found, _ = dtrtrs(L, right, lower=1, trans=int(transposed))
    return np.asarray(found).reshape(right.shape)
