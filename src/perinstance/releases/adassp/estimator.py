"""AdaSSP: private linear regression from noisy sufficient statistics, refined and shrunk."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from perinstance.checked_numbers import one_of, positive, whole_number
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.inference.clipped_moments import ClippedMoments
from perinstance.inference.equation import EstimatingEquation
from perinstance.inference.published_inference import PublishedInference
from perinstance.inference.table import About
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.mechanism import Published, Rounds
from perinstance.releases.adassp.robust_stage import LEFT
from perinstance.releases.base.log_ratios import LogRatios
from perinstance.releases.base.publishing import PredictsLinearly
from perinstance.releases.base.rows_per_person import most_rows
from perinstance.releases.promises.declared_box import DeclaredBox, declared_count
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.promise import Promise, check_promise, gaussian_distance, noise_scale
from perinstance.sampling import FixedRows


class AdaSSP(PredictsLinearly, Promised):
    """Linear regression that keeps (epsilon, delta), by noisy sufficient statistics: the accurate default.

    A look at totals, one noisy Gram matrix and ``rounds`` noisy moments of clipped residuals are released, calibrated
    together as one Gaussian release; the estimate is the posterior mean given these numbers (``adassp.mechanism``,
    ``promises.looks``). Columns that have bounds of their own are standardised. Everything is a function of released
    numbers: there is nothing to tune to the data.

    Parameters
    ----------
    epsilon, delta
        The promise, for adding or removing one person.
    x_bound, y_bound
        Declared without looking at the data; rows beyond are clipped. ``x_bound``: a number for ``||x||``; or for every
        column a number for ``|x_j|`` or a range (low, high); or a recipe. ``y_bound``: a number for ``|y|`` or a range.
    rounds
        How often residuals are released; 1 is the classical release of ``(X'X, X'y)``, without a look.
    residual_bound
        Where residuals are clipped (those of the longest rows, if columns are standardised); None: by the look.
    fit_intercept
        Whether there is an intercept; it costs what one more column costs.
    n_public
        The number of people, if that is no secret; None leaves it to the noisy numbers. With ``rows_per_person`` it is
        the number of rows that are used.
    intervals
        ``"robust"`` buys what intervals need where the spread of outcomes grows with their mean (``robust_stage``), for
        27% of the squared budget, within the same promise; None leaves the free ones.
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn. None: a row is a person, and an id that repeats is refused.
    weight_bound
        The largest weight of a row that counts, where rows have weights: larger ones count as this one. ``fit`` is then
        given ``sample_weight``.

    Attributes
    ----------
    coef_, intercept_
        The published estimate, in the user's units.
    totals_, column_totals_, gram_, moments_
        What was released besides: the totals of the looks, of rows in units (``declared_box``); the noisy Gram matrix
        and the noisy moments, of rows in the coordinates that the looks led to.
    squared_residuals_, score_, meat_
        What robust intervals are made of, in the same coordinates; empty where they were not bought.
    privacy_
        The promise computed from the pairs: ``privacy_.delta(epsilon) <= delta``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 2000)[:, None]
    >>> model = AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0).fit(X, 0.5 * X[:, 0])
    >>> bool(model.privacy_.delta(1.0) <= 1e-6)
    True
    """

    what = "ridge regression from noisy sufficient statistics"
    _mechanism = staticmethod(adassp_mechanism.run)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        y_bound: Any = None,
        rounds: int = 5,
        residual_bound: float | None = None,
        fit_intercept: bool = True,
        n_public: int | None = None,
        intervals: Literal["robust"] | None = None,
        rows_per_person: int | None = None,
        weight_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.rounds = rounds
        self.residual_bound = residual_bound
        self.fit_intercept = fit_intercept
        self.n_public = n_public
        self.intervals = intervals
        self.rows_per_person = rows_per_person
        self.weight_bound = weight_bound

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit released: totals, Gram matrix, every round's moment."""
        return self._replayed(sweep, published, outside)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the released numbers say of the coefficients."""
        plan = self._plan(self._box(self.n_features_in_))
        found = known(plan, self._run_again(), about)
        if plan.stage is None:
            return found
        epsilon, delta = check_promise(self.epsilon, self.delta)
        left = Promise(gaussian_distance(epsilon, delta) * math.sqrt(LEFT)).epsilon(delta)
        price = (
            f"Robust intervals took {1.0 - LEFT:.0%} of the squared budget: the published coefficients are as accurate "
            f"as at epsilon = {left:.2g} instead of {epsilon:g}."
        )
        return replace(found, notes=(*found.notes, price))

    def _pairs(self, rows: FixedRows, box: DeclaredBox, run: adassp_mechanism.Published | None) -> GaussianShift:
        plan = self._plan(box)
        run = run if plan.count > 1 else None  # one round asks for nothing that was drawn before
        kind: Kind = "estimate" if run else "exact" if plan.count == 1 and plan.clip is None else "upper"
        return GaussianShift(np.sqrt(adassp_mechanism.people_squares(plan, rows, run) * ROUNDS_UP), kind)

    def _plan(self, box: DeclaredBox) -> adassp_mechanism.Rounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        rounds = whole_number("rounds", self.rounds, 1, 100, 4)
        clip = None
        if self.residual_bound is not None:
            clip = positive("residual_bound", self.residual_bound) / box.label.half
            if not 0 < clip <= 1:
                raise InvalidInput("residual_bound must be > 0 and at most half the label's range; try a quarter of it")
        robust = self.intervals is not None and bool(one_of("intervals", self.intervals, ("robust",)))
        if robust and rounds == 1:
            raise InvalidInput("robust intervals are asked for after the rounds of a look; leave rounds at 5")
        n, k = declared_count(self.n_public, self.weight_bound), most_rows(self)
        return adassp_mechanism.spend(epsilon, delta, box, clip, rounds, n, robust, k)

    def _publish(self, found: adassp_mechanism.Published, box: DeclaredBox) -> Floats:
        self.totals_ = found.totals
        self.column_totals_ = found.column_totals
        self.gram_ = found.gram
        self.moments_ = np.array(found.moments)
        bought: list[Floats] = [np.empty(0) for _ in range(3)] if found.bought is None else found.bought.answers
        self.squared_residuals_, self.score_, self.meat_ = bought
        return found.coef

    def _answers(self) -> list[Floats]:
        bought = (self.squared_residuals_, self.score_, self.meat_)
        return [*adassp_mechanism.sums_released(self), *(one for one in bought if len(one))]


LAST_ROUNDS = 3  # that the equation averages
ONE_SPREAD = (
    "Free intervals take residuals to be of one spread everywhere and symmetric; for costs, "
    'incomes and other skewed outcomes whose spread grows with their mean they are too short; intervals="robust" buys '
    "those that are not."
)
ONE_SHOT = (
    "with rounds=1 nothing that was published tells how widely outcomes scatter, so nothing can be said of people like "
    'these; publish with rounds=5 (the default), or ask about="table"'
)
SEVERAL_ROWS = (
    "free intervals take rows to be independent, and one person's are not: nothing is said of people like these; "
    'publish with intervals="robust", or ask about="table"'
)
LONG_ROWS = (
    "Robust intervals take the mean to be linear and nothing else; in a fit without noise, rows longer than is common "
    "would count less, and residuals beyond six standard deviations as six."
)
FEW = "The number of people is lost in the noise: nothing can be said."


def equation(published: Published, rounds: Rounds, population: bool) -> EstimatingEquation:
    """Return the estimating equation that was published anyway, for rows in the coordinates of the Gram matrix.

    The last rounds' moments are the score (``inference.clipped_moments``). The first round is left out where there are
    others: its residuals are labels.
    """
    n, d, frame = published.opening.n, len(published.gram), published.frame
    slope_noise = noise_scale(frame.gram_sensitivity(frame.knows_ones(n)), rounds.gram_distance)
    none = np.zeros((d, d))
    if rounds.look is None:
        scale = noise_scale(frame.x_bound * (rounds.clip or 1.0), rounds.round_distance)
        return EstimatingEquation(
            np.zeros(d), published.moments[0], published.gram, scale**2 * np.eye(d), none, slope_noise
        )
    if n is None:
        return EstimatingEquation(published.path[-1], np.zeros(d), none, none, none, slope_noise)
    if rounds.stage is not None and published.bought is not None:
        return rounds.stage.equation(published.bought, published.gram, slope_noise, frame.x_bound, population)
    clip = published.clips[-1]
    used = [k for k in range(rounds.count) if published.clips[k] >= clip][-LAST_ROUNDS:]
    scales, at = rounds.look.scales(), 2 if rounds.n_public is None else 1
    asked = ClippedMoments(
        points=np.array([published.path[k] for k in used]),
        moments=np.array([published.moments[k] for k in used]),
        clip=clip,
        noise=clip * frame.x_bound / rounds.round_distance,
        gram=published.gram,
        gram_noise=slope_noise,
        n=n,
        squares=float(published.totals[at]) + n / 2.0,
        squares_noise=math.hypot(scales[at], scales[0] / 2.0 if at == 2 else 0.0),
    )
    return asked.equation(published.path[-1], population)


def known(rounds: Rounds, published: Published, about: About) -> PublishedInference:
    """Return what is known of the user's coefficients, the intercept last."""
    population = about == "population"
    if population and rounds.count == 1:
        return PublishedInference(None, (), ONE_SHOT)
    if population and rounds.stage is None and rounds.rows_per_person > 1:
        return PublishedInference(None, (), SEVERAL_ROWS)
    box, frame = rounds.box, published.frame
    units = np.array([frame.in_units(one, box.weight) for one in np.eye(frame.d)]).T
    found = equation(published, rounds, population)
    # a person's rows may all go together: the variance of their sum is at most so many times that of rows alone
    found = replace(found, sampling=found.sampling * rounds.rows_per_person)
    solved = found.solved().mapped(units)
    notes: tuple[str, ...] = ()
    if rounds.count > 1 and published.opening.n is None:
        notes = (FEW,)
    elif rounds.stage is not None:
        notes = (LONG_ROWS,)
    elif rounds.count > 1 and population:
        notes = (ONE_SPREAD,)
    return PublishedInference(box.user_coefficients(solved), notes)
