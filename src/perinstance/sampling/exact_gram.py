"""Exact sums: ``Z'Z`` of float64 rows ``Z = (X, y)`` without one rounding error.

A float64 is an integer times a power of two. In units of a power of two above the column's largest entry it is cut
into digits of 22 bits, ``z_j = 2^e_j sum_k D_k 2^(-22 k)``. Digit matrices are integer-valued float64, and a BLAS
product over at most ``2^9`` rows stays below ``2^53``, where float64 adds integers exactly in whatever order the
library likes. Chunks are summed in int64 and kept as Python integers. The result does not depend on the order of rows,
the blocking or the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.exact_column_sums import UNIT_BITS, column_sums
from perinstance.sampling.ball_arithmetic import Ball, dyadic, exact

DIGIT = 22  # bits in a digit: two digits and the sum over CHUNK rows make 2 * 22 + 9 = 53 bits
CHUNK = 1 << 9
FLUSH = 512  # products that int64 holds for sure: 512 * 2^53 < 2^63
WIDEST = 4096  # columns of all digits together; more (absurd ranges of magnitude) are split by rows
FEW = 16  # rows that are added as rational numbers; changes only speed
SMALLEST = 2.0**-900  # in units of the column: its last bit is still a float64

Label = tuple[int, NDArray[np.intp], int, int]


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
        if len(X) == 0:
            return cls(np.full((X.shape[1] + intercept + 1,) * 2, 0, dtype=object), 0, 0)
        largest = np.array([*np.abs(X).max(axis=0), *[1.0] * intercept, np.abs(y).max()], dtype=np.float64)
        if not np.isfinite(largest).all():
            raise InvalidTable("rows must be finite numbers, got NaN or infinity; remove or impute them first")
        total = _Sums(np.frexp(largest)[1].astype(np.int64))
        for start in range(0, len(X), CHUNK):
            x, t = X[start : start + CHUNK], y[start : start + CHUNK]
            total.add(np.column_stack([x, np.ones(len(x)), t] if intercept else [x, t]).astype(np.float64, copy=False))
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
    if len(X) <= FEW and np.isfinite(X).all():
        return [sum(map(Fraction, column.tolist()), Fraction(0)) for column in X.T]
    sums = column_sums(Block(X, X))
    if not sums.finite:
        raise InvalidTable("rows must be finite numbers, got NaN or infinity; remove or impute them first")
    return [Fraction(total, 1 << UNIT_BITS) for total in sums.units]


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
        """Return H as balls."""
        unit = dyadic(1, self.exponent)
        lower = [[exact(v) * unit for v in row[: i + 1]] for i, row in enumerate(self.H.tolist())]
        return [row + [lower[k][i] for k in range(i + 1, self.d)] for i, row in enumerate(lower)]

    def right_side(self) -> list[Ball]:
        """Return b as balls."""
        unit = dyadic(1, self.exponent)
        return [exact(v) * unit for v in self.b.tolist()]


class _Sums:
    """Sums over rows of the digit products, by weight: ``totals[s]`` weighs ``2^(-22 s)`` in units of the columns."""

    def __init__(self, exponents: NDArray[np.int64]) -> None:
        self.exponents = exponents  # |z_j| < 2^e_j in every row
        self.recent: dict[int, NDArray[np.int64]] = {}
        self.totals: dict[int, NDArray[np.object_]] = {}
        self.absurd = np.full((len(exponents),) * 2, 0, dtype=object)  # weighs 2^(-2 * 1074), in absolute units
        self.pending = 0

    def add(self, Z: NDArray[np.float64]) -> None:
        scaled = np.ldexp(Z, -self.exponents)
        size = np.abs(scaled)
        if size.min(initial=1.0) < SMALLEST:
            lost = ((size < SMALLEST) & (Z != 0)).any(axis=1)  # dividing by 2^e_j would round
            if lost.any():
                # entries 2^900 times smaller than their column's largest: plain integers, slowly
                ratios = [[value.as_integer_ratio() for value in row] for row in Z[lost].tolist()]
                integers = np.array([[p * ((1 << 1074) // q) for p, q in row] for row in ratios], dtype=object)
                self.absurd = self.absurd + integers.T @ integers
                scaled = scaled[~lost]
        self._add_scaled(scaled)

    def _add_scaled(self, scaled: NDArray[np.float64]) -> None:
        stacked, labels = _digits(scaled)
        if stacked.shape[1] > max(WIDEST, 4 * len(self.exponents)) and len(scaled) > 1:
            half = len(scaled) // 2  # one row has at most four digits in each column
            self._add_scaled(scaled[:half])
            self._add_scaled(scaled[half:])
            return
        products = (stacked.T @ stacked).astype(np.int64)  # exact: see the module's docstring
        everything = len(self.exponents)
        for k, rows, a, b in labels:
            for m, cols, c, e in labels:
                if k + m not in self.recent:
                    self.recent[k + m] = np.zeros((everything, everything), dtype=np.int64)
                if len(rows) == len(cols) == everything:
                    self.recent[k + m] += products[a:b, c:e]
                else:
                    self.recent[k + m][np.ix_(rows, cols)] += products[a:b, c:e]
        self.pending += len(labels)  # at most that many products of one chunk share a weight
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
        finest = max(self.totals, default=0)
        entries = np.full(self.absurd.shape, 0, dtype=object)
        for s, part in self.totals.items():
            entries = entries + (part << (DIGIT * (finest - s)))
        units = (self.exponents[:, None] + self.exponents - DIGIT * finest).astype(object)
        lowest = int(units.min())
        gram = ExactGram(entries << (units - lowest), lowest, n)
        return gram + ExactGram(self.absurd, -2 * 1074, 0) if self.absurd.any() else gram


def _digits(r: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[Label]]:
    """Return the digit matrices ``D_k`` of ``r = sum_k D_k 2^(-22 k)``, ``|r| < 1``, side by side.

    A label holds k, the columns that D_k has (those with any such digit), and where they begin and end.
    """
    columns, blocks, labels, begin, k = np.arange(r.shape[1]), [r[:, :0]], [], 0, 0
    while r.shape[1]:
        k += 1
        r = r * 2.0**DIGIT
        D = np.trunc(r)
        r -= D  # both steps are exact in float64
        here = D.any(axis=0)
        if here.any():
            blocks.append(D[:, here])
            labels.append((k, columns[here], begin, begin + int(here.sum())))
            begin += int(here.sum())
        left = r.any(axis=0)
        if not left.all():
            r, columns = r[:, left], columns[left]
    return np.concatenate(blocks, axis=1), labels
