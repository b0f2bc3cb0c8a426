"""Rows on a public fixed-point grid, clipped to declared bounds in integers.

With ``B <= 2^b`` the grid is ``2^(b-39)``, a function of the declared bound alone. A row becomes integers
``k = trunc(x / grid)``; truncation is toward zero, so no norm grows. A row with ``||k|| > R = floor(B / grid)`` is
shrunk to ``k' = floor(|k| R / N)`` with ``N >= ||k||``, so ``||k'|| <= R``. Sums of squares are integers and everything
else is one correctly rounded operation per entry: what becomes of a row depends on nothing but the row (threats T20,
T21). A floating-point sum over the columns would not do: its rounding may depend on the table's memory layout.

No row is refused, because a refusal would tell about it. A row with a missing cell (NaN) in x or y becomes zeros, as if
the person had not been there. An infinity is the limit of large numbers: the infinite cells of a row alone count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LARGEST

BITS = 39  # R < 2^39, and integers stay below 2^40: two digits of the exact Gram matrix
HALF = 20  # an integer is split in halves for exact squares
BLOCK = 1 << 14

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FixedRows:
    """Rows that keep ``||x|| <= x_bound`` and ``|y| <= y_bound`` exactly, and lie on public grids.

    ``clipped_x`` and ``clipped_y`` count the rows that were shrunk, ``missing`` those that became zeros: confidential,
    for the curator.
    """

    X: Floats
    y: Floats
    present: NDArray[np.bool_]  #: false for rows that became zeros
    clipped_x: int = 0
    clipped_y: int = 0
    missing: int = 0
    weights: Floats | None = None  #: how much of a row's part of every sum counts, in [0, 1]; None: all of it

    def picked(self, rows: slice) -> FixedRows:
        """Return some of the rows: what becomes of a row depends on nothing else."""
        weights = None if self.weights is None else self.weights[rows]
        return FixedRows(self.X[rows], self.y[rows], self.present[rows], weights=weights)

    @property
    def share(self) -> Floats | float:
        """How much of each row's part of a sum counts."""
        return 1.0 if self.weights is None else self.weights

    def scaled(self) -> FixedRows:
        """Return rows of weight one whose products are the weighted ones: times the root of the weight, no longer."""
        if self.weights is None:
            return self
        root = np.sqrt(self.weights)
        return FixedRows(self.X * root[:, None], self.y * root, self.present)


def fixed_rows(X: ArrayLike, y: ArrayLike, x_bound: float, y_bound: float) -> FixedRows:
    """Truncate and clip rows; the floats that come back are exactly the fixed-point numbers.

    >>> rows = fixed_rows([[3.0, 4.0], [0.1, 0.0]], [2.0, -0.5], x_bound=1.0, y_bound=1.0)
    >>> rows.X[0].round(6), rows.y, rows.clipped_x, rows.clipped_y
    (array([0.6, 0.8]), array([ 1. , -0.5]), 1, 1)
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise InvalidInput(f"X must be rows x columns and y one per row, got shapes {X.shape} and {y.shape}")
    X, y, present = _finite(X, y)
    x_exponent, x_radius = _grid(x_bound, "x_bound")
    y_exponent, y_radius = _grid(y_bound, "y_bound")
    parts = [_clip(X[i : i + BLOCK], x_exponent, x_radius) for i in range(0, len(X), BLOCK)]
    targets = np.clip(_integers(y[:, None], y_exponent), -y_radius, y_radius)
    rows = np.concatenate([k for k, _ in parts]) if parts else np.zeros(X.shape, dtype=np.int64)
    return FixedRows(
        X=np.ldexp(rows.astype(np.float64), x_exponent),
        y=np.ldexp(targets[:, 0].astype(np.float64), y_exponent),
        clipped_x=sum(count for _, count in parts),
        clipped_y=int((np.abs(y) > math.ldexp(y_radius, y_exponent)).sum()),
        missing=int((~present).sum()),
        present=present,
    )


def shortened(rows: Floats, bound: float) -> Floats:
    """Clip rows to this length, in integers.

    >>> shortened(np.array([[3.0, 4.0], [0.5, 0.0]]), 1.0).round(9).tolist()
    [[0.6, 0.8], [0.5, 0.0]]
    """
    return fixed_rows(rows, np.zeros(len(rows)), bound, 1.0).X


def _finite(X: Floats, y: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Replace rows that are not finite, each by something that depends on the row alone; tell who is present."""
    odd = ~(np.isfinite(X).all(axis=1) & np.isfinite(y))
    present = np.ones(len(X), dtype=bool)
    if not odd.any():
        return X, y, present
    X, y = X.copy(), y.copy()
    rows, targets = X[odd], y[odd]
    missing = np.isnan(rows).any(axis=1) | np.isnan(targets)
    infinite = np.isinf(rows).any(axis=1)
    rows[infinite] = np.where(np.isinf(rows[infinite]), np.sign(rows[infinite]), 0.0) * LARGEST
    rows[missing], targets[missing] = 0.0, 0.0
    X[odd], y[odd] = rows, np.clip(targets, -LARGEST, LARGEST)
    present[odd] = ~missing
    return X, y, present


def _grid(bound: object, name: str) -> tuple[int, int]:
    """Exponent of the grid and ``R = floor(bound / grid)``, which lies in ``[2^38, 2^39)``."""
    if not (isinstance(bound, int | float) and 2.0**-400 <= bound <= 2.0**400):
        raise InvalidInput(f"{name} must be a positive number declared without looking at the data, got {bound!r}")
    exponent = math.frexp(bound)[1] - BITS  # bound < 2^frexp
    return exponent, int(math.ldexp(bound, -exponent))


def _clip(X: Floats, exponent: int, radius: int) -> tuple[Integers, int]:
    """Integers of each row, of norm at most ``radius``, and the number of rows that had to shrink."""
    k = _integers(X, exponent)
    high, low = _squares(k)
    r_high, r_low = divmod(radius * radius, 1 << 2 * HALF)
    over = (high > r_high) | ((high == r_high) & (low > r_low))
    if over.any():  # floor(|k| R / N) with the sign of k, N an integer no smaller than the norm
        N = np.ceil(np.sqrt(high[over] * 2.0 ** (2 * HALF) + low[over]))
        N += np.ceil(N * 2.0**-50)  # three roundings lost less than 2^-50
        ratio = radius / N * (1 - 2.0**-50)  # and the two roundings from here on less than that
        k[over] = np.trunc(k[over] * ratio[:, None]).astype(np.int64)
    return k, int(over.sum())


def _integers(X: Floats, exponent: int) -> Integers:
    """``trunc(x / grid)``, below 2^40; a row with a larger entry is first scaled down by a power of two.

    Such a row still has a norm of at least 2^39 > R, so it is clipped all the same.
    """
    largest = np.abs(X).max(axis=1, initial=0.0)
    excess = np.maximum(np.frexp(largest)[1] - (exponent + BITS + 1), 0)
    return np.trunc(np.ldexp(X, -exponent - excess[:, None])).astype(np.int64)


def _squares(k: Integers) -> tuple[Integers, Integers]:
    """``||k||^2 = high 2^40 + low``, ``0 <= low < 2^40``, exactly for up to 2^20 columns."""
    a, b = np.abs(k) >> HALF, np.abs(k) & ((1 << HALF) - 1)
    low = (b * b).sum(axis=1) + (((a * b).sum(axis=1) & ((1 << (HALF - 1)) - 1)) << (HALF + 1))
    high = (a * a).sum(axis=1) + ((a * b).sum(axis=1) >> (HALF - 1))
    return high + (low >> 2 * HALF), low & ((1 << 2 * HALF) - 1)
