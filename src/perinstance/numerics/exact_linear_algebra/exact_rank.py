"""Which directions the rows of a table span, decided exactly: floating point cannot tell "no" from "hardly".

Floating-point numbers are dyadic rationals, so a table is an exact matrix, and its rank modulo a prime is its rank but
for a few unlucky primes. Rows are reduced modulo two primes; blocks are reduced on their own and merged. A minor has
at most 2,200 bits for each of its p columns, hence fewer than 75 p prime factors above 2^30. The two primes were drawn
at random from fifty million: that both are unlucky for a given table has a probability below 3e-12 p^2.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

PRIMES = (1_842_626_609, 1_494_129_781)
#: rows reduced at a time: a product of two residues fits in 64 bits, and the scratch in the cache
ROWS = 4096
_LOWEST = 1074 + 53  # a float is a whole number below 2^53 times a power of two of at least minus this


@dataclass(frozen=True, slots=True)
class Span:
    """Reduced rows that span the same space as those seen so far, modulo each prime."""

    bases: tuple[Integers, ...]  #: of each prime, (rank, p), in echelon form
    pivots: tuple[Integers, ...]
    finite = True  # the first fold has looked at every cell

    @property
    def rank(self) -> int:
        """The exact number of directions."""
        return max(len(basis) for basis in self.bases)

    def __add__(self, other: Span) -> Span:
        parts = [
            _extended(basis, pivots, new, q)
            for basis, pivots, new, q in zip(self.bases, self.pivots, other.bases, PRIMES, strict=True)
        ]
        return Span(tuple(basis for basis, _ in parts), tuple(pivot for _, pivot in parts))

    def contains(self, X: NDArray, intercept: bool) -> NDArray[np.bool_]:
        """Tell which rows have no part in an open direction."""
        inside = np.ones(len(X), dtype=bool)
        for start in range(0, len(X), ROWS):
            part = slice(start, start + ROWS)
            for basis, pivot, q in zip(self.bases, self.pivots, PRIMES, strict=True):
                rows = _residues(X[part], intercept, q)
                inside[part] &= ~_reduced(rows, basis, pivot, q).any(axis=1)
        return inside


def span(X: NDArray, y: NDArray, intercept: bool) -> Span:
    """Reduce the rows of a block."""
    p = X.shape[1] + int(intercept)
    none = np.zeros((0, p), dtype=np.int64), np.zeros(0, dtype=np.int64)
    parts = []
    for q in PRIMES:
        seen = none
        for start in range(0, len(X), ROWS):
            seen = _extended(*seen, _residues(X[start : start + ROWS], intercept, q), q)
            if len(seen[0]) == p:
                break
        parts.append(seen)
    return Span(tuple(basis for basis, _ in parts), tuple(pivot for _, pivot in parts))


def _residues(X: NDArray, intercept: bool, q: int) -> Integers:
    """Return the exact entries modulo q."""
    fraction, exponent = np.frexp(np.asarray(X, dtype=np.float64))
    whole = np.ldexp(fraction, 53).astype(np.int64) % q
    rows = whole * _powers(q)[exponent - 53 + _LOWEST] % q
    return np.column_stack([rows, np.ones(len(rows), dtype=np.int64)]) if intercept else rows


@functools.lru_cache(maxsize=len(PRIMES))
def _powers(q: int) -> Integers:
    """Return the powers of two that occur in floats, modulo q."""
    powers = [pow(pow(2, -1, q), _LOWEST, q)]
    for _ in range(_LOWEST + 1024):
        powers.append(2 * powers[-1] % q)
    return np.array(powers, dtype=np.int64)


def _reduced(rows: Integers, basis: Integers, pivots: Integers, q: int) -> Integers:
    """Return the rows less what the basis spans."""
    for row, pivot in zip(basis, pivots, strict=True):
        rows = (rows - rows[:, pivot, None] * row) % q
    return rows


def _extended(basis: Integers, pivots: Integers, rows: Integers, q: int) -> tuple[Integers, Integers]:
    """Add to an echelon basis what further rows bring."""
    rows = _reduced(rows, basis, pivots, q)
    while True:
        rows = rows[rows.any(axis=1)]
        if not len(rows):
            return basis, pivots
        pivot = int(np.argmax(rows[0] != 0))
        new = rows[0] * pow(int(rows[0, pivot]), -1, q) % q
        basis, pivots = np.vstack([basis, new]), np.append(pivots, pivot)
        rows = (rows[1:] - rows[1:, pivot, None] * new) % q
