"""Each person's gradient: a function of their own row and of theta alone, and how long it can ever be.

The sum over people of a linear model's gradients is ``sum_i l'(y_i, x_i'theta) x_i``; an intercept is a column of ones,
last. The penalty belongs to nobody: its gradient is added after the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import RefusedModel
from perinstance.models.interface.problem import Problem
from perinstance.models.linear.ridge import LinearProblem
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective, design
from perinstance.models.losses.smooth import Squared
from perinstance.models.multinomial.problem import ClassifierProblem
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, TINY
from perinstance.releases.base.row_sums import lengths, products


@dataclass(frozen=True, slots=True)
class PersonGradients:
    """The objective that is descended: a loss of each person, and a penalty that is public."""

    objective: SmoothObjective

    def of(self, X: NDArray, y: NDArray, theta: Floats) -> Floats:
        """Return one gradient per row, of the loss without the penalty.

        The bits follow from the row alone (``row_sums``). A row that is not finite, or whose gradient is beyond
        float64, comes back as it is: whoever sums must make zeros of it.
        """
        rows = design(X, self.objective.fit_intercept)
        with np.errstate(all="ignore"):
            eta = products(rows, theta)
            targets = np.asarray(y, dtype=np.float64)
            slope = self.objective.loss.slope(targets, eta)
            # losses of two classes compare their targets, and a comparison with no number is an answer, too
            return np.where(np.isnan(targets), np.nan, slope)[:, None] * rows

    def penalty(self, theta: Floats) -> Floats:
        """Return the gradient of the penalty."""
        return self.objective.penalty_slope(theta)

    def longest(self, X: NDArray) -> Floats:
        """Bound each row's gradient over all theta and both classes; infinite where the loss has no such bound.

        Logistic regression: ``||(x, 1)||``. A row with a missing or infinite cell has no bound but the clip.
        """
        supremum = self.objective.loss.slope_supremum
        if not np.isfinite(supremum):
            return np.full(len(X), np.inf)
        rows = design(X, self.objective.fit_intercept)
        largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), TINY)
        with np.errstate(invalid="ignore", over="ignore"):
            bound = largest * lengths(rows / largest[:, None]) * (supremum * NORM_UP)
        return np.where(np.isnan(bound), np.inf, bound)

    def width(self, n_features: int) -> int:
        """Return the length of theta."""
        return self.objective.width(n_features)


def model_of(estimator: Any) -> Problem:
    """Return the model to descend: ridge regression, or a smooth objective of one linear predictor."""
    if estimator is None:
        from sklearn.linear_model import Ridge

        estimator = Ridge(alpha=1.0)
    if isinstance(estimator, SmoothObjective):
        return SmoothProblem(estimator)
    problem = problem_of(estimator)
    return problem.binary() if isinstance(problem, ClassifierProblem) else problem


def gradients_of(problem: Problem) -> PersonGradients:
    """Return the gradients of a model, or refuse it with the reason."""
    if isinstance(problem, LinearProblem):
        return PersonGradients(SmoothObjective(Squared(), RidgePenalty(problem.alpha), problem.fit_intercept))
    if not isinstance(problem, SmoothProblem):
        raise RefusedModel(
            f"the descent of a {type(problem).__name__} is refused: it needs a smooth loss of one linear predictor; "
            "use Ridge, LogisticRegression (two classes) or a smooth objective"
        )
    if problem.objective.mean:
        raise RefusedModel(
            "the descent of an objective whose penalty weighs a mean is refused: its penalty is multiplied by the "
            "number of people, which is not public; use SmoothObjective with mean=False"
        )
    return PersonGradients(problem.objective)
