"""Counts that vary more than Poisson's: the negative binomial with a known dispersion and the log link."""

# ruff: noqa: D102 - Loss says what the methods are, the class which formulas they follow

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.checked_numbers import positive
from perinstance.models.losses.base import COUNT_TARGETS, Loss
from perinstance.models.losses.smooth import Logistic
from perinstance.numerics.array_types import Floats

_LOGISTIC = Logistic()


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
        return self._weight(y) * _LOGISTIC.slope_change(y, self._score(eta), step)

    def third(self, y: Floats, eta: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.third(y, self._score(eta))

    def fourth(self, y: Floats, eta: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.fourth(y, self._score(eta))

    def largest_curvature(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.largest_curvature(y, self._score(eta), radius)

    def largest_third(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.largest_third(y, self._score(eta), radius)

    def largest_fourth(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.largest_fourth(y, self._score(eta), radius)

    def largest_fifth(self, y: Floats, eta: Floats, radius: Floats) -> Floats:
        return self._weight(y) * _LOGISTIC.largest_fifth(y, self._score(eta), radius)

    def inverse_curvature(self, y: Floats, curvature: Floats) -> tuple[Floats, ...]:
        shift = np.log(self.dispersion)
        return tuple(u - shift for u in _LOGISTIC.inverse_curvature(y, curvature / self._weight(y)))

    def mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def start(self, mean: float) -> float:
        return float(np.log(mean)) if mean > 0 else 0.0
