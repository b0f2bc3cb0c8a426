"""What an audit of private logistic regression looks at: rows with signs for labels, and the path without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import M, Sweep
from perinstance.numerics.array_types import Floats
from perinstance.releases.logistic_regression.bounded_slope_loss import slopes
from perinstance.releases.promises.estimator import ClippedFit, ClippedSweep

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class SlopeFit(ClippedFit):
    """Least squares on the classes as -1 and +1 and, if asked for, the points of the rounds. Confidential."""

    path: tuple[Floats, ...] = ()


@dataclass(frozen=True, slots=True)
class SignSweep(Sweep):
    """A sweep whose targets are replaced by -1 and +1."""

    sweep: Sweep
    signs: Callable[[NDArray], Floats]

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Pass on how far the work between two passes is."""
        self.sweep.tell(stage, done, total)

    def fold(self, step: Callable[[Block], M]) -> M:
        """Fold with signs for targets."""
        return self.sweep.fold(lambda block: step(block.with_target(self.signs(block.y))))

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Map with signs for targets."""
        return self.sweep.map(lambda block: step(block.with_target(self.signs(block.y))))


@dataclass(frozen=True, slots=True)
class NoiselessSums:
    """A window without noise: what a release would typically look like. Its answers stay with the curator."""

    sweep: ClippedSweep

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.sweep.n_features

    def gram(self, scale: float) -> Floats:
        """``X'X``."""
        return self.sweep.fold(lambda block: block.X.T @ block.X)

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        """``sum_i slope(x_i'theta, s_i) x_i``."""
        return self.sweep.fold(lambda block: block.X.T @ slopes(block.X @ theta, np.sign(block.y)))
