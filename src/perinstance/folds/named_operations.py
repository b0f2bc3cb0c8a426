"""Steps by name: what a fold or a map does is a function of a module with parameters, so that an engine may replace it.

A step that is a function of a module, or ``functools.partial(function, **parameters)`` of one, is the *operation*
``function``. Every engine can call it on blocks of numpy rows. One that computes elsewhere (``engines/cuda``) looks
whether it has an implementation of its own, and falls back to the call for all others. An implementation keeps the
bounds that the operation's own file charges for rounding, states its own, or goes without it.

Operations that have a second implementation today:

- linear models: ``gram`` (X'X, X'y and y'y, also seen through a factor) of ``models.linear.gram_matrix``;
- smooth models, as folds: ``classes_of`` and ``on_codes`` of ``folds.class_labels``; the Newton sums of a loss
  (``slopes``, ``values_along``, ``farthest``, ``check_targets`` and ``gradient_rounding`` of
  ``models.smooth.objective_folds``);
- an audit's map of a linear model: ``losses_of_block`` of ``releases.base.block_losses`` (statistics of the rows, and
  epsilon at a delta), where the release says how its people follow from what the device computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from perinstance.folds.sweep import Sweep

Step = Callable[..., Any]
T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class NamelessSweep:
    """A sweep whose steps have no names: the processor's own implementations run, whatever else an engine has."""

    sweep: Sweep

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def fold(self, step: Callable[[Any], Any]) -> Any:
        """Fold by the step itself."""
        return self.sweep.fold(lambda block: step(block))

    def map(self, step: Callable[[Any], T]) -> Iterator[T]:
        """Map by the step itself."""
        return self.sweep.map(lambda block: step(block))

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Pass on how far the work between two passes is."""
        self.sweep.tell(stage, done, total)
