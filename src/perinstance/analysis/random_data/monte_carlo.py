"""Losses over random data sets: a Monte-Carlo sample of them, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, ndtri

from perinstance.analysis.people.loss_moments import Moments, check_level, moments
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.interface.kinds import Kind
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class Between(ShownAsTable):
    """A Monte-Carlo number with its interval."""

    estimate: float
    low: float
    high: float
    level: float
    kind: Kind = "estimate"


@dataclass(frozen=True, slots=True)
class LossSample(ShownAsTable):
    """Losses of a person (or of random people) over data sets that were drawn independently. Confidential."""

    epsilon: Floats  #: (draws,) or (draws, people)
    delta: float
    kind: Kind  #: of each loss; what is said about the distribution is an estimate
    assumptions: tuple[str, ...]

    @property
    def largest(self) -> float:
        """The largest loss that occurred: attained, not a bound."""
        return float(self.epsilon.max())

    def mean(self, level: float = 0.95) -> Between:
        """Return the mean with a normal interval over the draws (people of one draw share a data set)."""
        check_level(level)
        each = self.epsilon if self.epsilon.ndim == 1 else self.epsilon.mean(axis=1)
        centre = float(each.mean())
        spread = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else np.inf
        half = float(ndtri(0.5 + level / 2)) * spread
        return Between(centre, centre - half, centre + half, level)

    def quantile(self, share: float, level: float = 0.95, person: int = 0) -> Between:
        """Return a quantile with the interval that order statistics give, whatever the distribution.

        The i-th smallest of n is below the quantile with probability ``P(Binomial(n, share) >= i)``. The losses must be
        independent for that: with several people per draw, ask about one of them (``person``).
        """
        check_level(level)
        if not 0 < share < 1:
            raise InvalidInput(f"share must lie in (0, 1), got {share:g}; the median is 0.5")
        each = np.sort(self.epsilon if self.epsilon.ndim == 1 else self.epsilon[:, person])
        n, side = len(each), (1 - level) / 2
        below = bdtr(np.arange(n, dtype=np.float64), n, share)  # P(Binomial <= i)
        low = int(np.searchsorted(below, side)) - 1
        high = int(np.searchsorted(below, 1 - side)) + 1
        return Between(
            float(attained_quantile(each, share)),
            float(each[low]) if low >= 0 else 0.0,
            float(each[high]) if high < n else np.inf,
            level,
        )

    def moments(self, k: int = 2) -> Moments:
        """Return raw moments of all losses that occurred; an estimate of those of the distribution."""
        return moments(self.epsilon, k, delta=self.delta, kind="estimate")
