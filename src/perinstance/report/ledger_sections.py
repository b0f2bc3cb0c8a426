"""The sections of a ledger's page: growth, costs, budgets, limits, people, distribution, worth, log, verification."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perinstance.auditing.loss_statistics import LossCounts
from perinstance.ledger.budgets import Budget
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.growth import BudgetUse, LedgerOverview
from perinstance.ledger.verification import Verification
from perinstance.pairs.kinds import KINDS
from perinstance.report import charts, words
from perinstance.report.figures import distribution_of
from perinstance.report.page import Section, SectionTable
from perinstance.report.redaction import SHARED, SharedLosses, grid_text, shared_losses
from perinstance.report.svg import clean

NEAR = 0.8  #: of a limit
LEVELS = (0.5, 0.8, 0.95)  #: of a budget
SHOWN = 12  # letters of a digest
DRAWN = 12  # releases that get a bar: those that cost most
FOLD = "The same as a table"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A ledger as it is now, and what the curator asked to see of it."""

    releases: tuple[ChargedRelease, ...]  #: cancelled ones too
    overview: LedgerOverview
    checked: Verification
    limit: float | None  #: a total that nobody should pass
    budget: Budget | None
    use: BudgetUse | None
    guarantee: bool
    why: str  #: why totals are guarantees, or why not
    shared: SharedLosses | None  #: what may be shown of the totals in a redacted copy; None in a full one

    @property
    def redact(self) -> bool:
        """Whether this is a copy for colleagues."""
        return self.shared is not None

    @property
    def people(self) -> int:
        """How many people are in any release that counts."""
        return self.overview.totals.people

    @property
    def kept(self) -> float | None:
        """What the filter keeps everybody's total below."""
        return None if self.budget is None else self.budget.epsilon(self.overview.delta)

    def count(self, people: int) -> str:
        """Write a number of people; a redacted copy does not tell small ones."""
        return f"fewer than {SHARED}" if self.redact and people < SHARED else f"{people:,}"

    def levels(self, counts: LossCounts) -> list[float]:
        """Return median, 95% and maximum; in a redacted copy the first two, rounded up to what enough people share."""
        if not self.redact:
            return counts.quantile([0.5, 0.95, 1.0]).tolist()
        if counts.people < SHARED:
            return [math.inf, math.inf]
        shared = shared_losses(*counts.weighted())
        return [shared.quantile(0.5).high, shared.quantile(0.95).high]

    def loss(self, value: float) -> str:
        """Write what ``levels`` returned."""
        if not self.redact:
            return words.loss(value)
        return f"at most {grid_text(value)}" if math.isfinite(value) else "–"


def growth_section(asked: PageRequest) -> Iterator[Section]:
    """Show median, 95% and maximum of the totals after each release, beside one number for everybody."""
    grown = asked.overview.growth
    if not grown:
        return
    across = np.arange(1.0, len(grown) + 1)
    rows = np.array([asked.levels(part.totals) for part in grown])
    names = [("median", ""), ("95% of the people", "second"), ("maximum", "third")]
    drawn = [(name, row) for name, row in zip(names, rows.T, strict=False) if np.isfinite(row).any() and row.any()]
    curves = [charts.Curve(*name, across, row) for name, row in drawn]
    lines = [
        [clean(part.release.key, 40), part.release.at[:10], *map(asked.loss, row)]
        for part, row in zip(grown, rows, strict=True)
    ]
    heads = ["After release", "Charged", "Median", "95%"]
    caption = "Totals of everybody who was in any release up to then."
    if not asked.redact:
        basic = [part.basic for part in grown]
        curves.append(charts.Curve("one number for everybody", "guess", across, np.array(basic)))
        caption += " One number for everybody: the largest loss of each release at its share of δ, added up."
        heads += ["Maximum", "One number for all"]
        lines = [[*line, words.loss(value)] for line, value in zip(lines, basic, strict=True)]
    if asked.overview.step > 1:
        caption += f" Drawn from every {asked.overview.step:,}th person, the most exposed included."
    figure, label = charts.growth(curves) if curves else None, "Totals after each release"
    table = SectionTable(label, heads, lines, fold=FOLD)
    yield Section("growth", "How totals grew", "", "", figure, f"{label}, figure", caption, tables=(table,))


def cost_section(asked: PageRequest) -> Iterator[Section]:
    """Show what each release added, the one that cost most first."""
    grown = asked.overview.growth
    if not grown:
        return
    shares = [asked.overview.share(k) for k in range(len(grown))]
    order = list(range(len(grown))) if asked.redact else sorted(range(len(grown)), key=lambda k: -shares[k])
    rows: list[charts.GroupRow] = []
    lines = []
    for k in order:
        part, levels = grown[k], asked.levels(grown[k].added)
        people, name = part.release.people, clean(part.release.key, 40)
        if all(map(math.isfinite, levels)) and len(rows) < DRAWN:
            rows.append(charts.GroupRow(name, people, levels[0], levels[1], levels[-1], people < SHARED))
        mean = part.added.total / max(part.added.people - part.added.infinite, 1)
        told = [] if asked.redact else [words.share(shares[k]), words.loss(mean)]
        lines.append([name, asked.count(people), *told, *map(asked.loss, levels)])
    heads = ["Release", "People", "Share of all losses", "Mean added", "Median added", "95%", "Maximum added"]
    if asked.redact:
        heads = [*heads[:2], *heads[4:6]]
    caption = "What each release added to the totals of its people, at the place in the order at which it was charged."
    if len(rows) < len(grown):
        caption += f" The {len(rows)} of {len(grown)} that " + ("can be shown." if asked.redact else "cost most.")
    first, most = grown[order[0]].release, words.share(shares[order[0]])
    lead = f"“{clean(first.key, 60)}” added {most} of all losses, on {first.at[:10]}."
    lead = lead if asked.overview.totals.total else "No release cost anybody anything."
    figure = charts.groups(rows, "cost", not asked.redact, "What releases added", "added ε") if rows else None
    label, lead = "What each release added", "" if asked.redact else lead
    table = SectionTable(label, heads, lines, fold=FOLD)
    yield Section("cost", "Which release cost most", lead, "", figure, f"{label}, figure", caption, tables=(table,))


def budget_section(asked: PageRequest) -> Iterator[Section]:
    """Show how much of the filter's budget people have spent."""
    if asked.use is None or asked.kept is None:
        return
    lines = [[f"more than {words.share(level)}", asked.count(asked.use.shares.above(level))] for level in LEVELS]
    tables = [SectionTable("Budgets spent", ["Of the budget", "People have spent"], lines)]
    if not asked.redact and asked.use.most:
        people = [[clean(name, 40), words.share_at_most(share)] for name, share in asked.use.most]
        lead = f"The {len(people)} who have spent most:" if len(people) > 1 else ""
        tables.append(SectionTable("Who has spent most", ["Person", "Budget spent"], people, lead=lead))
    lead = (
        "A filter is on: a release uses only rows of people whose budget lasts, so nobody's total passes "
        f"ε = {words.loss(asked.kept)} at this δ, whatever is released. Nobody but the curator may learn who is left "
        "out."
    )
    yield Section("budget", "Who is near the end of the budget", lead=lead, tables=tuple(tables))


def limit_section(asked: PageRequest) -> Iterator[Section]:
    """Show who has passed a limit, or is close to it."""
    limit, totals = asked.limit, asked.overview.totals
    if limit is None or not asked.people:
        return
    lines = [
        [f"more than the limit, {words.loss(limit)}", asked.count(totals.above(limit))],
        [f"more than {words.share(NEAR)} of it", asked.count(totals.above(NEAR * limit))],
    ]
    lead = (
        "A limit is watched here and enforced by nobody: leaving somebody out because of their total is a release of "
        "its own. To enforce one, make a ledger with a filter."
    )
    table = SectionTable("People by the limit", ["Lost in total", "People"], lines)
    yield Section("limit", "Who is close to the limit", lead=lead, tables=(table,))


def exposed_section(asked: PageRequest) -> Iterator[Section]:
    """List the people with the largest totals."""
    if not asked.people:
        return
    heads, lead = ["Person", "Total ε", "Releases", "Kind"], "The largest totals, over all releases."
    lines = [[clean(p.id, 40), words.loss(p.epsilon), f"{p.releases:,}", p.kind] for p in asked.overview.worst]
    if asked.limit is not None:
        heads.append("Of the limit")
        parts = [words.share_at_most(min(person.epsilon / asked.limit, 1e6)) for person in asked.overview.worst]
        lines = [[*line, part] for line, part in zip(lines, parts, strict=True)]
    tables: tuple[SectionTable, ...] = (SectionTable("The largest totals", heads, lines),)
    if asked.redact:
        lead, tables = "Left out of this redacted copy: single people cannot be listed without exposing them.", ()
    yield Section("worst", "Who has lost most", lead if asked.redact or len(lines) > 1 else "", tables=tables)


def distribution_section(asked: PageRequest) -> Iterator[Section]:
    """Show how many people lost how much in total."""
    if not asked.people or (asked.shared is not None and asked.shared.most is None):
        return
    basic = None if asked.redact else asked.overview.growth[-1].basic
    statements = [(asked.limit, "limit", "dp"), (asked.kept, "kept by the filter", "promise")]
    statements.append((basic, "one number for all", "everyone"))
    caption = "Top: number of people by total. Bottom: share of the people who lost at most that much."
    losses = asked.overview.totals.weighted()
    yield distribution_of("How totals are distributed now", *losses, statements, asked.shared, caption)


def worth_section(asked: PageRequest) -> Iterator[Section]:
    """Tell guarantees from readings."""
    counting = [release for release in asked.releases if release.counts]
    if not counting:
        return
    fixed = sum(release.fixed_in_advance for release in counting)
    told = {"decided on before any output was seen": fixed, "decided on later, or nobody said": len(counting) - fixed}
    if not asked.redact:
        names = ("with exact losses", "with upper bounds for somebody", "with estimates for somebody")
        told |= {name: sum(r.kind == kind for r in counting) for name, kind in zip(names, KINDS, strict=True)}
    lead = (
        "Losses of releases that were all decided on in advance add up to a guarantee. If later ones were chosen after "
        "looking at earlier outputs, the total is a reading: it says what happened and promises nothing; a filter "
        "guarantees its budget beside it. An estimate is never a guarantee. Here: "
        f"{'guarantees' if asked.guarantee else 'readings'}, because {asked.why}."
    )
    lines = [[name, f"{count:,}"] for name, count in told.items()]
    table = SectionTable("Releases by what they are worth", ["Releases", "How many"], lines)
    yield Section("worth", "Guarantees and readings", lead=lead, tables=(table,))


def log_section(asked: PageRequest) -> Iterator[Section]:
    """List everything that was charged."""
    if not asked.releases:
        yield Section("log", "The log", lead="Nothing has been charged.")
        return
    prose, lines = "What was published", []
    heads = ["Key", "Charged", "State", "In advance", "People", *([] if asked.redact else ["Kind", "Digest"]), prose]
    for release in asked.releases:
        cells = [clean(release.key, 60), release.at[:16].replace("T", " "), release.state]
        cells += ["yes" if release.fixed_in_advance else "no", asked.count(release.people)]
        if not asked.redact:  # one person's kind makes that of the release, and a digest can be guessed
            cells += [release.kind, release.stored.content[:SHOWN]]
        lines.append([*cells, clean(release.mechanism, 120)])
    table = SectionTable("All releases", heads, lines, fold=f"{len(lines):,} entries", prose=(prose,))
    yield Section("log", "The log", tables=(table,))


def verification_section(asked: PageRequest) -> Iterator[Section]:
    """Say whether the log and every file are what was written."""
    found = asked.checked
    lines = [
        ["Log and files", "in order" if found.ok else "damaged"],
        ["Events in the log", f"{found.events:,}"],
        ["Left by interrupted charges", f"{len(found.leftovers):,} files, which count nowhere"],
        *([] if asked.redact else [["Head of the chain", found.head]]),
    ]
    lead = (
        "Every event carries the hash of the one before, every file its own. Keep the head somewhere else: it tells "
        "whether this ledger was replaced as a whole."
    )
    table = SectionTable("Verification", ["Checked", "Found"], lines)
    yield Section("verify", "Verification", lead=lead, tables=(table,))


#: What is shown, in this order. A new section is a function in this list.
SECTIONS = (
    growth_section,
    cost_section,
    budget_section,
    limit_section,
    exposed_section,
    distribution_section,
    worth_section,
    log_section,
    verification_section,
)
