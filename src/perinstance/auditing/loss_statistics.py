"""Everybody's losses in a few numbers: a summary, groups, tails. What ``Audit`` and the ledger's totals share."""

from __future__ import annotations

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
    median, p95, p99, maximum = attained_quantile(losses, [0.5, 0.95, 0.99, 1.0])
    return Summary(
        people=len(losses),
        delta=delta,
        kind=kind,
        mean=float(losses.mean()),
        median=float(median),
        p95=float(p95),
        p99=float(p99),
        maximum=float(maximum),
        infinite=int(np.isinf(losses).sum()),
    )


def share_above(losses: Floats, limits: ArrayLike) -> Any:
    """Return the share of people whose loss exceeds each limit."""
    at = np.asarray(limits, dtype=np.float64)
    if np.isnan(at).any():
        raise InvalidInput("tail needs a number, got NaN; try tail(2.0)")
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
    cuts = np.searchsorted(member[order], np.arange(len(names) + 1))
    rows = []
    for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
        who = order[start:stop]
        of = losses[who]
        quantiles = attained_quantile(of, [0.5, 0.95, 1.0])
        rows.append((len(of), of.mean(), *quantiles, weakest_of_codes(codes[who])))
    titles = ("people", "mean", "median", "p95", "maximum", "kind")
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.empty(0)] * len(titles)
    return {"group": names, **dict(zip(titles, columns, strict=True))}
