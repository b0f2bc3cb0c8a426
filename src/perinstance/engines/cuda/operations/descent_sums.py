"""The matrix products of a descent on a device: X theta, clipped gradients X'r, and lengths along a path.

A gradient of one person is ``l' x``, so its length is ``|l'| |x|``. These sums make readings and paths without noise,
which are estimates; a descent that is published sums integers on the processor (``releases/descent/clipped_steps.py``).
The lengths that bound a person from their own row are rounded upwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.operations.device_losses import DeviceLoss, known_loss
from perinstance.engines.cuda.operations.run_sums import PairedSum, chunks, predictor, there, weighted_total
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, NORM_UP, TINY
from perinstance.releases.descent.clipped_steps import GradientTotal, PersonGradients
from perinstance.releases.descent.step_losses import levels_of


def clipped_total_there(
    X: Any, y: Any, gradients: PersonGradients, theta: Floats, clip: float, labels: tuple[float, float] | None
) -> GradientTotal:
    """``clipped_total``: the sum of everybody's clipped gradients."""
    torch = torch_module()
    loss, intercept = known_loss(gradients.objective), gradients.objective.fit_intercept
    at, sums = there(theta, X), PairedSum()
    for x, t in chunks(X, y, len(theta)):
        slope = _slope(loss, labelled(t, labels), predictor(x, at, intercept))
        length = slope.abs() * row_lengths_there(x, intercept)
        shrunk = slope * torch.where(length > clip, clip / length, torch.ones_like(length))
        sums.add(weighted_total(x, torch.nan_to_num(shrunk, nan=0.0, posinf=0.0, neginf=0.0), intercept))
    return GradientTotal(sums.on_host())


def labelled(y: Any, labels: tuple[float, float] | None) -> Any:
    """Return the codes 0 and 1 of two declared classes, NaN for another target; targets as they are without classes."""
    if labels is None:
        return y
    torch = torch_module()
    zero, one = torch.zeros_like(y), torch.ones_like(y)
    return torch.where(y == labels[1], one, torch.where(y == labels[0], zero, torch.full_like(y, torch.nan)))


def row_lengths_there(x: Any, intercept: bool) -> Any:
    """``||x||``, of ``(x, 1)`` with an intercept; scaled, so that no square overflows."""
    largest = x.abs().amax(dim=1).clamp(min=1.0 if intercept else TINY)
    square = (x / largest[:, None]).square_().sum(dim=1)
    if intercept:
        square = square + 1.0 / largest**2
    return largest * square.sqrt()


def longest_there(x: Any, gradients: PersonGradients) -> Any:
    """``PersonGradients.longest``: bound each row's gradient over all theta.

    The squares are p + 1 sums of positive terms, p half units at most in any order, and half of that in the root; the
    quotients, the root and the product are a handful of operations.
    """
    torch = torch_module()
    supremum, p = gradients.objective.loss.slope_supremum, gradients.width(x.shape[1])
    if not np.isfinite(supremum):
        return torch.full((len(x),), torch.inf, dtype=torch.float64, device=x.device)
    return row_lengths_there(x, gradients.objective.fit_intercept) * (supremum * (NORM_UP + p * HALF_UNIT))


def lengths_along_there(x: Any, t: Any, gradients: PersonGradients, path: Any, clip: float) -> Any:
    """Return the clipped lengths of each row's gradient (rows) along a path (columns); NaN counts as zero."""
    torch = torch_module()
    loss, intercept = known_loss(gradients.objective), gradients.objective.fit_intercept
    slope = _slope(loss, t[:, None], predictor(x, path.T, intercept))
    lengths = slope.abs() * row_lengths_there(x, intercept)[:, None]
    return torch.nan_to_num(lengths, nan=0.0, posinf=torch.inf).clamp(max=clip)


def level_counts(lengths: Any, clip: float, count: int) -> Any:
    """Return how often each row's length (rows) was at each level (columns), rounded up."""
    torch = torch_module()
    levels = there(levels_of(clip, count), lengths)
    at = torch.searchsorted(levels, lengths.contiguous(), side="left").clamp(max=count)
    counts = torch.zeros((len(lengths), count + 1), dtype=torch.float64, device=lengths.device)
    return counts.scatter_add_(1, at, torch.ones_like(lengths))


def _slope(loss: DeviceLoss, y: Any, eta: Any) -> Any:
    torch = torch_module()
    return torch.where(torch.isnan(y), torch.full_like(eta, torch.nan), loss.derivatives(y, eta)[0])
