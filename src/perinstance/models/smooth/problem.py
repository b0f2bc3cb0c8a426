"""The model behind a smooth estimator, as releases ask for it: fit, movement of each person, refinement.

``method``: "exact" refits without each person (batched), "upper" gives an upper bound from one sweep and refits
only those it cannot bound, "estimate" is one Newton step. "auto" is exact while that costs seconds, else upper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block, loss_targets
from perinstance.folds.class_labels import Classes, CodedSweep, binary_classes
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import ConfidentialFit, MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.smooth.movement_bounds import (
    Sensitivity,
    SmoothModel,
    prepare,
    sensitivity,
)
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.objective_folds import Folded, SmoothFit, fit_smooth
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT
from perinstance.pairs.kinds import Kind, check_method

#: n^2 d up to which "auto" refits everyone: a few seconds. Changes the width.
AUTO_EXACT = 5e8


@dataclass(frozen=True, slots=True, repr=False)
class MinimumAudit(ConfidentialFit):
    """The confidential state of one audit of a model that is the minimum of an objective."""

    model: SmoothModel
    classes: Classes | None = None  #: of a classifier, whose targets are taken as codes

    @property
    def theta(self) -> Floats:
        """The minimum of the objective; the intercept last."""
        return self.model.fit.theta

    @property
    def n_people(self) -> int:  # type: ignore[override]
        """With how many people it was fitted; where rows have weights, their sum."""
        return round(self.model.fit.n)

    def codes(self, y: NDArray) -> NDArray:
        """Return targets as the objective sees them."""
        return loss_targets(y) if self.classes is None else self.classes.codes(y)

    def alone(self, codes: Floats, inside: bool) -> NDArray[np.bool_]:
        """Tell without whom a class is gone, so that there is nothing to publish."""
        return np.zeros(len(codes), dtype=np.bool_) if self.classes is None else self.classes.alone(codes, inside)

    def movement(self, found: Sensitivity, codes: Floats, inside: bool) -> Movement:
        """Return what the map answers."""
        kind = np.full(len(codes), "estimate" if self.model.kind == "estimate" else "upper")
        alone = self.alone(codes, inside)
        distance, opened = np.where(alone, np.inf, found.distance), found.open | alone
        return Movement(found.leverage, found.residual, distance, kind, opened if opened.any() else None)

    def refitted(self, first: Sensitivity, sweep: Sweep, block: Block, inside: bool) -> Movement:
        """Return what refits without (or with) each of these people answer, with the leverages and residuals known."""
        inner, codes = sweep if self.classes is None else CodedSweep(sweep, self.classes), self.codes(block.y)
        found = leave_one_out(self.model, inner, block.X, codes, inside, partial(inner.tell, "refit"))
        charged, alone = distances(found, self.model.precision), self.alone(codes, inside)
        distance, kind = np.where(alone, np.inf, charged.value), np.where(alone, EXACT, charged.kind_code)
        return Movement(first.leverage, first.residual, distance, kind)


class SmoothAudit(MinimumAudit):
    """That of a generalised linear model."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SmoothProblem:
    """A smooth objective as a model that releases can publish.

    ``fitted`` holds the parameters of an estimator that comes fitted; they are checked, never used.

    >>> from perinstance.models.losses.catalogue import PseudoHuber
    >>> from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
    >>> problem = SmoothProblem(SmoothObjective(PseudoHuber(1.35), RidgePenalty(0.1), fit_intercept=True))
    """

    moved: ClassVar[MovedByPerson] = "smooth"
    objective: SmoothObjective
    fitted: tuple[float, ...] | None = None

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> SmoothAudit:
        """Minimise the objective of everyone and fold for what the certificates need."""
        check_method(method)
        classes = None
        if self.objective.loss.binary:
            classes = binary_classes(sweep)
            sweep = CodedSweep(sweep, classes)
        fit = fit_smooth(sweep, self.objective)
        check_fitted(sweep, fit, self.fitted)
        return SmoothAudit(prepare(sweep, fit, precision, kind_asked(method, fit)), classes)

    def movement(self, fit: SmoothAudit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        codes = fit.codes(block.y)
        return fit.movement(sensitivity(fit.model, block.X, codes, inside), codes, inside)

    def refine(self, fit: SmoothAudit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        sides = [replace(side, hessian_bounds=None) for side in (fit.model.inside, fit.model.outside)]
        estimating = replace(fit.model, kind="estimate", inside=sides[0], outside=sides[1])
        first = sensitivity(estimating, block.X, fit.codes(block.y), inside)
        return fit.refitted(first, sweep, block, inside)


def check_fitted(sweep: Sweep, fit: SmoothFit, theirs: tuple | None) -> None:
    """Refuse an estimator that was fitted to something else: its objective is too far above the minimum."""
    if theirs is None:
        return
    theta = np.ravel(np.array(theirs, dtype=np.float64))
    if theta.shape != fit.theta.shape:
        raise InvalidInput(
            f"the estimator was fitted with {len(theta)} parameters and the data needs {len(fit.theta)} (other "
            "features or classes); pass an unfitted estimator, or the data it was fitted on"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        there = Folded(sweep, fit.objective, None, fit.n).at(theta)
    if not there.value - fit.value <= max(0.5, 1e-3 * abs(fit.value)):
        raise InvalidInput(
            "the fitted estimator is not at the minimum of its objective on this data; pass the data it was "
            "fitted on, fit it to a smaller tol, or pass it unfitted"
        )


def kind_asked(method: str, fit: SmoothFit) -> Kind:
    """Return the kind that a method asks for; "auto" refits everybody while that costs seconds."""
    if method == "estimate":
        return "estimate"
    cheap = method == "auto" and float(fit.n) ** 2 * len(fit.theta) <= AUTO_EXACT
    return "exact" if method == "exact" or cheap else "upper"
