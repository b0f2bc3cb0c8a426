"""The classes of a target: which there are, how often each occurs, and a sweep that hands out their codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block, plain_targets, weights_of, with_weights
from perinstance.folds.sweep import SteppedSweep, Sweep
from perinstance.numerics.array_types import Floats

T = TypeVar("T")

#: so many different targets are no classes
MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Classes:
    """Distinct targets of some rows and how often each occurs; adding two gives those of both sets of rows."""

    labels: tuple[float, ...]
    counts: tuple[int, ...]

    def __add__(self, other: Classes) -> Classes:
        count = dict(zip(self.labels, self.counts, strict=True))
        for label, more in zip(other.labels, other.counts, strict=True):
            count[label] = count.get(label, 0) + more
        labels = tuple(sorted(count))
        return Classes(labels, tuple(count[label] for label in labels))

    def alone(self, codes: Floats, inside: bool) -> NDArray[np.bool_]:
        """Tell who is alone in a class: without that person it would not be among those that are published."""
        return inside & (np.asarray(self.counts)[plain_targets(codes).astype(np.intp)] == 1)

    def codes(self, y: NDArray) -> NDArray:
        """Return the positions of these targets among the classes, with the weights where rows have some."""
        target, weights = plain_targets(y), weights_of(y)
        codes = np.searchsorted(self.labels, target).clip(max=len(self.labels) - 1)
        unknown = np.asarray(self.labels)[codes] != target
        if unknown.any():
            raise InvalidInput(
                f"row {int(unknown.argmax())} of the block has a class that the model was not fitted with"
            )
        return codes.astype(np.float64) if weights is None else with_weights(codes, weights)


def classes_of(block: Block) -> Classes:
    """Return the distinct targets of a block."""
    y = block.y
    try:
        target = plain_targets(np.asarray(y))
    except (TypeError, ValueError):
        raise InvalidInput("classes must be coded as numbers; encode the labels first (LabelEncoder)") from None
    labels, counts = np.unique(target, return_counts=True)
    if len(labels) > MOST_CLASSES:
        raise InvalidInput(f"a block has {len(labels)} different classes; is the target a number to be regressed?")
    return Classes(tuple(labels.tolist()), tuple(counts.tolist()))


def on_codes(block: Block, step: Callable[[Block], T], classes: Classes) -> T:
    """Step over a block whose targets are replaced by the codes of their classes."""
    return step(block.with_target(classes.codes(block.y)))


@dataclass(frozen=True)
class CodedSweep(SteppedSweep):
    """A sweep whose targets are replaced by the codes of their classes."""

    sweep: Sweep
    classes: Classes

    def stepped(self, step: Callable[[Block], T]) -> Callable[[Block], T]:
        """Return the step over a block whose targets are codes."""
        return partial(on_codes, step=step, classes=self.classes)


def binary_classes(sweep: Sweep) -> Classes:
    """Return the two classes of the data, or refuse."""
    classes: Classes = sweep.fold(classes_of)
    if len(classes.labels) != 2:
        more = "of more, use OutputPerturbation(LogisticRegression()), without weights"
        raise InvalidInput(f"this model needs two classes, got {len(classes.labels)}; {more}")
    return classes
