"""Poisson-sampled Gaussian steps: what a training with noisy gradients (DP-SGD) costs each person (MATH 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LEAST_PARAMETER
from perinstance.pairs.arguments import Direction, people_table, spread
from perinstance.pairs.base import Pairs
from perinstance.pairs.closed_form.sampled_step import step_deltas, step_epsilons
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.gaussian_shift import GaussianShift
from perinstance.pairs.kinds import KINDS, Kind, kind_codes, weakest_codes
from perinstance.pairs.sampled.renyi import renyi_of_steps
from perinstance.pairs.sampled.steps import StepsTaken, same_rows
from perinstance.pairs.sums.coordinates import LossCoordinates

#: Floats count steps one by one up to here.
MOST_STEPS = 2.0**53
#: Beyond this distance a step counts as one of rate 1, which loses at least as much.
FAR = 100.0
#: Beyond this a shift counts as infinite (``coordinates.py``), and no square below it overflows.
LOST = 1e100

#: An answer of pairs, or of rates and distances, and of a number each
Answer = Callable[..., Floats]


class SampledGaussian(ColumnPairs):
    """Noisy steps that sample each person with probability ``rate`` q; ``distance`` m is theirs over the noise.

    Person i takes ``steps[i, j]`` independent steps, each ``P = N(0, 1)`` without them against
    ``Q = (1 - q) N(0, 1) + q N(m, 1)`` with them, of rate ``rate[i, j]`` and distance ``distance[i, j]``. A table with
    one row belongs to everybody; a 1-d array has one kind of step per person; one number is everybody's. The two
    directions differ, and which is larger depends on the parameters. A rate of 1 is a ``GaussianShift``.

    Kinds: one step (a closed form), steps of rate 1 (a shift) and people who lose nothing are ``"exact"``. Everybody
    else is ``"upper"``: the noise is made finite and the sum of the losses inverted with every error positive or
    charged, so that no answer is below the truth. With rates from 1e-5, distances from 1e-3 to 20, up to a million
    steps and deltas from 1e-15, 99 of 100 are at most 1e-5 of themselves above it and all at most 2e-2.

    Examples
    --------
    >>> from perinstance.pairs import SampledGaussian
    >>> SampledGaussian(0.01, [1.0, 0.2], steps=1000).epsilon(1e-6).round(4)
    array([2.1245, 0.249 ])
    """

    __slots__ = ("_rate", "_distance", "_steps")
    FORMAT = ("sampled_gaussian", 1)
    OVER_NOISE = "distance"
    one_number_each = False
    slow_alone = True
    _rate: Floats
    _distance: Floats
    _steps: Floats
    rate = Column("The probability of being sampled, in each kind of step.")
    distance = Column("The length of the person's (clipped) gradient over the noise's standard deviation.")
    steps = Column("How many steps of each kind were taken.")

    def __init__(
        self, rate: ArrayLike, distance: ArrayLike, steps: ArrayLike = 1, kind: Kind | ArrayLike = "exact"
    ) -> None:
        super().__init__(kind, rate=rate, distance=distance, steps=steps)
        live = (self._rate > 0.0) & (self._rate < 1.0) & (self._distance > 0.0) & (self._steps > 0.0)
        bounded = np.where(live.any(axis=1) & ~self._single, "upper", "exact")
        self._codes = weakest_codes(self._codes, kind_codes(bounded, len(bounded)))

    def _validated(self, columns: dict[str, ArrayLike]) -> dict[str, Floats]:
        """Return three tables of one shape."""
        tables = {}
        for name, values in columns.items():
            array = real_values(name, values)
            array = np.atleast_1d(array)[:, None] if array.ndim < 2 else array
            tables[name] = people_table(name, array, "kind of step")
        try:
            shape = np.broadcast_shapes(*(table.shape for table in tables.values()))
        except ValueError:
            shapes = {name: table.shape for name, table in tables.items()}
            raise InvalidInput(
                f"rate, distance and steps must fit together, got shapes {shapes}; pass one row per person (or one for "
                "all) and one column per kind of step"
            ) from None
        tables = {name: np.broadcast_to(table, shape) for name, table in tables.items()}
        if not (tables["rate"] <= 1.0).all():
            raise InvalidInput("rate must lie in [0, 1]; pass the probability with which a person is sampled")
        if not np.isfinite(tables["distance"]).all():
            raise InvalidInput("distance must be finite; a step without noise has no finite loss")
        steps = tables["steps"]
        if not ((steps == np.floor(steps)) & (steps <= MOST_STEPS)).all():
            raise InvalidInput("steps must be whole numbers of steps; pass how often each kind was taken")
        return tables

    def coordinates(self) -> LossCoordinates:
        """Sampled steps; those of rate 1 (and beyond ``FAR``) are one Gaussian shift, ``sqrt(sum steps m^2)``."""
        rate, distance = self._rate, self._distance
        whole = (rate == 1.0) | (distance > FAR)
        m2 = np.zeros((len(self), 1))
        steps = self._steps
        if whole.any():
            m2 = np.where(whole, steps * _squared(distance), 0.0).sum(axis=1, keepdims=True)
            steps = np.where(whole, 0.0, steps)
        shift = np.sqrt(m2) * (1.0 + FEW_ROUNDINGS * (1 + rate.shape[1]))
        there = LossCoordinates.gaussian(np.zeros_like(shift), shift)
        return there.with_steps(StepsTaken.of(rate, distance, steps))

    def _by_form(self, numbers: Floats, shift: Answer, step: Answer, sums: Answer, closed: Any = True) -> Floats:
        """Answer one number per person: of shifts, of single steps (by rate and distance) where ``closed``, of sums."""
        whole, single = self._whole, self._single & closed
        rest, out = ~whole & ~single, np.zeros(len(self))
        if whole.any():
            out[whole] = shift(self._shift(whole), numbers[whole])
        if single.any():
            out[single] = step(*self._one_step(single), numbers[single])
        if rest.any():
            out[rest] = sums(self if rest.all() else self[rest], numbers[rest])
        return out

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        deltas = spread(delta, len(self))

        def of_step(rate: Floats, distance: Floats, d: Floats) -> Floats:
            return np.asarray(np.max([step_epsilons(side, rate, distance, d) for side in _sides(direction)], axis=0))

        def of_sum(some: SampledGaussian, d: Floats) -> Floats:
            found = Pairs._epsilon(some, d, direction)
            if direction == "without":  # where distances are beyond FAR as well
                whole = (some._rate == 1.0) & (some._steps > 0.0) & (some._distance > 0.0)
                most = StepsTaken.of(np.where(whole, 0.0, some._rate), some._distance, some._steps).largest_loss()
                found = np.where(whole.any(axis=1), found, np.minimum(found, most))
            return found

        found = self._by_form(deltas, GaussianShift.epsilon, of_step, of_sum, deltas > 0.0)
        # delta is at most the expected number of samples: who is hardly ever sampled loses nothing
        seldom = self._counts[1] <= deltas * (1.0 - FEW_ROUNDINGS * (1 + self._rate.shape[1]))
        return np.where(seldom, 0.0, found)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        def of_step(rate: Floats, distance: Floats, e: Floats) -> Floats:
            return np.asarray(np.max([step_deltas(side, rate, distance, e) for side in _sides(direction)], axis=0))

        def of_sum(some: SampledGaussian, e: Floats) -> Floats:
            return Pairs._delta(some, e, direction)

        return self._by_form(epsilon, GaussianShift.delta, of_step, of_sum, np.isfinite(epsilon))

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """``K(alpha - 1)/(alpha - 1)``; refused where a pair that is exact has a bound only, at very large orders."""

        def of_step(rate: Floats, distance: Floats, order: Floats) -> Floats:
            once = StepsTaken.of(rate[:, None], distance[:, None], np.ones((len(rate), 1)))
            found = [renyi_of_steps(once if side == "without" else once.swapped(), order) for side in _sides(direction)]
            loose = np.logical_or.reduce([bound for _, bound in found])
            if loose.any():
                raise InvalidInput(
                    f"the order {order[loose][0]:g} is so large that only a bound is known of one step, which is "
                    "exact otherwise; ask for a smaller order or for infinity, or pass kind='upper' for the bound"
                )
            return np.asarray(np.max([value for value, _ in found], axis=0))

        def of_sum(some: SampledGaussian, order: Floats) -> Floats:
            return Pairs._renyi(some, order, direction)

        return self._by_form(alpha, GaussianShift.renyi, of_step, of_sum, self._codes == KINDS.index("exact"))

    def zcdp(self) -> Floats:
        """``sum steps m^2/2``, whatever the rates: at large orders the samples with the person decide."""
        everybody = np.ones(len(self), dtype=bool)
        return np.where(self._whole, self._shift(everybody).zcdp(), super().zcdp())

    def _power(self, rate: Floats) -> Floats:
        """Of one step ``(1 - q) r + q Phi(Phi^-1(r) + m)``: its likelihood ratio grows with the noise."""

        def of_step(q: Floats, distance: Floats, r: Floats) -> Floats:
            return (1.0 - q) * r + q * GaussianShift(distance).attack_power(r)

        found = self._by_form(rate, GaussianShift.attack_power, of_step, Pairs._power)
        return np.maximum(np.minimum(found, 1.0), rate)

    @property
    def _single(self) -> NDArray[np.bool_]:
        """Of each person: whether there is one sampled step only, which has a closed form."""
        count, samples = self._counts
        return np.asarray((count == 1.0) & (samples < 1.0))

    @property
    def _whole(self) -> NDArray[np.bool_]:
        """Of each person: whether every step that costs anything samples them for certain: a shift."""
        count, samples = self._counts
        return np.asarray(samples == count)

    @property
    def _counts(self) -> tuple[Floats, Floats]:
        """Of each person: the steps that cost anything, and how often they are sampled in them."""
        if same_rows(self._rate) and same_rows(self._distance):
            live = (self._rate[:1] > 0.0) & (self._distance[:1] > 0.0)
            both = self._steps @ np.concatenate([live * 1.0, np.where(live, self._rate[:1], 0.0)]).T
            return both[:, 0], both[:, 1]
        live = (self._rate > 0.0) & (self._distance > 0.0)
        steps = np.where(live, self._steps, 0.0)
        return steps.sum(axis=1), (steps * self._rate).sum(axis=1)

    def _shift(self, rows: NDArray[np.bool_]) -> GaussianShift:
        """Return the shift of people whose steps all have rate 1: ``sqrt(sum steps m^2)``, rounded up unless one m."""
        distance = np.where(self._rate[rows] > 0.0, self._distance[rows], 0.0)
        steps = self._steps[rows]
        once = np.where(steps > 0.0, distance, 0.0)
        power = np.frexp(once.max(axis=1, initial=0.0))[1]
        with np.errstate(over="ignore", under="ignore"):  # an infinite shift is a bound as well
            squares = (steps * np.ldexp(once, -power[:, None]) ** 2).sum(axis=1)
            up = np.ldexp(np.sqrt(squares) * (1.0 + FEW_ROUNDINGS * (1 + steps.shape[1])), power)
        up = np.where(up > 0.0, np.nextafter(up, np.inf), up)
        return GaussianShift(np.where((steps * (distance > 0.0)).sum(axis=1) <= 1.0, once.max(axis=1, initial=0.0), up))

    def _one_step(self, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return the rate and the distance of people who have one step."""
        live = (self._rate[rows] > 0.0) & (self._distance[rows] > 0.0) & (self._steps[rows] > 0.0)
        place = live.argmax(axis=1)
        pick = np.flatnonzero(rows)
        return self._rate[pick, place], self._distance[pick, place]


def _squared(distance: Floats) -> Floats:
    """Return squares that neither overflow nor, where a step costs anything, underflow: never below the truth."""
    return np.where(distance > 0.0, np.clip(distance, LEAST_PARAMETER, LOST), 0.0) ** 2


def _sides(direction: Direction) -> tuple[str, ...]:
    return ("with", "without") if direction == "worst" else (direction,)
