"""A pair that is known only from above: a Gaussian shift, an offset of the loss, and a small probability of neither.

When the loss is at most ``max(D z + D^2/2, 0) (+ offset)``, z standard normal, except with probability ``tail``,

    delta(epsilon) <= GaussianShift(D).delta(epsilon)            + tail      P over Q
    delta(epsilon) <= GaussianShift(D).delta(epsilon - offset)   + tail      Q over P

for epsilon >= 0. So much can be proved for the objective perturbation of logistic regression.

Both directions have one total variation, so the second is at most ``GaussianShift(D).delta(0) + tail`` below the
offset. And for every real epsilon, in both directions, the line with ``epsilon - offset`` holds, which is what
composition needs. With T the shift's profile and ``F = 1 - T``, the logarithm of F has slope at most 1/2 right of 0,
because ``e^y Q(L > y) <= P(L < y)`` there (Mills' ratio falls). At -x < 0, P over Q is ``1 - e^-x (1 - delta_QP(x))``:
for x >= offset ``F(x + offset) <= e^offset F(x - offset)`` is enough, for x < offset convexity in ``e^epsilon`` between
1 and total variation, and ``F(x + offset) <= e^offset F(0)``. A profile composes as ``E[delta(epsilon - L)]`` over the
loss L of the other releases, so offsets and tails add.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, TWO_ROUNDINGS
from perinstance.pairs.arguments import Direction
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.gaussian_shift import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.solve import less_tail


class Dominated(ColumnPairs):
    """Pairs whose profile lies below that of a Gaussian shift, moved by ``offset`` and raised by ``tail``.

    Examples
    --------
    >>> from perinstance.pairs.bounded import Dominated
    >>> Dominated([0.5], [0.01], [1e-12]).epsilon(1e-6).round(3)
    array([2.264])
    """

    __slots__ = ("_distance", "_offset", "_tail")
    FORMAT = ("dominated", 1)
    _distance: Floats
    _offset: Floats
    _tail: Floats
    distance = Column("D, in units of the noise.")
    offset = Column("What the loss with the person may have on top.")
    tail = Column("The probability that the bound on the loss does not hold.")

    def __init__(
        self, distance: ArrayLike, offset: ArrayLike, tail: ArrayLike, kind: Kind | ArrayLike = "upper"
    ) -> None:
        super().__init__(kind, distance=distance, offset=offset, tail=tail)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        """Return the bounds above; for epsilon < 0 through ``d_PQ(e) = 1 - e^e + e^e d_QP(-e)``."""
        if direction == "worst":
            return np.maximum(self._delta(epsilon, "without"), self._delta(epsilon, "with"))
        size = np.abs(epsilon)
        # below zero the roles change: the other direction's bound counts
        moved = (direction == "with") == (epsilon >= 0)
        with np.errstate(invalid="ignore"):
            argument = np.where(moved & (self._offset > 0), np.nextafter(size - self._offset, -np.inf), size)
        # the shift's bound holds for arguments >= 0 only; below it is total variation, the same in both directions
        at = GaussianShift(self._distance).delta(np.maximum(argument, 0.0), "without")
        bound = np.minimum(np.where(self._tail > 0, (at + self._tail) * (1 + TWO_ROUNDINGS), at), 1.0)
        below_zero = (-np.expm1(-size) + np.exp(-size) * bound) * (1 + FEW_ROUNDINGS)
        return np.where(epsilon >= 0, bound, np.minimum(below_zero, 1.0))

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        """``GaussianShift(D).epsilon(delta - tail) + offset``; infinite where delta does not exceed the tail."""
        room = less_tail(delta, self._tail)
        inner = GaussianShift(self._distance).epsilon(np.where(room > 0, room, 0.5), "without")
        offset = 0.0 if direction == "without" else self._offset
        moved = np.where(inner > 0, inner + offset, 0.0)  # where total variation is small enough nothing is moved
        return np.where(room > 0, moved * (1 + TWO_ROUNDINGS), np.inf)

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """Nothing is known of the loss in the tail, so no Renyi divergence can be bounded."""
        return np.full(len(self), np.inf)

    def zcdp(self) -> Floats:
        """Infinite, like every Renyi divergence here."""
        return np.full(len(self), np.inf)

    def _power(self, rate: Floats) -> Floats:
        """Return the smallest ``delta(e) + e^e rate`` over some e: a bound on every test's power."""
        best = np.ones(len(self))
        for e in np.concatenate([-np.geomspace(1e-3, 30, 60), [0.0], np.geomspace(1e-3, 30, 120)]):
            best = np.minimum(best, (self.delta(e, "with") + np.exp(e) * rate) * (1 + FEW_ROUNDINGS))
        return np.maximum(best, rate)

    def coordinates(self) -> LossCoordinates:
        """The shift's coordinate, with what its loss may have on top."""
        return GaussianShift(self._distance).coordinates().bounded_by(self._offset, self._tail)
