"""From pDP to DP, the recipe: release bounds of what the losses depend on, enforce them, and charge the envelope.

1. *Key quantities*: what the per-instance loss depends on, beside the person (the smallest eigenvalue, the size of the
   estimate), each with its sensitivity: how far one person can move it.
2. Release each with Gaussian noise at a distance D (``scale = sensitivity/D``) and take a one-sided bound that holds on
   the data without the person, whichever of the two neighbours was released, but for a small probability:
   ``value +- q scale``, ``Phi(-(q - D)) <= failure``.
3. *Enforce* what is needed so that, where the bounds hold, everybody's pair is below a *corner*; if the bounds choose
   among several corners, all of them count.
4. The promise: the Gaussian parts composed exactly with the pointwise envelope of all corners, plus the failures.

``AdaOPS`` is the first user (``adaops.mechanism`` plans its bounds and its promise with these parts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import probability, real_number
from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import STEP_UP
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.promises.promise import Promise, noise_scale, tail_quantile


@dataclass(frozen=True, slots=True)
class KeyQuantity(ShownAsTable):
    """Something confidential that losses depend on, and how far one person moves it.

    >>> eigenvalue = KeyQuantity("smallest eigenvalue of X'X", sensitivity=1.0, side="lower")  # Weyl, ||x|| <= 1
    >>> bound = eigenvalue.released(distance=0.1, failure=1e-7)
    >>> round(bound.scale, 6), round(bound.bound(100.0), 1)
    (10.0, 47.0)
    """

    name: str
    sensitivity: float
    side: Literal["lower", "upper"]  #: which side of it must be bounded
    rises: bool = False  #: somebody who joins never lowers it

    def __post_init__(self) -> None:
        if self.side not in ("lower", "upper"):  # a bound on the wrong side would be no bound
            raise InvalidInput(f"side must be 'lower' or 'upper', got {self.side!r}")
        _check("sensitivity", self.sensitivity)

    def released(self, distance: float, failure: float) -> PrivateBound:
        """Plan its release at a GDP distance, with a bound that fails with probability at most ``failure``."""
        _check("distance", distance)
        probability("failure", failure, "1e-7")
        # what only rises is larger with the person: as it is, an upper bound is safe for the data without them
        moved = 0.0 if self.rises and self.side == "upper" else float(distance)
        scale, quantile = noise_scale(self.sensitivity, distance), tail_quantile(failure, moved)
        return PrivateBound(self, float(distance), scale, quantile, float(failure))


@dataclass(frozen=True, slots=True)
class PrivateBound(ShownAsTable):
    """A noisy release of a key quantity and the one-sided bound that goes with it. Public."""

    quantity: KeyQuantity
    distance: float
    scale: float  #: standard deviation of the noise
    quantile: float  #: how many of them lie between the noisy value and the bound
    failure: float

    @property
    def margin(self) -> float:
        """The distance from the noisy value to the bound."""
        return self.quantile * self.scale

    def bound(self, noisy: float) -> float:
        """Return the bound that goes with a noisy value."""
        return noisy - self.margin if self.quantity.side == "lower" else noisy + self.margin

    def at(self, sensitivity: float) -> PrivateBound:
        """Plan the same spending for another sensitivity, such as one that depends on what was released before."""
        return replace(self.quantity, sensitivity=sensitivity).released(self.distance, self.failure)


def _check(name: str, value: Any) -> None:
    if not 0 < real_number(name, value) < math.inf:
        raise InvalidInput(f"{name} must be finite and > 0, got {value:g}")


def spending(bounds: Sequence[PrivateBound]) -> tuple[float, float]:
    """Return the GDP distance of all the bounds' releases together, and the probability that any bound fails."""
    distance = math.sqrt(math.fsum(bound.distance**2 for bound in bounds)) * STEP_UP
    return distance, math.fsum(bound.failure for bound in bounds) * STEP_UP


@dataclass(frozen=True, slots=True)
class Conversion(ShownAsTable):
    """An algorithm whose losses were bounded by private bounds, and what it promises to everybody."""

    bounds: tuple[PrivateBound, ...]
    enforced: tuple[str, ...]  #: what the algorithm does so that the corners hold where the bounds do
    promise: Promise
    kind: Kind
    assumptions: tuple[str, ...]

    def epsilon(self, delta: float) -> float:
        """Return epsilon of the whole, at delta, for every data set and every person."""
        return self.promise.epsilon(delta)


def convert(
    bounds: Sequence[PrivateBound],
    *,
    leverage: ArrayLike = (),
    residual: ArrayLike = (),
    shift: float = 0.0,
    rows_per_person: int = 1,
    enforced: tuple[str, ...],
) -> Conversion:
    """Put the recipe together.

    Parameters
    ----------
    bounds
        The key quantities as they are released; their sensitivities must hold whatever was released before.
    leverage, residual
        All corners (mu, rho) of a final posterior sample that the bounds can lead to.
    shift
        The largest distance of a final Gaussian release of fixed covariance (0: none).
    rows_per_person
        How many rows a person has at most, each below a corner; sensitivities are those of all of them together.
    enforced
        What makes the corners hold, in words: part of the record that a reviewer reads.
    """
    parts = tuple(bounds)
    if not all(isinstance(part, PrivateBound) for part in parts):
        raise InvalidInput("bounds must be PrivateBound records; see KeyQuantity.released")
    mu, rho = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in (leverage, residual))
    if mu.shape != rho.shape or not (np.isfinite(mu) & (mu >= 0) & np.isfinite(rho) & (rho >= 0)).all():
        raise InvalidInput("leverage and residual must be finite numbers >= 0, one of each per corner")
    if not enforced:
        raise InvalidInput("say what is enforced: a corner that nothing enforces is a hope, not a bound")
    if not 0 <= real_number("shift", shift) < math.inf:
        raise InvalidInput(f"shift must be finite and >= 0, got {shift:g}; it is a distance")
    spent, failure = spending(parts)
    whole = math.hypot(spent, shift) * STEP_UP if shift else spent
    promise = Promise(whole, tuple(mu.tolist()), tuple(rho.tolist()), failure, rows_per_person)
    sensitive = "each key quantity moves by at most its sensitivity when one person joins or leaves"
    return Conversion(parts, tuple(enforced), promise, "upper", (sensitive, *enforced))
