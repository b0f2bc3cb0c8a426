"""AdaSSP: private linear regression from noisy sufficient statistics, refined and shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from perinstance.checked_numbers import positive, whole_number
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.inference.table import About, PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.intervals import known
from perinstance.releases.base.log_ratios import LogRatios, NoisySums, cell, check_same_release, refuse_outside
from perinstance.releases.base.publishing import PredictsLinearly
from perinstance.releases.promises.declared_box import DeclaredBox, declared_count
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.window import ExactWindow, Window, published_before
from perinstance.sampling import GRID, FixedRows
from perinstance.sampling.ball_arithmetic import exact

PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred


class AdaSSP(PredictsLinearly, Promised):
    """Linear regression that keeps (epsilon, delta), by noisy sufficient statistics: the accurate default.

    A look at totals, one noisy Gram matrix and ``rounds`` noisy moments of clipped residuals are released, calibrated
    together as one Gaussian release; the estimate is the posterior mean given these numbers (``adassp.mechanism``,
    ``first_look``, ``column_look``, ``averaged_rounds``, ``shrinkage``). Columns that have bounds of their own are
    standardised. Everything is a function of released numbers: there is nothing to tune to the data.

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
        The number of people, if that is no secret; None leaves it to the noisy numbers.

    Attributes
    ----------
    coef_, intercept_
        The published estimate, in the user's units.
    totals_, column_totals_, gram_, moments_
        What was released besides: the totals of the looks, of rows in units (``declared_box``); the noisy Gram matrix
        and the noisy moments, of rows in the coordinates that the looks led to.
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
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.rounds = rounds
        self.residual_bound = residual_bound
        self.fit_intercept = fit_intercept
        self.n_public = n_public

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep; it is the same for any number of features."""
        return self._plan(self._box(n_features)).promise

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit released: totals, Gram matrix, every round's moment."""
        refuse_outside(outside)
        if not hasattr(published, "moments_"):
            raise InvalidInput("what AdaSSP published is more than its coefficients; pass the fitted release itself")
        check_same_release(self, published)
        box = self._box(sweep.n_features)
        blocks = list(sweep.map(lambda block: block))
        X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
        run, answers, found = partial(adassp_mechanism.run, self._plan(box)), published._answers(), []
        with working_precision(PRECISION):
            asked = _asked(run, box.rows(X, y), answers)
            whole = [NoisySums.of(cell(values, GRID), center, scales, "gaussian") for values, center, scales in asked]
            for i in range(len(X)):
                own = _asked(run, box.rows(X[i : i + 1], y[i : i + 1]), answers)
                steps = zip(whole, own, strict=True)
                found.append(
                    sum((sums.log_ratio(exact(u) for u in center) for sums, (_, center, _) in steps), exact(0))
                )
        return LogRatios.of(found)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the released numbers say of the coefficients (``adassp.intervals``)."""
        return known(self._plan(self._box(self.n_features_in_)), self._run_again(), about)

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
        return adassp_mechanism.spend(epsilon, delta, box, clip, rounds, declared_count(self.n_public))

    def _run(self, box: DeclaredBox, window: Window) -> adassp_mechanism.Published:
        return adassp_mechanism.run(self._plan(box), window)

    def _publish(self, found: adassp_mechanism.Published, box: DeclaredBox) -> Floats:
        self.totals_ = found.totals
        self.column_totals_ = found.column_totals
        self.gram_ = found.gram
        self.moments_ = np.array(found.moments)
        self.privacy_ = self._plan(box).promise
        return found.coef

    def _answers(self) -> list[Floats]:
        gram = self.gram_[np.triu_indices(len(self.gram_))]
        asked = [self.totals_, self.column_totals_, gram, *self.moments_]
        return [one for one in asked if len(one)]


def _asked(run: Any, rows: FixedRows, answers: list[Floats]) -> list[tuple[Floats, Sequence[Any], Sequence[float]]]:
    """Run the mechanism on published numbers: each of them, the exact sums of these rows, and the scales.

    Everything that is asked is a sum over people of a function of one row and of what was published before: what one
    row alone answers is the step by which the person moved the sum.
    """
    found, replay = [], published_before(answers)

    def answer(center: Sequence[Any], scales: Sequence[float]) -> Floats:
        found.append((replay(center, scales), center, scales))
        return found[-1][0]

    run(ExactWindow(rows, answer=answer))
    if len(found) != len(answers):
        raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
    return found
