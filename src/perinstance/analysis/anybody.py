"""pDP for everyone: the largest loss of anybody in a bounded domain who could join this data set (MATH 5).

The data is fixed, z = (x, y) runs over ``||x|| <= x_bound`` (a ball) or ``|x_j| <= x_bound_j`` (a box), and
``|y| <= y_bound``. The answer is a bracket: ``epsilon`` is never exceeded, ``attained`` is the loss of one person of
the domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis import declared_bounds as declared
from perinstance.analysis.anybody_linear import JoiningPeople, linear_bracket
from perinstance.analysis.anybody_smooth import is_smooth, smooth_bracket
from perinstance.analysis.branch_and_bound import Bracket
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import charge
from perinstance.numerics.rounding import PROMISED, UNIT
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind, weakest, weakest_of_codes
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.rows_per_person import most_rows, rows_at_most


@dataclass(frozen=True, slots=True)
class Everyone(ShownAsTable):
    """A loss that holds for everybody who could join. Confidential: it depends on the data."""

    epsilon: float  #: nobody in the domain loses more
    attained: float  #: the person (x, y) loses this, or more
    delta: float
    x: Floats
    y: float
    domain: Literal["ball", "box"]
    x_bound: Floats
    y_bound: float
    kind: Kind
    assumptions: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the bound may lie above the truth, relatively."""
        if not np.isfinite(self.epsilon):
            return 0.0 if np.isinf(self.attained) else np.inf
        return self.epsilon / self.attained - 1 if self.attained > 0 else (0.0 if self.epsilon == 0 else np.inf)


def everyone(
    release: Any,
    fit: Any,
    delta: float = 1e-6,
    *,
    x_bound: ArrayLike = 1.0,
    y_bound: float = 1.0,
    domain: Literal["ball", "box"] = "ball",
    tolerance: float | None = None,
    sweep: Sweep | None = None,
) -> Everyone:
    """Return the largest loss of anybody in the domain, at delta.

    ``release`` is a posterior sample, output perturbation or objective perturbation of ridge regression, or output
    perturbation of a smooth model (logistic, Poisson, ...), and ``fit`` its confidential fit. ``x_bound`` is the radius
    of the ball, or the half width of the box (one number or one per feature); an intercept's constant is not counted.

    A search stops where the bound is at most ``tolerance`` above the person who was found, relatively; None is 1e-5
    for a posterior sample and 1e-3 for the others. Smooth models and boxes are not searched so far: ``gap`` tells.
    ``sweep`` is the data of ``fit``: a smooth model needs it to refit people exactly, or ``attained`` is 0.
    """
    delta = float(delta_array(delta, 1, zero=False))
    if tolerance is not None and not 0 < tolerance < np.inf:
        raise InvalidInput(f"tolerance must be a number > 0, got {tolerance:g}; try tolerance=1e-3")
    notes: tuple[str, ...] = ()
    if declared.is_mean(release):
        bounds = declared.declared_bounds_of(x_bound, 0.0, len(fit.theta), domain)  # there is no target
        found = _mean(release, fit, delta, bounds)
    elif is_smooth(release, fit):
        d = len(fit.theta) - int(fit.model.fit.objective.fit_intercept)
        bounds = declared.declared_bounds_of(x_bound, y_bound, d, domain)
        found = smooth_bracket(release, fit, delta, bounds, sweep)
        how = "is a refit" if sweep is not None else "is not known: pass the data, and somebody is refitted"
        notes = (f"the bound is a certificate; attained {how}",)
    else:
        setting = declared.setting_of(release, fit)
        bounds = declared.declared_bounds_of(x_bound, y_bound, setting.n_features, domain)
        found = linear_bracket(JoiningPeople(release, fit, setting, bounds, delta), tolerance)
    inside = "||x||" if bounds.domain == "ball" else "|x_j|"
    assumptions = (
        f"somebody with {rows_at_most(release)}, {inside} <= x_bound and |y| <= y_bound joins this data set",
        "the data set is fixed; people who are in it already are in the audit",
        *notes,
    )
    where = (found.x, found.y, bounds.domain, bounds.x, bounds.y)
    return Everyone(found.epsilon, found.attained, delta, *where, found.kind, assumptions)


def _mean(release: Any, fit: Any, delta: float, bounds: declared.DeclaredBounds) -> Bracket:
    """Answer for a noisy mean or sum."""
    summed = release.mechanism().moved == "sum"
    centre = np.zeros(len(fit.theta)) if summed else np.asarray(fit.theta)
    x = declared.farthest(release, centre, bounds.x, bounds.domain)
    rows = most_rows(release)
    size = 1.0 if summed else fit.n_people + rows
    with np.errstate(over="ignore", invalid="ignore"):
        move = (x - centre) * rows / size
        # a mean is known to a few units of itself, and so is the difference from it
        found = charge(np.abs(move), 0.0 if summed else 4 * UNIT * (np.abs(x) + np.abs(centre)) * rows / size)
        upper, sure = declared.mean_loss(release, found.value, delta), np.maximum(2 * np.abs(move) - found.value, 0.0)
        code = charge(math.hypot(*move), math.hypot(*(found.value - np.abs(move)))).kind_code
    kind = weakest(weakest_of_codes(code), upper.kind)
    attained = upper.epsilon if kind == "exact" else declared.mean_loss(release, sure, delta).attained * (1 - PROMISED)
    return Bracket(upper.epsilon, attained, x, 0.0, kind)
