"""Who may join: bounds of a row and of a target that somebody declares, validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import INTO_BALL

Shape = Literal["ball", "box"]


@dataclass(frozen=True, slots=True)
class DeclaredBounds:
    """``||x|| <= x[0]`` (a ball) or ``|x_j| <= x[j]`` (a box), and ``|y| <= y``."""

    domain: Shape
    x: Floats
    y: float

    def nearest(self, rows: Floats) -> Floats:
        """Return the nearest rows of the domain."""
        if self.domain == "box":
            return np.clip(rows, -self.x, self.x)
        norm = np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows * np.minimum(1.0, self.x[0] * INTO_BALL / np.where(norm > 0, norm, 1.0))


def declared_bounds_of(x_bound: ArrayLike, y_bound: Any, d: int, domain: Shape) -> DeclaredBounds:
    """Validate the bounds: of x one number for a ball, one or d for a box (then one per feature)."""
    if domain not in ("ball", "box"):
        raise InvalidInput(f"domain must be 'ball' or 'box', got {domain!r}")
    bounds = np.atleast_1d(real_values("x_bound", x_bound))
    if bounds.ndim != 1 or len(bounds) not in ((1,) if domain == "ball" else (1, d)):
        want = "one number" if domain == "ball" else f"one number or one per feature ({d})"
        raise InvalidInput(f"x_bound must be {want}, got shape {np.shape(x_bound)}")
    if not ((bounds >= 0) & np.isfinite(bounds)).all():
        raise InvalidInput("x_bound must be finite and >= 0; declare what a row may look like, e.g. x_bound=1")
    if domain == "box" and len(bounds) == 1:
        bounds = np.full(d, bounds[0])
    return DeclaredBounds(domain, bounds, declared_bound("y_bound", y_bound))


def declared_bound(name: str, value: Any) -> float:
    """Validate one bound: finite and >= 0."""
    number = float(value)
    if not 0 <= number < np.inf:
        raise InvalidInput(f"{name} must be finite and >= 0, got {number:g}; declare what a row may look like")
    return number
