"""The losses whose curvature jumps: between their knots they are quadratic, and only people near a knot can jump."""

# ruff: noqa: D102 - Loss says what the methods are, each class which formulas they follow

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.checked_numbers import positive
from perinstance.models.losses.base import CLASS_TARGETS, Loss
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Huber(Loss):
    """``r^2/2`` for ``|r| <= k``, ``k|r| - k^2/2`` beyond, ``r = eta - y``: the curvature jumps at ``|r| = k``."""

    width: float = 1.35
    concordance = np.inf
    curvature_supremum = 1.0

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def slope_supremum(self) -> float:  # type: ignore[override]
        return self.width

    def value(self, y: Floats, eta: Floats) -> Floats:
        r = np.abs(eta - y)
        near = np.minimum(r, self.width)
        return near * (r - near / 2)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        r = eta - y
        return np.clip(r, -self.width, self.width), (np.abs(r) <= self.width).astype(np.float64)

    def knot_distance(self, y: Floats, eta: Floats) -> Floats:
        return np.abs(np.abs(eta - y) - self.width)

    def curvature_drop(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return _share_beyond(self.width - np.abs(eta - y), radius)

    def curvature_rise(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return _share_beyond(np.abs(eta - y) - self.width, radius)


@dataclass(frozen=True, slots=True)
class SquaredHinge(Loss):
    """``max(0, 1 - s eta)^2 / 2`` with ``s = 2y - 1`` for y in {0, 1}: the curvature jumps at the margin."""

    concordance = np.inf
    targets = CLASS_TARGETS
    curvature_supremum = 1.0
    slope_keeps_sign = True

    def value(self, y: Floats, eta: Floats) -> Floats:
        return np.maximum(0, 1 - (2 * y - 1) * eta) ** 2 / 2

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        s = 2 * y - 1
        short = 1 - s * eta
        return -s * np.maximum(0, short), (short >= 0).astype(np.float64)

    def knot_distance(self, y: Floats, eta: Floats) -> Floats:
        return np.abs(1 - (2 * y - 1) * eta)

    def curvature_drop(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return _share_beyond(1 - (2 * y - 1) * eta, radius)

    def curvature_rise(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return _share_beyond((2 * y - 1) * eta - 1, radius)


def _share_beyond(distance: Floats, radius: Floats) -> Floats:
    """Return the largest share of a shift of length ``radius`` beyond a knot at ``distance`` (none if negative)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(1 - distance / radius, 0, 1)
    return np.where((distance >= 0) & (radius > 0), share, 0.0)
