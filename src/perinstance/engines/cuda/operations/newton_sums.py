"""The folds of a smooth fit on a device: the sums of ``models/smooth/objective_folds.py``, by products there.

Every sum goes through a counted chain of additions (``run_sums``). The Hessian states it (``Slopes.chain``), and is
charged for it where it is whitened; the gradient is charged here, by a bound for the worst case, where the processor's
has one for rounding errors that are independent. Targets that are none are the processor's to refuse: None.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.operations.device_losses import known_loss
from perinstance.engines.cuda.operations.run_sums import (
    RUN,
    SHORT_RUN,
    PairedSum,
    chain,
    chunks,
    cross,
    predictor,
    there,
    total,
    weighted,
    weighted_total,
)
from perinstance.folds.class_labels import MOST_CLASSES, Classes
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.smooth.neighbour_refits import GradientChanges
from perinstance.models.smooth.newton import LENGTHS, Slopes
from perinstance.models.smooth.objective_folds import (
    GradientRounding,
    Highest,
    Outsider,
    SmoothFit,
    Targets,
    Values,
)
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, TABLE_SUM_UP, TERM_ROUNDINGS


def classes_there(X: Any, y: Any) -> Classes | None:
    """``classes_of``: the distinct targets and how often each occurs."""
    torch = torch_module()
    labels, counts = torch.unique(y.to(torch.float64), return_counts=True)
    if len(labels) > MOST_CLASSES or not torch.isfinite(labels).all():
        return None
    return Classes(tuple(labels.tolist()), tuple(counts.tolist()))


def codes_there(y: Any, classes: Classes) -> Any | None:
    """Return the codes of targets; None where one of them is no class."""
    torch = torch_module()
    labels = there(np.array(classes.labels), y)
    target = y.to(torch.float64)
    codes = torch.searchsorted(labels, target.contiguous()).clamp(max=len(labels) - 1)
    return codes.to(torch.float64) if bool((labels[codes] == target).all()) else None


def targets_there(X: Any, y: Any, objective: SmoothObjective) -> Targets | None:
    """``check_targets``: count the people, and add up targets that are in the domain of the loss."""
    torch = torch_module()
    t, domain = y.to(torch.float64), objective.loss.targets
    if domain.binary:
        good = (t == 0) | (t == 1)
    else:
        good = torch.isfinite(t) & (t > domain.lowest if domain.open else t >= domain.lowest)
    return Targets(len(t), float(t.sum())) if bool(good.all()) else None


def slopes_there(X: Any, y: Any, objective: SmoothObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """``slopes``: value, gradient and Hessian of the loss."""
    loss = known_loss(objective)
    at, intercept, p = there(theta, X), objective.fit_intercept, len(theta)
    value, gradient, hessian, left_out = PairedSum(), PairedSum(), PairedSum(), 0
    for x, t in chunks(X, y, p):
        eta = predictor(x, at, intercept)
        l1, l2 = loss.derivatives(t, eta)
        lost = loss.value(t, eta)
        if out is not None:
            same = _same(x, t, out)
            left_out += int(same.sum())
            l1, l2, lost = (one.masked_fill(same, 0.0) for one in (l1, l2, lost))
        value.add(total(lost, SHORT_RUN))
        gradient.add(weighted_total(x, l1, intercept))
        z = weighted(x, l2.sqrt(), intercept)
        hessian.add(cross(z, z, RUN))
    counted = chain(len(y), p, RUN)
    return Slopes(len(y), float(value.total), gradient.on_host(), hessian.on_host(), left_out, counted)


def gradient_rounding_there(
    X: Any, y: Any, objective: SmoothObjective, theta: Floats, out: Outsider | None = None
) -> GradientRounding:
    """``gradient_rounding``, for the chain of ``slopes_there``.

    A term ``l' x`` loses half a unit in its product and one in each addition of its chain; ``l'`` itself is off by
    what its formula loses, and by l'' times what x'theta loses: at most ``p + 1`` half units of ``|x|'|theta|``.
    """
    loss = known_loss(objective)
    at, intercept, p = there(theta, X), objective.fit_intercept, len(theta)
    in_sum, in_predictor = chain(len(y), p, SHORT_RUN) + 2, max(8 * np.sqrt(p), p + 2)
    vector, absolute, left_out = PairedSum(), PairedSum(), 0
    for x, t in chunks(X, y, p):
        l1, l2 = loss.derivatives(t, predictor(x, at, intercept))
        same = None if out is None else _same(x, t, out)
        x = x.abs()
        size, steep = predictor(x, at.abs(), intercept), l1.abs()
        off = in_sum * steep + l2 * (in_predictor * size + TERM_ROUNDINGS) + TERM_ROUNDINGS * steep
        if same is not None:
            left_out += int(same.sum())
            off, steep = off.masked_fill(same, 0.0), steep.masked_fill(same, 0.0)
        vector.add(weighted_total(x, off, intercept))
        absolute.add(weighted_total(x, steep, intercept))
    up = HALF_UNIT * TABLE_SUM_UP
    return GradientRounding(up * vector.on_host(), left_out, up * absolute.on_host())


def values_there(X: Any, y: Any, objective: SmoothObjective, theta: Floats, step: Floats) -> Values:
    """``values_along``: the loss at several places on a line."""
    loss = known_loss(objective)
    line = there(np.stack([theta, step], axis=1), X)
    values = np.zeros(len(LENGTHS))
    for x, t in chunks(X, y, len(theta)):
        at, by = predictor(x, line, objective.fit_intercept).T
        values += np.array([float(total(loss.value(t, at + float(s) * by), RUN)) for s in LENGTHS])
    return Values(values)


def farthest_there(X: Any, y: Any, step: Floats, intercept: bool) -> Highest:
    """``farthest``: the largest ``|x'step|``."""
    by = there(step, X)
    found = [float(predictor(x, by, intercept).abs().max()) for x, _ in chunks(X, y, max(X.shape[1], by.numel()))]
    return Highest(float(np.max(found)))  # NaN stays NaN


def gradient_changes_there(X: Any, y: Any, fit: SmoothFit, D: Floats) -> GradientChanges:
    """``gradient_changes``: the change of the gradient at each of many steps, in the runs of the gradient itself."""
    torch = torch_module()
    loss = known_loss(fit.objective)
    theta, steps, intercept = there(fit.theta, X), there(D.T, X), fit.objective.fit_intercept
    change = PairedSum()
    for x, t in chunks(X, y, 4 * len(D) + X.shape[1]):
        eta = predictor(x, theta, intercept)[:, None]
        moved = loss.slope_change(t[:, None], eta, predictor(x, steps, intercept))
        moved = moved.expand(len(t), len(D)).contiguous()
        x = torch.cat([x, torch.ones_like(t)[:, None]], dim=1) if intercept else x
        change.add(cross(moved, x, SHORT_RUN))
    return GradientChanges(change.on_host())


def _same(x: Any, t: Any, out: Outsider) -> Any:
    """Tell which rows are the person's who is taken out."""
    return (t == out.y) & (x == there(out.x[: x.shape[1]], x)).all(dim=1)
