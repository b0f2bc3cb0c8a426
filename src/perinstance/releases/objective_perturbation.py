"""Objective perturbation: of linear and ridge regression, exact (MATH 1c); of logistic regression, an upper bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance import sampling
from perinstance.checked_numbers import positive
from perinstance.errors import NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep, binary_classes
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.inference.equation import bounded_draw
from perinstance.inference.published_inference import AT_MOST, PublishedInference, no_intervals, only_the_table
from perinstance.inference.table import About
from perinstance.models.linear.ridge import DualFit, LinearFit, LinearProblem, Without, refined, without
from perinstance.models.linear.several_rows import person_movements
from perinstance.models.losses.catalogue import Squared
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective, design
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.perturbed_objective import ex_post, perturbed, prepare_perturbed
from perinstance.models.smooth.problem import SmoothAudit
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import UPPER, parameters_too_rough
from perinstance.numerics.rounding import LARGEST_PLANE, ONE_DIMENSION, ROW_OF_ZEROS, SMALLEST
from perinstance.pairs import GeneralGaussian, ObjectivePair
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.kinds import Method
from perinstance.releases.base.log_ratios import LogRatios, output_of, refuse_outside
from perinstance.releases.base.publishing import AnsweringModel, Law, exact_equations
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.releases.base.ridge_ratios import ridge_log_ratios
from perinstance.releases.base.row_sums import squared_lengths
from perinstance.releases.base.weighted_rows import weighted_problem
from perinstance.sampling import GRID


class ObjectivePerturbation(AnsweringModel):
    """``argmin 1/2 ||y - X theta||^2 + alpha/2 ||theta||^2 + b'theta``, ``b ~ N(0, scale^2 I)``.

    So ``theta ~ N(theta_hat, scale^2 H^-2)``: the "democratic" choice of the paper; its covariance depends on the data.
    With ``LogisticRegression`` (two classes) the same is done to its objective, ``sum l + ||theta||^2/(2C) + b'theta``:
    audits then state an upper bound, and ``ex_post`` the exact loss at a parameter that was released. ``fit`` wants
    a penalty on every coefficient there, the intercept included (``solver="liblinear"``) or left out.

    Parameters
    ----------
    estimator
        scikit-learn's ``Ridge``, ``LinearRegression`` or ``LogisticRegression``; None is ``Ridge(alpha=1.0)``.
        It is never fitted itself.
    scale
        The standard deviation of each coordinate of b (the intercept has one too).
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(self, estimator: Any = None, scale: float = 1.0, grid: float = GRID) -> None:
        self.estimator = estimator
        self.scale = scale
        self.grid = grid

    def problem(self) -> LinearProblem | ClassifierProblem:
        """Return the model behind the estimator."""
        problem = LinearProblem(1.0, fit_intercept=True) if self.estimator is None else problem_of(self.estimator)
        if not isinstance(problem, (LinearProblem, ClassifierProblem)):
            raise RefusedModel(
                f"objective perturbation is known for linear, ridge and logistic regression, not for "
                f"{type(self.estimator).__name__}; use OutputPerturbation"
            )
        return weighted_problem(problem) if self.rows_are_weighted else problem

    def mechanism(self) -> Mechanism:
        """Describe the release: the minimum of the objective with a Gaussian linear term."""
        problem, scale = self.problem(), positive("scale", self.scale)
        return Mechanism(
            name="ObjectivePerturbation",
            moved=problem.moved,
            family="objective",
            noise="gaussian",
            scale=scale,
            words=(
                *estimator_words(self.estimator),
                ", with a Gaussian linear term of scale ",
                scale,
                " in the objective",
            ),
            alpha=float(problem.alpha),
            fit_intercept=bool(problem.fit_intercept),
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> LinearFit | DualFit | SmoothAudit:
        """Fit without noise; linear models are exact, logistic regression bounded from above, whatever the method."""
        positive("scale", self.scale)
        problem = self.problem()
        if isinstance(problem, LinearProblem):
            return problem.fit(sweep)
        classes = binary_classes(sweep)
        fit = problem.binary().fit(sweep, None, "estimate").model.fit
        return SmoothAudit(prepare_perturbed(CodedSweep(sweep, classes), fit, float(self.scale)), classes)

    def uncertainty(self, about: About) -> PublishedInference:
        """Bound how far the linear term moved the minimum, ``|H^-1 b| <= |b|/alpha``: what the fit on this table says.

        An intercept without a penalty leaves no bound.
        """
        if about == "population":
            return PublishedInference(None, (), only_the_table("ObjectivePerturbation"))
        problem = self.problem()
        if not isinstance(problem, LinearProblem):
            return PublishedInference(None, (), no_intervals("ObjectivePerturbation of a logistic regression"))
        found = np.append(np.ravel(self.coef_), [self.intercept_] if problem.fit_intercept else [])
        bounded = problem.alpha > 0 and not problem.fit_intercept
        square = (float(self.scale) / problem.alpha) ** 2 if bounded else np.inf
        return PublishedInference(bounded_draw(found, np.full(len(found), square)), (AT_MOST,))

    def people(self, fit: LinearFit | DualFit | SmoothAudit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        if isinstance(fit, SmoothAudit):
            return self._bounded(fit, block, inside)
        return self._exact(fit, without(fit, block.X, block.y, inside), block.X)

    def refine(self, fit: LinearFit | DualFit | SmoothAudit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open."""
        if isinstance(fit, SmoothAudit):
            return self._bounded(fit, block, inside)
        return self._exact(fit, refined(fit, sweep, block.X, block.y, inside), block.X)

    def persons(self, fit: Any, block: Block, starts: NDArray[np.int64], inside: bool = True) -> People:
        """Map: people with several rows are all left open; ``analysis.group_pairs`` answers one by one (MATH 12)."""
        if not isinstance(fit, LinearFit | DualFit):
            raise RefusedModel(
                "what a person with several rows moves is known of objective perturbation of linear models, not of "
                "logistic regression; make one row of each person's rows, or use OutputPerturbation"
            )
        found = person_movements(fit, block.X, block.y, starts, inside)
        far, opened = np.full((len(found.open), 1), np.inf), np.ones(len(found.open), dtype=bool)
        return People(found.leverage, found.residual, GeneralGaussian(far, far, "upper"), opened)

    def ideal(self, X: NDArray, y: Floats) -> sampling.ExactObjective | sampling.PerturbedLogistic:
        """Return the same in exact numbers: what ``fit`` draws from."""
        problem, scale = self.problem(), positive("scale", self.scale)
        if isinstance(problem, LinearProblem):
            return sampling.ExactObjective(
                exact_equations(X, y, problem.alpha, problem.fit_intercept, problem.weighted), scale
            )
        if not problem.alpha > 0 or (problem.fit_intercept and not problem.penalize_intercept):
            raise RefusedModel(
                "a perturbed logistic regression is published only with a penalty on every coefficient: noise on a "
                "free one can leave no minimum, which would give the data away; use a finite C, and "
                "fit_intercept=False or solver='liblinear', which penalises the intercept"
            )
        classes = binary_classes(ArraySweep(X, y))
        rows = design(X, problem.fit_intercept)
        return sampling.PerturbedLogistic(rows, classes.codes(y), np.full(rows.shape[1], problem.alpha), scale)

    def ex_post(self, X: NDArray, y: NDArray, theta: Floats) -> Floats:
        """Return ``log p_without/p_with`` of everyone in the data at a released ``theta`` (the intercept last).

        It is exact, a density ratio: a linear term and a log-determinant. It is confidential.
        """
        problem, scale = self.problem(), positive("scale", self.scale)
        rows, target = np.asarray(X), np.asarray(y)
        if isinstance(problem, LinearProblem):
            objective = SmoothObjective(Squared(), RidgePenalty(problem.alpha), problem.fit_intercept)
        else:
            objective, target = problem.binary().objective, binary_classes(ArraySweep(rows, target)).codes(target)
        return ex_post(ArraySweep(rows, target), objective, np.asarray(theta, dtype=np.float64), scale, rows, target)

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published; of logistic regression in float64, unproved."""
        problem, mechanism = self.problem(), self.mechanism()
        output = output_of(self, published, sweep.n_features + mechanism.fit_intercept)
        if isinstance(problem, LinearProblem):
            return ridge_log_ratios(sweep, mechanism, mechanism.scale, output, outside)
        refuse_outside(outside)
        blocks = list(sweep.map(lambda block: block))
        X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
        found = -self.ex_post(X, y, output.values)
        return LogRatios(found, np.full(len(found), np.inf))

    def _bounded(self, fit: SmoothAudit, block: Block, inside: bool) -> People:
        """Return the pairs of people of logistic regression."""
        assert fit.classes is not None  # made by ``confidential_fit``
        codes = fit.classes.codes(block.y)
        found = perturbed(fit.model, block.X, codes, float(self.scale), inside)
        # without somebody who is alone in a class there is one class, and no release
        distance = np.where(fit.classes.alone(codes, inside), np.inf, found.distance)
        pairs = Dominated(distance, np.log1p(found.leverage), found.tail)
        residual = found.distance * float(self.scale) / np.maximum(found.length, ROW_OF_ZEROS)
        return People(found.leverage, residual, pairs)

    def law(self, fit: LinearFit | DualFit) -> Law:
        """Return ``N(theta, scale^2 H^-2)``; of linear models."""
        if not isinstance(fit, (LinearFit, DualFit)):
            raise RefusedModel("a perturbed logistic regression has no Gaussian law")
        if fit.rank < len(fit.theta):
            raise NumericalTrouble(
                "the perturbed objective has no minimum: alpha is 0 and the data leaves directions open; use alpha > 0"
            )
        return Law(fit.theta, float(self.scale) * fit.inverse())

    def _exact(self, fit: LinearFit | DualFit, loo: Without, X: NDArray) -> People:
        """Return the pairs of people of a linear model, from the statistics of their rows."""
        rows = squared_lengths(X) + float(fit.fit_intercept)
        with np.errstate(invalid="ignore", over="ignore"):
            direction = loo.length * (1.0 + loo.leverage)  # ||H_without^-1 x|| = (1 + mu) ||H_with^-1 x||
            squares = direction**2
            # at least mu^2/x'x; a second coordinate that rounding would hide is there all the same
            rows = np.where(loo.leverage > 0, np.maximum(rows, SMALLEST), rows)
            shown = 1 + (4 * ONE_DIMENSION if len(fit.theta) > 1 else 0.0)
            least = (loo.leverage * shown / np.sqrt(np.maximum(rows, SMALLEST))) ** 2
            squares = np.where(loo.leverage > 0, np.maximum(np.maximum(squares, least), SMALLEST), 0.0)
            product = rows * squares
            # the movement keeps its length in the second coordinate: w^2 = x'x v'v - mu^2 counts beside 1, not mu^2
            second = np.maximum(product - loo.leverage**2, 0.0)
            rough = parameters_too_rough(second + 1.0, product * (loo.share + 8 * ONE_DIMENSION))
            rough |= ~(np.maximum(product, (loo.residual / float(self.scale)) ** 2 * rows) < LARGEST_PLANE)
        residual = np.where(np.isnan(loo.residual), np.inf, np.abs(loo.residual))
        kind = np.where(rough & np.isfinite(loo.leverage), UPPER, loo.kind_code)
        pairs = ObjectivePair(loo.leverage, residual / float(self.scale), rows, squares, kind=kind)
        return People(loo.leverage, loo.residual, pairs, loo.open)
