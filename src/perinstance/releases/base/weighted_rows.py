"""Weights of rows (MATH 13): a design weight, an exposure, a count, which is a function of the person's own row.

Least squares with weights are least squares of rows times the root of their weight, the ones of an intercept too; any
other loss is multiplied by its weight. So whoever has a weight has another row, and everything that is known of rows
holds: exactly, for the rows as float64 holds them. Zero is somebody who is not there.

A promise declares ``weight_bound``: a row's part of every sum counts ``min(w / weight_bound, 1)`` times, which is never
more than once. Nothing that a row holds is a reason to refuse there: a weight that is missing makes the row a missing
one, one below zero is zero.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import positive
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel
from perinstance.folds.block import in_order_of, plain_targets, with_weights
from perinstance.models.linear.ridge import LinearProblem
from perinstance.models.losses.base import WeightedLoss
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.arguments import numbers_as_they_are


def weights_as_they_are(X: Any, sample_weight: Any, rows: int) -> Floats:
    """Return one number for each row in the order of X; NaN where it is missing."""
    weights = numbers_as_they_are("sample_weight", in_order_of(X, sample_weight, "sample_weight"))
    if weights.shape != (rows,):
        raise InvalidTable(f"sample_weight must be one number for each of {rows} rows, got shape {weights.shape}")
    return weights


def row_weights(X: Any, sample_weight: Any, rows: int) -> Floats:
    """Check weights, one for each row in the order of X: finite and not negative; a message shows none of them."""
    weights = weights_as_they_are(X, sample_weight, rows)
    bad = int((~(np.isfinite(weights) & (weights >= 0))).sum())
    if bad:
        raise InvalidTable(f"weights must be finite and not negative; those of {bad:,} rows are not: leave these out")
    if not weights.any():
        raise InvalidTable("all weights are zero, so that nobody is there; pass a table with weights above zero")
    return weights


def shares_of_bound(release: Any, weights: Floats | None) -> Floats | None:
    """Return how much of each row counts under a promise, NaN where the weight is missing; None without weights."""
    if (weights is None) != (release.weight_bound is None):
        raise InvalidInput(
            "weight_bound is declared, so weights are needed: pass sample_weight=, one number for each row"
            if weights is None
            else "sample_weight needs weight_bound=, the largest weight that counts, declared without looking at the "
            "data; larger ones count as that one"
        )
    if weights is None:
        return None
    with np.errstate(over="ignore"):
        return np.clip(weights / positive("weight_bound", release.weight_bound), 0.0, 1.0)


def weight_words(release: Any) -> tuple[str | float, ...]:
    """Say in the words of a mechanism up to which weight rows count; nothing where they have none."""
    if getattr(release, "weight_bound", None) is None:
        return ()
    return (", rows weighted up to ", positive("weight_bound", release.weight_bound))


def refuse_own_row(release: Any) -> None:
    """Refuse what would follow from one's own row of a release that counts it with a weight."""
    if is_weighted(release):
        raise RefusedModel("one's own row has a weight in this release, and a statement does not know it")


def is_weighted(release: Any) -> bool:
    """Tell whether a release was fitted with weights, or declares that it will be."""
    return bool(getattr(release, "weighted_", False)) or getattr(release, "weight_bound", None) is not None


@dataclass(frozen=True, slots=True)
class Weighing:
    """A release of weighted rows, and what becomes of rows."""

    release: Any
    scaled: bool  #: rows come times the root of their weight; else the weight comes beside the target
    ones: bool = False  #: and bring their own ones, for an intercept
    sums: bool = False  #: what is asked for is ``sum w x``

    def rows(self, X: NDArray, y: NDArray, weights: Floats) -> tuple[NDArray, NDArray]:
        """Return rows and targets as the release wants them; each number follows from its own row alone."""
        if not self.scaled:
            return X, with_weights(plain_targets(y), weights)
        factor = weights if self.sums else np.sqrt(weights)
        rows = np.asarray(X, dtype=np.float64) * factor[:, None]
        return np.column_stack([rows, factor]) if self.ones else rows, plain_targets(y) * factor


def weighing_of(release: Any) -> Weighing:
    """Return what weights do to a release, or refuse."""
    if hasattr(release, "weight_bound"):
        return Weighing(release, scaled=False)
    if getattr(release, "statistic", None) == "sum":
        return Weighing(release, scaled=True, sums=True)
    problem = release.problem() if hasattr(release, "problem") else None
    linear, known = isinstance(problem, LinearProblem), False
    if hasattr(release, "rows_are_weighted"):
        mechanism = release.mechanism()
        known = mechanism.name == "PosteriorSample" or (linear and mechanism.family in ("output", "objective"))
        if not linear and mechanism.family == "output":
            smooth = problem.binary() if isinstance(problem, ClassifierProblem) else problem
            known = isinstance(smooth, SmoothProblem) and bool(np.isfinite(smooth.objective.loss.concordance))
    if not known:
        raise RefusedModel(
            f"what weights do to this {type(release).__name__} is not known; they are for linear, logistic and "
            "generalised linear models, sums (of w x, and of w, instead of a weighted mean), and releases that promise"
        )
    twin = copy.copy(release)
    twin.rows_are_weighted = True
    scaled = problem is None or linear
    return Weighing(twin, scaled, ones=scaled and bool(twin.mechanism().fit_intercept))


def weighted_problem(problem: Any) -> Any:
    """Return the model of weighted rows: scaled ones of a linear model, of others targets that come with weights."""
    if isinstance(problem, LinearProblem):
        return replace(problem, weighted=True)
    smooth = problem.binary() if isinstance(problem, ClassifierProblem) else problem
    return replace(smooth, objective=replace(smooth.objective, loss=WeightedLoss(smooth.objective.loss)))
