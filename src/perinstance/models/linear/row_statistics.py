"""One product per person gives everything a linear release asks: ``q = x W`` with ``H^-1 = W W'``.

- leverage ``m = x'H^-1x = sum_j q_j^2``
- prediction ``x'theta = sum_j q_j b_j`` with ``b = W'X'y``, because ``theta = W W'X'y``
- movement ``||H^-1x||_A^2 = sum_j a_j q_j^2`` when W is chosen such that ``W'AW = diag(a)``; where the a_j are so far
  apart that they are not known to full precision, by a second product: ``||C W q||^2`` with ``A = C'C``

The sums come from compiled loops over the rows of a block (``row_kernels``, ``loops``), chosen by width, by how the
table lies and by the registers of the machine; what follows from them (``mu``, ``r``, rounded outwards) in
``loops.finished_rows``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.cache_pieces import pieces
from perinstance.models.linear.loops.column_kernels import ColumnPanels
from perinstance.models.linear.loops.eight_lanes import EightPanels
from perinstance.models.linear.loops.few_columns import FEWEST_COLUMNS, MOST_COLUMNS, Square, Triangle
from perinstance.models.linear.loops.fewest_columns import THREE, Fewest
from perinstance.models.linear.loops.finished_rows import HARD, finish
from perinstance.models.linear.loops.library_loops import Products
from perinstance.models.linear.row_kernels import (
    WIDEST,
    WIDEST_ROWS,
    CutMatrix,
    Panels,
    by_columns,
    contiguous,
)
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import TINY
from perinstance.numerics.simd_vectors import eight_in_a_register

#: people whose rows are multiplied and finished before the next: their numbers stay in the second-level cache
AT_A_TIME = 2048
#: who cuts W for the sums of rows that lie one after the other (``loops.finished_rows``)
ROW_LOOP: type[Panels] = EightPanels if eight_in_a_register() else Panels

Limits = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class RowRounding:
    """What rounding can have taken from a person's numbers; it is added wherever a loss is stated.

    With s the scale, the error ``p u |x| |W|`` of a row of X W is at most ``p u ||x s|| ||W_j / s||`` in column j, u
    half a unit. With G the scaled H, ``||x s||^2 <= lambda_max(G) m``: all errors are multiples of sqrt(m). Where a few
    people are much larger than all others that is far too much for the others: their own ``|x| |W|`` is looked at.
    """

    leverage: float  #: of sqrt(m): relative
    leverage_row: float  #: the same, for the worst of rows; ``|x| column_cost / sqrt(m)`` of it for others
    residual: float  #: of e = y - x'theta, per sqrt(m)
    residual_row: float  #: the same, for the worst of rows
    length: float  #: of ||H^-1x||_A, per sqrt(m)
    length_row: float  #: the same, for the worst of rows
    share: float  #: of ||H^-1x||_A: relative, besides ``leverage``
    column_cost: Floats | None  #: (p,) None where it is not worth while to look at each row

    @property
    def total(self) -> float:
        """The relative error of sqrt(m), whatever the row."""
        return self.leverage + self.leverage_row

    def limits(self, floor: float) -> Limits:
        """Return what compiled code takes."""
        return (
            (self.leverage, self.leverage_row),
            (self.residual, self.residual_row),
            (self.length, self.length_row),
            (self.share, floor),
        )


@dataclass(frozen=True, slots=True)
class Norm:
    """How ``||H^-1x||_A`` follows from q: by weights when they are accurate, by a second product otherwise."""

    weights: Floats  #: (rank,) a_j; empty when ``lift`` is used
    lift: Floats | None  #: (rank, p) (C W)'

    @property
    def largest(self) -> float:
        """``||C W||``: how long ``||H^-1x||_A`` can be, per sqrt(m)."""
        return float(np.sqrt(self.weights.max()) if self.lift is None else np.linalg.norm(self.lift, ord=2))

    @property
    def frobenius(self) -> float:
        """The root of the sum of squares of C W."""
        return float(np.sqrt(self.weights.sum()) if self.lift is None else np.linalg.norm(self.lift))


@dataclass(frozen=True, slots=True)
class Without:
    """What holds without each person of a block (for an outsider: as things stand), rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r; NaN where theta_without is not determined
    length: Floats  #: ||H_with^-1 x||_A, H taken with the person; empty when the fit has no norm
    share: Floats  #: what of leverage and length was charged, relatively; empty when the fit has no norm
    kind_code: NDArray[np.uint8]  #: 0 exact, 1 an upper bound because rounding took too much
    open: NDArray[np.bool_] | None = None  #: people of whom this does not say enough; they have a bound, or none


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


@dataclass(frozen=True, slots=True)
class RowMap:
    """What a row is multiplied by: ``W`` has one row per column of X and, with an intercept, one more at the end."""

    W: Floats
    image: Floats
    norm: Norm | None
    intercept: bool
    rounding: RowRounding
    triangular: bool = False
    large: bool = False  #: a residual that is not known well enough stays an upper bound: to fold again takes too long
    loops: dict[type, Panels | Products] = field(default_factory=dict, repr=False, compare=False)  #: W, cut for them


def row_statistics_of(rows_map: RowMap, X: NDArray, y: NDArray, inside: bool, floor: float = 0.0) -> Without:
    """Answer for one block; a residual counts as known when it is to a share of itself or of ``floor``'s
    (see ``ridge.without``).
    """
    n, d = X.shape
    norm, rounding = rows_map.norm, rows_map.rounding
    lift = None if norm is None else norm.lift
    how = 0 if norm is None else 1 if lift is None else 2
    mu, r, length = np.empty(n), np.empty(n), np.empty(n if how else 0)
    share = np.empty(len(length))
    kind_code = np.empty(n, dtype=np.uint8)
    limits = rounding.limits(floor)
    rows = _loop_for(rows_map, X)
    part = np.empty(0 if rounding.column_cost is None else n)
    whole = X.dtype == np.float64 and X.flags.aligned and (X.flags.c_contiguous or by_columns(X))
    for run in [slice(0, n)] if whole else pieces(X, max(rows_map.W.shape)):
        rows.sums(X[run], mu[run], r[run], length[run])
    if rounding.column_cost is not None:
        for run in pieces(X, d):
            part[run] = _parts(X[run], mu[run], rounding.column_cost, rows_map.intercept)
    hard = finish(contiguous(y), part, limits, inside, mu, r, (length, share), kind_code)
    return labelled(rows_map, Without(mu, r, length, share, kind_code), hard > 0)


def labelled(rows_map: RowMap, rows: Without, hard: bool) -> Without:
    """Turn the codes of people who are not known well enough into labels, and say who is left open."""
    if not hard:
        return rows
    code = rows.kind_code
    left = code == HARD if rows_map.large else code > 0
    return Without(rows.leverage, rows.residual, rows.length, rows.share, np.minimum(code, 1), left)


def cut_for_rows(rows_map: RowMap, X: NDArray) -> CutMatrix | None:
    """Return W cut for ``loops.finished_rows``; None where such rows are not for it, or each is looked at."""
    if not (X.dtype == np.float64 and X.flags.c_contiguous and X.flags.aligned and len(X) >= AT_A_TIME):
        return None
    rows = None if rows_map.rounding.column_cost is not None else _loop_for(rows_map, X)
    return rows.cut if type(rows) in (ROW_LOOP, Triangle, Square, Fewest) and isinstance(rows, Panels) else None


def _loop_for(rows_map: RowMap, X: NDArray) -> Panels | Products:
    """Return the loop that is fastest for this width, order of the table, and machine, with W cut for it."""
    d, columns, norm = X.shape[1], by_columns(X), rows_map.norm
    lift = None if norm is None else norm.lift
    loop: type[Panels] | type[Products]
    if lift is not None or d > (WIDEST if columns else WIDEST_ROWS):
        loop = Products
    else:
        loop = ColumnPanels if columns else _row_loop(rows_map, d)
    if loop not in rows_map.loops:
        weights = np.zeros(len(rows_map.image)) if norm is None or lift is not None else norm.weights
        given = (*_split(rows_map.W, d, rows_map.intercept), rows_map.image, weights, rows_map.triangular)
        rows_map.loops.setdefault(loop, loop.of(*given) if issubclass(loop, Panels) else Products.of(*given, lift))
    return rows_map.loops[loop]


def _row_loop(rows_map: RowMap, d: int) -> type[Panels]:
    """Return the loop over rows that lie one after the other: of a few columns and nothing else, people are lanes."""
    few = FEWEST_COLUMNS <= d <= MOST_COLUMNS and rows_map.W.shape == (d, d) and not rows_map.intercept
    if few and d <= THREE:
        return Fewest
    if few and rows_map.norm is not None:
        return Square
    return Triangle if few and rows_map.triangular else ROW_LOOP


def _split(W: Floats, d: int, intercept: bool) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(W[:d]), np.ascontiguousarray(W[d]) if intercept else np.zeros(W.shape[1])


def _parts(X: NDArray, m: Floats, column_cost: Floats, intercept: bool) -> Floats:
    """Return what of the worst row's error each row has: ``|x| column_cost / sqrt(m)``, at most 1."""
    size = np.abs(X) @ column_cost[: X.shape[1]]
    if intercept:
        size = size + column_cost[-1]
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(1.0, size / np.sqrt(np.maximum(m, TINY))), dtype=np.float64)
