"""LogisticRegression of two classes or more, as a model that releases can publish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import Classes, CodedSweep, classes_of
from perinstance.folds.sweep import Sweep
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.losses.smooth import Logistic
from perinstance.models.smooth.movement_bounds import Neighbourhood, SmoothModel
from perinstance.models.smooth.objective_folds import Folded, minimum_of
from perinstance.models.smooth.problem import MinimumAudit, SmoothAudit, SmoothProblem, check_fitted, kind_asked
from perinstance.models.softmax.certificate import bound_softmax, softmax_sensitivity
from perinstance.models.softmax.objective import SoftmaxObjective
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import check_method


class SoftmaxAudit(MinimumAudit):
    """The confidential state of one audit; theta are K x p parameters, row by row."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ClassifierProblem:
    """LogisticRegression: ``sum l + alpha |W|^2 / 2``; how many classes there are is found in the data."""

    alpha: float
    fit_intercept: bool
    penalize_intercept: bool = False
    fitted: tuple[tuple[float, ...], ...] | None = None

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "smooth"

    def binary(self) -> SmoothProblem:
        """Return the model of two classes."""
        objective = SmoothObjective(
            Logistic(),
            RidgePenalty(self.alpha),
            self.fit_intercept,
            penalize_intercept=self.fit_intercept and self.penalize_intercept,
        )
        return SmoothProblem(objective, None if self.fitted is None else self.fitted[0])

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> Any:
        """Minimise the objective of everyone and fold for what the certificates need."""
        check_method(method)
        classes: Classes = sweep.fold(classes_of)
        K = len(classes.labels)
        if K < 2:
            raise InvalidInput(f"a classifier needs two classes or more, got {K}")
        if K > 2 and not all(label.is_integer() for label in classes.labels):
            raise InvalidInput(
                f"a classifier's target is classes, got {K} numbers that are not whole; choose a regression"
            )
        if K == 2:
            return self.binary().fit(sweep, precision, method)
        if self.penalize_intercept:
            raise RefusedModel("liblinear fits several classes one against the rest; use solver='lbfgs'")
        coded, objective = CodedSweep(sweep, classes), SoftmaxObjective(self.alpha, self.fit_intercept, K)
        start = np.zeros(K * (sweep.n_features + int(self.fit_intercept)))
        fit = minimum_of(Folded(coded, objective, None, sum(classes.counts)), start)
        check_fitted(coded, fit, self.fitted)
        around, kind = fit.whitening(precision), kind_asked(method, fit)
        bounds = bound_softmax(coded, fit, around) if kind == "upper" else None
        side = Neighbourhood(around, np.zeros_like(start), fit.gradient_bound(around), bounds)
        return SoftmaxAudit(SmoothModel(fit, precision, kind, side, side), classes)

    def movement(self, fit: MinimumAudit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        if isinstance(fit, SmoothAudit):
            return self.binary().movement(fit, block, inside)
        codes = fit.codes(block.y)
        return fit.movement(softmax_sensitivity(fit.model, block.X, codes, inside), codes, inside)

    def refine(self, fit: MinimumAudit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        if isinstance(fit, SmoothAudit):
            return self.binary().refine(fit, sweep, block, inside)
        first = softmax_sensitivity(fit.model, block.X, fit.codes(block.y), inside, bounded=False)
        return fit.refitted(first, sweep, block, inside)
