"""The common form of all pairs: independent Gaussian coordinates and Laplace distances, per person."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LEAST_PARAMETER
from perinstance.pairs.sums.cumulant_levels import (
    exchange,
    fill_levels,
    objective_plane,
    posterior_coordinate,
    square_shifts,
)
from perinstance.pairs.sums.laplace_atoms import TERMS
from perinstance.pairs.sums.saddlepoint import Losses

if TYPE_CHECKING:  # its kernels are compiled by those who train, and by nobody else
    from perinstance.pairs.sampled.steps import StepsTaken

#: Beyond this sums of losses were found to be wrong near delta = 1 (they are exact up to half of it): the person's loss
#: counts as infinite, an upper bound, and the pairs label it so.
HUGE = 2e12
#: The same for |x||v| of objective perturbation, the root of its larger variance (labelled from 4e9 on).
HUGE_PLANE = 1e10
#: The squares of parameters below this do not overflow, nor do their halves.
HALF_OVERFLOWS = 1e290
#: A Gaussian shift of at least this share of the sum of the Laplace distances makes multiplying out unnecessary.
SMOOTHING = 0.05


@dataclass(frozen=True, slots=True)
class LossCoordinates:
    """Coordinate j of a person is ``P: N(m, v)``, ``Q: N(0, 1)``; a Laplace loss of distance D occurs count times.

    ``nu = v - 1`` is stored as well as v so that neither loses digits, and so are ``levels`` (``cumulant_levels.py``);
    ``nu_low`` and ``m2_low`` are what nu and m^2 are rounded by. A coordinate of zeros changes nothing, which pads
    ragged dimensions. ``rounded`` marks the people whose Laplace distances had to be raised to common values.
    ``bounded`` marks those of whom only a bound is known: the profile is at most that of the coordinates, moved by
    ``offset`` and raised by ``tail`` (``bounded.py``). ``sampled`` are steps whose characteristic function is an
    integral (``sampled/``); None where nobody took any.
    """

    nu: Floats
    nu_low: Floats
    v: Floats
    m2: Floats
    m2_low: Floats
    levels: Floats
    lap: Floats
    count: Floats
    infinite: NDArray[np.bool_]
    rounded: NDArray[np.bool_]
    offset: Floats
    tail: Floats
    bounded: NDArray[np.bool_]
    sampled: StepsTaken | None = None

    @classmethod
    def gaussian(cls, nu: ArrayLike, m: ArrayLike) -> LossCoordinates:
        """Return the coordinates of Gaussian coordinates, arrays of shape (people, coordinates)."""
        nu, m = np.array(nu, dtype=np.float64), np.array(m, dtype=np.float64)
        infinite = ~((np.abs(nu) < HUGE) & (np.abs(m) < HUGE)).all(axis=1)
        nu[infinite], m[infinite] = 0.0, 0.0
        v = 1.0 + nu
        pairs = [nu, np.zeros_like(nu), v, (1.0 - (v - (v - 1.0))) + (nu - (v - 1.0)), *np.empty((2, *nu.shape))]
        square_shifts(m, *pairs[4:])
        return cls._precise(pairs, infinite, lost=m != 0.0)

    @classmethod
    def posterior(cls, mu: Floats, rho: Floats) -> LossCoordinates:
        """Return the coordinates of one posterior sample per person: ``nu = mu``, ``m^2 = rho^2 mu/(1 + mu)``."""
        rho = np.where(mu > 0.0, rho, 0.0)
        infinite = (mu >= HUGE) | (rho >= HUGE)
        mu, rho = np.where(infinite, 0.0, mu), np.where(infinite, 0.0, rho)
        nu, v, m2 = mu[:, None], 1.0 + mu[:, None], np.empty((2, len(mu)))
        posterior_coordinate(mu, rho, *m2)
        low = (1.0 - (v - (v - 1.0))) + (nu - (v - 1.0))
        pairs = [nu, np.zeros_like(nu), v, low, m2[0][:, None], m2[1][:, None]]
        return cls._precise(pairs, infinite, lost=(mu > 0.0)[:, None] & (rho > 0.0)[:, None])

    @classmethod
    def objective(cls, mu: Floats, r: Floats, x_squared: Floats, v_squared: Floats) -> LossCoordinates:
        """Return the two coordinates of objective perturbation (see ``objective.py``)."""
        x, v = np.sqrt(x_squared), np.sqrt(v_squared)
        here = x > 0.0  # somebody without any feature is in no equation
        with np.errstate(invalid="ignore", over="ignore"):  # zero times infinity, of people who are lost or not there
            usable = here & (mu < HUGE_PLANE) & (r * x < HUGE) & (x * v < HUGE_PLANE)
            usable &= np.maximum(np.maximum(r, x_squared), v_squared) < HALF_OVERFLOWS  # else their halves overflow
        parts = [np.ascontiguousarray(np.where(usable, part, 0.0)) for part in (mu, r, x_squared, v_squared)]
        pairs = np.empty((6, len(mu), 2))
        objective_plane(*parts, pairs)
        moved = (parts[1] > 0.0) & (parts[2] > 0.0)
        return cls._precise(list(pairs), here & ~usable, lost=np.stack([moved, np.zeros_like(moved)], axis=1))

    @classmethod
    def _precise(cls, pairs: list[Floats], infinite: NDArray[np.bool_], lost: NDArray[np.bool_]) -> LossCoordinates:
        """Take nu, v and m^2 as pairs of floats; ``lost`` marks shifts whose square may have underflown."""
        nu, nu_low, v, v_low, m2, m2_low = (np.array(part, dtype=np.float64) for part in pairs)
        infinite = infinite | ~((np.abs(nu) < 2 * HUGE_PLANE**2) & (m2 < HUGE**2) & (v > 0.5 / HUGE_PLANE**2)).all(
            axis=1
        )
        for part, plain in ((nu, 0.0), (nu_low, 0.0), (v, 1.0), (v_low, 0.0), (m2, 0.0), (m2_low, 0.0)):
            part[infinite] = plain
        tiny = (nu != 0.0) & (np.abs(nu) < LEAST_PARAMETER)
        nu[tiny], nu_low[tiny] = np.copysign(LEAST_PARAMETER, nu[tiny]), 0.0
        # Q over P may lose less with a larger nu; a shift that is longer by far more makes up for it
        m2[tiny], m2_low[tiny] = (np.sqrt(m2[tiny]) + 1e10 * LEAST_PARAMETER) ** 2 * (1 + FEW_ROUNDINGS), 0.0
        tiny = lost & (m2 < LEAST_PARAMETER**2) & ~infinite[:, None]
        m2[tiny], m2_low[tiny] = LEAST_PARAMETER**2, 0.0
        levels = np.empty((*nu.shape, 6))
        fill_levels(nu, nu_low, v, v_low, m2, m2_low, levels)
        none, nothing, no = np.zeros((len(nu), 0)), np.zeros(len(nu)), np.zeros(len(nu), dtype=bool)
        return cls(nu, nu_low, v, m2, m2_low, levels, none, none, infinite, no, nothing, nothing, no)

    @classmethod
    def laplace(cls, distance: Floats) -> LossCoordinates:
        """Return the coordinates of one Laplace loss per person."""
        infinite = ~(distance < HUGE)
        lap = np.where(infinite, 0.0, distance)[:, None]
        lap = np.where((lap > 0.0) & (lap < LEAST_PARAMETER), LEAST_PARAMETER, lap)
        none, nothing, no = np.zeros((len(lap), 0)), np.zeros(len(lap)), np.zeros(len(lap), dtype=bool)
        levels, once = np.zeros((len(lap), 0, 6)), np.ones_like(lap)
        return cls(none, none, none, none, none, levels, lap, once, infinite, no, nothing, nothing, no)

    def bounded_by(self, offset: Floats, tail: Floats) -> LossCoordinates:
        """Return the same coordinates as a bound, which the true profile may exceed by an offset and a tail."""
        costs = self.costs | (offset > 0) | (tail > 0)
        return replace(self, offset=offset, tail=tail, bounded=costs)

    def with_steps(self, sampled: StepsTaken) -> LossCoordinates:
        """Return the same people, who took sampled steps as well."""
        return replace(self, sampled=sampled if sampled.rates.size else None)

    @classmethod
    def stack(cls, parts: list[LossCoordinates]) -> LossCoordinates:
        """Put the coordinates of independent releases side by side; equal Laplace distances are counted together."""
        names = ("nu", "nu_low", "v", "m2", "m2_low", "levels")
        nu, nu_low, v, m2, m2_low, levels = (
            np.concatenate([getattr(p, name) for p in parts], axis=1) for name in names
        )
        lap, count = np.hstack([p.lap for p in parts]), np.hstack([p.count for p in parts])
        shift = np.sqrt(np.sum(np.where(nu == 0.0, m2, 0.0), axis=1))
        smooth = shift >= SMOOTHING * np.sum(lap * count, axis=1)
        lap, count, rounded = _grouped(lap, count, smooth)
        infinite = np.logical_or.reduce([p.infinite for p in parts])
        rounded |= np.logical_or.reduce([p.rounded for p in parts])
        offset, tail = (np.sum([getattr(p, name) for p in parts], axis=0) for name in ("offset", "tail"))
        offset, tail = offset * (1 + FEW_ROUNDINGS), tail * (1 + FEW_ROUNDINGS)
        bounded = np.logical_or.reduce([p.bounded for p in parts])
        steps = [p.sampled for p in parts if p.sampled is not None]
        sampled = steps[0].join(steps) if steps else None
        return cls(nu, nu_low, v, m2, m2_low, levels, lap, count, infinite, rounded, offset, tail, bounded, sampled)

    def swapped(self) -> LossCoordinates:
        """Exchange P and Q: ``nu -> -nu/v``, ``v -> 1/v``, ``m^2 -> m^2/v``; Laplace losses are symmetric."""
        parts = np.empty((5, *self.nu.shape))
        exchange(self.nu, self.nu_low, self.v, self.m2, self.m2_low, parts)
        levels = self.levels[:, :, [2, 3, 0, 1, 4, 5]] * [1, 1, 1, 1, -1, -1]
        nu, nu_low, v, m2, m2_low = parts
        sampled = None if self.sampled is None else self.sampled.swapped()
        return replace(self, nu=nu, nu_low=nu_low, v=v, m2=m2, m2_low=m2_low, levels=levels, sampled=sampled)

    def views(self, direction: str) -> list[LossCoordinates]:
        """Return the coordinates of P over Q (``"without"``), of Q over P (``"with"``), or of both (``"worst"``)."""
        return {"without": [self], "with": [self.swapped()], "worst": [self, self.swapped()]}[direction]

    @property
    def costs(self) -> NDArray[np.bool_]:
        """Of each person: whether P and Q differ at all."""
        differ = (self.nu != 0).any(axis=1) | (self.m2 != 0).any(axis=1) | (self.lap != 0).any(axis=1)
        return self.infinite | differ | self.bounded | self.samples

    @property
    def samples(self) -> NDArray[np.bool_]:
        """Of each person: whether any sampled step was taken."""
        return np.zeros(len(self.infinite), dtype=bool) if self.sampled is None else self.sampled.costs

    @property
    def has_others(self) -> bool:
        """Whether anybody has coordinates or Laplace losses too."""
        return bool(self.m2.any() or self.nu.any() or self.lap.any())

    @property
    def losses(self) -> Losses:
        """What the kernels take, in the one layout that they are compiled for."""
        parts = (self.nu, self.v, self.m2, self.levels, self.lap, self.count)
        return Losses(*(np.require(part, requirements=["C", "W"]) for part in parts))

    def __getitem__(self, index: Any) -> LossCoordinates:
        whole = [getattr(self, field.name) for field in fields(self)]
        parts: Any = [None if part is None else part[index] for part in whole]
        return LossCoordinates(*parts)


def _terms(count: Floats) -> Floats:
    """Return how many exponentials the larger half makes: each distance joins the half that is smaller so far."""
    one, two = np.ones(len(count)), np.ones(len(count))
    for times in count.T:
        first = one <= two
        one, two = np.where(first, one * (times + 1.0), one), np.where(first, two, two * (times + 1.0))
    return np.maximum(one, two)


def _grouped(lap: Floats, count: Floats, smooth: NDArray[np.bool_]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Count equal distances together, largest first; where they make too many exponentials raise the closest ones."""
    order = np.argsort(-lap, axis=1, kind="stable")
    lap, count = np.take_along_axis(lap, order, axis=1), np.take_along_axis(count, order, axis=1)
    count = np.where(lap > 0.0, count, 0.0)
    for j in range(lap.shape[1] - 1, 0, -1):  # from the back: each joins its neighbour in front when they are equal
        same = lap[:, j] == lap[:, j - 1]
        count[same, j - 1] += count[same, j]
        count[same, j] = 0.0
    lap = np.where(count > 0.0, lap, 0.0)
    rounded = (_terms(count) > TERMS) & (np.count_nonzero(count, axis=1) > 1) & ~smooth
    for i in np.flatnonzero(rounded):
        D, c = lap[i, count[i] > 0], count[i, count[i] > 0]
        while D.size > 1 and _terms(c[None])[0] > TERMS:  # to the next larger one, the smallest raise first
            j = int(np.argmin((D[:-1] - D[1:]) * c[1:]))
            c[j] += c[j + 1]
            D, c = np.delete(D, j + 1), np.delete(c, j + 1)
        lap[i], count[i] = np.pad([D, c], ((0, 0), (0, lap.shape[1] - D.size)))
    keep = np.flatnonzero(count.any(axis=0))
    return lap[:, keep], count[:, keep], rounded
