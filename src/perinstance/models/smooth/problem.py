"""The model behind a smooth estimator, as releases ask for it: fit, movement of each person, refinement.

``method``: "exact" refits without each person (batched), "upper" gives an upper bound from one sweep and refits
only those it cannot bound, "estimate" is one Newton step. "auto" is exact while that costs seconds, else upper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.class_labels import Classes, CodedSweep, binary_classes
from perinstance.folds.sweep import Sweep, refits_told
from perinstance.models.interface.fit_health import FitHealth, ShowsNoValue
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.smooth.movement_bounds import (
    RowProducts,
    Sensitivity,
    SmoothModel,
    prepare,
    sensitivity,
    sensitivity_of,
)
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.newton import Slopes
from perinstance.models.smooth.objective_folds import fit_smooth, slopes
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT
from perinstance.pairs.interface.kinds import Kind, check_method

T = TypeVar("T")

#: n^2 d up to which "auto" refits everyone: a few seconds
AUTO_EXACT = 5e8


@dataclass(frozen=True, slots=True, repr=False)
class SmoothAudit(ShowsNoValue):
    """The confidential state of one audit."""

    model: SmoothModel
    classes: Classes | None

    @property
    def theta(self) -> Floats:
        """The minimum of the objective; the intercept last."""
        return self.model.fit.theta

    @property
    def gradient_norm(self) -> float:
        """The proof of stationarity."""
        return self.model.fit.gradient_norm

    @property
    def decrement(self) -> float:
        """The Newton decrement at theta."""
        return self.model.fit.decrement

    @property
    def health(self) -> FitHealth:
        """How many people it was fitted with."""
        return FitHealth(self.model.fit.n)

    @property
    def gram(self) -> None:
        """None: predictions are not linear in theta."""
        return None


@dataclass(frozen=True, slots=True)
class SmoothProblem:
    """A smooth objective as a model that releases can publish.

    ``fitted`` holds the parameters of an estimator that comes fitted; they are checked, never used.

    >>> from perinstance.models.losses.smooth import PseudoHuber
    >>> from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
    >>> problem = SmoothProblem(SmoothObjective(PseudoHuber(1.35), RidgePenalty(0.1), fit_intercept=True))
    """

    objective: SmoothObjective
    fitted: tuple[float, ...] | None = None

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "smooth"

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> SmoothAudit:
        """Minimise the objective of everyone and fold for what the certificates need."""
        check_method(method)
        classes = None
        if self.objective.loss.binary:
            classes = binary_classes(sweep)
            sweep = CodedSweep(sweep, classes)
        fit = fit_smooth(sweep, self.objective)
        if self.fitted is not None:
            self._check(sweep, fit.value, np.array(self.fitted), fit.theta)
        return SmoothAudit(prepare(sweep, fit, precision, kind_asked(method, fit.n, len(fit.theta))), classes)

    def movement(self, fit: SmoothAudit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        codes = _coded(fit, block.y)
        return _movement(fit, sensitivity(fit.model, block.X, codes, inside), codes, inside)

    def refine(self, fit: SmoothAudit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        X, y = block.X, block.y
        inner = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
        target = _coded(fit, y)
        found = leave_one_out(fit.model, inner, X, target, inside, refits_told(inner))
        first: Sensitivity = sensitivity(_estimating(fit.model), X, target, inside)
        charged = distances(found, fit.model.precision)
        distance, kind_code = charged.value, charged.kind_code
        if fit.classes is not None:
            alone = fit.classes.alone(target, inside)  # without them a class is gone: nothing to publish
            distance, kind_code = np.where(alone, np.inf, distance), np.where(alone, EXACT, kind_code)
        return Movement(first.leverage, first.residual, distance, kind_code)

    def _check(self, sweep: Sweep, value: float, theta: Floats, ours: Floats) -> None:
        """Refuse an estimator that was fitted to something else: its objective is too far above the minimum."""
        if theta.shape != ours.shape:
            raise InvalidInput(
                f"the estimator was fitted with {len(theta)} parameters and the data needs {len(ours)}; "
                "pass an unfitted estimator, or the data it was fitted on"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            there: Slopes = sweep.fold(partial(slopes, objective=self.objective, theta=theta))
        excess = there.value + self.objective.times(there.n) * self.objective.penalty_value(theta) - value
        if not excess <= max(0.5, 1e-3 * abs(value)):
            raise InvalidInput(
                "the fitted estimator is not at the minimum of its objective on this data; pass the data it was "
                "fitted on, fit it to a smaller tol, or pass it unfitted"
            )


def movement_of_products(fit: SmoothAudit, products: RowProducts, inside: bool = True) -> Movement:
    """Return how the people move the fit whose rows' products are known; y are codes."""
    return _movement(fit, sensitivity_of(fit.model, products, inside), products.y, inside)


def _movement(fit: SmoothAudit, found: Sensitivity, codes: Floats, inside: bool) -> Movement:
    kind = np.full(len(found.distance), "estimate" if fit.model.kind == "estimate" else "upper")
    distance, opened = found.distance, found.open
    if fit.classes is not None:
        alone = fit.classes.alone(codes, inside)
        distance, opened = np.where(alone, np.inf, distance), opened | alone
    return Movement(found.leverage, found.residual, distance, kind, opened if opened.any() else None)


def _coded(fit: SmoothAudit, y: NDArray) -> Floats:
    return np.asarray(y, dtype=np.float64) if fit.classes is None else fit.classes.codes(y)


def _estimating(model: SmoothModel) -> SmoothModel:
    """The same model without certificates: for the leverages and residuals that go with an exact distance."""
    return replace(
        model,
        kind="estimate",
        inside=replace(model.inside, hessian_bounds=None),
        outside=replace(model.outside, hessian_bounds=None),
    )


def kind_asked(method: str, n: int, width: int) -> Kind:
    """Return the kind that a method asks for; "auto" refits everybody while that costs seconds."""
    if method == "estimate":
        return "estimate"
    cheap = method == "auto" and float(n) ** 2 * width <= AUTO_EXACT
    return "exact" if method == "exact" or cheap else "upper"
