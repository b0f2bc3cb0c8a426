"""Losses by group, and what a redacted copy leaves out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import charts, words
from perinstance.report.svg import clean

# Of fewer people the 95% quantile is one of the two largest losses, and points to a single person.
SMALL_GROUP = 40
MOST_GROUPS = 40


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One line of the table of groups."""

    name: str
    size: str
    median: str
    q95: str
    largest: str
    small: bool


def group_rows(epsilon: NDArray, labels: Sequence[Any]) -> list[charts.GroupRow]:
    """Return quantiles by group, the most exposed group first; past a limit the rest are put together."""
    names, codes = np.unique(np.asarray([str(label) for label in labels]), return_inverse=True)
    by_size = np.argsort(-np.bincount(codes), kind="stable")[:MOST_GROUPS]
    rows = []
    for code in by_size:
        values = epsilon[codes == code]
        q = attained_quantile(values, (0.5, 0.95, 1.0))
        small = len(values) < SMALL_GROUP
        rows.append(
            charts.GroupRow(clean(str(names[code]), 40), len(values), float(q[0]), float(q[1]), float(q[2]), small)
        )
    return sorted(rows, key=lambda row: -row.largest)


def group_line(row: charts.GroupRow, redact: bool) -> GroupLine:
    """Write a group down; a redacted copy tells nothing of a small one, and no maximum."""
    hidden = redact and row.small
    median, q95 = ("left out", "left out") if hidden else (words.loss(row.median), words.loss(row.q95))
    largest = "left out" if redact else words.loss(row.largest)
    return GroupLine(row.name, f"{row.size:,}", median, q95, largest, row.small)


def groups_chart(rows: list[charts.GroupRow], redact: bool) -> Markup | None:
    """Draw the groups; a redacted copy draws no small ones and no maximum."""
    shown = [_blunt_group(row) for row in rows if not row.small] if redact else rows
    return charts.groups(shown) if shown else None


def _blunt_group(row: charts.GroupRow) -> charts.GroupRow:
    """Drop the extreme of a group: its maximum is one person."""
    return charts.GroupRow(row.name, row.size, row.median, row.q95, row.q95, row.small)
