"""The coordinates that AdaOPS draws its sample in: around a first estimate, labels and columns standardised.

A share of the budget buys a short run of AdaSSP (``adassp.mechanism``): looks, a noisy Gram matrix, four rounds. From
what it published follow a centre and a spread of every column of a box, a first estimate, and the width at which its
residuals are clipped: a public map that acts on each row alone. What the sample is drawn of are the rows in that frame
and the residuals of the first estimate, so the ridge shrinks towards that estimate and not towards zero. A row that is
longer than the frame's radius *counts for less, residual and all*: ``(x, w, r)`` is multiplied by the same number, so
that a linear relation stays what it is. Whatever the run published, rows have a norm of at most ``x_bound``, in
integers, and residuals lie in [-1, 1] in these coordinates: that is all the promise of the sample leans on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.mechanism import Published, Rounds
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.window import StandardFrame, Window
from perinstance.sampling import FixedRows, fixed_rows

FIRST = 0.5  # share of the squared distance that the first estimate has
ROUNDS = 4
DEVIATIONS = 2.0  # of labels, that residuals may have; more where AdaSSP widens its own clip
LEFT = 0.03  # part of the residuals' squared width that rows are thought to explain still


def first_rounds(epsilon: float, delta: float, box: DeclaredBox, n_public: int | None, rows: int = 1) -> Rounds:
    """Plan the first estimate: public."""
    return adassp_mechanism.spend(epsilon, delta, box, None, ROUNDS, n_public, False, rows, FIRST)


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """What followed from the first estimate. Public."""

    first: Published
    frame: StandardFrame
    half: float  #: at which residuals are clipped, in units of the label's half range

    @classmethod
    def look(cls, rounds: Rounds, window: Window) -> Coordinates:
        """Run AdaSSP through the window."""
        first, box = adassp_mechanism.run(rounds, window), rounds.box
        columns, frame = len(box.columns), first.frame
        if frame is None:
            frame = StandardFrame(np.zeros(columns), np.ones(columns), box.radius, box.weight)
        return cls(first, frame, min(1.0, DEVIATIONS * first.clips[-1]))

    @property
    def x_bound(self) -> float:
        """The largest norm of a row, the ones included."""
        return self.frame.x_bound

    def rows(self, units: Floats, y: Floats, present: NDArray[np.bool_]) -> FixedRows:
        """Return rows and residuals in these coordinates, on grids; each follows from its own row alone."""
        free = self.frame.free_rows(units, present)
        residual = (y - products(units, self.first.coef)) / self.half
        weigh = np.minimum(1.0, self.x_bound / np.maximum(lengths(free), self.x_bound))
        label = np.where(present, np.clip(residual, -1.0, 1.0) * weigh, 0.0)
        return replace(fixed_rows(free * weigh[:, None], label, self.x_bound, 1.0), present=present)

    def in_units(self, weight: float) -> tuple[Floats, Floats]:
        """Return the linear map, and the constant, from coefficients here to those of rows in units."""
        columns = len(self.frame.center) + bool(weight)
        linear = np.array([self.frame.in_units(one, weight) for one in np.eye(columns)]).T
        return linear * self.half, self.first.coef
