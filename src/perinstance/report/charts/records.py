"""What the figures take."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats

LEFT, RIGHT = 58.0, 428.0  #: of the panels, in a drawing of ``svg.WIDTH``


@dataclass(frozen=True, slots=True)
class Marker:
    """A vertical line with a name: a worst-case statement, a promise."""

    value: float
    name: str
    look: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line through points."""

    name: str
    look: str
    x: NDArray
    y: NDArray


@dataclass(frozen=True, slots=True)
class LossBar:
    """So many people lost between low and high."""

    low: float
    high: float
    people: int


@dataclass(frozen=True, slots=True)
class Dots:
    """Some people on the plane, by position; the first is the most exposed."""

    across: Floats
    up: Floats
    worst: list[int]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Quantiles of one group."""

    name: str
    size: int
    median: float
    q95: float
    largest: float
    small: bool
