"""What one person contributes to a smooth objective: ``l(y, eta)`` with ``eta = x'theta``.

A loss brings its value, slope ``l'`` and curvature ``l''`` in eta, and what a certificate needs to know of the
curvature away from the fit: for every shift of eta by at most t,

    l''(eta) - mean of l'' on the way <= curvature_drop(y, eta, t),
    mean of l'' on the way - l''(eta) <= curvature_rise(y, eta, t).

Losses with ``|l'''| <= kappa l''`` (``concordance`` kappa) have both in closed form (Bach 2010), and a sharper bound
``(t/2) twist(y, eta, t)`` from the largest ``|l'''|`` within reach. Losses whose curvature jumps at a knot have the
first two only: their ``concordance`` and twist are infinite.

The second correction (``cubic``, ``kept_rows``) asks for one order more: ``third`` and the largest fourth derivative
within reach (``jerk``) where they exist, and how far the next knot is where they do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats


class Loss(ABC):
    """A convex loss of one linear predictor, once continuously differentiable with bounded-variation curvature."""

    __slots__ = ()

    #: kappa with ``|l'''| <= kappa l''`` everywhere; ``inf`` when there is none
    concordance: float
    #: sup of ``|l'|``; ``inf`` when it has no bound
    steepest: float = np.inf
    #: True when the targets are the two classes 0 and 1
    binary: bool = False

    @abstractmethod
    def value(self, y: Floats, eta: Floats) -> Floats:
        """``l(y, eta)``."""

    @abstractmethod
    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """``l'`` and ``l''``, together because they share their exponential."""

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Return what the model predicts at eta."""

    def slope(self, y: Floats, eta: Floats) -> Floats:
        """``l'(y, eta)``."""
        return self.derivatives(y, eta)[0]

    def curvature(self, y: Floats, eta: Floats) -> Floats:
        """``l''(y, eta)``."""
        return self.derivatives(y, eta)[1]

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        """``l'(eta + step) - l'(eta)``; losses override it where the subtraction would cancel."""
        return self.slope(y, eta + step) - self.slope(y, eta)

    def start(self, mean: float) -> float:
        """Return an intercept to start from, given the mean of the targets."""
        return 0.0

    def check(self, y: NDArray) -> None:
        """Refuse targets outside the domain of the loss."""
        if not np.isfinite(y).all():
            raise InvalidInput(f"targets must be finite, row {int(np.argmin(np.isfinite(y)))} of the block is not")

    @abstractmethod
    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Return the largest ``|l'''|`` within ``reach`` of eta."""

    @abstractmethod
    def third(self, y: Floats, eta: Floats) -> Floats:
        """``l'''(y, eta)``; 0 between knots."""

    @abstractmethod
    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Return the largest ``|l''''|`` within ``reach`` of eta."""

    def knot(self, y: Floats, eta: Floats) -> Floats:
        """Return how far the next jump of the curvature is from eta."""
        return np.full_like(eta, np.inf)

    def least(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Bound the curvature within ``reach`` of eta from below."""
        return self.curvature(y, eta) * np.exp(-self.concordance * reach)

    def bend(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        """``l'(eta + step) - l'(eta) - l''(eta) step``; of losses with knots exactly 0 where none is passed."""
        return self.slope_change(y, eta, step) - self.curvature(y, eta) * step

    def curvature_drop(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Bound by how much the mean curvature on a way of length ``reach`` falls short of the one at its start."""
        t = self.concordance * reach
        return self.curvature(y, eta) * (1 - exprel(-t))

    def curvature_rise(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Bound by how much the mean curvature on a way of length ``reach`` exceeds the one at its start."""
        with np.errstate(over="ignore"):  # an infinite rise is a true, useless bound
            return self.curvature(y, eta) * (exprel(self.concordance * reach) - 1)


def check_positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a finite number > 0."""
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a number > 0, got {value:g}")


def check_classes(y: NDArray) -> None:
    """Refuse targets that are not 0 or 1."""
    bad = (y != 0) & (y != 1)
    if bad.any():
        raise InvalidInput(f"targets must be 0 or 1, row {int(bad.argmax())} of the block is not")
