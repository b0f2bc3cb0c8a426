"""Student output perturbation: the estimate plus isotropic heavy-tailed noise; nobody's loss is unbounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import positive
from perinstance.errors import RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.models.interface import Movement, Problem
from perinstance.models.linear.ridge import DualFit, LinearFit, LinearProblem, Without, movement_of
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.movement_bounds import Multipliers, RowProducts, multipliers
from perinstance.models.smooth.problem import SmoothAudit, movement_of_products
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import in_units
from perinstance.pairs.kinds import Method, kind_codes
from perinstance.pairs.student_shift import StudentShift
from perinstance.releases.base.log_ratios import LogRatios, output_of
from perinstance.releases.base.predicting import AnsweringModel
from perinstance.releases.base.publishing import Law, exact_equations
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.releases.base.ridge_ratios import ridge_log_ratios
from perinstance.sampling import GRID
from perinstance.sampling.student_law import ExactStudent, check_degrees


class StudentPerturbation(AnsweringModel):
    """``theta + scale t``, t of the multivariate Student law: ``epsilon(0) = (nu + d) asinh(D/(2 sqrt(nu)))``.

    D is the distance ``||theta_with - theta_without|| / scale``. The loss of a person is bounded, so a statement at
    delta = 0 is finite; at small delta Gaussian noise of the same scale costs more, at larger ones less.

    Parameters
    ----------
    estimator
        As for ``OutputPerturbation``; None is ``Ridge(alpha=1.0)``. It is never fitted itself.
    scale
        The scale of the noise; its standard deviation is ``scale sqrt(nu/(nu - 2))`` for nu > 2.
    degrees_of_freedom
        nu, a **public** whole number from 1 (Cauchy) to 1000, fixed in advance.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(
        self, estimator: Any = None, scale: float = 1.0, degrees_of_freedom: int = 4, grid: float = GRID
    ) -> None:
        self.estimator = estimator
        self.scale = scale
        self.degrees_of_freedom = degrees_of_freedom
        self.grid = grid

    def problem(self) -> Problem:
        """Return the model behind the estimator."""
        return LinearProblem(1.0, fit_intercept=True) if self.estimator is None else problem_of(self.estimator)

    def mechanism(self) -> Mechanism:
        """Describe the release: the model's parameters plus heavy-tailed noise that was fixed in advance."""
        problem, scale = self.problem(), positive("scale", self.scale)
        nu = float(check_degrees(self.degrees_of_freedom))
        return Mechanism(
            name="StudentPerturbation",
            moved=problem.moved,
            family="output",
            noise="student",
            scale=scale,
            words=(
                *estimator_words(self.estimator),
                ", plus Student noise of ",
                nu,
                " degrees of freedom and scale ",
                scale,
            ),
            noise_parameters=(("degrees_of_freedom", nu),),
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit the estimator without noise."""
        self.mechanism()
        return self.problem().fit(sweep, None, method)

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self._people(fit, self.problem().movement(fit, block, inside))

    def from_row_statistics(self, fit: LinearFit | DualFit, loo: Without) -> People:
        """Return the pairs of people of a linear model of whom leverage, residual and length are known."""
        return self._people(fit, movement_of(loo))

    def multipliers(self, fit: SmoothAudit, inside: bool) -> Multipliers:
        """Return what rows are multiplied by for ``from_row_products``; of a smooth model."""
        return multipliers(fit.model, inside)

    def from_row_products(self, fit: SmoothAudit, products: RowProducts, inside: bool = True) -> People:
        """Return the pairs of people of a smooth model whose rows' products are known; y are codes."""
        move = movement_of_products(fit, products, inside)
        return self._people(fit, move)

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open."""
        return self._people(fit, self.problem().refine(fit, sweep, block, inside))

    def ideal(self, X: NDArray, y: Floats) -> ExactStudent:
        """Return the same in exact numbers: what ``fit`` draws from."""
        problem, scale = self.problem(), positive("scale", self.scale)
        if isinstance(problem, LinearProblem):
            equations = exact_equations(X, y, problem.alpha, problem.fit_intercept)
            return ExactStudent(equations, scale, self.degrees_of_freedom)
        return ExactStudent(problem.fit(ArraySweep(X, y), None, "estimate").theta, scale, self.degrees_of_freedom)

    def law(self, fit: Any) -> Law:
        """Return the centre and the scale; the law is Student's."""
        return Law(fit.theta, float(self.scale) * np.eye(len(fit.theta)), "student")

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published; of linear models."""
        problem, mechanism = self.problem(), self.mechanism()
        if not isinstance(problem, LinearProblem):
            raise RefusedModel("the realised loss under Student noise is known for linear models")
        ridge = replace(mechanism, alpha=problem.alpha, fit_intercept=problem.fit_intercept)
        output = output_of(self, published, sweep.n_features + problem.fit_intercept)
        return ridge_log_ratios(sweep, ridge, mechanism.scale, output, outside)

    def _people(self, fit: Any, move: Movement) -> People:
        found = in_units(move.distance, float(self.scale), kind_codes(move.kind, len(move.distance)))
        pairs = StudentShift(found.value, float(self.degrees_of_freedom), len(fit.theta), kind=found.kind_code)
        return People(move.leverage, move.residual, pairs, move.open)
