"""The distribution of the losses: moments, quantiles, tails, and what a sample of people says about a population.

"pDP of a data set" is the uniform distribution over the people of one table (the paper's moment pDP): its moments are
exact sums. Read as a sample of a population they are estimates, and the bootstrap says how good.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import is_whole, real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile, attained_rank
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class Moments(ShownAsTable):
    """Raw moments ``E eps, .., E eps^k`` of the losses at one delta."""

    raw: Floats
    delta: float
    kind: Kind  #: of the losses; an "estimate" also when the people are a sample
    n: int
    assumptions: tuple[str, ...]

    @property
    def mean(self) -> float:
        """``E eps``."""
        return float(self.raw[0])

    @property
    def variance(self) -> float:
        """``E eps^2 - (E eps)^2``, never negative."""
        return float(max(self.central(2), 0.0))

    @property
    def std(self) -> float:
        """The standard deviation."""
        return self.variance**0.5

    def central(self, k: int) -> float:
        """``E (eps - E eps)^k`` from the raw moments."""
        if not 1 <= k <= len(self.raw):
            raise InvalidInput(f"the central moment must be of order 1 to {len(self.raw)}, got {k}")
        if not np.isfinite(self.raw[:k]).all():
            return np.inf
        raw = np.concatenate([[1.0], self.raw])
        return float(sum(comb(k, j) * raw[j] * (-self.mean) ** (k - j) for j in range(k + 1)))

    def tail_bound(self, threshold: float) -> float:
        """Bound ``P(eps >= t)`` by the moments alone: ``min_k E eps^k / t^k`` (Markov) and Cantelli's inequality.

        >>> round(moments([1.0, 1.0, 2.0], 2).tail_bound(4.0), 6)  # Cantelli: (2/9) / (2/9 + (4 - 4/3)^2)
        0.030303
        """
        if np.isnan(threshold):
            raise InvalidInput("the threshold of a tail must be a number, got NaN; try tail_bound(2.0)")
        if not threshold > 0:
            return 1.0
        k = np.arange(1, len(self.raw) + 1)
        with np.errstate(divide="ignore", over="ignore"):
            bound = float(np.exp(np.min(np.log(self.raw) - k * np.log(threshold))))
        if len(self.raw) >= 2 and np.isfinite(self.raw[1]) and threshold > self.mean:
            gap = (threshold - self.mean) ** 2
            bound = min(bound, self.variance / (self.variance + gap))
        return min(1.0, bound)


def moments(epsilon: Any, k: int = 2, *, delta: float | None = None, kind: Kind | None = None) -> Moments:
    """Return ``E eps, .., E eps^k`` over the people of a data set: of an audit, or of plain losses.

    An audit knows its delta and its kind, and ``kind`` can only weaken it. Plain numbers are taken for losses that
    hold ("upper"); say ``kind`` where more or less is known of them.
    """
    if hasattr(epsilon, "pairs"):
        kind = weakest(epsilon.pairs.kind, kind or "exact")
        epsilon, delta = epsilon.losses, epsilon.delta if delta is None else delta
    losses = _losses(epsilon)
    delta, kind = np.nan if delta is None else delta, weakest(kind or "upper")
    _check_order(k)
    with np.errstate(over="ignore"):
        raw = np.array([np.mean(losses**j) for j in range(1, k + 1)])
    return Moments(raw, float(delta), kind, len(losses), ("each person of this data set counts equally",))


def quantile(epsilon: ArrayLike, q: ArrayLike) -> Floats:
    """Return the smallest loss that at least a share q of the people does not exceed: attained, nothing interpolated.

    >>> quantile([0.1, 0.2, 0.3, 4.0], [0.5, 0.75, 1.0])
    array([0.2, 0.3, 4. ])
    """
    return np.asarray(attained_quantile(_losses(epsilon), q))


def share_above(epsilon: ArrayLike, threshold: ArrayLike) -> Floats:
    """Return the share of the people whose loss exceeds each threshold."""
    losses, limits = np.sort(_losses(epsilon)), real_values("threshold", threshold)
    if np.isnan(limits).any():
        raise InvalidInput("the threshold of a tail must be a number, got NaN; try share_above(epsilon, 2.0)")
    return 1.0 - np.searchsorted(losses, limits, side="right") / len(losses)


@dataclass(frozen=True, slots=True)
class Intervals(ShownAsTable):
    """Bootstrap intervals, one per statistic, for a population that these people were drawn from."""

    estimate: Floats
    low: Floats
    high: Floats
    level: float
    draws: int
    kind: Kind
    assumptions: tuple[str, ...]


def bootstrap(
    epsilon: ArrayLike,
    statistic: str | float = "moments",
    *,
    k: int = 2,
    level: float = 0.95,
    draws: int = 1000,
    rng: np.random.Generator | None = None,
) -> Intervals:
    """Return intervals for raw moments (``statistic="moments"``) or for one quantile (a number in [0, 1]).

    Percentile intervals. They treat the losses as independent draws; losses of one table share a fit, so this is right
    to first order only and is always an estimate.
    """
    losses = _losses(epsilon)
    check_level(level)
    if draws < 1:
        raise InvalidInput(f"draws must be at least 1, got {draws}; try 1000")
    rng, n = np.random.default_rng() if rng is None else rng, len(losses)
    if statistic == "moments":
        _check_order(k)
        with np.errstate(over="ignore"):
            powers = losses[:, None] ** np.arange(1, k + 1)
        estimate, finite = powers.mean(axis=0), np.where(np.isfinite(powers), powers, 0.0)
        # multinomial weights: a resample without an n x draws table of positions
        weights = (rng.multinomial(n, np.full(n, 1 / n)) for _ in range(draws))
        # a resample with an infinite loss in it has infinite moments
        sims = np.stack([np.where((w > 0) @ np.isinf(powers), np.inf, w @ finite / n) for w in weights])
    else:
        share = float(statistic)
        if not 0 <= share <= 1:
            raise InvalidInput(f'statistic must be "moments" or a share in [0, 1], got {share:g}')
        rank = int(attained_rank(n, share))
        estimate, position = np.atleast_1d(quantile(losses, share)), rng.beta(rank, n - rank + 1, size=draws)
        # the quantile of a resample is the order statistic at a Beta-distributed position
        sims = np.sort(losses)[np.minimum((position * n).astype(int), n - 1)][:, None]
    side = (1 - level) / 2
    # order statistics, outwards: nothing is interpolated towards an infinite loss
    low = np.quantile(sims, side, axis=0, method="lower")
    high = np.quantile(sims, 1 - side, axis=0, method="higher")
    assumptions = ("the people are independent draws from a population",)
    return Intervals(estimate, low, high, level, draws, "estimate", assumptions)


def check_level(level: float) -> None:
    """Validate the level of an interval."""
    if not 0 < level < 1:
        raise InvalidInput(f"level must lie in (0, 1), got {level:g}; try 0.95")


def _check_order(k: int) -> None:
    if not is_whole(k) or k < 1:
        raise InvalidInput(f"k must be a whole number >= 1, got {k!r}; try k=2")


def _losses(epsilon: ArrayLike) -> Floats:
    losses = real_values("epsilon", epsilon).ravel()
    if not len(losses):
        raise InvalidInput("there is nobody to take moments over: pass at least one loss")
    if not (losses >= 0).all():
        raise InvalidInput("losses must be numbers >= 0, got NaN or a negative one")
    return losses
