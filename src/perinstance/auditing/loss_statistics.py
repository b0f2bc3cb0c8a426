"""Everybody's losses in a few numbers: a summary, groups, tails. What ``Audit`` and the ledger's totals share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.kinds import Kind, weakest_of_codes
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.shown_decimals import short_loss_text


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


def share_above(losses: Floats, limits: ArrayLike) -> Any:
    """Return the share of people whose loss exceeds each limit."""
    at = np.asarray(limits, dtype=np.float64)
    if np.isnan(at).any():
        raise InvalidInput("share_above needs a number, got NaN; try share_above(2.0)")
    ordered = np.sort(losses)
    share = 1.0 - np.searchsorted(ordered, at, side="right") / max(len(ordered), 1)
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
