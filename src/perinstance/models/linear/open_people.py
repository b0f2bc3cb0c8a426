"""People of whom floats do not say enough, answered in ball arithmetic: every number comes with a radius that holds.

That is whoever determines a direction nearly alone, outsiders in a direction that only a small penalty holds, people
whom the estimate fits almost exactly, and everybody where the columns are close to dependent. X'X is summed again with
32 digits (``sums_in_pairs``), those who dominate it are kept apart and added exactly, and H is inverted once with a
proved radius. Where that does not settle a person, a small table is taken as exact rationals; there, whether an
estimate exists without somebody is a fact. Whom neither settles has an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.normal_equations import AskedOfSums, LinearEquations, Numbers, PersonBounds
from perinstance.models.linear.row_statistics import Without, leverages
from perinstance.models.linear.sums_in_pairs import ColumnSizes, PairedGram, column_sizes, paired_gram
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.exact_linear_algebra.exact_rank import Span, span
from perinstance.numerics.exact_linear_algebra.exact_sums import RationalSums, rational_sums
from perinstance.numerics.rounding import BOUND_UP, EXACT_PARAMETER, UNIT

#: cells up to which a table is taken as exact rationals, and columns (they change the width: beyond, more people have
#: upper bounds)
EXACT_CELLS, EXACT_COLUMNS = 5_000_000, 24
#: bits of the balls around sums in pairs of floats, and of those to which rationals are rounded
PRECISION, LAST_PRECISION = 384, 192
#: an in-sample leverage beyond which a row is kept apart from the sums (changes the width)
DOMINATES = 0.9
#: people of a large table of whom it is decided whether they determine a direction alone, by a fold each
MOST_ALONE = 32
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
        mu, r, length = (one[:, at] for one in (self.leverage, self.residual, self.length))
        return PeopleBounds(mu, r, length, self.negative[at], self.lost[at])

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
    found, n, p = PeopleBounds.unknown(len(X)), fit.n_people, len(fit.theta)
    Z = np.hstack([X, np.ones((len(X), int(fit.fit_intercept)))])
    kept = list(range(p)) if fit.columns is None else fit.columns.tolist()
    setting = AskedOfSums(fit.penalty, fit.precision, kept, fit.fit_intercept)
    apart, rest = _apart(fit, sweep)
    with working_precision(PRECISION):
        rows = list(zip(apart.X, apart.y, strict=True))
        equations = LinearEquations.of(Numbers(exact=False), rest.balls(apart.sizes.exponents), setting, rows)
        _answer(equations, found, np.arange(len(X)), (Z, y), inside)
    todo = np.flatnonzero(found.rough(floor))
    if len(todo) and n * p <= EXACT_CELLS and p <= EXACT_COLUMNS:

        def exactly(block: Block) -> RationalSums:
            ones, target = np.ones((len(block), int(fit.fit_intercept))), np.asarray(block.y, dtype=np.float64)
            return rational_sums(np.column_stack([np.asarray(block.X, dtype=np.float64), ones, target]))

        sums: RationalSums = sweep.fold(exactly)
        with working_precision(LAST_PRECISION):
            equations = LinearEquations.of(Numbers(exact=True), sums.cross, setting, [])
            _answer(equations, found, todo, (Z, y), inside)
    else:
        for i in todo[:MOST_ALONE] if inside else ():
            found.lost[i] = _alone(fit, sweep, X[i], y[i])
    return found


def _apart(fit: Any, sweep: Sweep) -> tuple[_Apart, PairedGram]:
    """Keep apart whoever dominates, and sum over everybody else."""
    intercept, p = fit.fit_intercept, len(fit.theta)

    def dominates(X: NDArray) -> NDArray[np.bool_]:
        return leverages(X, fit.basis, intercept) > DOMINATES

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
    whole = equations.solved()
    for i in todo.tolist():
        x, target = rows[0][i], rows[1][i]
        at = equations.position(x, target) if inside else None
        if at is not None:  # without somebody who dominates: never as a difference
            others = equations.solved(left_out=at)
            answer = None if others is None else others.joining(x, target)
        elif inside:
            answer = None if whole is None else whole.leaving(x, target)
        else:
            answer = None if whole is None else whole.joining(x, target)
        if answer is not None:
            found.narrow(i, answer)


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
