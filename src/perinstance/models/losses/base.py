"""What one person contributes to a smooth objective: ``l(y, eta)`` with ``eta = x'theta``, convex in eta.

To add a loss, write a frozen dataclass that inherits from ``Loss`` and put it into ``catalogue``; every property is
then tested against finite differences. Required are ``value``, ``derivatives`` and ``concordance``: kappa with
``|l'''| <= kappa l''`` everywhere, ``inf`` where the curvature jumps at a knot. A loss with knots also overrides
``curvature_drop``, ``curvature_rise`` and ``knot_distance``; between its knots it is a parabola. All else has a default
that is true; a sharper bound makes sharper certificates. For every shift of eta by at most t,

    l''(eta) - mean of l'' along the shift <= curvature_drop(y, eta, t),
    mean of l'' along the shift - l''(eta) <= curvature_rise(y, eta, t).

With a finite kappa both have a closed form (Bach 2010).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class TargetDomain:
    """The targets that a loss is defined for: two classes, or the finite numbers from ``lowest`` on."""

    lowest: float = -np.inf
    open: bool = False  #: whether ``lowest`` itself is left out
    binary: bool = False  #: 0 and 1 only
    noun: str = "targets"

    def check(self, y: NDArray) -> None:
        """Refuse targets outside; a message names the row, never the target."""
        if self.binary:
            self._refuse((y != 0) & (y != 1), "0 or 1")
            return
        finite = np.isfinite(y)
        if not finite.all():
            raise InvalidInput(f"targets must be finite, row {int(np.argmin(finite))} of the block is not")
        if self.open:
            self._refuse(y <= self.lowest, f"> {self.lowest:g}")
        else:
            self._refuse(y < self.lowest, f">= {self.lowest:g}")

    def _refuse(self, bad: NDArray[np.bool_], wanted: str) -> None:
        if bad.any():
            raise InvalidInput(f"{self.noun} must be {wanted}, row {int(bad.argmax())} of the block is not")


REAL_TARGETS = TargetDomain()
CLASS_TARGETS = TargetDomain(binary=True)
COUNT_TARGETS = TargetDomain(lowest=0.0, noun="counts")
POSITIVE_TARGETS = TargetDomain(lowest=0.0, open=True)


class Loss(ABC):
    """A convex loss of one linear predictor, once continuously differentiable with bounded-variation curvature."""

    __slots__ = ()

    #: kappa with ``|l'''| <= kappa l''`` everywhere; ``inf`` when there is none
    concordance: float
    #: the domain of y
    targets: TargetDomain = REAL_TARGETS
    #: sup of ``|l'|`` over all targets and predictors; ``inf`` when it has no bound
    slope_supremum: float = np.inf
    #: the same of ``l''``
    curvature_supremum: float = np.inf
    #: True when ``l'`` has one sign for each target, whatever eta is
    slope_keeps_sign: bool = False
    #: True when ``mean`` is the probability of class 1
    predicts_probabilities: bool = False
    #: how a regressor's ``mean`` follows from eta: "identity", or "log" for ``exp(eta)``
    link: str = "identity"

    @property
    def binary(self) -> bool:
        """Whether the targets are the two classes 0 and 1."""
        return self.targets.binary

    @abstractmethod
    def value(self, y: Floats, eta: Floats) -> Floats:
        """``l(y, eta)``."""

    @abstractmethod
    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """``l'`` and ``l''``, together because they share their exponential."""

    def mean(self, eta: Floats) -> Floats:
        """Return what the model predicts at eta."""
        if self.binary:
            return (eta > 0).astype(np.float64)
        return np.exp(eta) if self.link == "log" else eta

    def start(self, mean: float) -> float:
        """Return an intercept to start from, given the mean of the targets."""
        if self.link == "log":
            return float(np.log(mean)) if mean > 0 else 0.0
        return 0.0 if self.binary else mean

    def slope(self, y: Floats, eta: Floats) -> Floats:
        """``l'(y, eta)``."""
        return self.derivatives(y, eta)[0]

    def curvature(self, y: Floats, eta: Floats) -> Floats:
        """``l''(y, eta)``."""
        return self.derivatives(y, eta)[1]

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        """``l'(eta + step) - l'(eta)``; losses override it where the subtraction would cancel."""
        return self.slope(y, eta + step) - self.slope(y, eta)

    def check(self, y: NDArray) -> None:
        """Refuse targets outside the domain of the loss."""
        self.targets.check(y)

    def largest_slope(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        """Return the largest ``|l'|`` within ``radius`` of eta: l' is increasing, so it is at an end."""
        r = np.where(np.isfinite(radius), radius, 0.0)
        ends = np.maximum(np.abs(self.slope(y, eta - r)), np.abs(self.slope(y, eta + r)))
        return np.where(np.isfinite(radius), ends, self.slope_supremum)

    def largest_curvature(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        """Bound ``l''`` within ``radius`` of eta from above."""
        if not np.isfinite(self.concordance):
            return np.full_like(eta, self.curvature_supremum)
        with np.errstate(over="ignore", invalid="ignore"):
            bound = self.curvature(y, eta) * np.exp(self.concordance * radius)
        return np.fmin(bound, self.curvature_supremum)

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        """Bound ``|l'''|`` within ``radius`` of eta."""
        if not np.isfinite(self.concordance):
            return np.full_like(eta, np.inf)
        return self.concordance * self.largest_curvature(y, eta, radius)

    def knot_distance(self, y: Floats, eta: Floats) -> Floats:
        """Return how far the next jump of the curvature is from eta."""
        return np.full_like(eta, np.inf)

    def curvature_drop(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        """Bound by how much the mean curvature along a shift of length ``radius`` falls short of the one at eta."""
        t = self.concordance * radius
        return self.curvature(y, eta) * (1 - exprel(-t))

    def curvature_rise(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        """Bound by how much the mean curvature along a shift of length ``radius`` exceeds the one at eta."""
        with np.errstate(over="ignore"):  # an infinite rise is a true, useless bound
            return self.curvature(y, eta) * (exprel(self.concordance * radius) - 1)


@dataclass(frozen=True, slots=True)
class WeightedLoss(Loss):
    """``w l(y, eta)``, of targets that come with the weights of their rows (``folds.block.WEIGHTED``).

    It is for losses without knots: then kappa is that of the loss, and all else is multiplied by the weight.
    """

    loss: Loss

    @property
    def concordance(self) -> float:  # type: ignore[override]
        """Kappa of the loss itself."""
        return self.loss.concordance

    @property
    def targets(self) -> TargetDomain:  # type: ignore[override]
        """The domain of y."""
        return self.loss.targets

    @property
    def predicts_probabilities(self) -> bool:  # type: ignore[override]
        """Whether ``mean`` is the probability of class 1."""
        return self.loss.predicts_probabilities

    @property
    def link(self) -> str:  # type: ignore[override]
        """How ``mean`` follows from eta."""
        return self.loss.link

    def value(self, y: NDArray, eta: Floats) -> Floats:
        """``w l``."""
        return y["weight"] * self.loss.value(y["target"], eta)

    def derivatives(self, y: NDArray, eta: Floats) -> tuple[Floats, Floats]:
        """The weighted slope and curvature."""
        slope, curvature = self.loss.derivatives(y["target"], eta)
        return y["weight"] * slope, y["weight"] * curvature

    def mean(self, eta: Floats) -> Floats:
        """Return what the model predicts at eta."""
        return self.loss.mean(eta)

    def start(self, mean: float) -> float:
        """Return an intercept to start from, given the weighted mean of the targets."""
        return self.loss.start(mean)

    def slope_change(self, y: NDArray, eta: Floats, step: Floats) -> Floats:
        """``w (l'(eta + step) - l'(eta))``."""
        return y["weight"] * self.loss.slope_change(y["target"], eta, step)

    def check(self, y: NDArray) -> None:
        """Refuse targets outside the domain of the loss."""
        self.loss.check(y["target"])

    def largest_curvature(self, y: NDArray, eta: Floats, radius: Floats) -> Floats:
        """Bound the weighted curvature within ``radius`` of eta from above."""
        return y["weight"] * self.loss.largest_curvature(y["target"], eta, radius)

    def largest_third(self, y: NDArray, eta: Floats, radius: Floats) -> Floats:
        """Bound the size of the weighted third derivative within ``radius`` of eta."""
        return y["weight"] * self.loss.largest_third(y["target"], eta, radius)
