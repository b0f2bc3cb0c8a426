"""Which operation a device does by what: folds that return a statistic of the rows, and walks that map over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from perinstance.engines.cuda.gram_products import device_gram
from perinstance.engines.cuda.linear_losses import LinearWalk, has_device_losses
from perinstance.engines.cuda.operations.certificate_sums import (
    highest_there,
    steepest_there,
    weighted_grams_there,
)
from perinstance.engines.cuda.operations.descent_sums import clipped_total_there
from perinstance.engines.cuda.operations.device_losses import device_loss
from perinstance.engines.cuda.operations.newton_sums import (
    classes_there,
    codes_there,
    farthest_there,
    gradient_changes_there,
    gradient_rounding_there,
    slopes_there,
    targets_there,
    values_there,
)
from perinstance.engines.cuda.operations.row_walks import DescentPeople, ObjectivePeople, RowWalk, SmoothPeople
from perinstance.folds.class_labels import classes_of, on_codes
from perinstance.folds.named_operations import Step, operation_of
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.ridge import LinearFit
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.smooth.certificates import highest, steepest, weighted_grams
from perinstance.models.smooth.neighbour_refits import gradient_changes
from perinstance.models.smooth.objective_folds import (
    check_targets,
    farthest,
    gradient_rounding,
    slopes,
    values_along,
)
from perinstance.models.smooth.problem import SmoothAudit
from perinstance.releases.base.block_losses import losses_of_block
from perinstance.releases.descent.clipped_steps import clipped_total, gradients_of

#: a function of rows and targets on a device; None where the processor has to be asked
DeviceFold = Callable[..., Any]

FOLDS: dict[Any, DeviceFold] = {
    gram: device_gram,
    classes_of: classes_there,
    check_targets: targets_there,
    farthest: farthest_there,
    highest: highest_there,
}
#: those that want a loss in torch, and the parameter that has it
LOSS_FOLDS: dict[Any, tuple[DeviceFold, str]] = {
    slopes: (slopes_there, "objective"),
    gradient_rounding: (gradient_rounding_there, "objective"),
    values_along: (values_there, "objective"),
    gradient_changes: (gradient_changes_there, "fit"),
    steepest: (steepest_there, "fit"),
    weighted_grams: (weighted_grams_there, "fit"),
    clipped_total: (clipped_total_there, "gradients"),
}


def device_fold(step: Step) -> DeviceFold | None:
    """Return the device's way of a step, as a function of X and y there; None for steps that it does not have."""
    operation, parameters = operation_of(step)
    if operation is on_codes:
        inner = device_fold(parameters["step"])
        return None if inner is None else partial(_on_codes, inner=inner, classes=parameters["classes"])
    found = FOLDS.get(operation)
    if operation in LOSS_FOLDS:
        way, where = LOSS_FOLDS[operation]
        holder = parameters[where]
        objective = holder if isinstance(holder, SmoothObjective) else holder.objective
        found = way if device_loss(objective.loss) is not None else None
    return None if found is None else partial(found, **parameters)


def _on_codes(X: Any, y: Any, inner: DeviceFold, classes: Any) -> Any:
    codes = codes_there(y, classes)
    return None if codes is None else inner(X, codes)


def device_walk(step: Step, device: Any) -> RowWalk | LinearWalk | None:
    """Return the device's way of a map, for releases that say how people follow from what it computes."""
    operation, parameters = operation_of(step)
    if operation is not losses_of_block:
        return None
    release, fit, inside = (parameters[name] for name in ("release", "fit", "inside"))
    if has_device_losses(release, fit, inside):
        return LinearWalk(**parameters, device=device)
    answers: Any = None
    if hasattr(release, "from_row_products") and isinstance(fit, SmoothAudit):
        answers = SmoothPeople(release, fit, inside, device)
    elif hasattr(release, "from_row_lengths") and _has_factor(fit, inside):
        answers = ObjectivePeople(release, fit, inside, device)
    elif hasattr(release, "from_gradient_lengths") and _has_lengths(release, fit, inside):
        answers = DescentPeople(release, fit, inside, device)
    return None if answers is None else RowWalk(answers, parameters["delta"], device)


def _has_factor(fit: Any, inside: bool) -> bool:
    """Tell whether rows of a linear model have statistics on a device (see ``linear_losses``)."""
    return isinstance(fit, LinearFit) and bool(fit.basis.size) and (inside or fit.span is None)


def _has_lengths(release: Any, fit: Any, inside: bool) -> bool:
    """Tell whether a descent's losses follow from lengths of gradients, which a device has for losses in torch."""
    if fit.moments is not None or not (isinstance(fit.inner, SmoothAudit) or _has_factor(fit.inner, inside)):
        return False
    known = device_loss(gradients_of(release.problem()).objective.loss) is not None
    return fit.path is None or (known and release.declared_steps().filter is None)
