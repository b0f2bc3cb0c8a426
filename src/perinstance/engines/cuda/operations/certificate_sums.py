"""The folds of the certificates on a device: ``models/smooth/certificates``, by products there.

Leverages ``|T x|^2`` are sums of p products each, in whatever order: what ``Whitening.error`` bounds. Sums of
``w x x'`` over the rows go through at most twice the chain that the fit states for its Hessian (their chunks are
shorter), and lose at most twice that share of themselves (``whiten`` says why): a fourth and a half of what bounds that
are made of them are raised by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.engines.cuda.operations.device_losses import known_loss
from perinstance.engines.cuda.operations.run_sums import (
    RUN,
    PairedSum,
    chunks,
    cross,
    predictor,
    there,
    weighted,
)
from perinstance.models.smooth.certificates import WeightedGrams
from perinstance.models.smooth.objective_folds import Highest, SmoothFit
from perinstance.numerics.array_types import Floats


def highest_there(X: Any, y: Any, T: Floats, intercept: bool) -> Highest:
    """``highest``: the largest ``|T x|^2``."""
    by = there(T.T, X)
    found = [float(predictor(x, by, intercept).square_().sum(dim=1).max()) for x, _ in chunks(X, y, len(T))]
    return Highest(float(np.max(found)))


def steepest_there(X: Any, y: Any, fit: SmoothFit) -> Highest:
    """``steepest``: the largest ``|l'|``."""
    loss = known_loss(fit.objective)
    theta, intercept = there(fit.theta, X), fit.objective.fit_intercept
    slopes = (loss.derivatives(t, predictor(x, theta, intercept))[0] for x, t in chunks(X, y, len(theta)))
    return Highest(float(np.max([float(one.abs().max()) for one in slopes])))


def weighted_grams_there(X: Any, y: Any, fit: SmoothFit, T: Floats, radii: Floats) -> WeightedGrams:
    """``weighted_grams``, of losses without knots: sums of ``sqrt(h) max|l'''| x x'``."""
    loss = known_loss(fit.objective)
    theta, by, intercept = there(fit.theta, X), there(T.T, X), fit.objective.fit_intercept
    sums = [PairedSum() for _ in radii]
    for x, t in chunks(X, y, 2 * len(theta)):
        eta = predictor(x, theta, intercept)
        root = predictor(x, by, intercept).square_().sum(dim=1).sqrt()
        for k, r in enumerate(radii):
            z = weighted(x, (root * loss.largest_third(t, eta, float(r) * root)).sqrt(), intercept)
            sums[k].add(cross(z, z, RUN))
    return WeightedGrams(np.array([one.on_host() for one in sums]))
