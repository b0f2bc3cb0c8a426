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
from perinstance.models.interface.fit_health import FitHealth
from perinstance.models.linear.ridge import LinearFit, Without, linear_fit, refined, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import Shift
from perinstance.pairs.interface.kinds import Kind, Method
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.realised.log_ratios import LogRatios, check_same_release
from perinstance.releases.promises.calibration import check_promise
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.estimator import Clipped, ClippedSweep, Promised
from perinstance.releases.promises.noisy_queries import Window
from perinstance.releases.promises.promise import Promise
from perinstance.releases.promises.replayed_sums import replayed_log_ratios
from perinstance.sampling import FixedRows


@dataclass(frozen=True, slots=True)
class SspFit:
    """Least squares with everyone and, if asked for, the estimates that the rounds went through. Confidential."""

    linear: LinearFit
    clipped: Clipped
    path: tuple[Floats, ...] = ()
    clips: tuple[float, ...] = ()

    @property
    def theta(self) -> Floats:
        """The estimate without noise."""
        return self.linear.theta

    @property
    def health(self) -> FitHealth:
        """The number of rows, the condition of X'X, and how many rows were clipped."""
        rows, condition, clipped = self.linear.n_people, self.linear.condition, self.clipped
        return FitHealth(rows, condition, clipped_features=clipped.features, clipped_targets=clipped.labels)

    @property
    def gram(self) -> None:
        """None: the release has no Gaussian law around this fit."""
        return None


class AdaSSP(Promised):
    """Linear regression that keeps (epsilon, delta), by noisy sufficient statistics: the accurate default.

    One noisy Gram matrix and ``rounds`` noisy moments of clipped residuals are released, calibrated together as one
    Gaussian release; the estimate is the posterior mean given these numbers (``adassp.mechanism``, ``shrinkage``).
    Everything is a function of released numbers: there is nothing to tune to the data.

    Parameters
    ----------
    epsilon, delta
        The promise, for adding or removing one person.
    x_bound, y_bound
        Declared without looking at the data; rows beyond are clipped. ``x_bound``: a number for ``||x||``; or for every
        column a number for ``|x_j|`` or a range (low, high); or a recipe. ``y_bound``: a number for ``|y|`` or a range.
    rounds
        How often residuals are released; 1 is the classical release of ``(X'X, X'y)``.
    residual_bound
        Where residuals are clipped; None is a quarter of the label's half range, or all of it with one round only.
    fit_intercept
        Whether there is an intercept; it costs what one more column costs.
    n_public
        The number of people, if that is no secret; None leaves it to the noisy numbers.

    Attributes
    ----------
    coef_, intercept_
        The published estimate, in the user's units.
    gram_, moments_
        What was released besides: the noisy Gram matrix and the noisy moments, of rows in units (``declared_box``).
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
        rounds: int = 4,
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
        if hasattr(self, "coef_"):
            return replace(fit, path=self._path, clips=self._clips)
        typical = adassp_mechanism.run(plan, _NoiselessMoments(seen))
        return replace(fit, path=typical.path, clips=typical.clips)

    def people(self, fit: SspFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block.

        One person moves the Gram matrix by ``||x||^2`` and a moment by ``|clip(y - x'theta_k)| ||x||``. In the first
        round theta is 0 and both are exact. What later rounds ask depends on what was drawn before, so they are charged
        with the clip, and the loss is an ``"upper"`` bound; with ``rounds=1`` it is ``"exact"``. ``method="estimate"``
        takes the residuals at the estimates that were drawn: an odometer reading (MATH 6), labelled ``"estimate"``.
        """
        box = self._box(block.X.shape[1])
        rows = box.rows(block.X, block.y)
        return self._people(fit, without(fit.linear, rows.X, rows.y, inside), rows, box)

    def refine(self, fit: SspFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        box = self._box(block.X.shape[1])
        rows, seen = box.rows(block.X, block.y), ClippedSweep(sweep, box)
        return self._people(fit, refined(fit.linear, seen, rows.X, rows.y, inside), rows, box)

    def _people(self, fit: SspFit, loo: Without, rows: FixedRows, box: DeclaredBox) -> People:
        pairs = self._own_pairs(rows, box, fit.path, fit.clips)
        return People(loo.leverage, loo.residual * box.label.half, pairs, loo.open)  # residuals in the user's units

    def _own_pairs(
        self, rows: FixedRows, box: DeclaredBox, path: tuple[Floats, ...] = (), clips: tuple[float, ...] = ()
    ) -> Shift:
        """Return pairs that follow from each row alone and, for a reading, from the estimates that were drawn."""
        plan, X, y = self._plan(box), rows.X, rows.y
        unit = np.linalg.norm(X, axis=1) / plan.x_bound
        if path:
            shares = [
                np.minimum(np.abs(y - X @ theta) / (plan.y_bound * clip), 1.0) ** 2
                for theta, clip in zip(path, clips, strict=True)
            ]
            rounds = np.sum(shares, axis=0)
        else:  # a first round with a wider clip would have more noise, and count for less than this
            rounds = plan.count - 1 + np.minimum(np.abs(y) / (plan.y_bound * plan.clip), 1.0) ** 2
        squares = (unit**2 * plan.gram_distance) ** 2 + rounds * (unit * plan.round_distance) ** 2
        exact: Kind = "exact" if plan.count == 1 and plan.clip == 1.0 else "upper"
        return Shift(np.sqrt(squares) * ROUNDS_UP, "estimate" if path else exact)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row: the norms that ``people`` charges them with."""
        row = one_row(x)
        box = self._box(row.shape[1])
        return one_pair(self._own_pairs(box.rows(row, np.array([y])), box), delta, ("rows_clipped",))

    def log_ratios(self, sweep: Sweep, published: Any) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit released: the Gram matrix and every round's moment."""
        if not hasattr(published, "moments_"):
            raise InvalidInput("what AdaSSP published is more than its coefficients; pass the fitted release itself")
        check_same_release(self, published)
        box = self._box(sweep.n_features)
        blocks = list(sweep.map(lambda block: block))
        X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
        drawn = [published.gram_[np.triu_indices(len(published.gram_))], *published.moments_]
        run = partial(adassp_mechanism.run, self._plan(box))
        return replayed_log_ratios(run, drawn, box.rows(X, y), lambda i: box.rows(X[i : i + 1], y[i : i + 1]))

    def _plan(self, box: DeclaredBox) -> adassp_mechanism.Rounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        rounds: Any = self.rounds
        if not is_whole(rounds) or not 1 <= rounds <= 100:
            raise InvalidInput(f"rounds must be a whole number from 1 to 100, got {rounds!r}; try rounds=4")
        clip = 0.25 if rounds > 1 else 1.0
        if self.residual_bound is not None:
            clip = positive("residual_bound", self.residual_bound) / box.label.half
            if not 0 < clip <= 1:
                raise InvalidInput("residual_bound must be > 0 and at most half the label's range; try a quarter of it")
        return adassp_mechanism.spend(epsilon, delta, box.x_bound, 1.0, clip, int(rounds))

    def _publish(self, window: Window, box: DeclaredBox) -> Floats:
        plan = self._plan(box)
        published = adassp_mechanism.run(plan, window)
        self.gram_ = published.gram
        self.moments_ = np.array(published.moments)
        self.privacy_ = plan.promise
        self._path, self._clips = published.path, published.clips
        return published.coef


@dataclass(frozen=True, slots=True)
class _NoiselessMoments:
    """A window without noise: what a release would typically look like. Its answers stay with the curator."""

    sweep: ClippedSweep

    @property
    def d(self) -> int:
        return self.sweep.n_features

    def gram(self, scale: float) -> Floats:
        return self.sweep.fold(lambda block: block.X.T @ block.X)

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        return self.sweep.fold(lambda block: block.X.T @ np.clip(block.y - block.X @ theta, -clip, clip))
