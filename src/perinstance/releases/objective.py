"""Objective perturbation of linear and ridge regression, exact (MATH 1c)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance import sampling
from perinstance.errors import NumericalTrouble, RefusedModel
from perinstance.models.linear import LinearFit, LinearProblem, Without, refined, without
from perinstance.models.problem import problem_of
from perinstance.models.sweep import People, Sweep
from perinstance.pairs import Objective
from perinstance.releases.checks import positive
from perinstance.releases.protocol import Method
from perinstance.releases.publishing import Law, Publishing, exact_equations
from perinstance.sampling import GRID

Floats = NDArray[np.float64]


class ObjectivePerturbation(Publishing):
    """``argmin 1/2 ||y - X theta||^2 + alpha/2 ||theta||^2 + b'theta``, ``b ~ N(0, scale^2 I)``.

    So ``theta ~ N(theta_hat, scale^2 H^-2)``: the "democratic" choice of the paper; its covariance depends on the data.

    Parameters
    ----------
    estimator
        scikit-learn's ``Ridge`` or ``LinearRegression``; None is ``Ridge(alpha=1.0)``. It is never fitted itself.
    scale
        The standard deviation of each coordinate of b (the intercept has one too).
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(self, estimator: Any = None, scale: float = 1.0, grid: float = GRID) -> None:
        self.estimator = estimator
        self.scale = scale
        self.grid = grid

    def problem(self) -> LinearProblem:
        """Return the linear model behind the estimator."""
        if self.estimator is None:
            return LinearProblem(1.0, fit_intercept=True)
        problem = problem_of(self.estimator)
        if not isinstance(problem, LinearProblem):
            raise RefusedModel(
                f"the pair of objective perturbation is known for linear and ridge regression only, not for "
                f"{type(self.estimator).__name__}; use OutputPerturbation"
            )
        return problem

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> LinearFit:
        """Fit without noise, in the basis that also gives ``||H^-1x||``; every method is exact here."""
        positive("scale", self.scale)
        return self.problem().fit(sweep)

    def people(self, fit: LinearFit, X: NDArray, y: NDArray, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self._people(fit, X, without(fit, X, y, inside))

    def refine(self, fit: LinearFit, sweep: Sweep, X: NDArray, y: NDArray, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        return self._people(fit, X, refined(fit, sweep, X, y) if inside else without(fit, X, y, False))

    def ideal(self, X: NDArray, y: Floats) -> sampling.Objective:
        """Return the same in exact numbers: what ``fit`` draws from."""
        problem, scale = self.problem(), positive("scale", self.scale)
        return sampling.Objective(exact_equations(X, y, problem.alpha, problem.fit_intercept), scale)

    def law(self, fit: LinearFit) -> Law:
        """Return ``N(theta, scale^2 H^-2)``."""
        if fit.rank < len(fit.theta):
            raise NumericalTrouble(
                "the perturbed objective has no minimum: alpha is 0 and the data leaves directions open; use alpha > 0"
            )
        return Law(fit.theta, float(self.scale) * fit.inverse())

    def _people(self, fit: LinearFit, X: NDArray, held: Without) -> People:
        rows = np.einsum("ij,ij->i", X, X, dtype=np.float64) + float(fit.fit_intercept)
        with np.errstate(invalid="ignore"):
            direction = held.length * (1.0 + held.leverage)  # ||H_without^-1 x|| = (1 + mu) ||H_with^-1 x||
        residual = np.where(np.isnan(held.residual), np.inf, np.abs(held.residual))
        pairs = Objective(held.leverage, residual / float(self.scale), rows, direction**2, kind=held.grade)
        return People(held.leverage, held.residual, pairs, held.open)
