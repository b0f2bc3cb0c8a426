"""The steps of a clipped descent: exact sums, exact noise, and from there on post-processing in floats.

In each step everybody enters a Poisson sample by bits of the operating system; the gradients of the sample are clipped
on a public fixed-point grid, in integers (``sampling.fixed_rows``: a gradient that is not a number counts as zero);
their sum is exact, and one exact draw of noise on it, rounded to the public grid, is all that the next theta knows of
the rows. Nothing that a row holds is a reason to stop.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import ConfidentialFit, FitHealth, Problem
from perinstance.models.linear.ridge import LinearProblem
from perinstance.models.losses.catalogue import Squared
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective, design
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, STEP_UP, TINY
from perinstance.pairs.base import Pairs
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.descent.ridge_iterates import RidgeDescent
from perinstance.releases.descent.step_losses import (
    LEVELS,
    PersonalBudget,
    counted,
    counted_steps,
    equal_steps,
    levels_of,
)
from perinstance.sampling import Noisy, draw, exact_sums, fixed_rows


@dataclass(frozen=True, slots=True)
class Steps:
    """What was declared. All of it is public."""

    count: int
    learning_rate: float
    clip: float
    noise: float
    rate: float
    grid: float
    filter: PersonalBudget | None = None


def descended(total: Callable[[int, Floats], Floats], objective: SmoothObjective, width: int, steps: Steps) -> Floats:
    """Return the iterates ``theta_0 = 0, theta_1, ..., theta_T``, one in each row; ``total(t, theta)`` are the sums."""
    path = np.zeros((steps.count + 1, width))
    for t in range(steps.count):
        sums = total(t, path[t])
        with np.errstate(all="ignore"):
            slope = sums / steps.rate + objective.penalty_slope(path[t])
            path[t + 1] = path[t] - steps.learning_rate * slope
    return path


def path_of(people: SummedGradients, steps: Steps, noisy: bool = True) -> Floats:
    """Return iterates of exact, noisy sums of Poisson samples of people: what is published.

    Without noise everybody's gradients are summed in floats: confidential.
    """
    clips = OwnClips(people, steps)

    def total(t: int, theta: Floats) -> Floats:
        own = clips.at(t, theta)
        if not noisy:
            return shortened(people.at(theta), own).sum(axis=0) * steps.rate
        sampled = poisson_sample(len(people), steps.rate)
        sums = exact_sums(shortened(people.at(theta, sampled), own[sampled]))
        return draw(Noisy(sums, steps.noise), steps.grid).values

    return descended(total, people.objective, people.objective.width(people.X.shape[1]), steps)


def folded_path(objective: SmoothObjective, sweep: Sweep, steps: Steps, labels: tuple[float, float] | None) -> Floats:
    """Return the iterates of everybody's gradients without noise or filter, by one fold per step. Confidential."""

    def total(t: int, theta: Floats) -> Floats:
        def step(block: Block) -> Floats:
            people = SummedGradients(objective, block.X, coded_targets(block.y, labels), getattr(block, "starts", None))
            return clipped(people.at(theta), steps.clip).sum(axis=0)

        return sweep.fold(step) * steps.rate

    return descended(total, objective, objective.width(sweep.n_features), steps)


def coded_targets(y: NDArray, labels: tuple[float, float] | None) -> Floats:
    """Return targets as ``fit`` takes them: of a classifier the declared classes are 0 and 1, others missing."""
    targets = np.asarray(y, dtype=np.float64)
    if labels is None:
        return targets
    return np.where(targets == labels[1], 1.0, np.where(targets == labels[0], 0.0, np.nan))


class OwnClips:
    """Everybody's clip in each step: the declared one, or their own under a filter, zero for whoever cannot pay.

    What each person has spent is kept for one descent, and is confidential.
    """

    def __init__(self, people: SummedGradients, steps: Steps) -> None:
        self._people, self._steps = people, steps
        self._spent, self._own = np.zeros(len(people)), np.zeros(len(people), dtype=np.intp)
        if steps.filter is not None:
            self._levels = levels_of(steps.clip)
            self._cost, self._budget = steps.filter.costs(steps.rate, self._levels / steps.noise * STEP_UP)

    def at(self, t: int, theta: Floats) -> Floats:
        """Return the clips of step t, which starts from theta; steps must be asked for in their order."""
        steps = self._steps
        if steps.filter is None:
            return np.full(len(self._people), steps.clip)
        if t % steps.filter.refresh == 0:  # a public time
            lengths = clipped_lengths(self._people.at(theta), steps.clip)
            self._own = counted(lengths, steps.clip)
        cost = self._cost[self._own]
        after = np.where(cost > 0.0, np.nextafter(self._spent + cost, np.inf), self._spent)
        pays = after <= self._budget
        self._spent = np.where(pays, after, self._spent)
        return np.where(pays, self._levels[self._own], 0.0)


def shortened(gradients: Floats, own: Floats) -> Floats:
    """Shrink each gradient to its own clip, exactly; a clip of zero leaves nothing."""
    out = np.zeros_like(gradients)
    for clip in np.unique(own[own > 0.0]).tolist():
        out[own == clip] = clipped(gradients[own == clip], clip)
    return out


def clipped(gradients: Floats, clip: float) -> Floats:
    """Shrink gradients to the length ``clip``, exactly, on a public grid; what is not a number becomes zero."""
    return fixed_rows(gradients, np.zeros(len(gradients)), clip, 1.0).X


def clipped_lengths(gradients: Floats, clip: float) -> Floats:
    """Return the lengths of the gradients as the release sums them."""
    return np.minimum(lengths(clipped(gradients, clip) / clip), 1.0) * clip


def poisson_sample(n: int, rate: float) -> NDArray[np.bool_]:
    """Pick each of n people with probability ``rate``, from the operating system's randomness.

    64 bits decide, so a rate below 2^-11 is rounded down, by less than 2^-11 of itself for any rate above 2^-53.
    """
    if rate == 1.0:
        return np.ones(n, dtype=bool)
    words = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
    return words < np.uint64(int(rate * 2.0**64))


def row_gradients(objective: SmoothObjective, X: NDArray, y: NDArray, theta: Floats) -> Floats:
    """Return one gradient per row, of the loss without the penalty.

    The bits follow from the row alone (``row_sums``). A row that is not finite, or whose gradient is beyond float64,
    comes back as it is: whoever sums must make zeros of it.
    """
    rows = design(X, objective.fit_intercept)
    with np.errstate(all="ignore"):
        eta = products(rows, theta)
        targets = np.asarray(y, dtype=np.float64)
        slope = objective.loss.slope(targets, eta)
        # losses of two classes compare their targets, and a comparison with no number is an answer, too
        return np.where(np.isnan(targets), np.nan, slope)[:, None] * rows


def longest_gradients(objective: SmoothObjective, X: NDArray) -> Floats:
    """Bound each row's gradient over all theta and both classes; infinite where the loss has no such bound.

    Logistic regression: ``||(x, 1)||``. A row with a missing or infinite cell has no bound but the clip.
    """
    supremum = objective.loss.slope_supremum
    if not np.isfinite(supremum):
        return np.full(len(X), np.inf)
    rows = design(X, objective.fit_intercept)
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), TINY)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = largest * lengths(rows / largest[:, None]) * (supremum * NORM_UP)
    return np.where(np.isnan(bound), np.inf, bound)


@dataclass(frozen=True, slots=True, eq=False)
class SummedGradients:
    """One gradient of each person of a table, at any theta: the sum of those of their rows, which stand together."""

    objective: SmoothObjective
    X: NDArray
    y: Floats
    starts: NDArray[np.int64] | None = None  #: where each person's rows begin, and the end; None: a row is a person

    @classmethod
    def of_people(cls, objective: SmoothObjective, X: NDArray, y: Floats, people: NDArray[np.int64]) -> SummedGradients:
        """Put the rows of each person together, in an order that follows from the rows alone."""
        order = np.lexsort((y, *X.T, people))
        counts = np.bincount(people)
        return cls(objective, X[order], y[order], np.append(0, np.cumsum(counts[counts > 0])))

    def __len__(self) -> int:
        return len(self.X) if self.starts is None else len(self.starts) - 1

    def at(self, theta: Floats, chosen: NDArray[np.bool_] | None = None) -> Floats:
        """Return the gradients of all people, or of some; a row of which it is not a number adds nothing to a sum."""
        starts = self.starts
        if starts is None:
            some = slice(None) if chosen is None else chosen
            return row_gradients(self.objective, self.X[some], self.y[some], theta)
        counts = starts[1:] - starts[:-1]
        if chosen is None:
            chosen = np.ones(len(counts), dtype=bool)
        rows, firsts = np.repeat(chosen, counts), np.cumsum(counts[chosen]) - counts[chosen]
        each = row_gradients(self.objective, self.X[rows], self.y[rows], theta)
        each = np.where(np.isnan(each).any(axis=1, keepdims=True), 0.0, each)
        with np.errstate(all="ignore"):
            return np.add.reduceat(each, firsts, axis=0) if len(firsts) else each


def objective_of(problem: Problem) -> SmoothObjective:
    """Return the loss and the public penalty of a model, or refuse it with the reason."""
    if isinstance(problem, LinearProblem):
        return SmoothObjective(Squared(), RidgePenalty(problem.alpha), problem.fit_intercept)
    if not isinstance(problem, SmoothProblem):
        raise RefusedModel(
            f"the descent of a {type(problem).__name__} is refused: it needs a smooth loss of one linear predictor; "
            "use Ridge, LogisticRegression (two classes) or a smooth objective"
        )
    if problem.objective.mean:
        raise RefusedModel(
            "the descent of an objective whose penalty weighs a mean is refused: its penalty is multiplied by the "
            "number of people, which is not public; use SmoothObjective with mean=False"
        )
    return problem.objective


@dataclass(frozen=True, slots=True, repr=False)
class DescentFit(ConfidentialFit):
    """The minimum with everyone, for leverages and residuals, and what the losses need besides. Confidential."""

    model: Problem  #: of which the minimum is
    inner: Any  #: the model's own confidential fit
    path: Floats | None = None  #: iterates along which lengths are read
    descent: RidgeDescent | None = None  #: of ridge regression without clipping
    labels: tuple[float, float] | None = None  #: the declared classes as an audit has them: numbers

    @property
    def theta(self) -> Floats:
        """The minimum without noise."""
        return self.inner.theta

    @property
    def health(self) -> FitHealth:
        """That of the minimum."""
        return self.inner.health


def reading(
    objective: SmoothObjective, fit: DescentFit, block: Block, steps: Steps, starts: NDArray[np.int64] | None = None
) -> Pairs:
    """Compose the lengths that these people's gradients had along the path: an odometer reading."""
    assert fit.path is not None  # asked by the caller
    summed = SummedGradients(objective, block.X, coded_targets(block.y, fit.labels), starts)
    people = np.arange(len(summed))
    counts, squares = np.zeros((len(people), LEVELS + 1)), np.zeros(len(people))
    clips = OwnClips(summed, steps)
    for t, theta in enumerate(fit.path[:-1]):
        lengths = np.minimum(clipped_lengths(summed.at(theta), steps.clip), clips.at(t, theta))
        squares += (lengths / steps.noise) ** 2
        counts[people, counted(lengths, steps.clip)] += 1
    if steps.rate == 1.0:
        return equal_steps(1.0, np.sqrt(squares / steps.count) * (STEP_UP * STEP_UP), steps.count, "estimate")
    return counted_steps(steps.rate, steps.noise, steps.clip, counts)
