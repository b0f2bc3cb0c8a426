"""Public coordinates that were chosen from released numbers: ``w = (u - center) / spread``, with a column of ones.

Rows in units (``declared_box``) fill their box badly: a column whose range is generous hardly varies, and a row is far
from the corners. A release that bought a noisy look at the columns may standardise them and bound the norm of a row
where rows really are. The frame is a function of what was released, so the map is public; a row's image depends on the
row alone, and whatever is summed is clipped to the frame's bound once more, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.base.row_sums import lengths


@dataclass(frozen=True, slots=True, eq=False)
class StandardFrame:
    """A centre and a spread for every column; rows are clipped to ``radius``. ``weight``: of the ones, 0 for none."""

    center: Floats
    spread: Floats
    radius: float
    weight: float

    @property
    def x_bound(self) -> float:
        """The largest norm of a clipped row, the column of ones included; rounded up."""
        return math.sqrt(self.radius**2 + self.weight**2) * STEP_UP

    def columns(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return ``w`` without the ones, one rounded operation after the other; the rows of absent people are zero."""
        w = (units[:, : len(self.center)] - self.center) / self.spread
        return np.where(present[:, None], w, 0.0)

    def with_ones(self, columns: Floats, present: NDArray[np.bool_]) -> Floats:
        """Append the column of ones, where there is one."""
        if not self.weight:
            return columns
        return np.column_stack([columns, np.where(present, self.weight, 0.0)])

    def free_rows(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return whole rows, as long as they are."""
        return self.with_ones(self.columns(units, present), present)

    def clipped_rows(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return whole rows clipped to the radius in floating point: for experiments and readings."""
        return self.with_ones(shortened(self.columns(units, present), self.radius), present)

    def in_units(self, theta: Floats, weight: float) -> Floats:
        """Return the coefficients of rows in units, whose column of ones has this weight."""
        slopes = theta[: len(self.center)] / self.spread
        if not self.weight:
            return slopes
        first = float(theta[-1]) * self.weight - math.fsum(slopes * self.center)
        return np.append(slopes, first / weight)


def shortened(rows: Floats, bound: float) -> Floats:
    """Shrink rows to a norm of at most ``bound``, in floating point: for experiments and readings alone."""
    norms = lengths(rows)
    return rows * np.minimum(1.0, bound / np.maximum(norms, bound))[:, None]
