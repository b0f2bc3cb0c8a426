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

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.block import Block, loss_targets, plain_targets, weights_of
from perinstance.folds.class_labels import Classes, CodedSweep, binary_classes
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import ConfidentialFit, MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import SmoothObjective, design
from perinstance.models.smooth.certificates import Step, distance_bound, step_ball, undecided
from perinstance.models.smooth.movement_bounds import (
    THIN,
    Sensitivity,
    SmoothModel,
    prepare,
    sensitivity,
)
from perinstance.models.smooth.neighbour_refits import Displacements, distances, leave_one_out
from perinstance.models.smooth.objective_folds import Folded, SmoothFit, fit_smooth, minimum_of
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT
from perinstance.numerics.rounding import NO_WEIGHT_LEFT, UNIT
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


#: numbers in the largest temporary. Changes only speed.
ROOM = 1 << 20


def person_movement(fit: MinimumAudit, block: Block, starts: NDArray[np.int64]) -> Movement:
    """Map: how far people inside move the fit with all of their rows; who has no bound is left open."""
    n, codes = len(starts) - 1, fit.codes(block.y)
    alone = np.zeros(n, dtype=np.bool_)
    if fit.classes is not None:  # without them a class is gone
        for label, count in enumerate(fit.classes.counts):
            alone |= np.add.reduceat((plain_targets(codes) == label).astype(np.int64), starts[:-1]) == count
    kind: Kind = "estimate" if fit.model.kind == "estimate" else "upper"
    if isinstance(fit, SmoothAudit) and fit.model.kind != "exact":
        found = _bounded(fit.model, block.X, codes, starts)
    else:
        found = Movement(np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.inf), kind)
    opened = ~np.isfinite(found.distance) | alone
    distance = np.where(alone, np.inf, found.distance)
    return Movement(found.leverage, found.residual, distance, kind, opened if opened.any() else None)


def _bounded(model: SmoothModel, X: NDArray, y: Floats, starts: NDArray[np.int64]) -> Movement:
    """Take the first Newton step without each person, and bound what is left of the way."""
    fit, side, sizes = model.fit, model.inside, np.diff(starts)
    objective, around, bounds, p = fit.objective, side.around, side.hessian_bounds, len(fit.theta)
    loss, T = objective.loss, around.T
    # the whitening has one share of a penalty taken out already
    shares = T * (objective.penalty_curvature(fit.theta) if objective.mean else np.zeros(p)) @ T.T
    weight, bent = float(np.linalg.norm(shares, ord=2)), objective.mean and objective.penalty.concordance > 0
    weights = weights_of(y)
    # how many times a person's share of a penalty is theirs
    times = sizes.astype(np.float64) if weights is None else np.add.reduceat(weights, starts[:-1])
    unknown = np.full(len(sizes), np.inf)
    out = Movement(unknown, unknown.copy(), unknown.copy(), "upper")
    for k in np.unique(sizes).tolist():
        everybody, run = np.flatnonzero(sizes == k), max(1, ROOM // (p * (k + p)))
        for at in range(0, len(everybody), run):
            who = everybody[at : at + run]
            rows = (starts[who][:, None] + np.arange(k)).ravel()
            x, target = design(X[rows], objective.fit_intercept), y[rows]
            eta = x @ fit.theta
            l1, l2 = loss.derivatives(target, eta)
            t = (x @ T.T).reshape(len(who), k, p)
            l1, l2 = l1.reshape(len(who), k), l2.reshape(len(who), k)
            u = t * np.sqrt(l2)[:, :, None]
            S = u @ u.transpose(0, 2, 1)
            usable = np.isfinite(S).all(axis=(1, 2))
            S[~usable], u[~usable] = 0.0, 0.0
            top = np.linalg.eigvalsh(S)[:, -1] * (1 + 16 * k * UNIT)
            more = times[who] - 1.0
            left = 1.0 - top - np.maximum(more, 0.0) * weight
            thin = ~usable | ~(left >= max(THIN, 1e3 * around.error * k)) | (bent & (more != 0.0))
            if not np.isfinite(loss.concordance):  # rounding decides whether H has a row's curvature
                unsure = undecided(loss, target, eta, np.abs(x) @ np.abs(fit.theta))
                thin |= unsure.reshape(len(who), k).any(axis=1)
            left = np.where(thin, 1.0, left)
            q = np.einsum("nk,nkp->np", l1, t) + times[who, None] * side.share
            G = np.eye(p) - u.transpose(0, 2, 1) @ u - more[:, None, None] * shares
            G[thin], q[thin] = np.eye(p), 0.0
            step = np.linalg.solve(G, q[:, :, None])[:, :, 0]
            d1, d2 = np.square(step) @ around.nu, np.square(step) @ around.nu**2
            size, a = np.sqrt(d1), np.sqrt(np.maximum(np.einsum("np,np->n", q, step), 0.0))
            out.leverage[who], out.residual[who] = np.trace(S, axis1=1, axis2=2) / left, np.linalg.norm(l1, axis=1)
            if bounds is None:
                out.distance[who] = np.where(thin, np.inf, size)
                continue
            inflation, lam = 1.0 / left, around.nu[-1] / left
            # what T is off moves the step by as much of its own length, in whatever direction; each row has its own
            off = side.gradient_bound * np.sqrt(inflation) + k * around.lost * inflation * a
            first = Step(a + off, size + np.sqrt(lam) * off, np.sqrt(d2 / left) + lam * off, lam, inflation)
            found = distance_bound(first, step_ball(bounds, first.a, inflation, None)) + 2 * np.sqrt(lam) * off
            lost = 1 + 16 * k * around.error * inflation
            out.distance[who] = np.where(thin, np.inf, lost * found)
    return out


def refit_without(fit: MinimumAudit, rest: Sweep, block: Block) -> Movement:
    """Refit without one person, whose rows are the block; ``rest`` goes over all others' rows."""
    model, codes = fit.model, fit.codes(block.y)
    weights, nothing = weights_of(block.y), np.zeros(1)
    n = model.fit.n - (len(block) if weights is None else float(weights.sum()))
    gone = fit.classes is not None and any(
        int((plain_targets(codes) == label).sum()) == count for label, count in enumerate(fit.classes.counts)
    )
    if gone or n <= (
        0 if weights is None else NO_WEIGHT_LEFT * model.fit.n
    ):  # there is nothing to publish without them
        return Movement(nothing + np.inf, nothing + np.nan, nothing + np.inf, np.array([EXACT], dtype=np.uint8))
    inner = rest if fit.classes is None else CodedSweep(rest, fit.classes)
    precision, around = model.precision, model.inside.around
    try:
        found = minimum_of(Folded(inner, model.fit.objective, None, n), model.fit.theta)
    except NumericalTrouble:
        return Movement(nothing + np.inf, nothing + np.nan, nothing + np.inf, "upper")
    there = found.whitening(precision)
    error = np.sqrt(there.nu[-1]) * (4 * found.decrement + there.norm_bound(found.rounding))
    error += np.sqrt(around.nu[-1]) * (2 * model.fit.decrement + around.norm_bound(model.fit.rounding))
    charged = distances(Displacements((found.theta - model.fit.theta)[None], np.array([float(error)])), precision)
    return Movement(nothing + np.nan, nothing + np.nan, charged.value, charged.kind_code)
