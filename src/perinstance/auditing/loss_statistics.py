"""Everybody's losses in a few numbers: a summary, groups, tails; and counts of more losses than one wants to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile, attained_rank
from perinstance.pairs.kinds import Kind, weakest_of_codes
from perinstance.record_tables import ShownAsTable
from perinstance.shown_decimals import short_loss_text


@dataclass(frozen=True, slots=True)
class Summary(ShownAsTable):
    """The losses of all people in a few numbers. ``print`` shows them as a table."""

    people: int
    delta: float
    kind: Kind
    mean: float
    median: float
    p95: float
    p99: float
    maximum: float
    infinite: int  #: people for whom no finite loss holds

    def __str__(self) -> str:
        lines = [f"{self.people:,} people at delta = {self.delta:g} ({self.kind})"]
        for name in ("mean", "median", "p95", "p99", "maximum"):
            lines.append(f"  {name:<8} {short_loss_text(getattr(self, name))}")
        if self.infinite:
            lines.append(f"  infinite {self.infinite:,}")
        return "\n".join(lines)


def summary_of(losses: Floats, delta: float, kind: Kind) -> Summary:
    """Return the losses of all people in a few numbers."""
    if not len(losses):
        return Summary(0, delta, kind, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    median, p95, p99, most = attained_quantile(losses, [0.5, 0.95, 0.99, 1.0]).tolist()
    mean, infinite = float(losses.mean()), int(np.isinf(losses).sum())
    return Summary(len(losses), delta, kind, mean, median, p95, p99, most, infinite)


def share_above(losses: Floats, limits: ArrayLike, counts: NDArray[np.int64] | None = None) -> Any:
    """Return the share of people whose loss exceeds each limit; ``counts`` have each of the losses, which rise then."""
    at = np.asarray(limits, dtype=np.float64)
    if np.isnan(at).any():
        raise InvalidInput("share_above needs a number, got NaN; try share_above(2.0)")
    ordered = np.sort(losses) if counts is None else losses
    upto = np.arange(len(losses) + 1) if counts is None else np.concatenate([[0], np.cumsum(counts)])
    share = 1.0 - upto[np.searchsorted(ordered, at, side="right")] / max(upto[-1], 1)
    return float(share) if share.ndim == 0 else share


def check_labels(labels: NDArray[Any], people: int) -> None:
    """Refuse anything but one label per person."""
    if labels.shape != (people,):
        raise InvalidInput(f"groups must have one label per person ({people}), got shape {labels.shape}")


def by_group(losses: Floats, codes: NDArray[np.uint8], labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return people, mean, median, 95%, maximum and weakest kind of the losses of each group, as columns."""
    check_labels(labels, len(losses))
    names, member = np.unique(labels, return_inverse=True)
    order = np.argsort(member, kind="stable")
    groups = np.split(order, np.searchsorted(member[order], np.arange(1, len(names))))
    found = [summary_of(losses[who], 0.0, weakest_of_codes(codes[who])) for who in groups if len(who)]
    return group_columns(names, found)


def group_columns(names: NDArray[Any], groups: Sequence[Summary]) -> dict[str, NDArray[Any]]:
    """Return the names of groups and what is told of each, as columns."""
    titles = ("people", "mean", "median", "p95", "maximum", "kind")
    return {"group": names, **{title: np.array([getattr(one, title) for one in groups]) for title in titles}}


ROOM = 1 << 20  #: losses of which every value is kept
BITS = 16  #: that are kept behind the leading one of more losses than that
SKETCH_BITS = 10  #: of losses that travel between machines
QUANTILE_ERROR = 2.0**-SKETCH_BITS  #: how much above the truth a quantile of those may be, relatively
POWERS = 4


class LossCounts:
    """How many people have each loss, the sums of its powers, the maximum, and how many losses are of each kind.

    Of more than ``room`` losses values are rounded up to ``bits`` bits behind the leading one. A quantile is then never
    below the truth, and at most ``2^-bits`` of itself above. Counts of two sets of people add exactly, in any order.

    >>> counts = LossCounts()
    >>> counts.add(np.array([0.1, 4.0, 0.2, np.inf]))
    >>> counts.quantile([0.5, 1.0]).tolist(), counts.above(0.2), counts.people
    ([0.2, inf], 2, 4)
    """

    __slots__ = ("_bits", "_counts", "_held", "_new", "_room", "_values", "kinds", "maximum", "powers", "total")

    def __init__(self, room: float = ROOM, bits: int = BITS) -> None:
        self._room, self._bits = room, bits
        self._values: Floats = np.empty(0)
        self._counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._new: list[Floats] = []
        self._held = 0
        self.kinds: NDArray[np.int64] = np.zeros(3, dtype=np.int64)  #: people by the code of their kind
        self.maximum = 0.0
        self.powers = np.zeros(POWERS)  #: sums of epsilon, its square, ...
        self.total = 0.0  #: the sum of the finite ones

    @classmethod
    def rounded(cls, losses: Floats, codes: NDArray[np.uint8] | None = None) -> LossCounts:
        """Count some people in little room: values are rounded up at once."""
        counts = cls(0, SKETCH_BITS)
        counts.add(losses, codes)
        return counts

    def add(self, losses: Floats, codes: NDArray[np.uint8] | None = None) -> None:
        """Count some more people."""
        sizes = np.abs(losses)  # -0.0 is 0.0
        self._new.append(sizes)
        self._held += len(sizes)
        with np.errstate(over="ignore"):
            self.powers = self.powers + [np.sum(sizes**k) for k in range(1, POWERS + 1)]
            self.total += float(sizes[np.isfinite(sizes)].sum())
        self.maximum = max(self.maximum, float(sizes.max(initial=0.0)))
        if codes is not None:
            self.kinds = self.kinds + np.bincount(codes, minlength=3)
        if self._held > self._room:
            values, counts = self._all()
            dropped = np.int64((1 << (52 - self._bits)) - 1)
            self._put(((values.view(np.int64) + dropped) & ~dropped).view(np.float64), counts)
            self._held = 0

    def __add__(self, other: LossCounts) -> LossCounts:
        both = LossCounts(self._room, self._bits)
        both._put(*(np.concatenate(parts) for parts in zip(self._all(), other._all(), strict=True)))
        both._held = self._held + other._held
        both.kinds, both.powers = self.kinds + other.kinds, self.powers + other.powers
        both.maximum, both.total = max(self.maximum, other.maximum), self.total + other.total
        return both

    def _put(self, values: Floats, counts: NDArray[np.int64]) -> None:
        """Keep these values, of which some may be equal."""
        self._values, place = np.unique(values, return_inverse=True)
        self._counts = np.bincount(place, weights=counts, minlength=len(self._values)).astype(np.int64)

    def _all(self) -> tuple[Floats, NDArray[np.int64]]:
        if self._new:
            values = np.concatenate([self._values, *self._new])
            self._new = []
            once = np.ones(len(values) - len(self._counts), dtype=np.int64)
            self._put(values, np.concatenate([self._counts, once]))
        return self._values, self._counts

    def weighted(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the values, rising, none above the maximum, and how many people have each."""
        values, counts = self._all()
        return np.minimum(values, self.maximum), counts

    @property
    def people(self) -> int:
        """How many there are."""
        return int(self._all()[1].sum())

    @property
    def kind(self) -> Kind:
        """The weakest kind."""
        return weakest_of_codes(np.flatnonzero(self.kinds).astype(np.uint8))

    @property
    def infinite(self) -> int:
        """For how many no finite loss holds."""
        values, counts = self.weighted()
        return int(counts[np.isinf(values)].sum())

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest value that at least a share q of the people does not exceed; zeros for nobody."""
        values, counts = self.weighted()
        if not len(values):
            return np.zeros(np.shape(q))[()]
        found = values[np.searchsorted(np.cumsum(counts), attained_rank(self.people, q))]
        return float(found) if found.ndim == 0 else found

    def above(self, limit: float) -> int:
        """Return how many lost more than a limit, where values were rounded up: how many may have."""
        values, counts = self.weighted()
        return int(counts[values > limit].sum())

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss exceeds t, or where values were rounded up may exceed it."""
        values, counts = self.weighted()
        return share_above(values, t, counts)

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
