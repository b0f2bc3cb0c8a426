"""People of whom floats do not say enough, answered in ball arithmetic: every number comes with a radius that holds.

That is whoever determines a direction nearly alone, outsiders in a direction that only a small penalty holds, people
whom the estimate fits almost exactly, and everybody where the columns are close to dependent. Those of whom only the
residual is not known are answered by ``residuals_in_pairs`` where that is enough. For the others X'X is summed again
with 32 digits (``sums_in_pairs``), those who dominate it are kept apart and added exactly, and H is inverted once with
a proved radius. Where even that does not settle a person, the table is taken as exact rationals; there, whether an
estimate exists without somebody is a fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.normal_equations import Balls, LinearEquations, Numbers, PersonBounds, Rationals
from perinstance.models.linear.residuals_in_pairs import PairedEstimate, quick_estimate, sharper_estimate
from perinstance.models.linear.row_statistics import RowMap, Without, leverages, row_statistics_of
from perinstance.models.linear.sums_in_pairs import ColumnSizes, PairedGram, column_sizes, paired_gram
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.exact_linear_algebra.exact_rank import Span, span
from perinstance.numerics.exact_linear_algebra.exact_sums import RationalSums, rational_sums
from perinstance.numerics.rounding import BOUND_DOWN, BOUND_UP, EXACT_PARAMETER, UNIT

#: cells up to which a table is taken as exact rationals, and columns
EXACT_CELLS, EXACT_COLUMNS = 5_000_000, 24
#: bits of the balls; the second try is for people whose squares are as far apart as floats can be
PRECISIONS = (384, 6000)
#: bits in which rationals are rounded
LAST_PRECISION = 192
#: odd, and without a pattern: equal rows have equal hashes whatever it is (changes only speed)
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class PeopleBounds:
    """Bounds from below and above, one entry per person; lost is whoever determines a direction alone."""

    leverage: Floats  #: (2, k) mu
    residual: Floats  #: (2, k) |r|
    length: Floats  #: (2, k) ||H_with^-1 x||_A; zeros when no norm is asked for
    negative: NDArray[np.bool_]  #: r < 0
    lost: NDArray[np.bool_]

    @classmethod
    def unknown(cls, k: int) -> PeopleBounds:
        """Return what is known before anything is."""
        mu, r, length = (np.vstack([np.zeros(k), np.full(k, np.inf)]) for _ in range(3))
        return cls(mu, r, length, np.zeros(k, dtype=bool), np.zeros(k, dtype=bool))

    def picked(self, at: NDArray[np.intp]) -> PeopleBounds:
        """Return what is known of some people, each as often as asked."""
        bounds = (self.leverage, self.residual, self.length)
        return PeopleBounds(*(one[:, at] for one in bounds), self.negative[at], self.lost[at])

    def rough(self, floor: float) -> NDArray[np.bool_]:
        """Tell who is not known well enough; see ``ridge.without`` for the floor."""
        with np.errstate(invalid="ignore"):
            least = np.maximum(self.residual[0], floor * np.minimum(np.sqrt(self.leverage[0]), 1.0))
            good = self.leverage[1] - self.leverage[0] <= EXACT_PARAMETER * self.leverage[0]
            good &= self.residual[1] - self.residual[0] <= EXACT_PARAMETER * least
            good &= self.length[1] - self.length[0] <= EXACT_PARAMETER * self.length[0]
        return ~(good | self.lost)

    def narrow(self, i: int, answer: PersonBounds) -> None:
        """Take in what was found of a person; older bounds stay where they are closer."""
        self.lost[i] = answer.lost
        self.negative[i] = answer.negative
        bounds = (answer.leverage, answer.residual, answer.length)
        for column, (low, high) in zip((self.leverage, self.residual, self.length), bounds, strict=True):
            column[0, i], column[1, i] = max(low, column[0, i]), min(high, column[1, i])

    def stated(self, floor: float, moves: bool) -> Without:
        """Round away from zero; ``moves`` says whether lengths were asked for."""
        rough = self.rough(floor)
        with np.errstate(invalid="ignore", over="ignore"):
            # a larger leverage tells more of a posterior sample only together with this much more of the residual
            # (beyond the largest float it loses everything anyway, and a movement does not need it)
            ratio = np.where(np.isinf(self.leverage[1]), 1.0, (1 + self.leverage[1]) / (1 + self.leverage[0]))
            along = np.sqrt(ratio) * BOUND_UP
            residual = np.copysign(self.residual[1] * along, np.where(self.negative, -1.0, 1.0))
        residual[self.lost] = np.nan
        leverage, length = (np.where(self.lost, np.inf, bounds[1]) for bounds in (self.leverage, self.length))
        share = np.full(len(leverage), 4 * UNIT)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for low, high in (self.leverage, self.length):
                share += np.where(high > low, (high - low) / low, 0.0)
        length, share = (length, share) if moves else (length[:0], share[:0])
        return Without(leverage, residual, length, share, rough.astype(np.uint8))


@dataclass(frozen=True, slots=True)
class _Apart:
    """The people who dominate, and the sizes of the columns of everybody else."""

    X: Floats
    y: Floats
    sizes: ColumnSizes
    finite = True

    def __add__(self, other: _Apart) -> _Apart:
        return _Apart(np.vstack([self.X, other.X]), np.append(self.y, other.y), self.sizes + other.sizes)


def answered_people(fit: Any, sweep: Sweep, X: Floats, y: Floats, inside: bool, floor: float) -> PeopleBounds:
    """Answer for rows X, y, of the data (``inside``) or not; rows that are equal bit by bit are answered once."""
    first, place = _distinct_rows(X, y)
    return _answered(fit, sweep, X[first], y[first], inside, floor).picked(place)


def _distinct_rows(X: Floats, y: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return positions of distinct rows of (X, y), and for each row which of them it is.

    Rows are sorted by a hash of their bits. A row that is not the one that its hash stands for is kept by itself.
    """
    bits = np.column_stack([X, y]).view(np.uint64)
    mixed = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        mixed ^= column
        mixed *= HASH_FACTOR
        mixed ^= mixed >> np.uint64(32)
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    alone = np.flatnonzero((bits != bits[first[place]]).any(axis=1))
    place[alone] = len(first) + np.arange(len(alone))
    return np.append(first, alone), place


def _answered(fit: Any, sweep: Sweep, X: Floats, y: Floats, inside: bool, floor: float) -> PeopleBounds:
    """Answer for distinct rows."""
    found = PeopleBounds.unknown(len(X))
    _answer_residuals(fit, sweep, found, (X, y), inside, floor)
    todo = np.flatnonzero(found.rough(floor))
    if not len(todo):
        return found
    Z = np.hstack([X, np.ones((len(X), int(fit.fit_intercept)))])
    apart, rest = _apart(fit, sweep)
    for bits in PRECISIONS[: 1 + (len(apart.y) > 0)]:
        with working_precision(bits):
            equations = _in_balls(fit, apart, rest)
            _answer(equations, found, todo, (Z, y), inside)
        todo = np.flatnonzero(found.rough(floor))
        if not len(todo):
            return found
    if fit.n_people * Z.shape[1] <= EXACT_CELLS and Z.shape[1] <= EXACT_COLUMNS:
        sums = _rational_sums(fit, sweep)
        with working_precision(LAST_PRECISION):
            _answer(_equations(fit, Rationals(), sums.cross, None), found, todo, (Z, y), inside)
    elif inside:
        for i in todo:
            found.lost[i] = _alone(fit, sweep, X[i], y[i])
    return found


def _answer_residuals(
    fit: Any, sweep: Sweep, found: PeopleBounds, people: tuple[Floats, Floats], inside: bool, floor: float
) -> None:
    """Fill in the people of whom only the residual was not known: a fold that costs less than the first does."""
    X, y = people
    rows_map = RowMap(fit.basis, fit.image, fit.norm, fit.fit_intercept, fit.rounding, large=True)
    rows = row_statistics_of(rows_map, X, y, inside)
    at = np.arange(len(X)) if rows.open is None else np.flatnonzero(~rows.open)
    for fold in (quick_estimate, sharper_estimate):
        estimate = fold(fit, sweep) if len(at) else None
        if estimate is not None:
            _take_residuals(fit, estimate, found, people, (rows, at), inside)
            at = at[found.rough(floor)[at]]


def _take_residuals(
    fit: Any,
    estimate: PairedEstimate,
    found: PeopleBounds,
    people: tuple[Floats, Floats],
    among: tuple[Without, NDArray[np.intp]],
    inside: bool,
) -> None:
    """Fill in some people by an estimate in pairs."""
    (X, y), (rows, at) = people, among
    mu = rows.leverage[at]
    rest = 1 + mu if inside else np.ones(len(at))  # 1/(1 - m)
    e, lost = estimate.residuals(X[at], y[at], np.sqrt(mu / rest) * BOUND_UP)
    # sqrt(m) is within ``total`` of itself; ``m/(1 - m)`` lies above its tangent
    least = mu * np.maximum(1 - 4 * fit.rounding.total * rest * BOUND_UP, 0.0)
    rest_least = 1 + least if inside else rest
    found.leverage[:, at] = least, mu
    found.residual[:, at] = (
        np.maximum(np.abs(e) - lost, 0.0) * rest_least * BOUND_DOWN,
        (np.abs(e) + lost) * rest * BOUND_UP,
    )
    length, share = (rows.length[at], rows.share[at]) if len(rows.length) else (np.zeros(len(at)), np.zeros(len(at)))
    found.length[:, at] = length * np.maximum(1 - 2 * share, 0.0), length
    found.negative[at] = e < 0


def _apart(fit: Any, sweep: Sweep) -> tuple[_Apart, PairedGram]:
    """Keep apart whoever dominates, and sum over everybody else."""
    intercept, p = fit.fit_intercept, len(fit.theta)

    def dominates(X: NDArray) -> NDArray[np.bool_]:
        return leverages(X, fit.basis, intercept) > 0.9

    def take(block: Block) -> _Apart:
        out = dominates(block.X)
        few = block.picked(out)
        ones = np.ones((len(few), int(intercept)))
        sizes = column_sizes(block.picked(~out), intercept)
        return _Apart(np.hstack([np.asarray(few.X, dtype=np.float64), ones]), np.asarray(few.y, np.float64), sizes)

    apart: _Apart = sweep.fold(take)
    if len(apart.y) > 4 * p + 16:  # rounding, not people
        sizes: ColumnSizes = sweep.fold(partial(column_sizes, intercept=intercept))
        apart = _Apart(np.empty((0, p)), np.empty(0), sizes)
    none = not len(apart.y)

    def step(block: Block) -> PairedGram:
        kept = block if none else block.picked(~dominates(block.X))
        return paired_gram(kept, intercept, apart.sizes.exponents)

    return apart, sweep.fold(step)


def _in_balls(fit: Any, apart: _Apart, rest: PairedGram) -> LinearEquations | None:
    numbers, p = Balls(), len(fit.theta)
    unit = [arb(2) ** -int(k) for k in apart.sizes.exponents]
    sums = rest.balls()
    cross = numbers.matrix([[sums[i, j] * unit[i] * unit[j] for j in range(p + 1)] for i in range(p + 1)])
    return _equations(fit, numbers, cross, apart)


def _rational_sums(fit: Any, sweep: Sweep) -> RationalSums:
    def step(block: Block) -> RationalSums:
        ones = np.ones((len(block), int(fit.fit_intercept)))
        y = np.asarray(block.y, dtype=np.float64)[:, None]
        return rational_sums(np.hstack([np.asarray(block.X, dtype=np.float64), ones, y]))

    sums: RationalSums = sweep.fold(step)
    return sums


def _equations(fit: Any, numbers: Numbers, cross: Any, apart: _Apart | None) -> LinearEquations | None:
    kept = list(range(len(fit.theta))) if fit.columns is None else fit.columns.tolist()
    rows = [] if apart is None else list(zip(apart.X, apart.y, strict=True))
    return LinearEquations.of(numbers, cross, (fit.penalty, fit.precision, kept, fit.fit_intercept), rows)


def _answer(
    equations: LinearEquations | None,
    found: PeopleBounds,
    todo: NDArray[np.intp],
    rows: tuple[Floats, Floats],
    inside: bool,
) -> None:
    """Fill in what these equations say of the people ``todo``."""
    if equations is None:
        return
    Z, y = rows
    for i, answer in zip(todo, _answers(equations, Z[todo], y[todo], inside), strict=True):
        if answer is None:
            continue
        found.narrow(int(i), answer)


def _answers(equations: LinearEquations, Z: Floats, y: Floats, inside: bool) -> Iterator[Any]:
    whole = equations.solved()
    for x, target in zip(Z, y, strict=True):
        at = equations.position(x, target) if inside else None
        if at is not None:  # without somebody who dominates: never as a difference
            others = equations.without(at).solved()
            yield None if others is None else others.joining(x, target)
        elif whole is None:
            yield None
        else:
            yield whole.leaving(x, target) if inside else whole.joining(x, target)


def _alone(fit: Any, sweep: Sweep, x: Floats, target: float) -> bool:
    """Tell whether the others span less than everybody: decided modulo primes, for a table of any size."""
    if (fit.penalty > 0).any():  # it holds every coefficient: only an intercept can be lost, with the last person
        return bool(fit.fit_intercept and fit.n_people == 1)

    def same(block: Block) -> NDArray[np.bool_]:
        return np.asarray((np.asarray(block.X, np.float64) == x).all(axis=1) & (block.y == target))

    def others(block: Block) -> Span:
        kept = block.picked(~same(block))
        return span(kept.X, kept.y, fit.fit_intercept)

    if sweep.fold(lambda block: int(same(block).sum())) > 1:
        return False
    full = len(fit.theta) if fit.columns is None else len(fit.columns)
    return bool(sweep.fold(others).rank < full)
