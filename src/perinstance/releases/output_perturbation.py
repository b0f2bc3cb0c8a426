"""Output perturbation: the estimate plus noise of a law that is fixed in advance, Gaussian or Student (MATH 1a)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance import sampling
from perinstance.checked_numbers import positive, real_values
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.inference.equation import Estimated
from perinstance.inference.published_inference import PublishedInference, no_intervals, only_the_table
from perinstance.inference.table import About
from perinstance.models.interface import Movement, Problem
from perinstance.models.linear.ridge import DualFit, LinearFit, LinearProblem, Without, movement_of
from perinstance.models.linear.several_rows import person_movements
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.problem import MinimumAudit, SmoothAudit, person_movement, refit_without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import Charged, in_units
from perinstance.numerics.rounding import ASYMMETRY
from perinstance.pairs import GaussianShift
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Method, kind_codes
from perinstance.pairs.student_shift import StudentShift
from perinstance.releases.base.log_ratios import LogRatios, output_of, refitted_log_ratios, refuse_outside
from perinstance.releases.base.publishing import AnsweringModel, Law, exact_equations
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.releases.base.ridge_ratios import ridge_log_ratios
from perinstance.releases.base.weighted_rows import weighted_problem
from perinstance.sampling import GRID, NormalEquations
from perinstance.sampling.ideal_laws import ExactStudent, check_degrees


class PerturbedEstimate(AnsweringModel):
    """An estimate plus noise: the loss follows from how far a person moves the estimate, in units of the noise."""

    estimator: Any
    scale: float
    precision: Any = None

    @abstractmethod
    def _pairs(self, distance: Charged, width: int) -> Pairs:
        """Return the pairs of people at these distances, of estimates of so many coefficients."""

    def problem(self) -> Problem:
        """Return the model behind the estimator."""
        found = LinearProblem(1.0, fit_intercept=True) if self.estimator is None else problem_of(self.estimator)
        return weighted_problem(found) if self.rows_are_weighted else found

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit the estimator without noise."""
        self.mechanism()
        return self.problem().fit(sweep, self._shape(), method)

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self._people(fit, self.problem().movement(fit, block, inside))

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open."""
        return self._people(fit, self.problem().refine(fit, sweep, block, inside))

    def persons(self, fit: Any, block: Block, starts: NDArray[np.int64], inside: bool = True) -> People:
        """Map: the pairs of people with several rows (MATH 12)."""
        if isinstance(fit, MinimumAudit):
            if not inside:
                raise RefusedModel(
                    f"what people outside with several rows would move is known of linear models, not of "
                    f"{type(self.estimator).__name__}; ask for the people inside"
                )
            return self._people(fit, person_movement(fit, block, starts))
        if not isinstance(fit, LinearFit | DualFit):
            raise RefusedModel(
                f"what a person with several rows moves is known of linear and smooth models, not of "
                f"{type(self.estimator).__name__}; make one row of each person's rows"
            )
        found = person_movements(fit, block.X, block.y, starts, inside)
        opened = found.open if found.open.any() else None
        return self._people(fit, Movement(found.leverage, found.residual, found.distance, found.code, opened))

    def refit_person(self, fit: Any, rest: Sweep, block: Block) -> People:
        """Answer for one person of a smooth model, whose rows are the block; ``rest`` goes over all others' rows."""
        return self._people(fit, refit_without(fit, rest, block))

    def from_row_statistics(self, fit: LinearFit | DualFit, loo: Without) -> People:
        """Return the pairs of people of a linear model of whom leverage, residual and length are known."""
        return self._people(fit, movement_of(loo))

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published; of a smooth model by refits, unproved."""
        problem, mechanism = self.problem(), self.mechanism()
        if isinstance(problem, LinearProblem):
            output = output_of(self, published, sweep.n_features + mechanism.fit_intercept)
            return ridge_log_ratios(sweep, mechanism, mechanism.scale, output, outside)
        refuse_outside(outside)
        if mechanism.noise != "gaussian":
            raise RefusedModel("the realised loss under Student noise is known for linear models")
        fit = self.confidential_fit(sweep, "exact")
        if not isinstance(fit, SmoothAudit):
            raise RefusedModel(
                f"the realised loss is known for linear models and smooth ones with one linear predictor, not for "
                f"{type(self.estimator).__name__}"
            )
        output = output_of(self, published, len(fit.theta))
        return refitted_log_ratios(sweep, fit, output, mechanism.scale, mechanism.precision)

    def _people(self, fit: Any, move: Movement) -> People:
        found = in_units(move.distance, float(self.scale), kind_codes(move.kind, len(move.distance)))
        return People(move.leverage, move.residual, self._pairs(found, len(fit.theta)), move.open)

    def _shape(self) -> Floats | None:
        """Return the precision of the noise; None is the identity."""
        return None if self.precision is None else check_precision(self.precision)

    def _center(self, X: NDArray, y: Floats) -> NormalEquations | Floats:
        """Return what is drawn around: least squares are solved exactly.

        The minimum of another loss has no closed form: its float64 estimate is taken as it is. How far the estimate can
        be from the minimum, here and in a neighbour, is part of the distances that ``people`` and ``refine`` state.
        """
        problem = self.problem()
        if isinstance(problem, LinearProblem):
            return exact_equations(X, y, problem.alpha, problem.fit_intercept, problem.weighted)
        return problem.fit(ArraySweep(X, y), self._shape(), "estimate").theta

    def _described(self, noise: str, words: tuple[str | float, ...], **more: Any) -> Mechanism:
        problem = self.problem()
        ridge = problem if isinstance(problem, LinearProblem) else LinearProblem(0.0, fit_intercept=False)
        return Mechanism(
            name=type(self).__name__,
            moved=problem.moved,
            family="output",
            noise=noise,
            scale=positive("scale", self.scale),
            words=(*estimator_words(self.estimator), *words),
            alpha=float(ridge.alpha),
            fit_intercept=bool(ridge.fit_intercept),
            **more,
        )


class OutputPerturbation(PerturbedEstimate):
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

    def mechanism(self) -> Mechanism:
        """Describe the release: the model's parameters plus noise of a covariance that was fixed in advance."""
        shape = "isotropic" if self.precision is None else "shaped"
        words = f", plus {shape} Gaussian noise of scale ", positive("scale", self.scale)
        given = None if self.precision is None else real_values("precision", self.precision)
        return self._described("gaussian", words, precision=given)

    def ideal(self, X: NDArray, y: Floats) -> sampling.ExactOutput:
        """Return the same in exact numbers: what ``fit`` draws from."""
        return sampling.ExactOutput(self._center(X, y), positive("scale", self.scale), self._shape())

    def law(self, fit: Any) -> Law:
        """Return ``N(theta, scale^2 A^-1)``."""
        A = self._shape()
        root = np.eye(len(fit.theta)) if A is None else np.linalg.inv(np.linalg.cholesky(A)).T
        return Law(fit.theta, self.scale * root)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return the noise that was added, exactly: what the fit on this table says. Of people like these, nothing."""
        if about == "population":
            return PublishedInference(None, (), only_the_table(type(self).__name__))
        numbers = self.published_numbers()
        if numbers.coef is None or (np.ndim(numbers.coef) == 2 and len(numbers.coef) > 1):
            return PublishedInference(None, (), no_intervals(f"{type(self).__name__} of this estimator"))
        constant = np.ravel(numbers.intercept)  # never drawn as zero, which is that of a model without one
        found = np.append(np.ravel(numbers.coef), constant if constant.any() else [])
        A = np.eye(len(found)) if self.precision is None else check_precision(self.precision)
        covariance: Floats = float(self.scale) ** 2 * np.asarray(np.linalg.inv(A))
        return PublishedInference(Estimated(found, covariance, covariance, np.zeros((len(found), 0))))

    def _pairs(self, distance: Charged, width: int) -> GaussianShift:
        return GaussianShift(distance.value, kind=distance.kind_code)


class StudentPerturbation(PerturbedEstimate):
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

    def mechanism(self) -> Mechanism:
        """Describe the release: the model's parameters plus heavy-tailed noise that was fixed in advance."""
        scale, nu = positive("scale", self.scale), float(check_degrees(self.degrees_of_freedom))
        words = ", plus Student noise of ", nu, " degrees of freedom and scale ", scale
        return self._described("student", words, noise_parameters=(("degrees_of_freedom", nu),))

    def ideal(self, X: NDArray, y: Floats) -> ExactStudent:
        """Return the same in exact numbers: what ``fit`` draws from."""
        return ExactStudent(self._center(X, y), positive("scale", self.scale), self.degrees_of_freedom)

    def law(self, fit: Any) -> Law:
        """Return the centre and the scale; the law is Student's."""
        return Law(fit.theta, float(self.scale) * np.eye(len(fit.theta)), "student")

    def _pairs(self, distance: Charged, width: int) -> StudentShift:
        return StudentShift(distance.value, float(self.degrees_of_freedom), width, kind=distance.kind_code)


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
