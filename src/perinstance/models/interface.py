"""What output perturbation asks of any model: a confidential fit, and how far each person moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import Kind

#: What a person moves: the coefficients of ridge regression (closed form) or of a smooth model, or the predictions of
#: a kernel model at public points.
MovedByPerson = Literal["ridge", "smooth", "predictions"]


@dataclass(frozen=True, slots=True)
class Movement:
    """How each person of a block moves the fit."""

    leverage: Floats  #: mu, with H taken without the person; infinite for somebody who alone determines a direction
    residual: Floats  #: r = y - prediction at theta_without; NaN where theta_without is not determined
    distance: Floats  #: ||theta_with - theta_without||_A
    kind: Kind | NDArray = "exact"  #: one word, or one per person (a word, or a position in ``kinds.KINDS``)
    open: NDArray[np.bool_] | None = None  #: people who want ``refine``; None = nobody


@runtime_checkable
class Problem(Protocol):
    """A model that can be fitted by folds and knows how far each person moves it."""

    @property
    def moved(self) -> MovedByPerson:
        """What a person moves."""

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> Any:
        """Fit with everyone; ``precision`` is the matrix A of the norm of ``distance`` (None: Euclidean)."""

    def movement(self, fit: Any, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Answer for the people that ``movement`` left open; may fold again."""


@dataclass(frozen=True, slots=True)
class FitHealth:
    """How well a fit is determined, numerically; None where a model has no such number."""

    n_people: int  #: with whom it was fitted
    condition: float | None = None  #: of H, its columns scaled to length one
    factorisation: str | None = None
    error: float | None = None  #: an estimate of the relative error of the leverages
    rank: int | None = None
    clipped_features: int | None = None  #: rows shrunk to a declared bound, by a release that clips
    clipped_targets: int | None = None


class ShowsNoValue:
    """What a confidential record inherits whose repr may end up in a log: it shows its type alone. No fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(confidential)"


class ConfidentialFit(ShowsNoValue):
    """The fit with everyone, without noise. No fields."""

    __slots__ = ()

    n_people: int

    @property
    def health(self) -> FitHealth:
        """How well it is determined: with how many people it was fitted, if nothing else is known."""
        return FitHealth(self.n_people)

    @property
    def gram(self) -> Floats | None:
        """``[X 1]'[X 1]`` where predictions are ``[x 1]'theta``, else None: what noise on theta costs predictions."""
        return None
