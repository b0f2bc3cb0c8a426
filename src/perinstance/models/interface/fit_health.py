"""What every confidential fit tells the floors above about itself, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perinstance.numerics.array_types import Floats


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


class ConfidentialFit(Protocol):
    """The fit with everyone, without noise."""

    @property
    def health(self) -> FitHealth:
        """Return how well it is determined."""

    @property
    def gram(self) -> Floats | None:
        """``[X 1]'[X 1]`` where predictions are ``[x 1]'theta``, else None: what noise on theta costs predictions."""
