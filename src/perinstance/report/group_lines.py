"""Losses by group, and what a redacted copy leaves out of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from perinstance.auditing.loss_statistics import LossCounts
from perinstance.data.memory.columns import label_texts
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.report import charts, words
from perinstance.report.page import Section, SectionTable
from perinstance.report.redaction import SHARED as SMALL_GROUP
from perinstance.report.redaction import shared_losses
from perinstance.report.reported_losses import ReportRequest, weighted
from perinstance.report.svg import clean

MOST_DRAWN = 20  # groups in the figure: the most exposed ones. The table has all of them.
QUANTILES = (0.5, 0.95, 1.0)
SIZE_STEP = 20  # sizes of groups in a redacted copy are rounded down to multiples of this


def groupings(groups: Any, audit: Any, epsilon: Floats) -> dict[str, dict[str, LossCounts]]:
    """Return the losses of each group by the name of the grouping: labels, or several by name (a mapping or a frame).

    Of an audit whose losses lie with workers ``groups`` names columns of its table.
    """
    if groups is None:
        return {}
    if hasattr(audit, "sketches_by"):
        names = [groups] if isinstance(groups, str) else list(groups)
        if not all(isinstance(name, str) for name in names):
            raise InvalidInput("groups must name columns of the audited table; labels that lie here cannot be matched")
        return {name: audit.sketches_by(name) for name in names}
    if hasattr(groups, "columns"):
        several: Mapping[str, Any] = {str(name): groups[name] for name in groups.columns}
    else:
        several = groups if isinstance(groups, Mapping) else {"": groups}
    n = len(audit)
    several = {name: audit.person_labels(labels) for name, labels in several.items()}
    for name, labels in several.items():
        if len(labels) != n:
            of = f" of {clean(str(name))!r}" if name else ""
            raise InvalidInput(f"groups{of} must have one label per person ({n}), got {len(labels)}")
    return {str(name): by_group(epsilon, labels) for name, labels in several.items()}


def by_group(epsilon: Floats, labels: Any) -> dict[str, LossCounts]:
    """Return the losses of each group by its name, given one label per person."""
    names, member = np.unique(label_texts(labels).astype(str), return_inverse=True)
    order = np.argsort(member, kind="stable")
    cuts = np.searchsorted(member[order], np.arange(1, len(names)))
    groups = {str(name): LossCounts(math.inf) for name in names}
    for counts, losses in zip(groups.values(), np.split(epsilon[order], cuts), strict=True):
        counts.add(losses)
    return groups


def group_rows(groups: Mapping[str, LossCounts], most: float = math.inf) -> list[charts.GroupRow]:
    """Return quantiles of every group, none above ``most``, the most exposed group first."""
    rows = []
    for name, counts in groups.items():
        median, q95, top = np.minimum(counts.quantile(QUANTILES), most).tolist()
        rows.append(charts.GroupRow(clean(name, 40), counts.people, median, q95, top, counts.people < SMALL_GROUP))
    return sorted(rows, key=lambda row: -row.largest)


def groups_section(asked: ReportRequest) -> Iterator[Section]:
    """Show who carries the loss, if labels were given: a section for each grouping."""
    if not asked.groups and not asked.scattered:
        missing = "No grouping was asked for. Pass one label per person to see who carries the loss: "
        yield Section("groups", "Groups", lead=missing + "a ward, a region, a sex.")
    most = asked.statements.most
    for number, (name, groups) in enumerate(asked.groups.items(), start=1):
        key, heading = f"groups-{number}", f"Groups by {clean(name, 40)}" if name else "Groups"
        if asked.redact:
            yield _shared_groups(groups, most, key, heading)
            continue
        rows = group_rows(groups, most)
        drawn, fold = rows[:MOST_DRAWN], ""
        caption = (
            f"Groups of fewer than {SMALL_GROUP} people are greyed: their quantiles say more about single people than "
            "about the group."
        )
        if len(drawn) < len(rows):
            caption = f"The {len(drawn)} most exposed of {len(rows):,} groups; the table has all of them. {caption}"
            fold = f"All {len(rows):,} groups, the most exposed first"
        lines = [[row.name, f"{row.size:,}", *map(words.loss, (row.median, row.q95, row.largest))] for row in rows]
        heads = ["Group", "People", "Median ε", "95%", "Maximum"]
        table = SectionTable("Losses by group", heads, lines, fold=fold, grey=[row.small for row in rows])
        figure = charts.groups(drawn, key)
        yield Section(key, heading, "", "", figure, "Losses by group, figure", caption, tables=(table,))


def _shared_groups(groups: Mapping[str, LossCounts], most: float, key: str, heading: str) -> Section:
    """Show large groups only, by values that enough of their own people share; sizes are rounded down."""
    lead = f"Groups of fewer than {SMALL_GROUP} people, and every maximum, are left out of this redacted copy."
    lines, rows = [], []
    for group, counts in sorted(groups.items()):
        if counts.people < SMALL_GROUP:
            continue
        found = shared_losses(*weighted(counts, most))
        median, q95 = found.quantile(0.5), found.quantile(0.95)
        lines.append([clean(group, 40), f"{found.people // SIZE_STEP * SIZE_STEP:,} or more", median.words, q95.words])
        if math.isfinite(median.high) and math.isfinite(q95.high):
            rows.append(charts.GroupRow(clean(group, 40), found.people, median.high, q95.high, q95.high, small=False))
    drawn = sorted(rows, key=lambda row: (-row.q95, row.name))[:MOST_DRAWN]
    heads = ["Group", "People", "Median ε", "95%"]
    figure = charts.groups(drawn, key, maximum=False) if drawn else None
    caption = "Upper ends of cells that at least 40 people of the group share."
    tables = (SectionTable("Losses by group", heads, lines),) if lines else ()
    return Section(key, heading, lead, "", figure, "Losses by group, figure", caption, tables=tables)
