"""Parts of a sphere of directions, times parts of the range of one person's predictor: what is searched.

A part of the unit sphere is what a box of R^p cuts out of it; in a root box one coordinate, the *face*, is the largest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, BOUND_UP, NORM_UP, SPHERE_DOWN, SPHERE_ERROR, SPHERE_UP

Bools = NDArray[np.bool_]
R = TypeVar("R", bound=Any)


@dataclass(frozen=True, slots=True)
class Cells:
    """One entry (or row) for each cell."""

    low: Floats  #: (cells, p)
    high: Floats
    first: Floats  #: the new predictor, times the sign of the slope, is in [first, last]
    last: Floats
    sign: Floats  #: of the slope
    tail: Bools  #: instead: all slopes below that at ``first``
    face: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def middle(self) -> Floats:
        """The middles of the boxes."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> Floats:
        """Half the widths of the boxes."""
        return 0.5 * (self.high - self.low) * NORM_UP


def root_cells(p: int, farthest: float, pieces: int = 6) -> Cells:
    """Return cells that cover the sphere, predictors within ``farthest`` and both signs."""
    edges = np.unique(np.concatenate([np.linspace(-farthest, farthest, pieces + 1), [0.0]]))
    first, last = np.append(edges[:1], edges[:-1]), np.append(edges[:1], edges[1:])
    tail = np.arange(len(first)) == 0
    face, side, sign, piece = (
        a.ravel() for a in np.meshgrid(np.arange(p), (-1.0, 1.0), (-1.0, 1.0), np.arange(len(first)), indexing="ij")
    )
    face = face.astype(np.intp)
    at = np.arange(len(face))
    high = np.full((len(face), p), np.sqrt(0.5) * BOUND_UP)
    low = -high
    least = 1 / np.sqrt(p) * BOUND_DOWN
    low[at, face] = np.where(side > 0, least, -1.0)
    high[at, face] = np.where(side > 0, 1.0, -least)
    return Cells(low, high, first[piece], last[piece], sign, tail[piece], face)


def tightened(cells: Cells) -> Cells:
    """Shrink boxes to what they cut out of the sphere; drop those without, and those where the face is not largest."""
    low, high = cells.low.copy(), cells.high.copy()
    least, most = _squares(low, high)
    alive = np.ones(len(cells), dtype=bool)
    for k in range(low.shape[1]):
        others, far = least.sum(axis=1) - least[:, k], most.sum(axis=1) - most[:, k]
        top = np.sqrt(np.maximum(1 - others, 0.0)) + SPHERE_ERROR
        bottom = np.sqrt(np.maximum(1 - far, 0.0)) - SPHERE_ERROR
        low[:, k] = np.maximum(low[:, k], np.where(low[:, k] >= 0, bottom, -top))
        high[:, k] = np.minimum(high[:, k], np.where(high[:, k] <= 0, -bottom, top))
        alive &= low[:, k] <= high[:, k]
        least[:, k], most[:, k] = _squares(low[:, k], high[:, k])
    alive &= (least.sum(axis=1) <= SPHERE_UP) & (most.sum(axis=1) >= SPHERE_DOWN)
    alive &= least.max(axis=1) <= most[np.arange(len(low)), cells.face] * SPHERE_UP
    return picked(replace(cells, low=low, high=high), alive)


def halved(cells: Cells, axis: NDArray[np.intp]) -> Cells:
    """Halve each along its axis; axis p is the predictor."""
    p = cells.low.shape[1]
    at, along = np.flatnonzero(axis < p), np.flatnonzero(axis == p)
    below, above = (cells.high.copy(), cells.low.copy())
    middle = cells.middle
    below[at, axis[at]] = above[at, axis[at]] = middle[at, axis[at]]
    last, first = cells.last.copy(), cells.first.copy()
    last[along] = first[along] = 0.5 * (cells.first + cells.last)[along]
    return joined(replace(cells, high=below, last=last), replace(cells, low=above, first=first))


def picked(record: R, which: Any) -> R:
    """Return a record of arrays (one entry for each cell) with some of the cells."""
    parts = {field.name: getattr(record, field.name) for field in fields(record)}
    return replace(record, **{name: a[which] for name, a in parts.items() if isinstance(a, np.ndarray)})


def joined(*parts: R) -> R:
    """Put records of arrays together."""
    names = [field.name for field in fields(parts[0])]
    return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _squares(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest square in each interval."""
    a, b = low**2, high**2
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(a, b)), np.maximum(a, b)
