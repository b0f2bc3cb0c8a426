"""Output perturbation: the estimate plus Gaussian noise whose covariance is fixed in advance (MATH 1a)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance import sampling
from perinstance.checked_numbers import positive, real_values
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.inference import About, Estimated, PublishedInference
from perinstance.models.interface import Movement, Problem
from perinstance.models.linear.ridge import (
    DualFit,
    LinearFit,
    LinearProblem,
    Without,
    movement_of,
)
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.movement_bounds import Multipliers, RowProducts, multipliers
from perinstance.models.smooth.problem import SmoothAudit, movement_of_products
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import in_units
from perinstance.numerics.rounding import ASYMMETRY
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Method, kind_codes
from perinstance.releases.base.log_ratios import LogRatios, output_of, refitted_log_ratios, refuse_outside
from perinstance.releases.base.model_document import no_intervals, only_the_table
from perinstance.releases.base.predicting import AnsweringModel
from perinstance.releases.base.publishing import Law, exact_equations
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.releases.base.ridge_ratios import ridge_log_ratios
from perinstance.sampling import GRID


class OutputPerturbation(AnsweringModel):
    """``theta + N(0, scale^2 A^-1)``: the loss depends on ``||theta_with - theta_without||_A / scale``.

    Parameters
    ----------
    estimator
        A scikit-learn estimator (``Ridge``, ``LogisticRegression``, ``PoissonRegressor``, ``HuberRegressor``, ...) or a
        model of ``perinstance.models``; None is ``Ridge(alpha=1.0)``. It is never fitted itself.
    scale
        The standard deviation of the noise (of ``A^(1/2) theta`` when a precision is given).
    precision
        A **public** symmetric positive definite matrix A, fixed in advance; None is the identity. With an intercept,
        its last row and column belong to it. The paper's choices ``lambda_min I``, ``X'X`` and ``(X'X)^2`` are
        fine as matrices of another, public table. Taken from the data itself, ``X'X`` is ``PosteriorSample`` and
        ``(X'X)^2`` is ``ObjectivePerturbation``: then the covariance gives something away too, and they account for it.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(
        self, estimator: Any = None, scale: float = 1.0, precision: ArrayLike | None = None, grid: float = GRID
    ) -> None:
        self.estimator = estimator
        self.scale = scale
        self.precision = precision
        self.grid = grid

    def problem(self) -> Problem:
        """Return the model behind the estimator."""
        if self.estimator is None:
            from sklearn.linear_model import Ridge

            return problem_of(Ridge(alpha=1.0))
        return problem_of(self.estimator)

    def mechanism(self) -> Mechanism:
        """Describe the release: the model's parameters plus noise of a covariance that was fixed in advance."""
        problem = self.problem()
        scale = positive("scale", self.scale)
        ridge = problem if isinstance(problem, LinearProblem) else LinearProblem(0.0, fit_intercept=False)
        shape = "isotropic" if self.precision is None else "shaped"
        return Mechanism(
            name="OutputPerturbation",
            moved=problem.moved,
            family="output",
            noise="gaussian",
            scale=scale,
            words=(*estimator_words(self.estimator), f", plus {shape} Gaussian noise of scale ", scale),
            alpha=float(ridge.alpha),
            fit_intercept=bool(ridge.fit_intercept),
            precision=None if self.precision is None else real_values("precision", self.precision),
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit the estimator without noise."""
        positive("scale", self.scale)
        A = None if self.precision is None else check_precision(self.precision)
        return self.problem().fit(sweep, A, method)

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self._people(self.problem().movement(fit, block, inside))

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open."""
        return self._people(self.problem().refine(fit, sweep, block, inside))

    def from_row_statistics(self, fit: LinearFit | DualFit, loo: Without) -> People:
        """Return the pairs of people of a linear model of whom leverage, residual and length are known."""
        return self._people(movement_of(loo))

    def multipliers(self, fit: SmoothAudit, inside: bool) -> Multipliers:
        """Return what rows are multiplied by for ``from_row_products``; of a smooth model."""
        return multipliers(fit.model, inside)

    def from_row_products(self, fit: SmoothAudit, products: RowProducts, inside: bool = True) -> People:
        """Return the pairs of people of a smooth model whose rows' products are known; y are codes."""
        move = movement_of_products(fit, products, inside)
        return self._people(move)

    def ideal(self, X: NDArray, y: Floats) -> sampling.ExactOutput:
        """Return the same in exact numbers: what ``fit`` draws from.

        Least squares and ridge regression are solved exactly. The minimum of another loss has no closed form: its
        float64 estimate is taken as it is, and the noise on it is exact. How far the estimate can be from the minimum,
        here and in a neighbour, is part of the distances that ``people`` and ``refine`` state.
        """
        problem, scale = self.problem(), positive("scale", self.scale)
        A = None if self.precision is None else check_precision(self.precision)
        if isinstance(problem, LinearProblem):
            return sampling.ExactOutput(exact_equations(X, y, problem.alpha, problem.fit_intercept), scale, A)
        return sampling.ExactOutput(problem.fit(ArraySweep(X, y), A, "estimate").theta, scale, A)

    def law(self, fit: Any) -> Law:
        """Return ``N(theta, scale^2 A^-1)``."""
        p = len(fit.theta)
        if self.precision is None:
            return Law(fit.theta, self.scale * np.eye(p))
        lower = np.linalg.cholesky(check_precision(self.precision))
        return Law(fit.theta, self.scale * np.linalg.inv(lower).T)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return the noise that was added, exactly: what the fit on this table says. Of people like these, nothing."""
        if about == "population":
            return PublishedInference(None, (), only_the_table(type(self).__name__))
        numbers = self.published_numbers()
        if numbers.coef is None or (np.ndim(numbers.coef) == 2 and len(numbers.coef) > 1):
            return PublishedInference(None, (), no_intervals(f"{type(self).__name__} of this estimator"))
        constant = np.ravel(numbers.intercept)  # never drawn as zero, which is that of a model without one
        found = np.append(np.ravel(numbers.coef), constant if constant.any() else [])
        p, scale = len(found), float(self.scale)
        shape = np.eye(p) if self.precision is None else np.linalg.inv(check_precision(self.precision))
        covariance = scale**2 * shape
        return PublishedInference(Estimated(found, covariance, covariance, np.zeros((p, 0))))

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published; of a smooth model by refits, unproved."""
        problem, mechanism = self.problem(), self.mechanism()
        if isinstance(problem, LinearProblem):
            output = output_of(self, published, sweep.n_features + mechanism.fit_intercept)
            return ridge_log_ratios(sweep, mechanism, mechanism.scale, output, outside)
        refuse_outside(outside)
        fit = self.confidential_fit(sweep, "exact")
        if not isinstance(fit, SmoothAudit):
            raise RefusedModel(
                f"the realised loss is known for linear models and smooth ones with one linear predictor, not for "
                f"{type(self.estimator).__name__}"
            )
        output = output_of(self, published, len(fit.theta))
        return refitted_log_ratios(sweep, fit, output, mechanism.scale, mechanism.precision)

    def _people(self, move: Movement) -> People:
        found = in_units(move.distance, float(self.scale), kind_codes(move.kind, len(move.distance)))
        if found.within(GaussianShift.EXACT_UP_TO["distance"]):
            pairs = GaussianShift.of_checked(found.kind_code, {"distance": found.value})
        else:
            pairs = GaussianShift(found.value, kind=found.kind_code)  # which labels them, or says what is wrong
        return People(move.leverage, move.residual, pairs, move.open)


def check_precision(precision: ArrayLike) -> Floats:
    """Validate A: square, finite, symmetric, positive definite."""
    A = real_values("precision", precision)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInput(f"precision must be a square matrix, got shape {A.shape}")
    if not np.isfinite(A).all():
        raise InvalidInput("precision must be finite, got NaN or infinity")
    if not np.allclose(A, A.T, rtol=ASYMMETRY, atol=0.0):
        raise InvalidInput("precision must be symmetric, got one that is not; pass (A + A.T) / 2")
    A = (A + A.T) / 2
    if np.linalg.eigvalsh(A)[0] <= 0:
        raise InvalidInput(
            "precision must be positive definite, got an eigenvalue <= 0; add a multiple of the identity"
        )
    return A
