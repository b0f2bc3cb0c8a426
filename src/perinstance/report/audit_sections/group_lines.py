"""Losses by group, and what a redacted copy leaves out of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.data.memory.class_words import label_texts
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import charts, words
from perinstance.report.charts.svg import clean
from perinstance.report.redaction import SHARED as SMALL_GROUP
from perinstance.report.redaction import SharedLosses, shared_losses
from perinstance.report.sections import ReportRequest, Section, SectionTable, TableLine

MOST_DRAWN = 20  # groups in the figure: the most exposed ones. The table has all of them.
SIZE_STEP = 20  # sizes of groups in a redacted copy are rounded down to multiples of this


def groupings(groups: Any, n: int) -> dict[str, NDArray]:
    """Return labels by the name of the grouping: one sequence, or several by name (a mapping or a frame).

    >>> sorted(groupings({"ward": ["a", None]}, 2)["ward"])
    ['a', 'missing']
    """
    if groups is None:
        return {}
    if hasattr(groups, "columns"):
        several: Mapping[str, Any] = {str(name): groups[name] for name in groups.columns}
    else:
        several = groups if isinstance(groups, Mapping) else {"": groups}
    for name, labels in several.items():
        if len(labels) != n:
            of = f" of {clean(str(name))!r}" if name else ""
            raise InvalidInput(f"groups{of} must have one label per person ({n}), got {len(labels)}")
    return {str(name): label_texts(labels) for name, labels in several.items()}


def by_group(epsilon: NDArray, labels: Any) -> dict[str, Floats]:
    """Return the losses of each group by its name."""
    texts = label_texts(labels)
    codes: dict[str, int] = {}
    member = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), dtype=np.int64, count=len(texts))
    order = np.argsort(member, kind="stable")
    cuts = np.searchsorted(member[order], np.arange(1, len(codes)))
    return dict(sorted(zip(codes, np.split(np.asarray(epsilon)[order], cuts), strict=True)))


def group_rows(epsilon: NDArray, labels: Any) -> list[charts.GroupRow]:
    """Return quantiles of every group, the most exposed group first."""
    rows = []
    for name, values in by_group(epsilon, labels).items():
        q = attained_quantile(values, (0.5, 0.95, 1.0))
        small = len(values) < SMALL_GROUP
        rows.append(charts.GroupRow(clean(name, 40), len(values), float(q[0]), float(q[1]), float(q[2]), small))
    return sorted(rows, key=lambda row: -row.largest)


def groups_section(asked: ReportRequest) -> list[Section]:
    """Show who carries the loss, if labels were given: a section for each grouping."""
    if not asked.groups:
        missing = (
            "No grouping was asked for. Pass one label per person to see who carries the loss: a ward, a region, a sex."
        )
        return [Section("groups", "Groups", lead=missing)]
    return [
        shared_groups(_large_groups(asked.epsilon, labels), k, name)
        if asked.redact
        else all_groups(group_rows(asked.epsilon, labels), k, name)
        for k, (name, labels) in enumerate(asked.groups.items(), start=1)
    ]


def all_groups(rows: list[charts.GroupRow], number: int, name: str) -> Section:
    """Show every group of one grouping, the most exposed first."""
    key, heading = _key_and_heading(number, name)
    drawn = rows[:MOST_DRAWN]
    caption = (
        f"Groups of fewer than {SMALL_GROUP} people are greyed: their quantiles say more about single people than "
        "about the group."
    )
    if len(drawn) < len(rows):
        caption = f"The {len(drawn)} most exposed of {len(rows):,} groups; the table has all of them. {caption}"
    lines = [
        TableLine(
            [row.name, f"{row.size:,}", words.loss(row.median), words.loss(row.q95), words.loss(row.largest)],
            "small" if row.small else "",
        )
        for row in rows
    ]
    heads = ["Group", "People", "Median ε", "95%", "Maximum"]
    fold = f"All {len(rows):,} groups, the most exposed first" if len(drawn) < len(rows) else ""
    return Section(
        key,
        heading,
        figure=charts.groups(drawn, key),
        figure_label="Losses by group, figure",
        caption=caption,
        tables=(SectionTable("Losses by group", heads, lines, fold=fold),),
    )


def _key_and_heading(number: int, name: str) -> tuple[str, str]:
    return f"groups-{number}", f"Groups by {clean(name, 40)}" if name else "Groups"


def _large_groups(epsilon: Floats, labels: Any) -> dict[str, SharedLosses]:
    losses = by_group(epsilon, labels)
    return {name: shared_losses(values) for name, values in losses.items() if len(values) >= SMALL_GROUP}


def shared_groups(shared: Mapping[str, SharedLosses], number: int, name: str) -> Section:
    """Show large groups only, by values that enough of their own people share; sizes are rounded down."""
    key, heading = _key_and_heading(number, name)
    lead = f"Groups of fewer than {SMALL_GROUP} people, and every maximum, are left out of this redacted copy."
    lines = [
        TableLine(
            [
                clean(group, 40),
                f"{found.people // SIZE_STEP * SIZE_STEP:,} or more",
                found.quantile(0.5).words,
                found.quantile(0.95).words,
            ]
        )
        for group, found in sorted(shared.items())
    ]
    heads = ["Group", "People", "Median ε", "95%"]
    tables = (SectionTable("Losses by group", heads, lines),) if lines else ()
    figure = _shared_chart(shared, key)
    caption = "" if figure is None else "Upper ends of cells that at least 40 people of the group share."
    return Section(
        key, heading, lead=lead, figure=figure, figure_label="Losses by group, figure", caption=caption, tables=tables
    )


def _shared_chart(shared: Mapping[str, SharedLosses], key: str) -> Markup | None:
    """Draw the groups of which both the median and the 95% quantile may be told."""
    rows = []
    for name, found in shared.items():
        median, q95 = found.quantile(0.5).high, found.quantile(0.95).high
        if math.isfinite(median) and math.isfinite(q95):
            rows.append(charts.GroupRow(clean(name, 40), found.people, median, q95, q95, small=False))
    rows = sorted(rows, key=lambda row: (-row.q95, row.name))[:MOST_DRAWN]
    return charts.groups(rows, key, maximum=False) if rows else None
