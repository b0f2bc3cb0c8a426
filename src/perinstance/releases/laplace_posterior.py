"""One sample of the Laplace approximation of a generalised linear model's posterior (MATH 1e)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance import sampling
from perinstance.checked_numbers import positive
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.laplace_covariance import whitened
from perinstance.models.smooth.movement_bounds import prepare, sensitivity
from perinstance.models.smooth.neighbour_refits import distances, first_steps, leave_one_out, measured
from perinstance.models.smooth.newton import whiten
from perinstance.models.smooth.problem import SmoothAudit, SmoothProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE, EXACT
from perinstance.numerics.rounding import EXACT_SHARE
from perinstance.pairs.general_gaussian import GeneralGaussian
from perinstance.pairs.kinds import Method
from perinstance.releases.base.publishing import AnsweringModel, Law
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.sampling import GRID


class LaplacePosterior(AnsweringModel):
    """``theta ~ N(theta_hat, H(theta_hat)^-1 / gamma)``: means **and** covariances differ between neighbours.

    The pair of each person is exact, from refits of mean and Hessian without them (``method="exact"`` or ``"auto"``),
    and an estimate where rounding may have taken more than a millionth of it; ``method="estimate"`` takes one Newton
    step and the others' curvature as it is. There is no upper bound.

    Parameters
    ----------
    estimator
        ``LogisticRegression`` (two classes), ``PoissonRegressor``, ... or a ``SmoothProblem``; None is
        ``LogisticRegression()``.
    gamma
        The inverse temperature.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(self, estimator: Any = None, gamma: float = 1.0, grid: float = GRID) -> None:
        self.estimator = estimator
        self.gamma = gamma
        self.grid = grid

    def problem(self) -> SmoothProblem:
        """Return the model behind the estimator."""
        estimator = self.estimator
        if estimator is None:
            from sklearn.linear_model import LogisticRegression

            estimator = LogisticRegression()
        problem = problem_of(estimator)
        if isinstance(problem, ClassifierProblem):
            problem = problem.binary()
        if not isinstance(problem, SmoothProblem) or not np.isfinite(problem.objective.loss.concordance):
            raise RefusedModel(
                f"the Laplace approximation of {type(self.estimator).__name__} is refused: it needs a loss with a "
                "continuous curvature and one linear predictor; use PosteriorSample for ridge regression"
            )
        return problem

    def mechanism(self) -> Mechanism:
        """Describe the release: one draw of ``N(theta, H(theta)^-1 / gamma)``."""
        gamma = positive("gamma", self.gamma)
        model = ("LogisticRegression, C = ", 1.0) if self.estimator is None else estimator_words(self.estimator)
        return Mechanism(
            name="LaplacePosterior",
            moved="smooth",
            family="posterior",
            noise="gaussian",
            scale=gamma**-0.5,
            words=("one sample of the Laplace approximation of ", *model, ", gamma = ", gamma),
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> SmoothAudit:
        """Fit without noise."""
        positive("gamma", self.gamma)
        if method == "upper":
            raise InvalidInput("a Laplace posterior has no upper bound; use method='exact' or method='estimate'")
        return self.problem().fit(sweep, None, "estimate" if method == "estimate" else "exact")

    def people(self, fit: SmoothAudit, block: Block, inside: bool = True) -> People:
        """Map: estimates, left open when exact answers are wanted."""
        X, codes = block.X, fit.codes(block.y)
        first, alone = sensitivity(fit.model, X, codes, inside), fit.alone(codes, inside)
        w = whitened(fit.model, None, X, codes, first_steps(fit.model, X, codes, inside), float(self.gamma), inside)
        opened = alone | (fit.model.kind == "exact") | ~np.isfinite(first.distance)
        pairs = GeneralGaussian(w.excess, w.shift, kind="estimate")
        return People(first.leverage, first.residual, pairs, opened if opened.any() else None)

    def refine(self, fit: SmoothAudit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Refit mean and Hessian without (or with) each of these people."""
        X, codes = block.X, fit.codes(block.y)
        alone = fit.alone(codes, inside)
        inner = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
        first = sensitivity(fit.model, X, codes, inside)
        smooth = fit.model.fit
        model = prepare(inner, smooth, smooth.hessian, fit.model.kind)  # the norm in which the shift is measured
        refits = leave_one_out(model, inner, X, codes, inside, partial(inner.tell, "refit"))
        w = whitened(fit.model, inner, X, codes, refits.D, float(self.gamma), inside)
        size, found = measured(refits.D, smooth.hessian), distances(refits, smooth.hessian)
        # nothing bounds what rounding takes from the spectrum: where it takes too much, the answer is an estimate
        rough = (found.kind_code != EXACT) | np.logical_not(model.inside.around.error <= EXACT_SHARE)
        none = alone | ~np.isfinite(found.value)  # no minimum without the person: no finite loss can be stated
        with np.errstate(invalid="ignore"):
            raised = w.shift * np.where(size > 0, found.value / np.where(size > 0, size, 1.0), 1.0)[:, None]
        kind = np.where(rough & ~alone, ESTIMATE, EXACT)
        pairs = GeneralGaussian(w.excess, np.where(none[:, None], np.inf, raised), kind)
        return People(first.leverage, first.residual, pairs)

    def law(self, fit: SmoothAudit) -> Law:
        """Return ``N(theta, H^-1 / gamma)``."""
        return Law(fit.theta, whiten(fit.model.fit.hessian).T.T / np.sqrt(positive("gamma", self.gamma)))

    def ideal(self, X: NDArray, y: Floats) -> sampling.ExactOutput:
        """Return what ``fit`` draws from: mean and Hessian are float64, taken as they are; the noise is exact."""
        fit = self.confidential_fit(ArraySweep(X, y), "estimate")
        return sampling.ExactOutput(fit.theta, 1 / np.sqrt(positive("gamma", self.gamma)), fit.model.fit.hessian)
