"""AdaSSP: private linear regression from noisy sufficient statistics, refined and shrunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from perinstance.checked_numbers import is_whole, positive
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.inference import About, PublishedInference
from perinstance.models.linear.ridge import Without, linear_fit, refined, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind, Method
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.intervals import known
from perinstance.releases.base.log_ratios import LogRatios, check_same_release, refuse_outside
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.promises.declared_box import DeclaredBox, declared_count
from perinstance.releases.promises.estimator import ClippedFit, ClippedSweep, Promised
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.replayed_sums import replayed_log_ratios
from perinstance.releases.promises.window import StandardFrame, Window, plain_column_totals, plain_moment, plain_totals
from perinstance.sampling import FixedRows


@dataclass(frozen=True, slots=True, repr=False)
class SspFit(ClippedFit):
    """Least squares with everyone and, if asked for, a run whose estimates the reading is taken at. Confidential."""

    run: adassp_mechanism.Published | None = None


class AdaSSP(Promised):
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
    own_row = True  # charged with the norm of the row and the clips of the plan

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

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> SspFit:
        """Least squares on the clipped rows, to tell leverage and residual with the losses.

        ``method="estimate"`` also asks for the estimates that the rounds went through: those of the release if it is
        fitted, else those of a release without noise.
        """
        box = self._box(sweep.n_features)
        plan, seen = self._plan(box), ClippedSweep(sweep, box)
        fit = SspFit(linear_fit(seen, 0.0, False), self._clipped_in(sweep))
        if method != "estimate" or plan.count == 1:
            return fit
        window = self._released() if hasattr(self, "coef_") else _NoiselessMoments(seen)
        return replace(fit, run=adassp_mechanism.run(plan, window))

    def people(self, fit: SspFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block.

        What a person moves the totals and the Gram matrix by is exact, and with ``rounds=1`` so is the moment. What
        later rounds ask depends on what was drawn before, so they are charged with the clip (and where columns are
        standardised, the Gram matrix too): the loss is an ``"upper"`` bound. ``method="estimate"`` takes rows and
        residuals at the coordinates and estimates that were drawn: an odometer reading (MATH 6), labelled
        ``"estimate"``.
        """
        box = self._box(block.X.shape[1])
        rows = box.rows(block.X, block.y)
        return self._people(fit, without(fit.linear, rows.X, rows.y, inside), rows, box)

    def refine(self, fit: SspFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        box = self._box(block.X.shape[1])
        rows, seen = box.rows(block.X, block.y), ClippedSweep(sweep, box)
        return self._people(fit, refined(fit.linear, seen, rows.X, rows.y, inside), rows, box)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row: what ``people`` charges them with."""
        row = one_row(x)
        box = self._box(row.shape[1])
        return one_pair(self._pairs(box.rows(row, np.array([y])), box, None), delta, ("rows_clipped",))

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit released: totals, Gram matrix, every round's moment."""
        refuse_outside(outside)
        if not hasattr(published, "moments_"):
            raise InvalidInput("what AdaSSP published is more than its coefficients; pass the fitted release itself")
        check_same_release(self, published)
        box = self._box(sweep.n_features)
        blocks = list(sweep.map(lambda block: block))
        X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
        gram = published.gram_[np.triu_indices(len(published.gram_))]
        drawn = {"totals": [published.totals_], "gram": [gram], "moment": list(published.moments_)}
        if len(published.column_totals_):
            drawn["column_totals"] = [published.column_totals_]
        run = partial(adassp_mechanism.run, self._plan(box))
        return replayed_log_ratios(run, drawn, box.rows(X, y), lambda i: box.rows(X[i : i + 1], y[i : i + 1]))

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the released numbers say of the coefficients (``adassp.intervals``)."""
        plan = self._plan(self._box(self.n_features_in_))
        return known(plan, adassp_mechanism.run(plan, self._released()), about)

    def _people(self, fit: SspFit, loo: Without, rows: FixedRows, box: DeclaredBox) -> People:
        pairs = self._pairs(rows, box, fit.run)
        return People(loo.leverage, loo.residual * box.label.half, pairs, loo.open)  # residuals in the user's units

    def _pairs(self, rows: FixedRows, box: DeclaredBox, run: adassp_mechanism.Published | None) -> GaussianShift:
        """Return pairs that follow from each row alone and, for a reading, from the run that was drawn."""
        plan = self._plan(box)
        kind: Kind = "estimate" if run else "exact" if plan.count == 1 and plan.clip is None else "upper"
        return GaussianShift(np.sqrt(adassp_mechanism.people_squares(plan, rows, run) * ROUNDS_UP), kind)

    def _plan(self, box: DeclaredBox) -> adassp_mechanism.Rounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        rounds: Any = self.rounds
        if not is_whole(rounds) or not 1 <= rounds <= 100:
            raise InvalidInput(f"rounds must be a whole number from 1 to 100, got {rounds!r}; try rounds=4")
        clip = None
        if self.residual_bound is not None:
            clip = positive("residual_bound", self.residual_bound) / box.label.half
            if not 0 < clip <= 1:
                raise InvalidInput("residual_bound must be > 0 and at most half the label's range; try a quarter of it")
        return adassp_mechanism.spend(epsilon, delta, box, clip, int(rounds), declared_count(self.n_public))

    def _publish(self, window: Window, box: DeclaredBox) -> Floats:
        plan = self._plan(box)
        published = adassp_mechanism.run(plan, window)
        self.totals_ = published.totals
        self.column_totals_ = published.column_totals
        self.gram_ = published.gram
        self.moments_ = np.array(published.moments)
        self.privacy_ = plan.promise
        return published.coef

    def _released(self) -> _PublishedMoments:
        return _PublishedMoments(self.totals_, self.column_totals_, self.gram_, list(self.moments_))


@dataclass(frozen=True, slots=True)
class _PublishedMoments:
    """A window that gives the published answers again: estimates and coordinates are post-processing of them."""

    totals_: Floats
    column_totals_: Floats
    gram_: Floats
    moments: list[Floats]

    @property
    def d(self) -> int:
        return len(self.gram_)

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        return self.totals_

    def column_totals(self, scales: Floats) -> Floats:
        return self.column_totals_

    def framed(self, frame: StandardFrame) -> _PublishedMoments:
        return self

    def gram(self, scale: float, known: float | None = None) -> Floats:
        return self.gram_

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        return self.moments.pop(0)


@dataclass(frozen=True, slots=True)
class _NoiselessMoments:
    """A window without noise: what a release would typically look like. Its answers stay with the curator."""

    sweep: ClippedSweep
    frame: StandardFrame | None = None

    @property
    def d(self) -> int:
        return self.sweep.n_features

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        def step(block: Block) -> Floats:
            here = block.X.any(axis=1)
            return plain_totals(block.X[here, :columns], block.y[here], bound)

        return self.sweep.fold(step)[-len(scales) :]

    def column_totals(self, scales: Floats) -> Floats:
        return self.sweep.fold(lambda block: plain_column_totals(self._clipped(block)))[-len(scales) :]

    def framed(self, frame: StandardFrame) -> _NoiselessMoments:
        return replace(self, frame=frame)

    def gram(self, scale: float, known: float | None = None) -> Floats:
        def step(block: Block) -> Floats:
            X = self._clipped(block)
            return X.T @ X

        return self.sweep.fold(step)

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        def step(block: Block) -> Floats:
            X = block.X if self.frame is None else self.frame.free_rows(block.X, np.asarray(block.X.any(axis=1)))
            return plain_moment(X, block.y, theta, clip, self.frame)

        return self.sweep.fold(step)

    def _clipped(self, block: Block) -> Floats:
        if self.frame is None:
            return block.X
        return self.frame.clipped_rows(block.X, np.asarray(block.X.any(axis=1)))
