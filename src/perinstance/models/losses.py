"""What one person contributes to a smooth objective: ``l(y, eta)`` with ``eta = x'theta``.

A loss brings its value, slope ``l'`` and curvature ``l''`` in eta, and what a certificate needs to know of the
curvature away from the fit: for every shift of eta by at most t,

    l''(eta) - mean of l'' on the way <= curvature_drop(y, eta, t),
    mean of l'' on the way - l''(eta) <= curvature_rise(y, eta, t).

Losses with ``|l'''| <= kappa l''`` (``concordance`` kappa) have both in closed form (Bach 2010); so do losses whose
curvature jumps at a knot (Huber, squared hinge; ``concordance`` is infinite).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, exprel, spence

from perinstance.errors import InvalidInput

Floats = NDArray[np.float64]


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

    def curvature_drop(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Bound by how much the mean curvature on a way of length ``reach`` falls short of the one at its start."""
        t = self.concordance * reach
        return self.curvature(y, eta) * (1 - exprel(-t))

    def curvature_rise(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        """Bound by how much the mean curvature on a way of length ``reach`` exceeds the one at its start."""
        with np.errstate(over="ignore"):  # an infinite rise is a true, useless bound
            return self.curvature(y, eta) * (exprel(self.concordance * reach) - 1)


@dataclass(frozen=True, slots=True)
class Squared(Loss):
    """``(y - eta)^2 / 2``: least squares."""

    concordance = 0.0

    def value(self, y: Floats, eta: Floats) -> Floats:
        return (y - eta) ** 2 / 2

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        return eta - y, np.ones_like(eta)

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return np.broadcast_to(step, np.broadcast_shapes(eta.shape, step.shape))

    def mean(self, eta: Floats) -> Floats:
        return eta

    def start(self, mean: float) -> float:
        return mean


@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """``log(1 + e^eta) - y eta`` for y in {0, 1}; ``|l'''| = l'' |1 - 2p| <= l''``."""

    concordance = 1.0
    steepest = 1.0
    binary = True

    def value(self, y: Floats, eta: Floats) -> Floats:
        return np.logaddexp(0.0, eta) - y * eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        e = np.exp(-np.abs(eta))
        q = 1 / (1 + e)
        # with the sign of y folded in, l' = -sigmoid(-margin) keeps its digits when the fit is sure of itself
        margin = np.where(y > 0.5, eta, -eta)
        away = np.where(margin >= 0, e * q, q)
        return np.where(y > 0.5, -away, away), e * q * q

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        # sigmoid(u) - sigmoid(v) = sigmoid(u) sigmoid(-v) (1 - e^(v-u)) for v <= u: no cancellation, no overflow
        up, down = eta + np.maximum(step, 0), eta + np.minimum(step, 0)
        return np.sign(step) * -np.expm1(-np.abs(step)) * expit(up) * expit(-down)

    def mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean / (1 - mean))) if 0 < mean < 1 else 0.0

    def check(self, y: NDArray) -> None:
        bad = (y != 0) & (y != 1)
        if bad.any():
            raise InvalidInput(f"targets must be 0 or 1, row {int(bad.argmax())} of the block is not")


@dataclass(frozen=True, slots=True)
class Poisson(Loss):
    """``e^eta - y eta`` for counts y >= 0, the half deviance up to a constant; ``l''' = l''``."""

    concordance = 1.0

    def value(self, y: Floats, eta: Floats) -> Floats:
        return np.exp(eta) - y * eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        e = np.exp(eta)
        return e - y, e

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return np.exp(eta) * np.expm1(step)

    def mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean)) if mean > 0 else 0.0

    def check(self, y: NDArray) -> None:
        Loss.check(self, y)
        if (y < 0).any():
            raise InvalidInput(f"counts must be >= 0, row {int((y < 0).argmax())} of the block is not")


@dataclass(frozen=True, slots=True)
class Gamma(Loss):
    """``y e^-eta + eta`` for y > 0, the half deviance up to a constant; ``l''' = -l''``."""

    concordance = 1.0

    def value(self, y: Floats, eta: Floats) -> Floats:
        return y * np.exp(-eta) + eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        e = y * np.exp(-eta)
        return 1 - e, e

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return -y * np.exp(-eta) * np.expm1(-step)

    def mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean)) if mean > 0 else 0.0

    def check(self, y: NDArray) -> None:
        Loss.check(self, y)
        if (y <= 0).any():
            raise InvalidInput(f"targets must be > 0, row {int((y <= 0).argmax())} of the block is not")


@dataclass(frozen=True, slots=True)
class PseudoHuber(Loss):
    """``k^2 (sqrt(1 + (r/k)^2) - 1)``, ``r = eta - y``; ``|l'''| <= 3/(2k) l''``, attained at ``|r| = k``."""

    width: float = 1.35

    def __post_init__(self) -> None:
        _positive("width", self.width)

    @property
    def concordance(self) -> float:  # type: ignore[override]
        return 1.5 / self.width

    @property
    def steepest(self) -> float:  # type: ignore[override]
        return self.width

    def value(self, y: Floats, eta: Floats) -> Floats:
        u = (eta - y) / self.width
        return self.width**2 * u * u / (np.hypot(1, u) + 1)  # sqrt(1+u^2) - 1 without cancellation

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        r = eta - y
        s = np.hypot(1, r / self.width)
        return r / s, s**-3

    def mean(self, eta: Floats) -> Floats:
        return eta

    def start(self, mean: float) -> float:
        return mean


@dataclass(frozen=True, slots=True)
class Huber(Loss):
    """``r^2/2`` for ``|r| <= k``, ``k|r| - k^2/2`` beyond, ``r = eta - y``: the curvature jumps at ``|r| = k``."""

    width: float = 1.35
    concordance = np.inf

    def __post_init__(self) -> None:
        _positive("width", self.width)

    @property
    def steepest(self) -> float:  # type: ignore[override]
        return self.width

    def value(self, y: Floats, eta: Floats) -> Floats:
        r = np.abs(eta - y)
        near = np.minimum(r, self.width)
        return near * (r - near / 2)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        r = eta - y
        return np.clip(r, -self.width, self.width), (np.abs(r) <= self.width).astype(np.float64)

    def mean(self, eta: Floats) -> Floats:
        return eta

    def start(self, mean: float) -> float:
        return mean

    def curvature_drop(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return _share_beyond(self.width - np.abs(eta - y), reach)

    def curvature_rise(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return _share_beyond(np.abs(eta - y) - self.width, reach)


@dataclass(frozen=True, slots=True)
class SquaredHinge(Loss):
    """``max(0, 1 - s eta)^2 / 2`` with ``s = 2y - 1`` for y in {0, 1}: the curvature jumps at the margin."""

    concordance = np.inf
    binary = True

    def value(self, y: Floats, eta: Floats) -> Floats:
        return np.maximum(0, 1 - (2 * y - 1) * eta) ** 2 / 2

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        s = 2 * y - 1
        short = 1 - s * eta
        return -s * np.maximum(0, short), (short >= 0).astype(np.float64)

    def mean(self, eta: Floats) -> Floats:
        return (eta > 0).astype(np.float64)

    def check(self, y: NDArray) -> None:
        Logistic.check(self, y)  # type: ignore[arg-type]

    def curvature_drop(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return _share_beyond(1 - (2 * y - 1) * eta, reach)

    def curvature_rise(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return _share_beyond((2 * y - 1) * eta - 1, reach)


@dataclass(frozen=True, slots=True)
class SmoothHinge(Loss):
    """The squared hinge with a smooth corner: ``l'' = sigmoid((1 - s eta)/k)``, hence ``|l'''| <= l''/k``.

    ``l' = -s k log(1 + e^u)`` and ``l = -k^2 Li2(-e^u)`` with ``u = (1 - s eta)/k``; as k -> 0 it is the squared hinge.
    """

    width: float = 0.1
    binary = True

    def __post_init__(self) -> None:
        _positive("width", self.width)

    @property
    def concordance(self) -> float:  # type: ignore[override]
        return 1 / self.width

    def value(self, y: Floats, eta: Floats) -> Floats:
        u = (1 - (2 * y - 1) * eta) / self.width
        z = np.exp(-np.abs(u))
        series = z * (1 - z * (1 / 4 - z * (1 / 9 - z * (1 / 16 - z / 25))))  # 1 + z would round the digits of z away
        small = np.where(z < 1e-3, series, -spence(1 + z))  # -Li2(-z); the inversion formula gives the other side
        return self.width**2 * np.where(u <= 0, small, np.pi**2 / 6 + u * u / 2 - small)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        s = 2 * y - 1
        u = (1 - s * eta) / self.width
        return -s * self.width * np.logaddexp(0.0, u), expit(u)

    def mean(self, eta: Floats) -> Floats:
        return (eta > 0).astype(np.float64)

    def check(self, y: NDArray) -> None:
        Logistic.check(self, y)  # type: ignore[arg-type]


def _share_beyond(distance: Floats, reach: Floats) -> Floats:
    """Return the largest share of a way of length ``reach`` that lies beyond a knot at ``distance`` (>= 0, else none)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(1 - distance / reach, 0, 1)
    return np.where((distance >= 0) & (reach > 0), share, 0.0)


def _positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a number > 0, got {value:g}")
