"""All losses: those with a continuous third derivative, ``|l'''| <= kappa l''``, and two that have knots.

Between its knots a loss is quadratic, and only people near a knot can jump. Every property test runs over
``CATALOGUE``, so a new member is a tested member.
"""

# ruff: noqa: D102 - Loss says what the methods are, each class which formulas they follow

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, spence

from perinstance.checked_numbers import positive
from perinstance.models.losses.base import CLASS_TARGETS, COUNT_TARGETS, POSITIVE_TARGETS, Loss
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Squared(Loss):
    """``(y - eta)^2 / 2``: least squares."""

    concordance = 0.0
    curvature_supremum = 1.0

    def value(self, y: Floats, eta: Floats) -> Floats:
        return (y - eta) ** 2 / 2

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        return eta - y, np.ones_like(eta)

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return np.broadcast_to(step, np.broadcast_shapes(eta.shape, step.shape))

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return np.zeros_like(eta)


@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """``log(1 + e^eta) - y eta`` for y in {0, 1}; ``|l'''| = l'' |1 - 2p| <= l''``."""

    concordance = 1.0
    targets = CLASS_TARGETS
    slope_supremum = 1.0
    curvature_supremum = 0.25
    slope_keeps_sign = True
    predicts_probabilities = True

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
            # sigma(b) sigma(-a) (1 - e^(a - b)), a < b: no overflow, and nothing cancels; the quotient below would lose
            # e^s next to 1, and a row at eta = 40 that comes back to 2 would seem to go to minus infinity
            low, high = eta + np.minimum(step, 0), eta + np.maximum(step, 0)
            return np.copysign(expit(high) * expit(-low) * -np.expm1(-np.abs(step)), step)
        p, q = expit(eta), expit(-eta)
        e = np.expm1(step)
        return p * q * e / (q + p * (e + 1))

    def largest_curvature(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self.curvature(y, np.maximum(np.abs(eta) - radius, 0.0))

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        v = _nearest(np.arccosh(2.0), np.abs(eta), radius)  # p(1-p)|1-2p| has one maximum, where cosh eta = 2
        return expit(v) * expit(-v) * np.tanh(v / 2)

    def mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean / (1 - mean))) if 0 < mean < 1 else 0.0


LOGISTIC = Logistic()


@dataclass(frozen=True, slots=True)
class Poisson(Loss):
    """``e^eta - y eta`` for counts y >= 0, the half deviance up to a constant; ``l''' = l''``."""

    concordance = 1.0
    targets = COUNT_TARGETS
    link = "log"

    def value(self, y: Floats, eta: Floats) -> Floats:
        return np.exp(eta) - y * eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        e = np.exp(eta)
        return e - y, e

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return np.exp(eta) * np.expm1(step)

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta + radius)


@dataclass(frozen=True, slots=True)
class Gamma(Loss):
    """``y e^-eta + eta`` for y > 0, the half deviance up to a constant; ``l''' = -l''``."""

    concordance = 1.0
    targets = POSITIVE_TARGETS
    link = "log"

    def value(self, y: Floats, eta: Floats) -> Floats:
        return y * np.exp(-eta) + eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        e = y * np.exp(-eta)
        return 1 - e, e

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return -y * np.exp(-eta) * np.expm1(-step)

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return y * np.exp(radius - eta)


@dataclass(frozen=True, slots=True)
class PseudoHuber(Loss):
    """``k^2 (sqrt(1 + (r/k)^2) - 1)``, ``r = eta - y``; ``|l'''| <= 3/(2k) l''``, attained at ``|r| = k``."""

    width: float = 1.35
    curvature_supremum = 1.0

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def concordance(self) -> float:  # type: ignore[override]
        return 1.5 / self.width

    @property
    def slope_supremum(self) -> float:  # type: ignore[override]
        return self.width

    def value(self, y: Floats, eta: Floats) -> Floats:
        u = (eta - y) / self.width
        return self.width**2 * u * u / (np.hypot(1, u) + 1)  # sqrt(1+u^2) - 1 without cancellation

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        r = eta - y
        s = np.hypot(1, r / self.width)
        return r / s, s**-3

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        v = _nearest(0.5, np.abs(eta - y) / self.width, radius / self.width)  # one maximum, at |r| = k/2
        return 3 * v * np.hypot(1, v) ** -5 / self.width


@dataclass(frozen=True, slots=True)
class SmoothHinge(Loss):
    """The squared hinge with a smooth corner: ``l'' = sigmoid((1 - s eta)/k)``, hence ``|l'''| <= l''/k``.

    ``l' = -s k log(1 + e^u)`` and ``l = -k^2 Li2(-e^u)`` with ``u = (1 - s eta)/k``; as k -> 0 it is the squared hinge.
    """

    width: float = 0.1
    targets = CLASS_TARGETS
    curvature_supremum = 1.0
    slope_keeps_sign = True

    def __post_init__(self) -> None:
        positive("width", self.width)

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

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        v = _nearest(0.0, np.abs(1 - (2 * y - 1) * eta) / self.width, radius / self.width)
        return expit(v) * expit(-v) / self.width


@dataclass(frozen=True, slots=True)
class NegativeBinomial(Loss):
    """``(y + 1/a) log(1 + a e^eta) - y eta`` for counts y >= 0, variance ``mu + a mu^2``, ``mu = e^eta``.

    Up to a constant the negative log-likelihood (NB2 of Cameron and Trivedi 1998). Derivatives from the second on are
    ``y + 1/a`` times those of the logistic loss at ``eta + log a``, hence ``|l'''| <= l''``.
    """

    dispersion: float = 1.0  #: a > 0, public: it is not fitted
    concordance = 1.0
    targets = COUNT_TARGETS
    link = "log"

    def __post_init__(self) -> None:
        positive("dispersion", self.dispersion)

    def _weight(self, y: Floats) -> Floats:
        return y + 1 / self.dispersion

    def _score(self, eta: Floats) -> Floats:
        return eta + np.log(self.dispersion)

    def value(self, y: Floats, eta: Floats) -> Floats:
        return self._weight(y) * np.logaddexp(0.0, self._score(eta)) - y * eta

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        # (mu - y) / (1 + a mu) and mu (1 + a y) / (1 + a mu)^2, divided by mu where it could overflow
        a, e = self.dispersion, np.exp(-np.abs(eta))
        small = eta <= 0
        below = np.where(small, 1 + a * e, e + a)
        return np.where(small, e - y, 1 - y * e) / below, e * (1 + a * y) / below**2

    def slope_change(self, y: Floats, eta: Floats, step: Floats) -> Floats:
        return self._weight(y) * LOGISTIC.slope_change(y, self._score(eta), step)

    def largest_curvature(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * LOGISTIC.largest_curvature(y, self._score(eta), radius)

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * LOGISTIC.largest_third(y, self._score(eta), radius)


def _nearest(peak: float, at: Floats, radius: Floats) -> Floats:
    """Return where, within radius of ``at`` >= 0, a function of ``|.|`` with one maximum at ``peak`` is largest."""
    return np.clip(peak, np.maximum(at - radius, 0), at + radius)


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


CATALOGUE: dict[str, Loss] = {
    "squared": Squared(),
    "logistic": Logistic(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "negative-binomial": NegativeBinomial(0.6),
    "huber": Huber(),
    "pseudo-huber": PseudoHuber(),
    "squared-hinge": SquaredHinge(),
    "smooth-hinge": SmoothHinge(),
}
