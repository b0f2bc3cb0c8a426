"""The log density ratio at an output, in balls, and the loss that follows from one's own row and what is public.

A release publishes the rounding of an ideal draw to a public grid. The probability of a grid point is the integral of
the density over its cell, so the ratio of the two probabilities (with over without) is a mean of ``e^L`` over the cell:
it lies between the smallest and the largest ``e^L`` there. A coordinate is therefore enclosed in the ball of its cell,
and what ball arithmetic makes of it encloses the log ratio of what was really published, grid, rounding and all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from flint import arb
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import positive, whole_number
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep
from perinstance.folds.sweep import Sweep
from perinstance.models.smooth.neighbour_refits import leave_one_out, measured
from perinstance.models.smooth.problem import SmoothAudit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import REALISED_ERROR
from perinstance.pairs import PosteriorSamplePair
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Kind
from perinstance.sampling import ExactGram
from perinstance.sampling.ball_arithmetic import Ball, Undecided, exact
from perinstance.sampling.random_bits import Noise

#: precisions that are tried, in bits
BITS = (128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, eq=False)
class LogRatios:
    """``log q/p`` of some people, and how far from the truth each may be. Confidential."""

    value: Floats
    error: Floats  #: absolute; infinite where nothing is proved

    @classmethod
    def of(cls, balls: Sequence[Ball | None]) -> LogRatios:
        """Take the middle of each ball; None is a person without whom nothing could have been published."""
        value, error = np.full(len(balls), np.inf), np.zeros(len(balls))
        for i, ball in enumerate(balls):
            if ball is not None:
                value[i] = float(ball.mid())
                error[i] = _above(abs(ball - arb(value[i]))) if math.isfinite(value[i]) else math.inf
        return cls(value, error)

    def plus(self, balls: Sequence[Ball]) -> LogRatios:
        """Return the sum with what is known in balls."""
        known = LogRatios.of(balls)
        value = self.value + known.value
        return LogRatios(value, np.nextafter(self.error + known.error + np.spacing(np.abs(value)), np.inf))

    @classmethod
    def concatenate(cls, parts: Sequence[LogRatios]) -> LogRatios:
        """Put the answers of blocks behind each other."""
        return cls(np.concatenate([p.value for p in parts]), np.concatenate([p.error for p in parts]))


@runtime_checkable
class HasDensity(Protocol):
    """What a release offers for ``audit.realised``: the log ratio of everybody in the table."""

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p``, with over without, of everybody in the table at what was published.

        ``published`` is a fitted release of the same mechanism, a published model, or the numbers. ``outside`` are
        people who are not in the table: then it is theirs that are asked for, had they joined it.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """Published numbers, and the half widths of the cells that they stand for."""

    values: Floats
    half: float

    def balls(self) -> list[Ball]:
        """Enclose each cell. Beyond ``2^53`` grid steps the float itself was rounded."""
        far, values = self.half * 2.0**54, self.values.tolist()
        lost = [math.ulp(v) if self.half and abs(v) >= far else 0.0 for v in values]
        return [arb(v, math.nextafter(self.half + more, math.inf)) for v, more in zip(values, lost, strict=True)]


def output_of(release: Any, published: Any, count: int) -> Output:
    """Return what was published as ``count`` numbers, the intercept last, after a check that this release did it."""
    numbers = published
    if hasattr(published, "mechanism"):
        check_same_release(release, published)
        check_is_fitted(published)
        numbers = published.published_numbers()
    elif hasattr(published, "numbers"):  # a published model
        if published.method != release.mechanism().name:
            raise InvalidInput(f"{published.method} published this, and {release.mechanism().name} was audited")
        numbers = published.numbers
    if getattr(numbers, "task", "") == "values":
        numbers = numbers.values
    elif hasattr(numbers, "coef"):
        coef, intercept = np.atleast_2d(numbers.coef), np.atleast_1d(numbers.intercept)
        numbers = np.column_stack([coef, intercept]) if count > coef.size else coef
    values = np.asarray(numbers, dtype=np.float64).ravel()
    if len(values) != count:
        raise InvalidInput(f"{count} numbers are published here (an intercept last), got {len(values)}")
    return cell(values, float(release.grid))


def cell(values: Floats, grid: float) -> Output:
    """Return numbers as the cells of a grid; those that are not on it (simulated ones) stand for themselves."""
    if not np.isfinite(values).all():
        raise InvalidInput("what was published must be finite numbers, got NaN or infinity")
    on_grid = bool((np.fmod(values, grid) == 0).all())
    return Output(values, grid / 2 if on_grid else 0.0)


def check_same_release(release: Any, published: Any) -> None:
    """Refuse the draw of a release with other declared parameters: its density is another one."""
    here, there = release.mechanism(), published.mechanism()
    same = here.name == there.name and here.words == there.words and here.fit_intercept == there.fit_intercept
    if not same or not np.array_equal(here.precision, there.precision):
        raise InvalidInput(
            "what was published comes from a release with other declared parameters than the audited one; "
            "audit the release that published it"
        )


def refuse_outside(outside: Sweep | None) -> None:
    """Refuse people who are not in the table, where a release answers for those of the table alone."""
    if outside is not None:
        raise RefusedModel(
            "the realised loss of outsiders is known for ridge regression, means and sums; ask for the people inside"
        )


def good_enough(ball: Ball) -> bool:
    """Tell whether ``e^L`` is known to the share that is called exact."""
    return bool(ball.is_finite()) and _above(ball.rad()) <= REALISED_ERROR / 2


def _above(ball: Ball) -> float:
    return math.nextafter(float(ball.upper()), math.inf) if ball.is_finite() else math.inf


def refitted_log_ratios(
    sweep: Sweep, fit: SmoothAudit, output: Output, scale: float, precision: Floats | None
) -> LogRatios:
    """Refit without everybody, block by block; there is no proof of a rounding bound, so the error is infinite."""
    inner = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
    A = np.eye(len(fit.theta)) if precision is None else precision

    def answer(block: Block) -> Any:
        y = fit.codes(block.y)
        found = leave_one_out(fit.model, inner, block.X, y, True, partial(inner.tell, "refit"))
        with np.errstate(invalid="ignore", over="ignore"):
            value = -np.einsum("ij,ij->i", found.D @ A, output.values - fit.theta - found.D / 2) / scale**2
        # without them a class is gone: nothing to publish
        alone = ~np.isfinite(measured(found.D, precision)) | fit.alone(y, True)
        return LogRatios(np.where(alone, np.inf, value), np.where(alone, 0.0, np.inf))

    return LogRatios.concatenate([answer(block) for block in list(sweep.map(lambda block: block))])


def two_worlds(
    log_density: Callable[[ExactGram], Ball], sums: ExactGram, everybody: Iterable[ExactGram], trouble: str
) -> LogRatios:
    """Return the log density around everybody's sums less that around the sums without each; more bits where needed."""
    whole: dict[int, Ball] = {}
    found: list[Ball | None] = []
    for own in everybody:
        rest, last = sums + ExactGram(-own.entries, own.exponent, -own.n), None
        for bits in BITS[1:]:
            with working_precision(bits):
                try:
                    if bits not in whole:
                        whole[bits] = log_density(sums)
                    last = whole[bits] - log_density(rest)
                except (Undecided, ZeroDivisionError):
                    continue
            if good_enough(last):
                break
        if last is None:
            raise NumericalTrouble(trouble)
        found.append(last)  # as wide as the cells of the grid leave it
    return LogRatios.of(found)


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Sums with independent noise: ``gap = output - centre`` in balls, and the scale of each coordinate (MATH 8).

    Without the person the centre c moves to ``c - u``, rational numbers that are known exactly. At the output o

        Gaussian:  sum_j u_j (o_j - c_j + u_j/2)/s_j^2,        Laplace:  sum_j (|o_j - c_j + u_j| - |o_j - c_j|)/s_j.
    """

    gap: list[Ball]
    scales: list[Ball]
    noise: Noise = "gaussian"

    @classmethod
    def of(cls, output: Output, centre: Sequence[object], scales: Sequence[float], noise: Noise) -> NoisySums:
        """Take what was published apart; the centre is exact."""
        gap = [o - exact(c) for o, c in zip(output.balls(), centre, strict=True)]
        return cls(gap, [arb(float(s)) for s in scales], noise)

    def log_ratio(self, step: Iterable[Ball]) -> Ball:
        """Return ``log q/p`` of a person who moves the centre by ``step``."""
        total = arb(0)
        for u, gap, s in zip(step, self.gap, self.scales, strict=True):
            if self.noise == "gaussian":
                total += u * (gap + u / 2) / (s * s)
            else:
                total += (abs(gap + u) - abs(gap)) / s
        return total


@runtime_checkable
class MovesTogether(Protocol):
    """A release that knows the one pair of several people of its table."""

    def moved_together(self, fit: Any, rows: Floats) -> Pairs:
        """Return the pair without and with all of these rows, which are some of those that ``fit`` was made with."""


def distance_of(moves: Sequence[Ball], scale: float, order: int = 2) -> float:
    """Return the length of a movement over the scale of the noise, rounded up."""
    if order == 1:
        length = sum((abs(move) for move in moves), arb(0))
    else:
        length = sum((move * move for move in moves), arb(0)).sqrt()
    return math.nextafter(float((length / arb(scale)).upper()), math.inf) if length != 0 else 0.0


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is public besides the release: a bound of everybody's target, and of how many people there are."""

    y_bound: float | None = None
    people: int | None = None


@dataclass(frozen=True, slots=True)
class OwnRowLoss:
    """A loss that holds for one person, and what it assumes."""

    epsilon: float
    delta: float
    kind: Kind
    assumptions: tuple[str, ...]  #: names of sentences of the wording
    log_odds: tuple[float, float] | None = None  #: between which the published draw moved the log odds of presence


@runtime_checkable
class KnowsOwnRow(Protocol):
    """A release whose loss, or a bound of it, follows from the person's own row and from what is public."""

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return what holds at delta for a person with this row, whatever the other rows are."""


def one_pair(pairs: Pairs, delta: float, assumptions: tuple[str, ...]) -> OwnRowLoss:
    """Return the loss of the one person that these pairs are about."""
    return OwnRowLoss(float(pairs.epsilon(delta)[0]), delta, pairs.kind, assumptions)


def one_row(x: Any) -> Floats:
    """Return a row as a table of one person."""
    return np.asarray(x, dtype=np.float64).reshape(1, -1)


MOST_PEOPLE = 10**15  # a bound beyond is a typing error


def posterior_own_row(
    ridge: tuple[float, float], row: Floats, y: float, published: Output | None, delta: float, facts: PublicFacts
) -> OwnRowLoss:
    """Return the loss of a person under ``ridge = (alpha, gamma)``; without a draw its log odds are left out."""
    if facts.y_bound is None or facts.people is None:
        raise InvalidInput("a posterior sample needs public facts: declare y_bound and people, an upper bound of each")
    B, n = positive("y_bound", facts.y_bound), whole_number("people", facts.people, 1, MOST_PEOPLE, 1000)
    with working_precision(256):
        x, (alpha, gamma) = [arb(v) for v in one_row(row)[0].tolist()], (arb(v) for v in ridge)
        square = sum((v * v for v in x), arb(0))
        M = square / alpha
        R = abs(arb(float(y))) + square.sqrt() * arb(B) * arb(n).sqrt() / (2 * alpha.sqrt())
        pairs = PosteriorSamplePair([_above(M)], [_above((gamma * (1 + M)).sqrt() * R)], "upper")
        found = one_pair(pairs, delta, ("targets_bounded", "people_bounded"))
        if published is None:
            return found
        miss = arb(float(y)) - sum((v * o for v, o in zip(x, published.balls(), strict=True)), arb(0))
        evidence = gamma * miss * miss / 2
        most = (1 + M).log() / 2 + gamma * R * R / 2 - evidence
        return replace(found, log_odds=(-_above(evidence), _above(most)))
