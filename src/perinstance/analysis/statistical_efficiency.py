"""What a posterior sample costs in accuracy: the paper's propositions 3 and 4, corrected and exact (MATH 3).

With ``H = X'X + lambda I``, ``y ~ N(X theta_0, sigma^2 I)`` and ``theta ~ N(H^-1 X'y, H^-1/gamma)``

    E ||theta - theta_0||^2 = sigma^2 tr(H^-1 X'X H^-1) + tr(H^-1)/gamma + lambda^2 ||H^-1 theta_0||^2,

and with ``F(theta) = 1/2 ||y - X theta||^2 + lambda/2 ||theta||^2``, ``F(theta) - min F`` is chi-square_d / (2 gamma).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chdtri

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class Efficiency(ShownAsTable):
    """The expected squared error of one posterior sample, in its three parts."""

    estimation: float  #: sigma^2 tr(H^-1 X'X H^-1)
    sampling: float  #: tr(H^-1)/gamma: the price of privacy
    bias: float  #: lambda^2 ||H^-1 theta_0||^2
    least_squares: float  #: sigma^2 tr((X'X)^-1); infinite when X'X is singular
    kind: Kind = "exact"
    assumptions: tuple[str, ...] = ("y ~ N(X theta_0, sigma^2 I), X fixed",)

    @property
    def total(self) -> float:
        """``E ||theta - theta_0||^2``."""
        return self.estimation + self.sampling + self.bias

    @property
    def relative(self) -> float:
        """The error as a multiple of that of least squares (1 is efficient)."""
        return self.total / self.least_squares


def efficiency(gram: ArrayLike, alpha: float, gamma: float, sigma: float, theta: ArrayLike) -> Efficiency:
    """Return the expected squared error of a posterior sample.

    ``gram`` is ``X'X``, alpha and gamma are those of the release, sigma is the noise of the data, theta the true
    coefficients.
    """
    S, theta = real_values("gram", gram), np.atleast_1d(real_values("theta", theta))
    if S.ndim != 2 or S.shape != (len(theta), len(theta)):
        raise InvalidInput(f"gram must be d x d for the d = {len(theta)} coefficients, got shape {S.shape}")
    if not (alpha >= 0 and gamma > 0 and sigma >= 0):
        raise InvalidInput("alpha and sigma must be >= 0 and gamma > 0")
    values, V = np.linalg.eigh(S)
    values = np.maximum(values, 0.0)
    shifted = values + alpha
    if not (shifted > 0).all():
        raise InvalidInput("X'X is singular and alpha is 0: the posterior is improper; use alpha > 0")
    with np.errstate(divide="ignore"):
        least_squares = sigma**2 * float(np.sum(1 / values))
    bias = alpha**2 * float(np.sum((V.T @ theta / shifted) ** 2))
    estimation = sigma**2 * float(np.sum(values / shifted**2))
    return Efficiency(estimation, float(np.sum(1 / shifted)) / gamma, bias, least_squares)


@dataclass(frozen=True, slots=True)
class OptimisationError(ShownAsTable):
    """``F(theta) - min F`` of one posterior sample: chi-square_d / (2 gamma)."""

    d: int
    gamma: float
    kind: Kind = "exact"
    assumptions: tuple[str, ...] = ("F(theta) = 1/2 ||y - X theta||^2 + lambda/2 ||theta||^2", "any data set")

    @property
    def mean(self) -> float:
        """``d / (2 gamma)``."""
        return self.d / (2 * self.gamma)

    def quantile(self, probability: float) -> float:
        """Return the value that is not exceeded with this probability.

        >>> round(OptimisationError(d=2, gamma=1.0).quantile(0.95), 4)  # chi-square_2 is exponential: -log 0.05
        2.9957
        """
        if not 0 <= probability <= 1:
            raise InvalidInput(f"probability must lie in [0, 1], got {probability:g}")
        return float(chdtri(self.d, 1 - probability)) / (2 * self.gamma)

    def exceeds(self, value: float) -> float:
        """Return the probability of exceeding a value."""
        return float(chdtrc(self.d, 2 * self.gamma * max(value, 0.0)))


def optimisation_error(d: int, gamma: float) -> OptimisationError:
    """Return the distribution of the optimisation error of a posterior sample of d coefficients."""
    if d < 1 or not gamma > 0:
        raise InvalidInput(f"d must be at least 1 and gamma > 0, got d={d}, gamma={gamma:g}")
    return OptimisationError(int(d), float(gamma))
