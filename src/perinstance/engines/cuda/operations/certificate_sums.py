"""The folds of the certificates on a device: ``models/smooth/certificates``, by products there.

Leverages ``|T x|^2`` are sums of p products each, in whatever order: what ``Whitening.error`` bounds. Sums of
``w x x'`` over the rows go through at most twice the chain that the fit states for its Hessian (their chunks are
shorter), and lose at most twice that share of themselves (``whiten`` says why): a fourth and a half of what bounds that
are made of them are raised by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.operations.device_losses import known_loss
from perinstance.engines.cuda.operations.run_sums import (
    RUN,
    PairedSum,
    chain,
    chunks,
    cross,
    predictor,
    there,
    total,
    weighted,
)
from perinstance.models.smooth.certificates.hessian_bounds import WeightedGrams
from perinstance.models.smooth.certificates.third_order_step import Thirds
from perinstance.models.smooth.fit.objective_folds import Highest, SmoothFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, TABLE_SUM_UP, TERM_ROUNDINGS


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


def thirds_there(X: Any, y: Any, fit: SmoothFit, T: Floats, radii: Floats) -> Thirds:
    """``thirds``: third derivatives in whitened coordinates, and bounds on the fourth.

    An entry of the tensor is off by at most ``chain u/2 sum_j |l'''_j t_ja t_jb t_jc|``, all of them together, as a
    norm, by ``chain u/2 sum_j |l'''_j| |t_j|^3``.
    """
    torch = torch_module()
    loss, p = known_loss(fit.objective), len(fit.theta)
    theta, by, intercept = there(fit.theta, X), there(T.T, X), fit.objective.fit_intercept
    i, j = torch.triu_indices(p, p, device=X.device)
    tensor, sizes, fourth = PairedSum(), PairedSum(), [PairedSum() for _ in radii]
    for x, t in chunks(X, y, 3 * len(i)):
        eta, w = predictor(x, theta, intercept), predictor(x, by, intercept)
        h = (w * w).sum(dim=1)
        third = loss.third(t, eta)
        tensor.add(cross(w * third[:, None], w[:, i] * w[:, j], RUN))
        sizes.add(total(third.abs() * h * h.sqrt(), RUN))
        for k, r in enumerate(radii):
            z = w * (h * loss.largest_fourth(t, eta, float(r) * h.sqrt())).sqrt()[:, None]
            fourth[k].add(cross(z, z, RUN))
    # twice: blocks that streamed over are added too, and a table for which this is asked has fewer than additions here
    steps = 2 * chain(len(y), 3 * len(i), RUN) + TERM_ROUNDINGS
    bounds = np.array([one.on_host() for one in fourth])
    return Thirds(tensor.on_host(), bounds, HALF_UNIT * TABLE_SUM_UP * steps * float(sizes.total))
