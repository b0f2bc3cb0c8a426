"""Which operation a device does by what: folds that return a statistic of the rows, and the walk of a map.

A step that is a function of a module, or ``functools.partial(function, **parameters)`` of one, is the *operation*
``function``. Every engine can call it on blocks of numpy rows; a device looks whether it has an implementation of its
own, which keeps the bounds that the operation's own file charges for rounding, states its own, or goes without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isfunction
from typing import Any

from perinstance.engines.cuda.newton_sums import (
    classes_there,
    codes_there,
    device_loss,
    farthest_there,
    gradient_rounding_there,
    gram_there,
    slopes_there,
    targets_there,
    values_there,
)
from perinstance.engines.cuda.row_losses import LinearWalk
from perinstance.folds.class_labels import classes_of, on_codes
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.ridge import LinearFit
from perinstance.models.smooth.objective_folds import (
    check_targets,
    farthest,
    gradient_rounding,
    slopes,
    values_along,
)
from perinstance.releases.base.release import losses_of_block

Step = Callable[..., Any]
#: a function of rows and targets on a device; None where the processor has to be asked
DeviceFold = Callable[..., Any]

FOLDS: dict[Any, DeviceFold] = {
    gram: gram_there,
    classes_of: classes_there,
    check_targets: targets_there,
    farthest: farthest_there,
}
#: those that want the loss of their objective in torch
LOSS_FOLDS: dict[Any, DeviceFold] = {
    slopes: slopes_there,
    gradient_rounding: gradient_rounding_there,
    values_along: values_there,
}


def operation_of(step: Step) -> tuple[Step | None, dict[str, Any]]:
    """Return the operation behind a step and its parameters; None for a step without a name.

    >>> operation_of(partial(sorted, reverse=True))
    (<built-in function sorted>, {'reverse': True})
    >>> operation_of(lambda block: block)
    (None, {})
    """
    if isinstance(step, partial) and not step.args:
        return step.func, dict(step.keywords)
    if isfunction(step) and step.__name__ == step.__qualname__ and step.__name__ != "<lambda>":
        return step, {}
    return None, {}


def device_fold(step: Step) -> DeviceFold | None:
    """Return the device's way of a step, as a function of X and y there; None for steps that it does not have."""
    operation, parameters = operation_of(step)
    if operation is on_codes:
        inner = device_fold(parameters["step"])
        return None if inner is None else partial(_on_codes, inner=inner, classes=parameters["classes"])
    found = FOLDS.get(operation)
    if operation in LOSS_FOLDS:
        loss = getattr(parameters["objective"], "loss", None)  # None: several scores, or a scale of its own
        found = None if loss is None or device_loss(loss) is None else LOSS_FOLDS[operation]
    return None if found is None else partial(found, **parameters)


def _on_codes(X: Any, y: Any, inner: DeviceFold, classes: Any) -> Any:
    codes = codes_there(y, classes)
    return None if codes is None else inner(X, codes)


def device_walk(step: Step, device: Any) -> LinearWalk | None:
    """Return the device's way of a map, for releases of linear models that say how people follow from row sums."""
    operation, parameters = operation_of(step)
    if operation is not losses_of_block:
        return None
    release, fit, inside = (parameters[name] for name in ("release", "fit", "inside"))
    linear = isinstance(fit, LinearFit) and bool(fit.basis.size) and (inside or fit.span is None)
    return LinearWalk(**parameters, device=device) if linear and hasattr(release, "from_row_statistics") else None
