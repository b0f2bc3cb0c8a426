"""Epsilon of a sum of coordinates, for everybody; and what it says of people whose answer elsewhere is in doubt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import TWO_ROUNDINGS
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.records import EXACT, Tolerance
from perinstance.pairs.loss_sums.solve_epsilon import epsilons


def epsilon_of_sum(coordinates: LossCoordinates, delta: Floats, direction: str, most: Tolerance = EXACT) -> Floats:
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, one delta per person; never below the truth.

    That of sampled steps may be above it by ``most``.

    Of what is known from above only: ``epsilon(delta - tail) + offset``, infinite where delta does not exceed the tail.
    """
    offset, tail = coordinates.offset, coordinates.tail
    left = np.where(tail > 0, np.nextafter(delta - tail, -np.inf), delta)
    known = (left > 0) | ((left == 0) & (tail == 0))
    inner = _epsilon(coordinates, np.where(known, left, 0.5), direction, most)
    return np.where(known, np.where(offset > 0, (inner + offset) * (1 + TWO_ROUNDINGS), inner), np.inf)


def _epsilon(coordinates: LossCoordinates, delta: Floats, direction: str, most: Tolerance) -> Floats:
    """Return epsilon of the coordinates alone."""
    n = len(delta)
    views = coordinates.views(direction)
    out = np.zeros((2, n))
    for i, view in enumerate(views if coordinates.has_others or not coordinates.samples.all() else []):
        epsilons(delta, view.losses, view.terms, out[i])
    rows = np.flatnonzero(coordinates.samples)
    if rows.size:
        from perinstance.pairs.loss_sums.sampled.epsilon import epsilon_of_steps

        for i, view in enumerate(views):  # the tables of steps are wide: they are not copied where all have some
            some = view if rows.size == n else view[rows]
            out[i, rows] = epsilon_of_steps(some, delta[rows], most)
    worst = out.max(axis=0)
    worst[coordinates.infinite] = np.inf
    return worst


def settle(out: Floats, doubt: NDArray[np.bool_], delta: Floats, direction: str, coordinates: LossCoordinates) -> None:
    """Replace the epsilons in doubt, which are above the truth, by what the sum of this one loss says, if less.

    ``coordinates`` are those of the people in doubt.
    """
    better = epsilon_of_sum(LossCoordinates.stack([coordinates]), np.broadcast_to(delta, out.shape)[doubt], direction)
    out[doubt] = np.fmin(out[doubt], better)
