"""AdaSSP: private linear regression from noisy sufficient statistics, refined and shrunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.models.interface.fit_health import FitHealth
from perinstance.models.linear.ridge import DualFit, LinearFit, Without, linear_fit, refined, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import Shift
from perinstance.pairs.interface.kinds import Kind, Method
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.promises.estimator import Clipped, ClippedSweep, Promised
from perinstance.releases.promises.noisy_queries import Window
from perinstance.releases.promises.promise import Promise


@dataclass(frozen=True, slots=True)
class SspFit:
    """Least squares with everyone and, if asked for, the estimates that the rounds went through. Confidential."""

    linear: LinearFit | DualFit
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
        ``||x|| <= x_bound`` and ``|y| <= y_bound``, declared without looking at the data; rows beyond are clipped.
    rounds
        How often residuals are released; 1 is the classical release of ``(X'X, X'y)``.
    residual_bound
        Where residuals are clipped; None is a quarter of ``y_bound``, or ``y_bound`` when there is one round only.

    Attributes
    ----------
    coef_, intercept_
        The published estimate; the intercept is 0 (centre the label by a public number).
    gram_, moments_
        What was released besides: the noisy Gram matrix and the noisy moments.
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
        x_bound: float | None = None,
        y_bound: float | None = None,
        rounds: int = 4,
        residual_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.rounds = rounds
        self.residual_bound = residual_bound

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep; it is the same for any number of features."""
        return self._plan().promise

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> SspFit:
        """Least squares on the clipped rows, to tell leverage and residual with the losses.

        ``method="estimate"`` also asks for the estimates that the rounds went through: those of the release if it is
        fitted, else those of a release without noise.
        """
        plan, seen = self._plan(), ClippedSweep(sweep, self._clip)
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
        X, y = block.X, block.y
        rows = self._clip(X, y)
        return self._people(fit, without(fit.linear, rows.X, rows.y, inside), rows.X, rows.y)

    def refine(self, fit: SspFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        X, y = block.X, block.y
        rows, seen = self._clip(X, y), ClippedSweep(sweep, self._clip)
        loo = refined(fit.linear, seen, rows.X, rows.y, inside)
        return self._people(fit, loo, rows.X, rows.y)

    def _people(self, fit: SspFit, loo: Without, X: Floats, y: Floats) -> People:
        plan = self._plan()
        unit = np.linalg.norm(X, axis=1) / plan.x_bound
        if fit.path:
            shares = [
                np.minimum(np.abs(y - X @ theta) / (plan.y_bound * clip), 1.0) ** 2
                for theta, clip in zip(fit.path, fit.clips, strict=True)
            ]
            rounds = np.sum(shares, axis=0)
        else:  # a first round with a wider clip would have more noise, and count for less than this
            rounds = plan.count - 1 + np.minimum(np.abs(y) / (plan.y_bound * plan.clip), 1.0) ** 2
        squares = (unit**2 * plan.gram_distance) ** 2 + rounds * (unit * plan.round_distance) ** 2
        exact: Kind = "exact" if plan.count == 1 and plan.clip == 1.0 else "upper"
        pairs = Shift(np.sqrt(squares) * ROUNDS_UP, "estimate" if fit.path else exact)
        return People(loo.leverage, loo.residual, pairs, loo.open)

    def _plan(self) -> adassp_mechanism.Rounds:
        epsilon, delta, x_bound, y_bound = self._declared()
        rounds: Any = self.rounds
        if not is_whole(rounds) or not 1 <= rounds <= 100:
            raise InvalidInput(f"rounds must be a whole number from 1 to 100, got {rounds!r}; try rounds=4")
        clip = 0.25 if rounds > 1 else 1.0
        if self.residual_bound is not None:
            clip = float(self.residual_bound) / y_bound
            if not 0 < clip <= 1:
                raise InvalidInput("residual_bound must be > 0 and at most y_bound; try y_bound / 4")
        return adassp_mechanism.spend(epsilon, delta, x_bound, y_bound, clip, int(rounds))

    def _publish(self, window: Window) -> None:
        plan = self._plan()
        published = adassp_mechanism.run(plan, window)
        self.coef_ = published.coef
        self.gram_ = published.gram
        self.moments_ = np.array(published.moments)
        self.privacy_ = plan.promise
        self._path, self._clips = published.path, published.clips


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
