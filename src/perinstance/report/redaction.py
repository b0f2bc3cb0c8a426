"""What a redacted copy may show: cells of public grids, each shared by at least forty people.

A loss, a place on a chart or the end of an axis that belongs to fewer would point at them. Cells have public edges;
those with too few people are put together with their neighbours, or left out. The copy is still not differentially
private: which cells there are depends on the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_rank

SHARED = 40  #: of fewer people the 95% quantile is one of the two largest losses, and points to a single person
STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  #: in each power of ten
ROW = 1 << 20  #: more than the cells between the smallest and the largest float, at any fineness
FINENESS = (8, 4, 2, 1)  #: cells of the plane per power of ten, tried in this order


@dataclass(frozen=True, slots=True)
class LossCell:
    """So many people lost more than ``low`` and at most ``high``, both values of the public grid."""

    low: float
    high: float
    people: int

    @property
    def words(self) -> str:
        """The cell as a statement about somebody in it."""
        if math.isfinite(self.high):
            return f"at most {grid_text(self.high)}"
        return f"more than {grid_text(self.low)}" if self.low > 0 else "left out"


@dataclass(frozen=True, slots=True)
class SharedLosses:
    """All losses as cells, the smallest first; the last one has no upper end, which would be one person's."""

    cells: tuple[LossCell, ...]

    @property
    def people(self) -> int:
        """How many there are in all cells."""
        return sum(cell.people for cell in self.cells)

    @property
    def most(self) -> LossCell | None:
        """The last cell with an upper end: all but the people of the cell above lost at most that."""
        return self.cells[-2] if len(self.cells) > 1 else None

    @property
    def told(self) -> list[tuple[str, LossCell]]:
        """Whom a redacted copy tells of: the median, and all but the most exposed."""
        if self.most is None:
            return []
        median = self.quantile(0.5)
        told = [] if math.isinf(median.high) else [("half of the people", median)]
        if median != self.most:
            told.append((f"all but {self.cells[-1].people:,} people", self.most))
        return told

    def quantile(self, q: float) -> LossCell:
        """Return the cell in which the q-quantile of the losses lies."""
        upto = np.cumsum([cell.people for cell in self.cells])
        return self.cells[min(int(np.searchsorted(upto, attained_rank(self.people, q))), len(upto) - 1)]


@cache
def grid() -> Floats:
    """Return the public grid, of all floats: ten values in each power of ten, each the float next to its decimal."""
    return np.array([float(f"{step:g}e{decade}") for decade in range(-324, 309) for step in STEPS])


def grid_text(value: float) -> str:
    """Write a value of the grid, which has few digits.

    >>> grid_text(0.1), grid_text(1500.0)
    ('0.1', '1,500')
    """
    return f"{value:,g}"


def grid_up(value: float) -> float:
    """Round a loss up to the public grid.

    >>> grid_up(0.31), grid_up(1.0), grid_up(0.0)
    (0.4, 1.0, 0.0)
    """
    return float(grid()[np.searchsorted(grid(), value)]) if 0 < value < math.inf else value


def shared_losses(epsilon: ArrayLike, people: ArrayLike | None = None) -> SharedLosses:
    """Cut the losses into cells of at least ``SHARED`` people, from the largest down; ``people`` have each of them.

    >>> [(cell.low, cell.high, cell.people) for cell in shared_losses([0.1] * 60 + [0.5] * 59 + [90.0]).cells]
    [(0.08, 0.4, 60), (0.4, inf, 60)]
    """
    losses = np.asarray(epsilon, dtype=np.float64)
    weights = np.ones(len(losses)) if people is None else np.asarray(people, dtype=np.float64)
    finite = (losses > 0) & np.isfinite(losses)
    places, at = np.unique(np.searchsorted(grid(), losses[finite]), return_inverse=True)
    counts = np.bincount(at, weights=weights[finite], minlength=len(places))
    waiting, high = int(weights[np.isinf(losses)].sum()), math.inf
    cells: list[LossCell] = []
    for place, count in zip(places[::-1], counts[::-1], strict=True):
        waiting += int(count)
        if waiting >= SHARED:
            low = float(grid()[place - 1])
            cells.append(LossCell(low, high, waiting))
            waiting, high = 0, low
    waiting += int(weights[losses == 0].sum())
    if waiting >= SHARED or not cells:
        cells.append(LossCell(0.0, high, waiting))
    elif waiting:  # too few for a cell of their own: they also lost at most what the lowest cell says
        lowest = cells.pop()
        cells.append(LossCell(0.0, lowest.high, lowest.people + waiting))
    return SharedLosses(tuple(cells[::-1]))


@dataclass(frozen=True, slots=True)
class PlaneCell:
    """A cell of the plane between public powers of ten, and how many people are in it."""

    left: float
    right: float
    bottom: float
    top: float
    people: int


def shared_plane(across: Floats, up: Floats) -> list[PlaneCell]:
    """Return the cells of a public grid with ``SHARED`` people or more; the finest grid that shows half of all."""
    found: list[PlaneCell] = []
    for per_decade in FINENESS:
        x, y = (np.floor(np.log10(values) * per_decade).astype(np.int64) for values in (across, up))
        keys, counts = np.unique(x * ROW + y, return_counts=True)
        places = np.column_stack([(keys + ROW // 2) // ROW, (keys + ROW // 2) % ROW - ROW // 2])
        edge = 10.0 ** (1.0 / per_decade)
        found = []
        for (i, j), count in zip(places[counts >= SHARED], counts[counts >= SHARED], strict=True):
            left, bottom = edge ** float(i), edge ** float(j)
            found.append(PlaneCell(left, left * edge, bottom, bottom * edge, int(count)))
        if 2 * sum(cell.people for cell in found) >= len(across):
            break
    return found
