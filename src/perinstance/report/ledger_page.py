"""Everything the page of a ledger says, gathered before any markup is made."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perinstance.checked_numbers import positive, probability
from perinstance.ledger.totals.everybody import worth
from perinstance.pairs.kinds import is_bound, weakest
from perinstance.report import words
from perinstance.report.ledger_sections import SECTIONS, PageRequest
from perinstance.report.page import Card, Page, refuse_few, write_page
from perinstance.report.redaction import SHARED, grid_text, shared_losses
from perinstance.report.svg import clean

if TYPE_CHECKING:
    from perinstance.ledger import Ledger


REDACTED = (
    " Redacted for colleagues: ids, extremes, notes and digests are left out. This copy is still not differentially "
    "private."
)
UNSAID = (
    "It knows what was charged. What was published on the same people and never charged is missing from every number.",
    "Totals say what all these releases together tell about one person. They hold for whoever sees all of them.",
    "Refusing or leaving out somebody because of these numbers is a release of its own, unless a filter was on from "
    "the start.",
    "It does not say what may be told to people: totals depend on everybody's rows.",
)


def gather(
    ledger: Ledger,
    *,
    delta: float = 1e-6,
    limit: float | None = None,
    redact: bool = False,
    title: str = "What everybody has lost so far",
) -> Page:
    """Compute what the page shows; ``limit`` is a total that nobody should pass."""
    delta = probability("delta", delta)
    limit = None if limit is None else positive("limit", limit)
    checked = ledger.verify()
    overview = ledger.overview(delta)
    if redact:
        refuse_few("page", overview.totals.people)
    releases = ledger.releases()
    guarantee, why = worth([release for release in releases if release.counts], ledger.filter is not None)
    shared = shared_losses(*overview.totals.weighted()) if redact else None
    asked = PageRequest(releases, overview, checked, limit, ledger.filter, ledger.budget_use(), guarantee, why, shared)
    meaning = ""
    if asked.people:
        note = words.kind_note(weakest("upper", overview.kind) if redact else overview.kind)
        name = "guarantees" if guarantee else "readings, not guarantees"
        meaning = f"These totals are {name}: {why}. {note}".rstrip()
    warnings = [("Damaged.", f"{problem}.") for problem in checked.problems]
    waiting = [release.key for release in releases if release.state == "reserved"]
    if waiting:
        some = ", ".join(clean(key, 40) for key in waiting[:5]) + (", ..." if len(waiting) > 5 else "")
        rest = "They count, because they may have been published; say what happened: commit or cancel."
        warnings.append((f"Not settled: {some}.", rest))
    if overview.totals.infinite and not redact:
        told = f"For {words.people(overview.totals.infinite)} no finite total holds at this δ."
        warnings.append(("No bound.", told))
    return Page(
        title=clean(title, 120),
        band="Neighbouring data sets differ by one person, in all releases together. "
        f"δ = {delta:g}.{REDACTED if redact else ''}",
        setup=_setup(asked),
        verdicts=[_verdict(asked), meaning],
        warnings=warnings,
        cards=_cards(asked),
        sections=[section for make in SECTIONS for section in make(asked)],
        unsaid=UNSAID,
    )


def _setup(asked: PageRequest) -> str:
    if not asked.releases:
        return "A ledger without releases."
    first, last = min(r.at for r in asked.releases)[:10], max(r.at for r in asked.releases)[:10]
    span = f"on {first}" if first == last else f"between {first} and {last}"
    count = len(asked.releases)
    return f"{count:,} {'release' if count == 1 else 'releases'}, charged {span}, to {words.people(asked.people)}."


def _verdict(asked: PageRequest) -> str:
    if not asked.people:
        return "Nothing has been charged to anybody yet."
    if asked.shared is not None:
        ends = {name: asked.shared.quantile(q).high for name, q in (("half", 0.5), ("95%", 0.95))}
        told = [f"{name} lost at most ε = {grid_text(high)} in total" for name, high in ends.items() if high < math.inf]
        if not told:
            return f"No total can be told here: fewer than {SHARED} people would stand behind every number."
        return f"Of {words.people(asked.people)}, {' and '.join(told)}."
    median, top = asked.overview.totals.quantile([0.5, 1.0])
    about = "" if is_bound(asked.overview.kind) else "about "
    first = f"Half of the {words.people(asked.people)} lost {about or 'at most '}ε = {words.loss(median)} in total; "
    first += f"the most exposed person lost {about}{words.loss(top)}."
    if asked.people == 1:
        first = f"The one person in this ledger lost {about}ε = {words.loss(top)} in total."
    basic = words.loss(asked.overview.growth[-1].basic)
    first += " One number for everybody, the largest loss of each release added up, would say "
    return f"{first}{basic} to each of them."


def _cards(asked: PageRequest) -> list[Card]:
    counting = sum(release.counts for release in asked.releases)
    cards = [Card("People", f"{asked.people:,}", "in any release"), Card("Releases", f"{counting:,}", "that count")]
    if asked.shared is not None:
        ends = {"Median total": asked.shared.quantile(0.5).high, "95% of the people": asked.shared.quantile(0.95).high}
        cards += [Card(name, grid_text(high), "at most") for name, high in ends.items() if high < math.inf]
    elif asked.people:
        median, most, top = map(words.loss, asked.overview.totals.quantile([0.5, 0.95, 1.0]).tolist())
        basic = words.loss(asked.overview.growth[-1].basic)
        cards += [
            Card("Median total", median, "half lost at most this"),
            Card("95% of the people", most, "lost at most this"),
            Card("Most exposed person", top, "the largest total"),
            Card("One number for all", basic, "largest losses, added", worst=True),
        ]
    if asked.kept is not None:
        cards.append(Card("Kept by the filter", words.loss(asked.kept), "nobody passes this", worst=True))
    if asked.limit is not None:
        cards.append(Card("Limit", words.loss(asked.limit), "watched, not enforced", worst=True))
    kind = "" if asked.redact else f"answers: {asked.overview.kind}"
    cards.append(Card("Worth", "guarantees" if asked.guarantee else "readings", kind))
    return [*cards, Card("Log and files", "in order" if asked.checked.ok else "DAMAGED", "checked just now")]


def render(ledger: Ledger, **options: Any) -> str:
    """Return the page; see ``gather`` for the options."""
    return gather(ledger, **options).markup()


def to_html(ledger: Ledger, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page, readable by its owner alone."""
    return write_page(path, render(ledger, **options))
