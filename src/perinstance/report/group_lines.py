"""Losses by group, and what a redacted copy leaves out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import charts, words
from perinstance.report.sections import ReportRequest, Section, SectionTable, TableLine
from perinstance.report.svg import clean

# Of fewer people the 95% quantile is one of the two largest losses, and points to a single person.
SMALL_GROUP = 40
MOST_GROUPS = 40


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


def groups_section(asked: ReportRequest) -> Section:
    """Show who carries the loss, if labels were given."""
    if asked.groups is None:
        missing = (
            "No grouping was asked for. Pass one label per person to see who carries the loss: a ward, a region, a sex."
        )
        return Section("groups", "Groups", lead=missing)
    rows = group_rows(asked.epsilon, asked.groups)
    return Section(
        "groups",
        "Groups",
        figure=_groups_chart(rows, asked.redact),
        figure_label="Losses by group, figure",
        caption=f"Groups of fewer than {SMALL_GROUP} people are greyed: their quantiles say more about single people "
        "than about the group.",
        table=SectionTable(
            "Losses by group",
            ["Group", "People", "Median ε", "95%", "Maximum"],
            [_group_line(row, asked.redact) for row in rows],
        ),
    )


def _group_line(row: charts.GroupRow, redact: bool) -> TableLine:
    """Write a group down; a redacted copy tells nothing of a small one, and no maximum."""
    hidden = redact and row.small
    median, q95 = ("left out", "left out") if hidden else (words.loss(row.median), words.loss(row.q95))
    largest = "left out" if redact else words.loss(row.largest)
    return TableLine([row.name, f"{row.size:,}", median, q95, largest], "small" if row.small else "")


def _groups_chart(rows: list[charts.GroupRow], redact: bool) -> Markup | None:
    """Draw the groups; a redacted copy draws no small ones and no maximum: that is one person."""
    if redact:
        rows = [replace(row, largest=row.q95) for row in rows if not row.small]
    return charts.groups(rows) if rows else None
