"""Some people and a fit, in the coordinates in which its Hessian is the identity: what a second correction starts from.

With ``theta + T'w`` for a neighbour's parameter, the gradient of the neighbour's objective in whitened coordinates is

    phi(w) = -q + G w + bend(w),    G = I + sign l'' t t',

where q is what the person takes along or brings and ``bend`` what the curvatures change along the step. A correction
finds a w at which phi is nearly zero and a certificate bounds what is left (``remainder``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.models.losses.base import Loss
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats

#: numbers in the largest temporary
PIECE = 1 << 21


@dataclass(frozen=True, slots=True)
class PeopleNearFit:
    """People, one row each."""

    sign: int  #: -1: they leave, +1: they join
    y: Floats
    eta: Floats
    t: Floats  #: T x
    q: Floats  #: minus the gradient of the neighbour's objective at the fit, in whitened coordinates
    curvature: Floats
    q_error: Floats  #: how far q may be off by rounding

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> PeopleNearFit:
        return PeopleNearFit(
            self.sign,
            self.y[part],
            self.eta[part],
            self.t[part],
            self.q[part],
            self.curvature[part],
            self.q_error[part],
        )

    def parts(self, width: int) -> Iterator[slice]:
        """Cut the people into runs with ``width`` numbers each in a temporary."""
        rows = max(1, PIECE // max(width, 1))
        return (slice(i, i + rows) for i in range(0, len(self), rows))

    def hessian(self) -> Floats:
        """Return G of each person."""
        eye = np.eye(self.t.shape[1])
        return eye + (self.sign * self.curvature)[:, None, None] * self.t[:, :, None] * self.t[:, None, :]

    def first(self) -> Floats:
        """``G^-1 q``, by one rank."""
        left = 1 + self.sign * self.curvature * np.einsum("ij,ij->i", self.t, self.t)
        inner = -self.sign * self.curvature / left * np.einsum("ij,ij->i", self.t, self.q)
        return self.q + inner[:, None] * self.t

    def predictor_step(self, w: Floats) -> Floats:
        """``x'D`` of the person's own row."""
        return np.einsum("ij,ij->i", self.t, w)


class Correction(Protocol):
    """A second step for people whose first certificate is loose or missing."""

    def distance(self, people: PeopleNearFit, loss: Loss, around: Whitening, gradient_bound: float) -> Floats:
        """Bound ``|D|_A`` of each person; inf where this cannot be done. ``gradient_bound``: of the fit's own."""


def measure(w: Floats, remainder: Floats, around: Whitening, gradient_bound: float) -> Floats:
    """``|w|_A`` and what ``|D - w|_H <= remainder`` and the fit's own distance from its minimum add to it."""
    nu = around.nu
    return np.sqrt(w * w @ nu) + np.sqrt(nu[-1]) * (remainder + 2 * gradient_bound)
