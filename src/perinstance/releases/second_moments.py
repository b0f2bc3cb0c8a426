"""Second moments under a promise, for the intervals of what other releases published: ``sum z z' + E``, z = (x, w, y).

Rows are in units, with their column of ones and their label (``declared_box``); one row moves the sum by ``||z||^2`` in
the Frobenius norm, and E is isotropic there. A draw ``theta = theta_hat + H^-1 e`` of a penalised fit, ``H = A + P``
with the curvature A of its loss and the penalty P, has ``e ~ N(0, S)``: ``S = H/gamma`` of a posterior sample,
``s^2 I`` of an objective, ``s^2 H Q^-1 H`` of an output of precision Q. So both questions have an estimating equation:

    this table's fit     r(t) = (A + P)(theta - t)
    people like these    r(t) = P theta + A (theta - t),    sampling covariance s^2 A (of a logistic regression: A)
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.inference.clipped_moments import LEAST_SPREAD, MOST_SPREAD
from perinstance.inference.equation import (
    LARGEST_H,
    EstimatingEquation,
    logistic_curvature,
    normal_curvature,
    positive_part,
)
from perinstance.inference.published_inference import PublishedInference
from perinstance.inference.table import About
from perinstance.models.linear.ridge import LinearProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP, STEP_UP
from perinstance.pairs import GaussianShift
from perinstance.releases.base.log_ratios import LogRatios
from perinstance.releases.base.publishing import PredictsLinearly
from perinstance.releases.base.row_sums import squared_lengths
from perinstance.releases.base.rows_per_person import most_rows
from perinstance.releases.base.weighted_rows import is_weighted
from perinstance.releases.logistic.estimator import NORMAL_SCORE
from perinstance.releases.objective_perturbation import ObjectivePerturbation
from perinstance.releases.output_perturbation import OutputPerturbation
from perinstance.releases.posterior_sample import PosteriorSample
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.promise import Promise, check_promise, noise_scale, person_distance, row_distance
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows

ONE_SPREAD = "Residuals are taken to be of one spread everywhere."


@dataclass(frozen=True, slots=True, eq=False)
class SecondMoments:
    """What was released, and what follows."""

    matrix: Floats  #: of (x, w, y) in units; without an intercept of (x, y, 1)
    noise: float  #: standard deviation on its diagonal
    weight: float  #: of the column of ones
    d: int  #: coefficients

    @property
    def slope(self) -> Floats:
        """The noisy ``X'X``."""
        return self.matrix[: self.d, : self.d]

    def logistic_curvature(self, theta: Floats) -> Floats:
        """Return the curvature of the logistic loss at theta, as if scores were normal."""
        seen = [*range(self.d), self.d + 1][: self.d + (not self.weight)]
        gram, theta = self.matrix[np.ix_(seen, seen)], np.append(theta, 0.0)[: len(seen)]
        whole = normal_curvature(gram, self.weight or 1.0, theta, logistic_curvature)
        return whole[: self.d, : self.d]

    def squared_spread(self, theta: Floats) -> float:
        """Return the mean squared residual at theta: two standard deviations of noise too large."""
        z, (at, weight) = np.append(-theta, 1.0), (self.d - 1, self.weight) if self.weight else (self.d + 1, 1.0)
        found = float(z @ self.matrix[: len(z), : len(z)] @ z)
        found += 2.0 * self.noise * float(z @ z)  # z'Ez has the standard deviation noise |z|^2
        return min(max(found / max(float(self.matrix[at, at]) / weight**2, 1.0), LEAST_SPREAD), MOST_SPREAD)


class PrivateGram(PredictsLinearly, Promised):
    """Noisy second moments of rows and outcomes that keep (epsilon, delta): what intervals of other releases lack.

    ``moments.explain(model)`` is for a ``PosteriorSample``, an ``OutputPerturbation`` or an ``ObjectivePerturbation``
    (of ridge or logistic regression) about the same people. The two releases add up: each is charged by itself.

    Parameters
    ----------
    epsilon, delta
        The promise, for adding or removing one person.
    x_bound, y_bound
        Declared as for ``AdaSSP``; rows beyond are clipped. Two classes are 0 and 1, and bounded by ``(0, 1)``.
    fit_intercept
        Whether there is an intercept: as in the releases that are to be explained.
    rows_per_person
        How many rows of a person are used at most; None: a row is a person.
    weight_bound
        The largest weight of a row that counts, where rows have weights: larger ones count as this one. ``fit`` is then
        given ``sample_weight``.

    Attributes
    ----------
    coef_, intercept_
        Least squares from the noisy moments, in the user's units; zero where the noise hides a direction.
    moments_
        The noisy second moments of rows in units, their column of ones, and outcomes.
    privacy_
        The promise computed from the pairs.
    """

    what = "noisy second moments"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        y_bound: Any = None,
        fit_intercept: bool = True,
        rows_per_person: int | None = None,
        weight_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.fit_intercept = fit_intercept
        self.rows_per_person = rows_per_person
        self.weight_bound = weight_bound

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep; it is the same for any number of features."""
        distance = row_distance(*check_promise(self.epsilon, self.delta), most_rows(self))
        return Promise(person_distance(distance * STEP_UP, most_rows(self)))

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at the moments that one fit released."""
        return self._replayed(sweep, published, outside)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the moments say of least squares."""
        known, box = self._run_again(), self._box(self.n_features_in_)
        found = _least_squares(known)
        if about == "table":
            return PublishedInference(box.user_coefficients(found.solved()))
        spread = known.squared_spread(found.solved().estimate) * most_rows(self)
        found = replace(found, sampling=positive_part(known.slope) * spread)
        return PublishedInference(box.user_coefficients(found.solved()), (ONE_SPREAD,))

    def explain(self, release: Any) -> Any:
        """Return a copy of a fitted release whose ``inference``, and whose file, use these moments.

        It is post-processing of both. They must be of the same people and columns, which nothing here can check.
        """
        known = isinstance(release, PosteriorSample | OutputPerturbation | ObjectivePerturbation)
        problem = release.problem() if known and not isinstance(release, PosteriorSample) else None
        if not known or not isinstance(problem, LinearProblem | ClassifierProblem | None):
            raise InvalidInput(
                "second moments explain PosteriorSample, and OutputPerturbation or ObjectivePerturbation of ridge or "
                f"logistic regression, got {type(release).__name__}"
            )
        check_is_fitted(release)
        if is_weighted(release) or is_weighted(self):
            raise InvalidInput("second moments explain releases without weights")
        intercept = bool(release.fit_intercept if problem is None else problem.fit_intercept)
        if intercept != bool(self.fit_intercept) or np.size(release.coef_) != self.n_features_in_:
            raise InvalidInput("the second moments have other columns than the release, or another fit_intercept")
        explained = copy.copy(release)
        explained.uncertainty = partial(self._explained, release)
        return explained

    def _explained(self, release: Any, about: About) -> PublishedInference:
        """Return what a draw and the moments say together, in the user's units."""
        numbers, mechanism = release.published_numbers(), release.mechanism()
        if mechanism.family == "output" and about == "table":
            return release.uncertainty(about)  # exact already
        classifier, box, known = numbers.task == "classifier", self._box(self.n_features_in_), self._run_again()
        if classifier:  # scores are in their own unit
            box = replace(box, label=replace(box.label, low=-1.0, high=1.0, center=0.0, half=1.0))
        problem = None if mechanism.family == "posterior" else release.problem()
        alpha = mechanism.alpha if problem is None else float(problem.alpha)
        theta = np.append(np.ravel(numbers.coef), np.ravel(numbers.intercept) if box.weight else [])
        halves, half = np.array([one.half for one in box.columns]), box.label.half
        maps = np.diag(np.append(halves, 1.0 / box.weight) if box.weight else halves)
        if box.weight:  # a row as the user has it, its one last, is ``maps`` times the row in units
            maps[:-1, -1] = np.array([one.center for one in box.columns]) / box.weight
        back = np.linalg.inv(maps)
        drawn = maps.T @ (theta - np.append(np.zeros(len(theta) - 1), box.label.center) * bool(box.weight)) / half
        free_one = bool(box.weight) and not getattr(problem, "penalize_intercept", False)
        penalty = alpha * np.diag(np.append(np.ones(len(theta) - free_one), np.zeros(int(free_one))))
        ridge = back @ penalty @ back.T
        slope = known.logistic_curvature(drawn) if classifier else known.slope
        H = positive_part(slope) + ridge
        if mechanism.family == "posterior":
            noise = H * (mechanism.scale / half) ** 2
        elif mechanism.family == "objective":
            noise = back @ back.T * (mechanism.scale / half) ** 2
        else:
            shape = np.eye(len(theta)) if mechanism.precision is None else np.linalg.inv(mechanism.precision)
            noise = H @ (maps.T @ shape @ maps) @ H * (mechanism.scale / half) ** 2
        score, sampling = np.zeros(len(theta)), np.zeros_like(H)
        price = (
            f"Second moments were released under a promise of their own ({self.epsilon:g}, {self.delta:g}), which adds "
            "up with this release; rows are taken to lie within the bounds that were declared there."
        )
        notes = (price, *((NORMAL_SCORE,) if classifier else ()))
        if about == "table":
            slope = slope + ridge
        else:
            score = back @ penalty @ theta / half
            sampling = positive_part(slope) * most_rows(self) * (1.0 if classifier else known.squared_spread(drawn))
            notes = notes if classifier else (*notes, ONE_SPREAD)
        doubt = known.noise * (LARGEST_H if classifier else 1.0)
        found = EstimatingEquation(drawn, score, slope, noise, sampling, doubt)
        return PublishedInference(box.user_coefficients(found.solved()), notes)

    def published_parameters(self) -> dict[str, Any]:
        """Return the moments, so that a model's file has them."""
        return {"moments_": self.moments_.tolist()}

    def _scale(self, box: DeclaredBox) -> float:
        distance = row_distance(*check_promise(self.epsilon, self.delta), most_rows(self))
        return noise_scale((box.x_bound**2 + (1.0 if box.weight else 2.0)) * STEP_UP * STEP_UP, distance)

    def _run(self, box: DeclaredBox, window: Window) -> SecondMoments:
        scale = self._scale(box)
        matrix = window.outer(partial(_with_labels, box=box), scale)
        return SecondMoments(matrix, scale, box.weight, box.d)

    def _publish(self, found: SecondMoments, box: DeclaredBox) -> Floats:
        self.moments_ = found.matrix
        self.privacy_ = self.promise(len(box.columns))
        return _least_squares(found).solved().estimate

    def _answers(self) -> list[Floats]:
        return [self.moments_[np.triu_indices(len(self.moments_))]]

    def _pairs(self, rows: FixedRows, box: DeclaredBox, run: Any) -> GaussianShift:
        moved = squared_lengths(_with_labels(rows, box)) * rows.share
        return GaussianShift(moved / self._scale(box) * ROUNDS_UP, "exact")


def private_gram(X: Any, y: Any, *, ids: Any = None, **declared: Any) -> PrivateGram:
    """Release second moments once: ``PrivateGram(**declared).fit(X, y, ids)``."""
    return PrivateGram(**declared).fit(X, y, ids)


def _with_labels(rows: FixedRows, box: DeclaredBox) -> Floats:
    """Return rows with their label behind them and, where they have no column of ones, a one."""
    return np.column_stack([rows.X, rows.y] if box.weight else [rows.X, rows.y, rows.present.astype(np.float64)])


def _least_squares(known: SecondMoments) -> EstimatingEquation:
    """Return ``X'y - X'X t``; the noise of X'y is that of entries off the diagonal."""
    d, none = known.d, known.slope * 0.0
    noise = known.noise**2 / 2.0 * np.eye(d)
    return EstimatingEquation(np.zeros(d), known.matrix[:d, d], known.slope, noise, none, known.noise)
