"""What the certificates of a smooth model need of each row: its products with theta and with the whitening.

Everything else that ``movement_bounds`` and ``perturbed_objective`` do is arithmetic on these few numbers per person.
Each product is a sum of p terms, of which any order and any use of fused multiply-adds loses at most ``p u`` of the
absolute values, so an engine may compute them wherever the rows are (``engines/cuda/operations``); the bounds charge
for that, not for one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.models.losses.penalised_objective import SmoothObjective, predictor
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Multipliers:
    """What rows are multiplied by, on one side of a fit; the one of an intercept is the last entry or column."""

    theta: Floats
    T: Floats  #: of the whitening, t = T x
    powers: Floats  #: (p, 3): ``nu^j``, j = 0, 1, 2
    share: Floats | None  #: (p, 3): ``nu^j`` times the share of a penalty that belongs to the people; None: nobody's
    weights: Floats | None  #: (p, 3): what squares of the row's cells are added with; None: not wanted
    intercept: bool
    sizes: bool  #: whether ``|x|'|theta|`` is wanted


@dataclass(frozen=True, slots=True)
class RowProducts:
    """One entry, or row, per person."""

    X: Any  #: the rows themselves, of which few are asked for: ``X[positions]`` is an array of them
    y: Floats
    eta: Floats  #: x'theta
    squares: Floats  #: (people, 3): ``sum_k nu_k^j t_k^2``; the first is x'H^-1x
    cross: Floats | None  #: (people, 3): ``sum_k nu_k^j t_k share_k``
    lengths: Floats | None  #: (people, 3): the squares of the cells, added with these weights
    size: Floats | None  #: |x|'|theta|

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> RowProducts:
        cross, lengths, size = (None if one is None else one[part] for one in (self.cross, self.lengths, self.size))
        return RowProducts(self.X[part], self.y[part], self.eta[part], self.squares[part], cross, lengths, size)


def row_products(by: Multipliers, X: NDArray, y: NDArray) -> RowProducts:
    """Multiply some rows."""
    d = X.shape[1]
    t = np.asarray(X, dtype=np.float64) @ by.T[:, :d].T
    if by.intercept:
        t += by.T[:, d]
    cross = None if by.share is None else t @ by.share
    np.multiply(t, t, out=t)
    lengths = size = None
    if by.weights is not None:
        x = np.asarray(X, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = (x * x) @ by.weights[:d]
        lengths += by.weights[d] if by.intercept else 0.0
    if by.sizes:
        size = predictor(np.abs(X), np.abs(by.theta), by.intercept)
    eta = predictor(X, by.theta, by.intercept)
    return RowProducts(X, np.asarray(y, dtype=np.float64), eta, t @ by.powers, cross, lengths, size)


def length_weights(objective: SmoothObjective, p: int) -> Floats:
    """Return the weights with which cells give ``|x|^2`` without the intercept, with it, and ``x'R''^-1x``.

    The last is of use where the penalty R is quadratic and leaves no coefficient free.
    """
    weight = penalty_weights(objective, p)
    features = np.ones(p)
    if objective.fit_intercept:
        features[-1] = 0.0
    return np.stack([features, np.ones(p), 1 / np.where(weight > 0, weight, 1.0)], axis=1)


def penalty_weights(objective: SmoothObjective, p: int) -> Floats:
    """Return the curvature of a quadratic penalty; zeros for another one."""
    return objective.penalty_curvature(np.zeros(p)) if objective.penalty.concordance == 0 else np.zeros(p)
