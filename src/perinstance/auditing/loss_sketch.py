"""What is known of many losses in little room: counts in narrow bins, sums of powers, the maximum.

A bin has a relative width of 2^-10: all losses that share the first bits of their float64, so the sketches of two sets
of people add exactly, in any order. A quantile is answered by the upper end of its bin: never below, and at most a
thousandth of itself above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.loss_statistics import Summary
from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import weakest_of_codes

CUT_BITS = 42  #: of the 52 behind the binary point; 10 are kept
INFINITE = int(np.float64(np.inf).view(np.int64)) >> CUT_BITS  #: the bin of infinity
POWERS = 4
#: how much above the truth a quantile may be, relatively
QUANTILE_ERROR = 2.0**-10


@dataclass(frozen=True, slots=True, eq=False)
class LossSketch:
    """The losses of some people; adding two gives those of both sets."""

    bins: NDArray[np.int64]  #: the first bits of the losses that occur, in rising order
    counts: NDArray[np.int64]
    powers: Floats  #: sums of epsilon, its square, ...
    maximum: float
    kinds: NDArray[np.int64]  #: people by the code of their kind

    @classmethod
    def of(cls, losses: Floats, codes: NDArray[np.uint8]) -> LossSketch:
        """Look at some losses."""
        positive = np.abs(losses)  # -0.0 is 0.0
        bins, counts = np.unique(positive.view(np.int64) >> CUT_BITS, return_counts=True)
        with np.errstate(over="ignore"):
            powers = np.array([np.sum(positive**k) for k in range(1, POWERS + 1)])
        maximum = float(positive.max()) if len(positive) else 0.0
        return cls(bins, counts.astype(np.int64), powers, maximum, np.bincount(codes, minlength=3))

    def __add__(self, other: LossSketch) -> LossSketch:
        bins, at = np.unique(np.concatenate([self.bins, other.bins]), return_inverse=True)
        counts = np.zeros(len(bins), dtype=np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        powers, maximum = self.powers + other.powers, max(self.maximum, other.maximum)
        return LossSketch(bins, counts, powers, maximum, self.kinds + other.kinds)

    @property
    def people(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    @property
    def kind(self) -> Any:
        """The weakest kind."""
        return weakest_of_codes(np.flatnonzero(self.kinds).astype(np.uint8))

    @property
    def infinite(self) -> int:
        """How many have no finite loss."""
        return int(self.counts[self.bins == INFINITE].sum())

    def weighted(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the upper ends of the bins, none above the maximum, and how many people are in each."""
        ends = ((self.bins << CUT_BITS) | ((1 << CUT_BITS) - 1)).view(np.float64)
        return np.minimum(np.where(self.bins == INFINITE, np.inf, ends), self.maximum), self.counts

    def quantile(self, q: ArrayLike) -> Any:
        """Return the least upper end of a bin that at least a share q of the people does not exceed."""
        shares = np.asarray(q, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise InvalidInput("a quantile is asked for a share between 0 and 1; try quantile(0.95)")
        ends, counts = self.weighted()
        reached = np.cumsum(counts)
        wanted = np.maximum(1, np.ceil(shares * self.people))
        found = ends[np.minimum(np.searchsorted(reached, wanted), len(ends) - 1)]
        return float(found) if found.ndim == 0 else found

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss may exceed t: those of the bin in which t lies count with them."""
        limits = np.asarray(t, dtype=np.float64)
        if np.isnan(limits).any():
            raise InvalidInput("share_above needs a number, got NaN; try share_above(2.0)")
        below = np.concatenate([[0], np.cumsum(self.counts)])
        first = np.searchsorted(self.bins, np.maximum(limits, 0.0).view(np.int64) >> CUT_BITS)
        share = np.where(limits >= self.maximum, 0.0, 1.0 - below[first] / max(self.people, 1))
        return float(share) if share.ndim == 0 else share

    def moments(self, k: int = POWERS) -> Floats:
        """Return ``E eps, ..., E eps^k``, k at most 4."""
        if not is_whole(k) or not 1 <= k <= POWERS:
            raise InvalidInput(f"k must be a whole number from 1 to {POWERS}, got {k!r}")
        return self.powers[: int(k)] / max(self.people, 1)

    def summary(self, delta: float) -> Summary:
        """Return the losses in a few numbers; the maximum, the mean and the counts are exact."""
        median, p95, p99 = self.quantile([0.5, 0.95, 0.99]).tolist()
        mean = float(self.moments(1)[0])
        return Summary(self.people, delta, self.kind, mean, median, p95, p99, self.maximum, self.infinite)
