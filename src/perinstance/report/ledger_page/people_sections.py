"""Who is near the end of a budget, who is near a limit, and who has lost most."""

from __future__ import annotations

from perinstance.report import words
from perinstance.report.charts.svg import clean
from perinstance.report.ledger_page.page_request import PageRequest
from perinstance.report.sections import Section, SectionTable, TableLine

NEAR = 0.8  #: of a limit
LEVELS = (0.5, 0.8, 0.95)  #: of a budget


def budget_section(asked: PageRequest) -> list[Section]:
    """Show how much of the filter's budget people have spent."""
    if asked.use is None or asked.budget is None:
        return []
    shares = asked.use.shares
    lines = [TableLine([f"more than {words.share(level)}", asked.count(shares.above(level))]) for level in LEVELS]
    tables = [SectionTable("Budgets spent", ["Of the budget", "People have spent"], lines)]
    if not asked.redact and asked.use.most:
        people = [TableLine([clean(name, 40), words.share_at_most(share)]) for name, share in asked.use.most]
        lead = f"The {len(people)} who have spent most:" if len(people) > 1 else ""
        tables.append(SectionTable("Who has spent most", ["Person", "Budget spent"], people, lead=lead))
    held = words.loss(asked.budget.epsilon(asked.overview.delta))
    return [
        Section(
            id="budget",
            heading="Who is near the end of the budget",
            lead="A filter is on: a release uses only rows of people whose budget lasts, so nobody's total passes "
            f"ε = {held} at this δ, whatever is released. Nobody but the curator may learn who is left out.",
            tables=tuple(tables),
        )
    ]


def limit_section(asked: PageRequest) -> list[Section]:
    """Show who has passed a limit, or is close to it."""
    if asked.limit is None or not asked.people:
        return []
    totals, limit = asked.overview.totals, asked.limit
    over, near = totals.above(limit), totals.above(NEAR * limit)
    lines = [
        TableLine([f"more than the limit, {words.loss(limit)}", asked.count(over)]),
        TableLine([f"more than {words.share(NEAR)} of it", asked.count(near)]),
    ]
    return [
        Section(
            id="limit",
            heading="Who is close to the limit",
            lead="A limit is watched here and enforced by nobody: leaving somebody out because of their total is a "
            "release of its own. To enforce one, make a ledger with a filter.",
            tables=(SectionTable("People by the limit", ["Lost in total", "People"], lines),),
        )
    ]


def exposed_section(asked: PageRequest) -> list[Section]:
    """List the people with the largest totals."""
    heading = "Who has lost most"
    if not asked.people:
        return []
    if asked.redact:
        missing = "Left out of this redacted copy: single people cannot be listed without exposing them."
        return [Section("worst", heading, lead=missing)]
    heads, lines = ["Person", "Total ε", "Releases", "Kind"], []
    for person in asked.overview.worst:
        cells = [clean(person.id, 40), words.loss(person.epsilon), f"{person.releases:,}", person.kind]
        if asked.limit is not None:
            cells.append(words.share_at_most(min(person.epsilon / asked.limit, 1e6)))
        lines.append(TableLine(cells))
    if asked.limit is not None:
        heads.append("Of the limit")
    lead = "The largest totals, over all releases." if len(lines) > 1 else ""
    return [Section("worst", heading, lead=lead, tables=(SectionTable("The largest totals", heads, lines),))]
