"""Where rows and labels may lie, as declared: a ball, or a box with a range for every column; a range of the label.

A release sees rows in *units*: ``u = (x - center) / half`` lies in ``[-1, 1]`` in every column, and so does the label.
The map is public, one correctly rounded operation after the other on each cell, so it costs nothing and a cell's unit
depends on nothing but the cell; columns of any scale are the same to the release. What is drawn in units goes back by
 ``coef = half_y b / half_x`` and ``intercept = center_y + half_y (b_0 - sum b center / half)``: post-processing.

With an intercept a range is centred (that changes the intercept and nothing else). Without one it must not be: the
model would be another one. Then the half width is the larger of ``|low|`` and ``|high|``.

The intercept is a column of ones behind the others, of weight w: a row is ``(u, w)`` with ``||u|| <= radius``, w fixed.
With ``w = radius / sqrt(d)`` it weighs what a column weighs on average, which is where the error that all noise makes
in predictions, proportional to ``(radius^2 + w^2) (d^2/radius^2 + 1/w^2)``, is smallest. A row with a missing cell is a
row of zeros, in the column of ones too: as if the person had not been there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import got, is_number, is_whole, real_number
from perinstance.errors import InvalidInput
from perinstance.inference.equation import Estimated
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LARGEST, STEP_UP
from perinstance.sampling import FixedRows, fixed_rows

SMALLEST_BOUND, LARGEST_BOUND = 2.0**-400, 2.0**400  # beyond, squares of units would leave float64
MOST_PEOPLE = 2**53  # that floats count one by one
WEIGHT_BITS = 20  # of the column of ones: a short number, so that exact sums stay short
RADIUS_BITS = 30  # behind the point, of a box's radius: a multiple of the grid of rows, so that a corner is no longer
HOW = "declare it without looking at the data: a number > 0, or (low, high)"


@dataclass(frozen=True, slots=True)
class Range:
    """One declared interval, as ``center`` and half width ``half``."""

    low: float
    high: float
    center: float
    half: float


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredBox:
    """The public map between the user's numbers and units, and what is known of rows in units."""

    columns: tuple[Range, ...]
    label: Range
    radius: float  #: of rows in units, without the column of ones
    boxed: bool  #: whether each column is clipped by itself; otherwise a row is shrunk to the radius
    weight: float  #: of the column of ones; 0 without an intercept
    left_out: int = 0  #: columns behind these that are ones by declaration: the intercept stands for them

    @property
    def d(self) -> int:
        """Number of coefficients that the release draws: the columns, and the intercept."""
        return len(self.columns) + bool(self.weight)

    @property
    def x_bound(self) -> float:
        """The largest norm of a row in units, the column of ones included; rounded up."""
        return math.sqrt(self.radius**2 + self.weight**2) * STEP_UP if self.weight else self.radius

    def rows(self, X: NDArray, y: NDArray, weights: Floats | None = None) -> FixedRows:
        """Return rows and labels in units, clipped to what was declared, exactly; the column of ones is the last.

        ``weights`` say how much of a row counts, in [0, 1]; where one is missing (NaN), so is the row.

        >>> box = box_of([(0.0, 10.0), 2.0], (0.0, 4.0), 2, intercept=True)
        >>> rows = box.rows(np.array([[5.0, 1.0], [99.0, -2.0], [np.nan, 1.0]]), np.array([3.0, 9.0, 1.0]))
        >>> rows.X.tolist(), rows.y.tolist(), (rows.clipped_x, rows.clipped_y, rows.missing)
        ([[0.0, 0.5, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0]], [0.5, 1.0, 0.0], (1, 1, 1))
        """
        X, y = np.asarray(X, dtype=np.float64)[:, : len(self.columns)], np.asarray(y, dtype=np.float64)
        if weights is not None:
            y, weights = np.where(np.isnan(weights), np.nan, y), np.nan_to_num(weights, nan=0.0)
        missing = np.isnan(X).any(axis=1) | np.isnan(y)
        with np.errstate(over="ignore", under="ignore"):
            units = np.column_stack([_unit(X[:, j], one) for j, one in enumerate(self.columns)])
            labels = _unit(y, self.label)
        if self.boxed:
            units = np.where(missing[:, None], np.nan, units)
            outside = _outside(X, self.columns).any(axis=1) & ~missing
            units = np.clip(units, -1.0, 1.0)
        fixed = fixed_rows(units, np.where(missing, np.nan, np.clip(labels, -1.0, 1.0)), self.radius, 1.0)
        seen = fixed.X
        if self.weight:
            seen = np.column_stack([seen, np.where(fixed.present, self.weight, 0.0)])
        beyond = int((_outside(y[:, None], (self.label,))[:, 0] & ~missing).sum())
        clipped = int(outside.sum()) if self.boxed else fixed.clipped_x
        return FixedRows(seen, fixed.y, fixed.present, clipped, beyond, fixed.missing, weights)

    def in_user_units(self, theta: Floats) -> tuple[Floats, float]:
        """Return coefficients and intercept for rows as the user has them. Post-processing of what was drawn."""
        center = np.array([one.center for one in self.columns])
        half = np.array([one.half for one in self.columns])
        slopes = theta[: len(half)]
        first = float(theta[-1]) * self.weight if self.weight else 0.0
        intercept = self.label.center + self.label.half * (first - math.fsum(slopes * (center / half)))
        coef = np.clip(slopes * (self.label.half / half), -LARGEST, LARGEST)
        coef = np.append(coef, np.zeros(self.left_out))
        return coef, min(max(intercept, -LARGEST), LARGEST)

    def user_coefficients(self, solved: Estimated) -> Estimated:
        """Return what is known of the user's coefficients, the intercept last: a linear map, post-processing.

        A column that the intercept stands for has none of its own.
        """
        half = np.array([one.half for one in self.columns])
        slopes = np.diag(self.label.half / half)
        if not self.weight:
            return solved.mapped(slopes)
        center = np.array([one.center for one in self.columns])
        last = np.append(-self.label.half * center / half, self.label.half * self.weight)
        linear = np.vstack([np.column_stack([slopes, np.zeros(len(half))]), last])
        return solved.mapped(linear, np.append(np.zeros(len(half)), self.label.center))


def box_of(x_bound: Any, y_bound: Any, d: int, intercept: bool, label: str = "y_bound") -> DeclaredBox:
    """Validate what was declared of a table of d columns.

    ``x_bound``: one number for the norm of a row; or for every column a half width, or a range (low, high); or an
    object with ``ranges`` and ``row_bound`` (a recipe), the largest norm of a row in units. ``y_bound``: a half width
    or a range. Where a recipe adds a column of ones and an intercept is asked for, the column is left out.
    """
    target = _range(label, y_bound, intercept)
    row_bound, left_out = None, 0
    if hasattr(x_bound, "ranges"):
        twice = intercept and bool(getattr(x_bound, "intercept", False))
        row_bound, x_bound = x_bound.row_bound, list(_each(x_bound.ranges, d))
        if twice and d > 1:
            left_out, d, x_bound = 1, d - 1, x_bound[:-1]
            row_bound = math.sqrt(max(row_bound**2 - 1.0, 1.0)) * STEP_UP
    if x_bound is None or is_number(x_bound) or isinstance(x_bound, bool | str):
        one, radius, boxed = _range("x_bound", x_bound, False), 1.0, False
        columns = (one,) * d
    else:
        columns, boxed = tuple(_range("x_bound", one, intercept) for one in _each(x_bound, d)), True
        farthest = math.sqrt(d) if row_bound is None else min(float(row_bound), math.sqrt(d))
        radius = math.ldexp(math.floor(math.ldexp(farthest, RADIUS_BITS)) + 1, -RADIUS_BITS)
    weight = 0.0
    if intercept:
        weight = math.ldexp(math.floor(math.ldexp(radius / math.sqrt(d), WEIGHT_BITS)) or 1, -WEIGHT_BITS)
    return DeclaredBox(columns, target, radius, boxed, weight, left_out)


def declared_count(n_public: Any, weight_bound: Any = None) -> int | None:
    """Validate a number of people that was declared public."""
    if n_public is None:
        return None
    if weight_bound is not None:
        raise InvalidInput("n_public counts rows, and rows with weights count as these; leave n_public away")
    if not is_whole(n_public) or not 1 <= n_public <= MOST_PEOPLE:
        raise InvalidInput(f"n_public must be a whole number >= 1 or None, got {got(n_public)}; try n_public=1000")
    return int(n_public)


def _each(x_bound: Any, d: int) -> Sequence[Any]:
    try:
        each = list(x_bound)
    except TypeError:
        raise InvalidInput(f"x_bound must be a number, or one number or range per column, got {got(x_bound)}") from None
    if len(each) != d:
        raise InvalidInput(f"x_bound must declare each of the {d} columns, got {len(each)}; {HOW} for every column")
    return each


def _range(name: str, declared: Any, centred: bool) -> Range:
    """Validate a half width or a range.

    >>> _range("x_bound", None, True)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: x_bound must be declared: a number > 0 chosen without looking at the data, got None
    """
    if is_number(declared) and SMALLEST_BOUND <= declared <= LARGEST_BOUND:
        half = float(declared)
        return Range(-half, half, 0.0, half)
    try:
        low, high = (real_number(name, one) for one in declared)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{name} must be declared: a number > 0 chosen without looking at the data, got {got(declared)}"
        ) from None
    if not low < high or not max(abs(low), abs(high)) <= LARGEST_BOUND:
        raise InvalidInput(f"{name} must be a range (low, high) with low < high, got ({low:g}, {high:g})")
    half = high / 2.0 - low / 2.0 if centred else max(abs(low), abs(high))
    if not half >= SMALLEST_BOUND:
        raise InvalidInput(f"{name}: the range ({low:g}, {high:g}) is too narrow; choose another unit")
    return Range(low, high, low / 2.0 + high / 2.0 if centred else 0.0, half)


def _unit(column: Floats, declared: Range) -> Floats:
    """``(clip(x) - center) / half``; without a centre an infinite cell stays infinite, for whoever clips rows."""
    if declared.center or declared.low != -declared.high:
        column = np.clip(column, declared.low, declared.high)
    return (column - declared.center) / declared.half


def _outside(X: Floats, columns: Sequence[Range]) -> NDArray[np.bool_]:
    low, high = (np.array([getattr(one, end) for one in columns]) for end in ("low", "high"))
    return (low > X) | (high < X)
