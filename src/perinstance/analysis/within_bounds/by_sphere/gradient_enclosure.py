"""The gradient of a smooth objective over parts of a sphere around the fit, from the rows themselves.

Coordinates are those in which the release measures: ``theta' = theta + K xi``, ``|xi|`` the distance that it counts. On
the sphere ``xi = rho e``, around the middle c of a box of e, row by row (``slope_enclosure``),

    grad F = sum_j l'_j z_j + penalty = G + M delta + sum_j (bend_j u_j^2/2 + off_j w_j) z_j,   e = c + delta,
    u_j = rho z_j'delta,   |w_j| <= 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.analysis.within_bounds.by_sphere.cells import Cells
from perinstance.analysis.within_bounds.by_sphere.slope_enclosure import chords
from perinstance.models.losses.penalised_objective import design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, GRADIENT_ERROR, INVERTIBLE, TABLE_SUM, TABLE_SUM_UP


@dataclass(frozen=True, slots=True)
class ScaledTable:
    """The rows of everyone, the penalty of the neighbour's objective, and who may join."""

    loss: Any
    y: Floats
    eta: Floats  #: predictors at the fit
    Z: Floats  #: (n, p) rows times K
    theta: Floats
    K: Floats
    slope: Floats  #: K' times the penalty's gradient at the fit
    stiff: Floats  #: K' times its Hessian times K
    radius: float  #: of the ball of x
    intercept: bool
    targets: Floats  #: of the largest and of the smallest slope

    @property
    def width(self) -> int:
        """The number of features: the intercept is behind them."""
        return len(self.theta) - int(self.intercept)

    def farthest(self, rho: float) -> float:
        """Bound the predictors of people on the sphere."""
        d = self.width
        most = self.radius * (np.linalg.norm(self.theta[:d]) + rho * np.linalg.norm(self.K[:d], 2))
        if self.intercept:
            most += abs(self.theta[d]) + rho * np.linalg.norm(self.K[d])
        return float(most) * TABLE_SUM_UP + TABLE_SUM


def scaled_table(fit: Any, X: Floats, y: Floats, radius: float, targets: Floats) -> ScaledTable:
    """Write the rows in coordinates in which the release measures; softest direction first."""
    model, objective = fit.model, fit.model.fit.objective
    around, theta = model.outside.around, np.asarray(model.fit.theta)
    z = design(X, objective.fit_intercept)
    K = (around.T.T / np.sqrt(around.nu))[:, ::-1]
    weight = objective.times(len(z) + 1) * objective.penalty_curvature(theta)
    stiff = K.T @ (weight[:, None] * K)
    slope = K.T @ (objective.times(len(z) + 1) * objective.penalty_slope(theta))
    target = np.asarray(y, dtype=np.float64)
    return ScaledTable(
        objective.loss, target, z @ theta, z @ K, theta, K, slope, stiff, radius, objective.fit_intercept, targets
    )


@dataclass(frozen=True, slots=True)
class GradientEnclosure:
    """The enclosure, one for each cell."""

    G: Floats  #: (cells, p) at the middle
    M: Floats  #: (cells, p, p)
    B: Floats  #: nearly its inverse; any matrix is safe
    bend: Floats  #: (cells, n)
    off: Floats
    extent: Floats  #: the largest |u|
    rounded: Floats  #: (cells, p) what rounding may do to G

    @property
    def straight(self) -> Floats:
        """How far each slope may be off the line alone."""
        return self.off + 0.5 * np.abs(self.bend) * self.extent**2


def enclosed_gradient(rows: ScaledTable, rho: float, cells: Cells) -> GradientEnclosure:
    """Enclose the gradient on each cell."""
    c, h, Z = cells.middle, cells.half, rows.Z
    p = Z.shape[1]
    m, extent, most = rho * c @ Z.T, rho * h @ np.abs(Z).T, rho * np.linalg.norm(Z, axis=1) * BOUND_UP
    # a row of length |z| goes no farther than rho |z|, whatever the box says
    low, high = np.maximum(m - extent, -most), np.minimum(m + extent, most)
    middle, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 0.0)
    share = np.minimum(np.linalg.norm(h, axis=1), 1.0)[:, None]
    y = np.broadcast_to(rows.y, m.shape)
    found = chords(rows.loss, y, rows.eta + middle, half, share)
    shift = m - middle  # u is measured from the middle of the box
    with np.errstate(over="ignore", invalid="ignore"):
        level = found.level + shift * (found.slope + 0.5 * found.bend * shift)
        steep = found.slope + found.bend * shift
        G = level @ Z + rows.slope + rho * c @ rows.stiff
        M = rho * (squares(rows, steep) + rows.stiff)
        inner = rho * (squares(rows, found.slope) + rows.stiff)
        size = np.abs(level) @ np.abs(Z) + np.abs(rows.slope) + rho * np.abs(c) @ np.abs(rows.stiff)
        inner = inner + INVERTIBLE * np.trace(inner, axis1=1, axis2=2)[:, None, None] * np.eye(p)
        inner = np.where(np.isfinite(inner).all(axis=(1, 2))[:, None, None], inner, np.eye(p))
    B = np.asarray(np.linalg.inv(inner), dtype=np.float64)
    B = 0.5 * (B + np.swapaxes(B, 1, 2))
    return GradientEnclosure(G, M, B, found.bend, found.off, np.abs(shift) + half, GRADIENT_ERROR * size)


def squares(rows: ScaledTable, weight: Floats) -> Floats:
    """``sum_j weight_j z_j z_j'``, one for each cell."""
    p = rows.Z.shape[1]
    first, second = np.triu_indices(p)
    sums = weight @ (rows.Z[:, first] * rows.Z[:, second])
    out = np.empty((len(weight), p, p))
    out[:, first, second] = out[:, second, first] = sums
    return out
