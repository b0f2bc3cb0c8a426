"""Exact sums: ``Z'Z`` of float64 rows ``Z = (X, y)`` without one rounding error.

A float64 is an integer times a power of two. Its magnitude is cut into digits of 20 bits on one absolute scale,
``x = sum_k D_k 2^(20 k)``; digit matrices are integer-valued float64, and a BLAS product over at most ``2^13`` rows
stays below ``2^53``, where float64 adds integers exactly in whatever order the library likes. Chunks are summed in
int64 and kept as Python integers. The result does not depend on the order, the blocking or the machine (threat T20).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput, InvalidTable
from perinstance.sampling.enclosure import Ball, dyadic

DIGIT = 20  # bits in a digit: two digits and the sum over CHUNK rows make 2 * 20 + 13 = 53 bits
CHUNK = 1 << 13
WIDEST = 4096  # columns of one digit matrix; wider ones (absurd ranges of magnitude) are split by rows
FLUSH = 512  # chunks that int64 holds for sure: 512 * 2^53 < 2^63


@dataclass(frozen=True, slots=True, eq=False)
class ExactGram:
    """``Z'Z = entries * 2^exponent`` of n rows ``Z = (X, y)``; d columns, then y. Confidential.

    >>> g = ExactGram.of([[0.5, 1.0], [0.25, 3.0]], [1.0, -2.0])
    >>> g.fraction(0, 0), g.fraction(1, 2)
    (Fraction(5, 16), Fraction(-5, 1))
    """

    entries: NDArray[np.object_]
    exponent: int
    n: int

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike, intercept: bool = False) -> ExactGram:
        """Sum the outer products of these rows; an intercept is a column of ones behind those of X."""
        X, y = np.asarray(X), np.asarray(y)
        if X.ndim != 2 or y.shape != X.shape[:1]:
            raise InvalidInput(f"X must be rows x columns and y one per row, got shapes {X.shape} and {y.shape}")
        total = _Sums(X.shape[1] + intercept + 1)
        for start in range(0, len(X), CHUNK):
            x, t = X[start : start + CHUNK], y[start : start + CHUNK]
            Z = np.column_stack([x, np.ones(len(x)), t] if intercept else [x, t]).astype(np.float64, copy=False)
            if not np.isfinite(Z).all():
                raise InvalidTable("rows must be finite numbers, got NaN or infinity; remove or impute them first")
            total.add(Z)
        return total.result(len(X))

    @property
    def d(self) -> int:
        """Number of coefficients: the columns of X, and of the intercept."""
        return len(self.entries) - 1

    def __add__(self, other: ExactGram) -> ExactGram:
        """Merge the sums of two sets of rows: the fold of a stream of blocks."""
        if other.d != self.d:
            raise InvalidInput(f"blocks must have the same columns, got {self.d} and {other.d}")
        e = min(self.exponent, other.exponent)
        merged = (self.entries << (self.exponent - e)) + (other.entries << (other.exponent - e))
        return ExactGram(merged, e, self.n + other.n)

    def fraction(self, i: SupportsIndex, j: SupportsIndex) -> Fraction:
        """One entry as a rational number; index d is y."""
        return Fraction(int(self.entries[i, j])) * Fraction(2) ** self.exponent

    def normal_equations(self, alpha: ArrayLike = 0.0) -> NormalEquations:
        """``H = X'X + diag(alpha)`` and ``b = X'y``, exactly; alpha is one penalty or one per column."""
        penalties = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (self.d,))
        if not (np.isfinite(penalties).all() and (penalties >= 0).all()):
            raise InvalidInput("alpha must be finite and >= 0; pass one number, or one per coefficient")
        ratios = [value.as_integer_ratio() for value in penalties.tolist()]
        e = min([self.exponent] + [1 - q.bit_length() for _, q in ratios])  # q is a power of two
        Z = self.entries << (self.exponent - e)
        H = Z[:-1, :-1].copy()
        for j, (p, q) in enumerate(ratios):
            H[j, j] += (p << -e) // q
        return NormalEquations(H, Z[:-1, -1].copy(), e)


def exact_sums(X: ArrayLike) -> list[Fraction]:
    """Sum each column without a rounding error.

    >>> exact_sums([[0.5, 1e300], [0.25, 1.0]])[0]
    Fraction(3, 4)
    """
    X = np.asarray(X)
    return [ExactGram.of(np.ones((len(column), 1)), column).fraction(0, 1) for column in X.T]


@dataclass(frozen=True, slots=True, eq=False)
class NormalEquations:
    """``H theta = b`` with integer entries times ``2^exponent``. Confidential."""

    H: NDArray[np.object_]
    b: NDArray[np.object_]
    exponent: int

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return len(self.b)

    def matrix(self) -> list[list[Ball]]:
        """Return H as exact balls."""
        return [[dyadic(int(v), self.exponent) for v in row] for row in self.H]

    def right_side(self) -> list[Ball]:
        """Return b as exact balls."""
        return [dyadic(int(v), self.exponent) for v in self.b]


class _Sums:
    """Sums by weight: ``totals[s]`` collects the digit products that weigh ``2^(20 s)``."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.recent: dict[int, NDArray[np.int64]] = {}
        self.totals: dict[int, NDArray[np.object_]] = {}
        self.pending = 0

    def add(self, Z: NDArray[np.float64]) -> None:
        digits = dict(_digits(Z))
        width = sum(D.shape[1] for _, D in digits.values())
        if width > max(WIDEST, 4 * self.columns) and len(Z) > 1:
            half = len(Z) // 2
            self.add(Z[:half])
            self.add(Z[half:])
            return
        if not digits:
            return
        stacked = np.concatenate([D for _, D in digits.values()], axis=1)
        products = (stacked.T @ stacked).astype(np.int64)  # exact: see the module's docstring
        ends = np.cumsum([0] + [D.shape[1] for _, D in digits.values()])
        blocks = list(zip(digits.items(), ends[:-1], ends[1:], strict=True))
        for (k, (rows, _)), a, b in blocks:
            for (m, (cols, _)), c, e in blocks:
                if k + m not in self.recent:
                    self.recent[k + m] = np.zeros((self.columns, self.columns), dtype=np.int64)
                self.recent[k + m][np.ix_(rows, cols)] += products[a:b, c:e]
        self.pending += len(digits)  # at most that many products of one chunk share a weight
        if self.pending >= FLUSH:
            self.flush()

    def flush(self) -> None:
        for s, part in self.recent.items():
            whole = part.astype(object)
            self.totals[s] = self.totals[s] + whole if s in self.totals else whole
        self.recent.clear()
        self.pending = 0

    def result(self, n: int) -> ExactGram:
        self.flush()
        lowest = min(self.totals, default=0)
        entries = np.full((self.columns, self.columns), 0, dtype=object)
        for s, part in self.totals.items():
            entries = entries + (part << (DIGIT * (s - lowest)))
        return ExactGram(entries, DIGIT * lowest, n)


def _digits(Z: NDArray[np.float64]) -> Iterator[tuple[int, tuple[NDArray[np.intp], NDArray[np.float64]]]]:
    """Yield ``k, (columns, D)``: the digits of weight ``2^(20 k)`` in the columns that have any."""
    fractions, exponents = np.frexp(Z)
    mantissas = np.abs(np.ldexp(fractions, 53).astype(np.int64))
    if not mantissas.any():
        return
    lowest_bits = exponents.astype(np.int64) - 53  # |x| = mantissa 2^lowest_bit
    sign = np.sign(Z)
    used = mantissas != 0
    trailing = (mantissas & -mantissas).astype(np.float64)  # the lowest bit that is set, a power of two
    lows = lowest_bits + np.frexp(trailing)[1] - 1
    first, last = int(lows[used].min()) // DIGIT, (int(exponents[used].max()) - 1) // DIGIT
    mask = (1 << DIGIT) - 1
    for k in range(first, last + 1):
        right = DIGIT * k - lowest_bits  # bits of the mantissa below this digit
        down = mantissas >> np.clip(right, 0, 63)
        up = np.where(right < 0, mantissas << np.clip(-right, 0, DIGIT), down)
        D = (up & mask).astype(np.float64)
        D[right <= -DIGIT] = 0.0
        columns = np.flatnonzero(D.any(axis=0))
        if len(columns):
            yield k, (columns, D[:, columns] * sign[:, columns])
