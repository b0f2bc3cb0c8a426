"""How totals grew, which release cost most, and how totals are distributed now."""

from __future__ import annotations

import math

import numpy as np

from perinstance.ledger.totals.loss_counts import LossCounts
from perinstance.report import charts, words
from perinstance.report.audit_sections.figures import extreme_notes, loss_bars, shared_bars, top_note
from perinstance.report.charts.svg import clean
from perinstance.report.ledger_page.page_request import PageRequest
from perinstance.report.redaction import SHARED, grid_text, shared_losses
from perinstance.report.sections import Section, SectionTable, TableLine

DRAWN = 12  # releases that get a bar: those that cost most
MISSING = "–"


def growth_section(asked: PageRequest) -> list[Section]:
    """Show median, 95% and maximum of the totals after each release, beside one number for everybody."""
    grown = asked.overview.growth
    heading = "How totals grew"
    if not grown:
        return []
    across = np.arange(1.0, len(grown) + 1)
    rows = np.array([_levels(part.totals, asked.redact) for part in grown])
    names = [("median", ""), ("95% of the people", "second"), ("maximum", "third")]
    curves = [
        charts.Curve(*name, across, row)
        for name, row in zip(names, rows.T, strict=False)
        if np.isfinite(row).any() and row.any()
    ]
    caption = "Totals of everybody who was in any release up to then."
    if not asked.redact:
        basic = np.array([part.basic for part in grown])
        curves.append(charts.Curve("one number for everybody", "guess", across, basic))
        caption += " One number for everybody: the largest loss of each release at its share of δ, added up."
    if asked.overview.step > 1:
        caption += f" Drawn from every {asked.overview.step:,}th person, the most exposed included."
    lines = [
        TableLine(
            [clean(part.release.key, 40), part.release.at[:10], *(_loss(v, asked.redact) for v in row)]
            + ([] if asked.redact else [words.loss(part.basic)])
        )
        for part, row in zip(grown, rows, strict=True)
    ]
    heads = ["After release", "Charged", "Median", "95%", "Maximum", "One number for all"]
    return [
        Section(
            id="growth",
            heading=heading,
            figure=charts.growth(curves) if curves else None,
            figure_label="Totals after each release, figure",
            caption=caption,
            tables=(
                SectionTable(
                    "Totals after each release",
                    heads[:4] if asked.redact else heads,
                    lines,
                    fold="The same as a table",
                ),
            ),
        )
    ]


def _levels(counts: LossCounts, redact: bool) -> list[float]:
    """Return median, 95% and maximum; in a redacted copy the first two, rounded up to what enough people share."""
    if not redact:
        return counts.quantiles([0.5, 0.95, 1.0]).tolist()
    if counts.people < SHARED:
        return [math.inf, math.inf]
    shared = shared_losses(*counts.weighted())
    return [shared.quantile(0.5).high, shared.quantile(0.95).high]


def _loss(value: float, redact: bool) -> str:
    if not redact:
        return words.loss(value)
    return f"at most {grid_text(value)}" if math.isfinite(value) else MISSING


def cost_section(asked: PageRequest) -> list[Section]:
    """Show what each release added, the one that cost most first."""
    grown = asked.overview.growth
    if not grown:
        return []
    shares = [asked.overview.share(k) for k in range(len(grown))]
    order = sorted(range(len(grown)), key=lambda k: -shares[k]) if not asked.redact else list(range(len(grown)))
    rows: list[charts.GroupRow] = []
    lines: list[TableLine] = []
    for k in order:
        part, levels = grown[k], _levels(grown[k].added, asked.redact)
        people, name = part.release.people, clean(part.release.key, 40)
        if all(map(math.isfinite, levels)) and len(rows) < DRAWN:
            top = levels[-1]
            rows.append(charts.GroupRow(name, people, levels[0], levels[1], top, people < SHARED))
        told = [_loss(v, asked.redact) for v in levels]
        if not asked.redact:
            finite = max(part.added.people - part.added.infinite, 1)
            told = [words.share(shares[k]), words.loss(part.added.total / finite), *told]
        lines.append(TableLine([name, asked.count(people), *told]))
    heads = ["Release", "People", "Share of all losses", "Mean added", "Median added", "95%", "Maximum added"]
    caption = "What each release added to the totals of its people, at the place in the order at which it was charged."
    if len(rows) < len(grown):
        caption += f" The {len(rows)} of {len(grown)} that " + ("can be shown." if asked.redact else "cost most.")
    return [
        Section(
            id="cost",
            heading="Which release cost most",
            lead="" if asked.redact else _costliest(asked, order, shares),
            figure=charts.groups(rows, "cost", not asked.redact, "What releases added", "added ε") if rows else None,
            figure_label="What each release added, figure",
            caption=caption,
            tables=(
                SectionTable(
                    "What each release added",
                    ["Release", "People", "Median added", "95%"] if asked.redact else heads,
                    lines,
                    fold="The same as a table",
                ),
            ),
        )
    ]


def _costliest(asked: PageRequest, order: list[int], shares: list[float]) -> str:
    first = asked.overview.growth[order[0]].release
    told = f"“{clean(first.key, 60)}” added {words.share(shares[order[0]])} of all losses, on {first.at[:10]}."
    return told if asked.overview.totals.total else "No release cost anybody anything."


def distribution_section(asked: PageRequest) -> list[Section]:
    """Show how many people lost how much in total."""
    if not asked.people:
        return []
    totals = asked.overview.totals
    statements = [
        (asked.limit, "limit", "dp"),
        (None if asked.budget is None else asked.budget.epsilon(asked.overview.delta), "kept by the filter", "promise"),
    ]
    if not asked.redact:
        statements.append((asked.overview.growth[-1].basic, "one number for all", "everyone"))
    markers = [charts.Marker(value, name, look) for value, name, look in statements if value is not None]
    caption = "Top: number of people by total. Bottom: share of the people who lost at most that much."
    if asked.shared is None:
        notes = extreme_notes(totals.people - totals.above(0.0), totals.infinite)
        figure = charts.distribution(*loss_bars(*totals.weighted()), markers, notes)
    elif asked.shared.most is None:
        return []
    else:
        caption += f" Bars of fewer than {SHARED} people are put together, and the highest has no end to show."
        figure = charts.distribution(*shared_bars(asked.shared), markers, top_note(asked.shared))
    heading = "How totals are distributed now"
    return [Section("dist", heading, figure=figure, figure_label="Distribution of the totals", caption=caption)]
