"""Poisson-sampled Gaussian steps: what a training with noisy gradients (DP-SGD) costs each person (MATH 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LARGEST, LEAST_PARAMETER, PROMISED
from perinstance.pairs.arguments import (
    Direction,
    check_direction,
    check_parts,
    delta_array,
    noise_factor,
    order_array,
    rate_array,
    real_array,
    spread,
)
from perinstance.pairs.closed_form.sampled_step import (
    step_delta_with,
    step_delta_without,
    step_epsilon_with,
    step_epsilon_without,
)
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.gaussian_shift import GaussianShift
from perinstance.pairs.kinds import Kind, kind_codes, weakest_codes
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.records import EXACT, Tolerance
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps
from perinstance.pairs.loss_sums.solve import epsilon_of_sum
from perinstance.pairs.summed import SummedPairs

#: Floats count steps one by one up to here.
MOST_STEPS = 2.0**53
#: The losses of so few steps are also added up one by one.
FEW = 64.0
#: A larger rate is as good as 1 there.
WHOLE = 0.999
#: How far above the least the epsilons of readings and figures may be, of themselves.
NEAR = 1e-3
#: Beyond this distance a step counts as one of rate 1, which loses at least as much.
FAR = 100.0
#: Beyond this a shift counts as infinite (``coordinates.py``), and no square below it overflows.
LOST = 1e100


class SampledGaussian(ColumnPairs, SummedPairs):
    """Noisy steps that sample each person with probability ``rate`` q; ``distance`` m is theirs over the noise.

    Person i takes ``steps[i, j]`` independent steps, each ``P = N(0, 1)`` without them against
    ``Q = (1 - q) N(0, 1) + q N(m, 1)`` with them, of rate ``rate[i, j]`` and distance ``distance[i, j]``. A table with
    one row belongs to everybody; a 1-d array has one kind of step per person; one number is everybody's. The two
    directions differ, and which is larger depends on the parameters. A rate of 1 is a ``GaussianShift``.

    Kinds: one step (a closed form), steps of rate 1 (a shift) and people who lose nothing are ``"exact"``. Everybody
    else is ``"upper"``: their losses are inverted numerically with every error bounded and added, so that no answer
    is below the truth. Two steps are some 1e-14 above it (integrated over the noise, not inverted), steps that
    sample a person ten times or more, with distances up to ten, some 1e-12. Three steps and more otherwise are inverted
    in more digits, their large losses taken apart, or put on a lattice of losses, which takes up to seconds a person:
    below 1e-9 with few exceptions, for dozens of kinds of steps, and hundreds in a minute. Different people of that
    sort who take more than 8,192 kinds altogether, in one call, share the work (``docs/composition.md`` has figures).

    Examples
    --------
    >>> from perinstance.pairs import SampledGaussian
    >>> SampledGaussian(0.01, [1.0, 0.2], steps=1000).epsilon(1e-6).round(4)
    array([2.1245, 0.249 ])
    """

    __slots__ = ("_rate", "_distance", "_steps")
    FORMAT = ("sampled_gaussian", 1)
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
        tables = {name: _table(name, values) for name, values in columns.items()}
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

    @classmethod
    def concatenate(cls, parts: list[SampledGaussian]) -> SampledGaussian:
        """Put vectors of pairs behind each other; those with fewer kinds of steps are padded."""
        check_parts(cls, parts)
        k = max(part._rate.shape[1] for part in parts)
        return super().concatenate([part._padded(k) for part in parts])

    def _padded(self, k: int) -> SampledGaussian:
        """Return the same pairs in k kinds of steps."""
        more = ((0, 0), (0, k - self._rate.shape[1]))
        rate, distance, steps = (np.pad(table, more) for table in (self._rate, self._distance, self._steps))
        return type(self)(rate, distance, steps, self._codes)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return ``rate_1``, ..., ``distance_1``, ..., ``steps_1``, ... and the words of ``kind``: for files."""
        k = self._rate.shape[1]
        columns = {f"{name}_{j + 1}": table[:, j] for name, table in self.parameters().items() for j in range(k)}
        return {**columns, "kind": self.kinds}

    @classmethod
    def _stored_names(cls, given: set[str]) -> set[str]:
        k = sum(name.startswith("rate_") for name in given)
        return {f"{name}_{j + 1}" for name in ("rate", "distance", "steps") for j in range(k)} | {"kind"}

    @classmethod
    def _from_stored(cls, columns: Mapping[str, Any]) -> SampledGaussian:
        k = (len(columns) - 1) // 3
        rate, distance, steps = (
            np.reshape([columns[f"{name}_{j + 1}"] for j in range(k)], (k, len(columns["kind"]))).T
            for name in ("rate", "distance", "steps")
        )
        return cls(rate, distance, steps, columns["kind"])

    def coordinates(self) -> LossCoordinates:
        """Sampled steps; those of rate 1 (and beyond ``FAR``) are one Gaussian shift, ``sqrt(sum steps m^2)``."""
        rate, distance = self._rate, self._distance
        if _one_row(rate) and _one_row(distance):
            whole = (rate[:1] == 1.0) | (distance[:1] > FAR)
            m2 = self._steps @ np.where(whole, _squared(distance[:1]), 0.0).T
            steps = np.where(whole, 0.0, self._steps) if whole.any() else self._steps
        else:
            whole = (rate == 1.0) | (distance > FAR)
            m2 = np.where(whole, self._steps * _squared(distance), 0.0).sum(axis=1, keepdims=True)
            steps = np.where(whole, 0.0, self._steps)
        shift = np.sqrt(m2) * (1.0 + FEW_ROUNDINGS * (1 + rate.shape[1]))
        there = LossCoordinates.gaussian(np.zeros_like(shift), shift)
        return there.with_steps(SampledSteps.of(rate, distance, steps))

    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, or a bound above it (see the kinds)."""
        return self._epsilon(delta, direction, EXACT)

    def near_epsilon(self, delta: ArrayLike, crowds_only: bool = False) -> Floats:
        """Return the same up to ``NEAR`` of itself: of people who are seldom sampled that is found much faster.

        Many people with distances of their own get all digits, but thousands, of one kind of step each, are answered in
        groups of like people. ``crowds_only``: only they are told less.
        """
        shared = _one_row(self._rate) and _one_row(self._distance)
        near = not crowds_only and (shared or len(self) <= FEW)
        return self._epsilon(delta, "worst", Tolerance(NEAR if near else PROMISED, groups=True))

    def _epsilon(self, delta: ArrayLike, direction: Direction, tolerance: Tolerance) -> Floats:
        """Return epsilons that may be above the least by so much."""
        check_direction(direction)
        n = len(self)
        deltas = spread(delta_array(delta, n), n)
        count, samples = self._counts  # who is never sampled loses nothing: delta <= samples
        whole, single = samples == count, (count == 1.0) & (samples < 1.0) & (deltas > 0.0)
        out = np.zeros(n)
        shifts, rows, many = (np.flatnonzero(who) for who in (whole, single, ~single & ~whole))
        if shifts.size:
            out[shifts] = self._shift(shifts).epsilon(deltas[shifts])
        others = (self if many.size == n else self[many]).coordinates() if many.size else None
        for side in _sides(direction):
            if others is not None and side == "without":
                # nobody loses more than -sum k log(1 - q): who loses that much with the person is not asked again
                open_ = np.flatnonzero(out[many] < self._largest_without(many))
                if 2 * open_.size <= many.size:  # for fewer a copy of everybody else is not worth it
                    others, many = others[open_], many[open_]
            if others is not None and many.size:
                added = self._added(many, count[many], deltas[many], side)
                found = np.minimum(epsilon_of_sum(others, deltas[many], side, tolerance), added)
                found[samples[many] <= deltas[many] * (1.0 - FEW_ROUNDINGS * (1 + self._rate.shape[1]))] = 0.0
                out[many] = np.maximum(out[many], found)
            if rows.size:
                out[rows] = np.maximum(out[rows], _STEP_EPSILON[side](*self._one_step(rows), deltas[rows]))
        return out

    def _largest_without(self, rows: NDArray[np.intp]) -> Floats:
        """Return the largest loss without the person, ``-sum k log(1 - q)``, rounded up."""
        kinds = self._rate.shape[1]
        shared = _one_row(self._rate)
        steps = self._steps if rows.size == len(self) else self._steps[rows]
        with np.errstate(divide="ignore"):
            each = np.minimum(-np.log1p(-(self._rate[:1] if shared else self._rate[rows])), LARGEST / kinds)
        with np.errstate(over="ignore"):
            total = steps @ each[0] if shared else (steps * each).sum(axis=1)
            return np.asarray(total * (1.0 + FEW_ROUNDINGS * (1 + kinds)))

    def _added(self, rows: NDArray[np.intp], count: Floats, delta: Floats, side: str) -> Floats:
        """Return the sum over the steps of what each loses at its share of delta: above the truth; for few steps only.

        Infinite for everybody else: the inversion is always better where the steps are many.
        """
        out = np.full(len(rows), np.inf)
        some = np.flatnonzero((count <= FEW) & (delta > 0.0))
        rate, distance, steps = self._rate[rows[some]], self._distance[rows[some]], self._steps[rows[some]]
        live = (rate > 0.0) & (distance > 0.0) & (steps > 0.0)
        share = delta[some] * (1.0 - FEW_ROUNDINGS) / np.maximum(count[some], 1.0)
        total = np.zeros(len(some))
        for j in np.flatnonzero(live.any(axis=0)):
            here = live[:, j]
            q, m = np.minimum(rate[here, j], WHOLE), distance[here, j]
            total[here] += steps[here, j] * _STEP_EPSILON[side](q, m, share[here])
        # at rate 1 a step is a shift, whose epsilon is not smaller than that of a rate next to it
        whole = (live & (rate > WHOLE)).any(axis=1)
        out[some] = np.where(whole, np.inf, total * (1.0 + FEW_ROUNDINGS * (1 + steps.shape[1])))
        return out

    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon; one step by its closed form."""
        check_direction(direction)
        n = len(self)
        e = spread(real_array("epsilon", epsilon, n), n)
        out = np.zeros(n)
        whole, single = self._whole, self._single & np.isfinite(e)
        shifts, rows, many = (np.flatnonzero(who) for who in (whole, single, ~single & ~whole))
        if shifts.size:
            out[shifts] = self._shift(shifts).delta(e[shifts])
        if many.size:
            out[many] = super(SampledGaussian, self[many]).delta(e[many], direction)
        if rows.size:
            found = [_STEP_DELTA[side](*self._one_step(rows), e[rows]) for side in _sides(direction)]
            out[rows] = np.max(found, axis=0)
        return out

    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """``K(alpha - 1)/(alpha - 1)``; refused where a pair that is exact has a bound only, at very large orders."""
        from perinstance.pairs.loss_sums.sampled.renyi import loose_orders

        check_direction(direction)
        n = len(self)
        order = spread(order_array(alpha, n), n)
        rows = np.flatnonzero(self._single & (self.kinds == "exact"))
        for side in _sides(direction):
            with np.errstate(over="ignore"):  # of distances beyond 1e150, whose divergence is infinite
                loose = loose_orders(*self._one_step(rows), order[rows], side == "with")
            if loose.any():
                raise InvalidInput(
                    f"the order {order[rows][loose][0]:g} is so large that only a bound is known of one step, which is "
                    "exact otherwise; ask for a smaller order or for infinity, or pass kind='upper' for the bound"
                )
        out = np.zeros(n)
        whole = self._whole
        shifts, others = np.flatnonzero(whole), np.flatnonzero(~whole)
        if shifts.size:
            out[shifts] = self._shift(shifts).renyi(order[shifts])
        if others.size:
            out[others] = super(SampledGaussian, self[others]).renyi(order[others], direction)
        return out

    def zcdp(self) -> Floats:
        """``sum steps m^2/2``, whatever the rates: at large orders the samples with the person decide."""
        whole = self._whole
        return np.where(whole, self._shift(np.arange(len(self))).zcdp(), super().zcdp())

    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """Power of the best test; for one step ``(1 - q) r + q Phi(Phi^-1(r) + m)``, the ratio grows with the noise."""
        n = len(self)
        level = spread(rate_array(false_positive_rate, n), n)
        out = np.zeros(n)
        whole, single = self._whole, self._single
        shifts, rows, many = (np.flatnonzero(who) for who in (whole, single, ~single & ~whole))
        if shifts.size:
            out[shifts] = self._shift(shifts).attack_power(level[shifts])
        if many.size:
            out[many] = super(SampledGaussian, self[many]).attack_power(level[many])
        if rows.size:
            rate, distance = self._one_step(rows)
            out[rows] = (1.0 - rate) * level[rows] + rate * GaussianShift(distance).attack_power(level[rows])
        return np.maximum(np.minimum(out, 1.0), level)

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
        if _one_row(self._rate) and _one_row(self._distance):
            live = (self._rate[:1] > 0.0) & (self._distance[:1] > 0.0)
            both = self._steps @ np.concatenate([live * 1.0, np.where(live, self._rate[:1], 0.0)]).T
            return both[:, 0], both[:, 1]
        live = (self._rate > 0.0) & (self._distance > 0.0)
        steps = np.where(live, self._steps, 0.0)
        return steps.sum(axis=1), (steps * self._rate).sum(axis=1)

    def _shift(self, rows: NDArray[np.intp]) -> GaussianShift:
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

    def _one_step(self, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the rate and the distance of people who have one step."""
        live = (self._rate[rows] > 0.0) & (self._distance[rows] > 0.0) & (self._steps[rows] > 0.0)
        place = live.argmax(axis=1)
        pick = np.arange(len(rows))
        return self._rate[rows][pick, place], self._distance[rows][pick, place]

    def with_noise(self, factor: float) -> SampledGaussian:
        """``m / factor``."""
        return self._with(distance=self._distance / noise_factor(factor))


_STEP_EPSILON = {"with": step_epsilon_with, "without": step_epsilon_without}
_STEP_DELTA = {"with": step_delta_with, "without": step_delta_without}


def _squared(distance: Floats) -> Floats:
    """Return squares that neither overflow nor, where a step costs anything, underflow: never below the truth."""
    return np.where(distance > 0.0, np.clip(distance, LEAST_PARAMETER, LOST), 0.0) ** 2


def _one_row(table: Floats) -> bool:
    """Whether one row belongs to everybody (as broadcasting says, without looking)."""
    return len(table) > 0 and not table.strides[0]


def _sides(direction: Direction) -> tuple[str, ...]:
    return ("with", "without") if direction == "worst" else (direction,)


def _table(name: str, values: ArrayLike) -> Floats:
    array = real_values(name, values)
    array = np.atleast_1d(array)[:, None] if array.ndim < 2 else array
    if array.ndim != 2:
        raise InvalidInput(
            f"{name} must have shape (people, kinds of steps), got {array.ndim} dimensions; pass a 2-d array"
        )
    bad = ~(array >= 0.0).all(axis=1)
    if bad.any():
        raise InvalidInput(
            f"{name} must be a number >= 0 in each kind of step, it is not for {int(bad.sum())} people, "
            f"the first at position {int(bad.argmax())}"
        )
    return array
