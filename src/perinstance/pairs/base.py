"""What every vector of pairs can do: one interface, and one implementation per mechanism.

A pair is two distributions of the published output: P **without** the person and Q **with** them. Everything the
product states about privacy is a functional of such pairs; a ``Pairs`` holds one for each person, as arrays.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, TINY, TWO_ROUNDINGS, UNIT
from perinstance.pairs.arguments import Direction, check_direction, delta_array, filled, frozen, real_array, spread
from perinstance.pairs.kinds import KINDS, Kind, kind_codes, weakest_of_codes
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.profile import deltas, powers
from perinstance.pairs.sums.saddlepoint import laplace_renyi, renyis
from perinstance.pairs.sums.solve import epsilon_of_sum

Self = TypeVar("Self", bound="Pairs")


@dataclass(frozen=True, slots=True)
class PairSchema:
    """What a file must say besides the columns: the name of a pair and the version of its columns.

    Of a composition also those of its parts. As text it is ``"shift/1"`` or ``"composed/1(posterior/1,laplace/1)"``.

    Examples
    --------
    >>> from perinstance.pairs import LaplaceShift, PosteriorSamplePair
    >>> str((PosteriorSamplePair([0.1], [1.0]) + LaplaceShift([0.5])).schema())
    'composed/1(posterior/1,laplace/1)'
    """

    name: str
    version: int
    parts: tuple[PairSchema, ...] = ()

    def __str__(self) -> str:
        parts = ",".join(str(part) for part in self.parts)
        return f"{self.name}/{self.version}" + (f"({parts})" if parts else "")

    @classmethod
    def parse(cls, text: str) -> PairSchema:
        """Read what ``str`` wrote."""
        one = r"([a-z_]+)/([0-9]{1,9})"
        found = re.fullmatch(rf"{one}(?:\(({one}(?:,{one})*)\))?", text)
        if found is None:
            raise InvalidInput(
                f"schema must read like 'shift/1' or 'composed/1(posterior/1,laplace/1)', got {text[:80]!r}; "
                "pass the text that str(pairs.schema()) gave"
            )
        parts = (part.split("/") for part in (found[3] or "").split(",") if part)
        return cls(found[1], int(found[2]), tuple(cls(name, int(version)) for name, version in parts))


class Pairs(ABC):
    """One pair of distributions per person.

    ``direction`` is ``"without"`` for P over Q, ``"with"`` for Q over P and ``"worst"`` for the larger of the two. The
    public methods check their arguments and spread them over the people. What a pair has no formula of its own for
    follows from its ``coordinates``, by inverting their characteristic function; where a release is known from above
    only (``bounded.py``), offsets move and tails raise the result.
    """

    __slots__ = ("_codes",)

    #: One code per person: an index into ``KINDS``.
    _codes: NDArray[np.uint8]

    #: The name of the pair in files, and the version of its columns there.
    FORMAT: ClassVar[tuple[str, int]]
    #: Whether an epsilon costs nanoseconds a person (a table per delta) and not a solution of its own.
    fast_for_many: ClassVar[bool] = False
    #: Whether it may cost seconds a person.
    slow_alone: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self: Self, index: Any) -> Self:
        """Return the pairs of some people: a slice, a mask, an array of positions or one position."""

    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon, rounded up."""
        check_direction(direction)
        return self._delta(spread(real_array("epsilon", epsilon, len(self)), len(self)), direction)

    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; never below the true value."""
        check_direction(direction)
        return self._epsilon(delta_array(delta, len(self)), direction)

    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the Renyi divergence of order alpha >= 1 (alpha = 1 is the Kullback-Leibler limit), rounded up."""
        check_direction(direction)
        order = real_array("alpha", alpha, len(self))
        if not (order >= 1).all():
            raise InvalidInput(f"alpha must be at least 1, got {float(order.min()):g}; alpha = 1 is the KL divergence")
        return self._renyi(spread(order, len(self)), direction)

    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """Return the true-positive rate of the most powerful membership test at a false-positive rate, rounded up.

        The null hypothesis is that the person is **not** in the data.
        """
        rate = real_array("false_positive_rate", false_positive_rate, len(self))
        if not ((rate >= 0) & (rate <= 1)).all():
            raise InvalidInput("false_positive_rate must lie in [0, 1]; try 0.01")
        return self._power(spread(rate, len(self)))

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        here = self.coordinates()
        lost = np.isinf(here.offset)
        offset = np.where(lost, 0.0, here.offset)
        e = np.where(offset > 0, np.nextafter(epsilon - offset, -np.inf), epsilon)
        out = np.zeros((2, len(self)))
        for i, view in enumerate(here.views(direction)):
            deltas(e, view.losses, view.swapped().losses, out[i])
            rows = np.flatnonzero(here.samples)
            if rows.size:
                from perinstance.pairs.sampled.answers import profile_of_steps

                out[i, rows] = profile_of_steps(view[rows], e[rows])[0]
        worst = out.max(axis=0)
        worst[here.infinite & (e < np.inf)] = 1.0
        worst = np.where(here.tail > 0, (worst + here.tail) * (1 + TWO_ROUNDINGS), worst)
        return np.where(lost, 1.0, np.minimum(worst, 1.0))

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        return epsilon_of_sum(self.coordinates(), spread(delta, len(self)), direction)

    def _of_large_deltas(self, out: Floats, delta: Floats) -> Floats:
        """Return epsilons in closed form, of which those at deltas above one half may be less: they are inverted."""
        if (delta > 0.5).any():
            large = np.broadcast_to(delta > 0.5, out.shape)
            some = self[large].coordinates()
            out[large] = np.fmin(out[large], epsilon_of_sum(some, spread(delta, len(out))[large], "without"))
        return out

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """``K(alpha - 1)/(alpha - 1)``, summed over coordinates; infinite where one is only bounded."""
        return _renyi(self.coordinates(), alpha, direction)

    def zcdp(self) -> Floats:
        """``sum m^2/2`` plus the KL divergences of the Laplace losses; infinite where two variances differ.

        Sampled steps count in full, whatever their rate: at large orders the samples with the person decide.
        """
        here = self.coordinates()
        finite = ~(here.nu != 0).any(axis=1) & ~here.infinite
        if here.sampled is None:
            return np.where(finite, self.renyi(1.0), np.inf)
        plain = _renyi(replace(here, sampled=None), np.ones(len(self)), "worst")
        return np.where(finite, plain + here.sampled.zcdp(), np.inf)

    def _power(self, rate: Floats) -> Floats:
        """``min_epsilon delta_QP(epsilon) + e^epsilon r``: the trade-off curve is dual to the profile."""
        rate = np.where(rate > 0, np.maximum(rate, TINY), 0.0)
        here = self.coordinates()
        there = here.swapped()
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite offset, at a rate of zero too
            moved = np.where(here.offset > 0, rate * np.exp(here.offset) * (1 + FEW_ROUNDINGS), rate)
        moved = np.where(np.isinf(here.offset), 1.0, np.minimum(moved, 1.0))
        out = np.empty(len(self))
        powers(moved, there.losses, here.losses, out)
        rows = np.flatnonzero(here.samples)
        if rows.size:
            from perinstance.pairs.sampled.answers import power_of_steps

            out[rows] = power_of_steps(there[rows], moved[rows])
        out[here.infinite] = 1.0
        out = np.maximum(out, moved)
        out = np.where(here.tail > 0, (out + here.tail) * (1 + TWO_ROUNDINGS), out)
        return np.maximum(np.minimum(out, 1.0), rate)

    def as_estimates(self: Self) -> Self:
        """Return the same pairs, labelled as estimates."""
        labelled = copy.copy(self)
        labelled._codes = kind_codes("estimate", len(self))
        return labelled

    @abstractmethod
    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return one array per parameter, one entry per person, and the words of ``kind``: for files.

        ``perinstance.pairs.from_columns(columns, pairs.schema())`` gives the same pairs, bit for bit.
        """

    @classmethod
    @abstractmethod
    def concatenate(cls: type[Self], parts: list[Self]) -> Self:
        """Put vectors of pairs of one type behind each other."""

    def schema(self) -> PairSchema:
        """Say what ``to_columns`` writes: the name of the pair and the version of its columns."""
        return PairSchema(*self.FORMAT)

    def coordinates(self) -> LossCoordinates:
        """Return the loss as a sum of independent coordinates, which is what adds up over releases.

        A pair that is known from above only states a shift, and what its loss may have on top.
        """
        raise InvalidInput(
            f"{type(self).__name__} pairs have no characteristic function in closed form; they cannot be composed"
        )

    def with_noise(self: Self, factor: float) -> Self | None:
        """Return the pairs under noise that is ``factor`` times as large; None where that is not one formula."""
        return None

    @property
    def parts(self) -> tuple[Pairs, ...]:
        """The releases that this is composed of; a single release is its own only part."""
        return (self,)

    def kl(self, direction: Direction = "worst") -> Floats:
        """Return the Kullback-Leibler divergence."""
        return self.renyi(1.0, direction)

    def tv(self) -> Floats:
        """Return the total variation distance, which is ``delta(0)`` in either direction."""
        return self.delta(0.0, "without")

    @property
    def kinds(self) -> NDArray[np.str_]:
        """Of each person: ``"exact"``, ``"upper"`` or ``"estimate"``."""
        return np.array(KINDS)[self._codes]

    @property
    def codes(self) -> NDArray[np.uint8]:
        """Of each person: 0 exact, 1 upper, 2 estimate. What ``kinds`` says, in a byte."""
        return frozen(self._codes)

    @property
    def kind(self) -> Kind:
        """The weakest claim among all these people."""
        return weakest_of_codes(self._codes)

    def __add__(self, other: Pairs) -> Pairs:
        """Compose independent releases on the same people."""
        from perinstance.pairs.composition import compose

        return compose([self, other])

    def to_frame(self) -> Any:
        """Return the parameters as a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame({**self.to_columns(), "kind": self.kinds})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} people, {self.kind})"


def _renyi(here: LossCoordinates, order: Floats, direction: Direction) -> Floats:
    """Return the Renyi divergences of the coordinates."""
    out = np.zeros((2, len(order)))
    for i, view in enumerate(here.views(direction)):
        renyis(order, view.losses, view.nu_low, out[i])
        if view.sampled is not None:
            from perinstance.pairs.sampled.renyi import renyi_of_steps

            out[i] += renyi_of_steps(view.sampled, order)[0]
    worst = out.max(axis=0)
    for lap, count in zip(here.lap.T, here.count.T, strict=True):
        worst += count * filled(laplace_renyi, lap, order)
    worst[here.infinite | here.bounded] = np.inf
    return worst * (1.0 + UNIT * here.lap.shape[1])
