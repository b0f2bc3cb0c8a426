"""The losses with a continuous third derivative in reach of a formula: all satisfy ``|l'''| <= kappa l''``."""

# ruff: noqa: D102 - Loss says what the methods are, each class which formulas they follow

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, spence

from perinstance.errors import InvalidInput
from perinstance.models.losses.base import Loss, check_classes, check_positive
from perinstance.numerics.array_types import Floats


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

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return np.zeros_like(eta)

    def third(self, y: Floats, eta: Floats) -> Floats:
        return np.zeros_like(eta)

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return np.zeros_like(eta)

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
        # one exponential per entry; far rows and wide steps are the exception
        if step.size and not (step.min() > -2.0 and step.max() < 50.0):
            return _far_change(eta, step)
        p, q = expit(eta), expit(-eta)
        e = np.expm1(step)  # p q (e^s - 1) / (q + p e^s)
        below = e + 1
        below *= p
        below += q
        e *= p * q
        e /= below
        return e

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        v = _nearest(np.arccosh(2.0), np.abs(eta), reach)  # p(1-p)|1-2p| has one maximum, where cosh eta = 2
        return expit(v) * expit(-v) * np.tanh(v / 2)

    def third(self, y: Floats, eta: Floats) -> Floats:
        return -expit(eta) * expit(-eta) * np.tanh(eta / 2)

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        # v(1 - 6v) of v = p(1-p): falls from 1/8 at eta = 0 to 0, then one maximum at v = 1/12, where cosh eta = 5
        a = np.abs(eta)
        near, far = np.maximum(a - reach, 0), _nearest(np.arccosh(5.0), a, reach)
        return np.maximum(np.abs(_fourth(near)), np.abs(_fourth(far)))

    def mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean / (1 - mean))) if 0 < mean < 1 else 0.0

    def check(self, y: NDArray) -> None:
        check_classes(y)


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

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta + reach)

    def third(self, y: Floats, eta: Floats) -> Floats:
        return np.exp(eta)

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return self.twist(y, eta, reach)

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

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return y * np.exp(reach - eta)

    def third(self, y: Floats, eta: Floats) -> Floats:
        return -y * np.exp(-eta)

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        return self.twist(y, eta, reach)

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
        check_positive("width", self.width)

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

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        v = _nearest(0.5, np.abs(eta - y) / self.width, reach / self.width)  # one maximum, at |r| = k/2
        return 3 * v * np.hypot(1, v) ** -5 / self.width

    def third(self, y: Floats, eta: Floats) -> Floats:
        v = (eta - y) / self.width
        return -3 * v * np.hypot(1, v) ** -5 / self.width

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        # 3 (4v^2 - 1) (1 + v^2)^-3.5: falls from its peak at v = 0 to 0, then has one maximum at v^2 = 3/4
        a, r = np.abs(eta - y) / self.width, reach / self.width
        near, far = np.maximum(a - r, 0), _nearest(np.sqrt(0.75), a, r)
        here, there = (np.abs(4 * v * v - 1) * np.hypot(1, v) ** -7 for v in (near, far))
        return 3 * np.maximum(here, there) / self.width**2

    def mean(self, eta: Floats) -> Floats:
        return eta

    def start(self, mean: float) -> float:
        return mean


@dataclass(frozen=True, slots=True)
class SmoothHinge(Loss):
    """The squared hinge with a smooth corner: ``l'' = sigmoid((1 - s eta)/k)``, hence ``|l'''| <= l''/k``.

    ``l' = -s k log(1 + e^u)`` and ``l = -k^2 Li2(-e^u)`` with ``u = (1 - s eta)/k``; as k -> 0 it is the squared hinge.
    """

    width: float = 0.1
    binary = True

    def __post_init__(self) -> None:
        check_positive("width", self.width)

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

    def twist(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        v = _nearest(0.0, np.abs(1 - (2 * y - 1) * eta) / self.width, reach / self.width)
        return expit(v) * expit(-v) / self.width

    def third(self, y: Floats, eta: Floats) -> Floats:
        s = 2 * y - 1
        v = (1 - s * eta) / self.width
        return -s * expit(v) * expit(-v) / self.width

    def jerk(self, y: Floats, eta: Floats, reach: Floats) -> Floats:
        v = np.abs(1 - (2 * y - 1) * eta) / self.width
        return Logistic().twist(y, v, reach / self.width) / self.width**2

    def mean(self, eta: Floats) -> Floats:
        return (eta > 0).astype(np.float64)

    def check(self, y: NDArray) -> None:
        check_classes(y)


def _far_change(eta: Floats, step: Floats) -> Floats:
    """``sigma(b) - sigma(a)`` as ``sigma(b) sigma(-a) (1 - e^(a - b))``, a < b: no overflow, and nothing cancels.

    A quotient by ``q + p e^s`` with e^s taken from expm1 loses e^s beside 1 when the step leads far down: a row at
    eta = 40 that comes back to 2 would seem to go to minus infinity.
    """
    low, high = eta + np.minimum(step, 0), eta + np.maximum(step, 0)
    return np.copysign(expit(high) * expit(-low) * -np.expm1(-np.abs(step)), step)


def _fourth(eta: Floats) -> Floats:
    """Return the fourth derivative of the logistic loss."""
    v = expit(eta) * expit(-eta)
    return v * (1 - 6 * v)


def _nearest(peak: float, at: Floats, reach: Floats) -> Floats:
    """Return where, within reach of ``at`` >= 0, a function of ``|.|`` with one maximum at ``peak`` is largest."""
    return np.clip(peak, np.maximum(at - reach, 0), at + reach)
