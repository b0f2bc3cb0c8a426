"""The slow and dumb roads that the tests of AdaOPS and AdaSSP lean on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta


def posterior_delta(mu: float, rho: float, epsilon: float, direction: str) -> float:
    """MATH 1b word by word, for epsilon of both signs."""
    b = np.log1p(mu) + rho**2 / (1.0 + mu)
    p, q = (rho, np.sqrt(mu)), (rho / (1.0 + mu), np.sqrt(mu / (1.0 + mu)))

    def inner(law, c):  # P(|w| < c)
        return ndtr((c - law[0]) / law[1]) - ndtr((-c - law[0]) / law[1])

    def outer(law, c):
        return ndtr((law[0] - c) / law[1]) + ndtr((-c - law[0]) / law[1])

    if direction == "without":
        c = np.sqrt(np.maximum(b + 2.0 * epsilon, 0.0))
        return outer(p, c) - np.exp(epsilon) * outer(q, c)
    c = np.sqrt(np.maximum(b - 2.0 * epsilon, 0.0))
    return inner(q, c) - np.exp(epsilon) * inner(p, c)


@dataclass
class Pinned:
    """A window that answers what it is told, and remembers what it was asked."""

    d: int
    answers: dict[str, float]
    asked: dict[str, tuple] = field(default_factory=dict)

    def _answer(self, name: str, *question: float) -> float:
        self.asked[name] = question
        return self.answers[name]

    def count(self, scale):
        return self._answer("count", scale)

    def eigenvalue(self, scale):
        return self._answer("eigenvalue", scale)

    def log_size(self, ridge, x_bound, y_bound, scale):
        return self._answer("log_size", ridge, scale)

    def posterior(self, ridge, gamma):
        self.asked["posterior"] = (ridge, gamma)
        return np.zeros(self.d)


def hockey_stick_lower_bound(first: np.ndarray, second: np.ndarray, epsilon: float, miss: float = 1e-3) -> float:
    """A lower bound on ``P(L > epsilon) - e^epsilon Q(L > epsilon)`` from losses drawn under P and under Q.

    Clopper and Pearson on each probability; wrong with probability at most ``miss``.
    """
    a, b = int((first > epsilon).sum()), int((second > epsilon).sum())
    low = beta.ppf(miss / 2, a, len(first) - a + 1) if a else 0.0
    high = beta.ppf(1 - miss / 2, b + 1, len(second) - b) if b < len(second) else 1.0
    return float(low - np.exp(epsilon) * high)
