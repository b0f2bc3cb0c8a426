r"""Laws of losses on the points of a lattice, near the least loss on finer ones too, and how these become coarser.

Masses are multiplied by ``e^{order j spacing}``, j the number of the point, and divided by ``e^log_scale``; what
belongs to the last point too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import UNIT

RUN = 32  # of numbers that are added before they are added to others


@dataclass(frozen=True, slots=True)
class Lattice:
    """Spacing, order of the scale and number of points that all sums share; ``sign`` is +1 with, -1 without.

    ``finer`` are numbers of points and parts: so many points at the beginning, but for their last spacing, are divided
    into so many parts; and of these again. ``many``: whether there are so many steps that their roundings add up.
    """

    spacing: float
    order: float
    points: int
    sign: float
    finer: tuple[tuple[int, int], ...] = ()
    many: bool = False

    @property
    def levels(self) -> list[tuple[float, int, int]]:
        """Spacing, number of points, and the first point that is not given finer, from coarse to fine."""
        out, spacing, points = [], self.spacing, self.points
        for head, parts in (*self.finer, (0, 1)):
            out.append((spacing, points, max(head - 1, 0)))
            spacing, points = spacing / parts, (head - 1) * parts + 1
        return out


@dataclass(frozen=True, slots=True)
class LossSum:
    """The law of a sum of losses above their least value, on all levels of a lattice: the first has all of it.

    ``first`` is the number of its first point: where it is not zero, whatever lay below was raised to it, and there is
    one level. ``mean`` is ``log E[e^g]`` above the first point. The last two numbers are known only with the person.
    """

    levels: tuple[Floats, ...]
    log_scale: float
    mean: float
    beyond: float
    excess: float
    first: int = 0

    @property
    def masses(self) -> Floats:
        """Masses at all points."""
        return self.levels[0]


@kernel
def coarsening_error(parts, spacing, order):
    """Return what moving masses to coarser points may lose, as a share."""
    return UNIT * (RUN + parts // RUN + 16.0 + 2.0 * (1.0 + abs(order)) * spacing)


@kernel
def coarsened(fine, parts, spacing, order):
    """Return masses on parts of a spacing moved to the points around them, so that the mean of the ratio stays.

    They are rounded up. The last of the finer points is a point.
    """
    cells = fine.size // parts
    out = np.zeros(cells + 1)
    low, up = np.empty(parts), np.empty(parts)
    for r in range(parts):
        above, left = spacing * r / parts, spacing * (parts - r) / parts
        low[r] = math.expm1(-left) / math.expm1(-spacing) * math.exp(-order * above)
        up[r] = math.expm1(-above) / math.expm1(-spacing) * math.exp((order - 1.0) * left)
    out[cells] = fine[cells * parts]
    for c in range(cells):
        for begin in range(0, parts, RUN):
            down, higher = 0.0, 0.0
            for r in range(begin, min(begin + RUN, parts)):
                down += fine[c * parts + r] * low[r]
                higher += fine[c * parts + r] * up[r]
            out[c] += down
            out[c + 1] += higher
    return out * (1.0 + coarsening_error(parts, spacing, order))
