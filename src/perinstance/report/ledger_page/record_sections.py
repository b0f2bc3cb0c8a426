"""What the totals are worth, the log, and whether it is whole."""

from __future__ import annotations

from perinstance.pairs.kinds import KINDS
from perinstance.report.charts.svg import clean
from perinstance.report.ledger_page.page_request import PageRequest
from perinstance.report.sections import Section, SectionTable, TableLine

SHOWN = 12  # letters of a digest


def worth_section(asked: PageRequest) -> list[Section]:
    """Tell guarantees from readings."""
    counting = [release for release in asked.releases if release.counts]
    if not counting:
        return []
    fixed = sum(release.fixed_in_advance for release in counting)
    lines = [
        TableLine(["decided on before any output was seen", f"{fixed:,}"]),
        TableLine(["decided on later, or nobody said", f"{len(counting) - fixed:,}"]),
    ]
    if not asked.redact:
        kinds = {kind: sum(release.kind == kind for release in counting) for kind in KINDS}
        lines += [
            TableLine(["with exact losses", f"{kinds['exact']:,}"]),
            TableLine(["with upper bounds for somebody", f"{kinds['upper']:,}"]),
            TableLine(["with estimates for somebody", f"{kinds['estimate']:,}"]),
        ]
    return [
        Section(
            id="worth",
            heading="Guarantees and readings",
            lead="Losses of releases that were all decided on in advance add up to a guarantee. If later ones were "
            "chosen after looking at earlier outputs, the total is a reading: it says what happened and promises "
            "nothing; a filter guarantees its budget beside it. An estimate is never a guarantee. "
            f"Here: {'guarantees' if asked.guarantee else 'readings'}, because {asked.why}.",
            tables=(SectionTable("Releases by what they are worth", ["Releases", "How many"], lines),),
        )
    ]


def log_section(asked: PageRequest) -> list[Section]:
    """List everything that was charged."""
    heading = "The log"
    if not asked.releases:
        return [Section("log", heading, lead="Nothing has been charged.")]
    heads = ["Key", "Charged", "State", "In advance", "People"]
    heads += ["What was published"] if asked.redact else ["Kind", "Digest", "What was published"]
    lines = []
    for release in asked.releases:
        cells = [clean(release.key, 60), release.at[:16].replace("T", " "), release.state]
        cells += ["yes" if release.fixed_in_advance else "no", asked.count(release.people)]
        if not asked.redact:  # one person's kind makes that of the release, and a digest can be guessed
            cells += [release.kind, release.stored.content[:SHOWN]]
        lines.append(TableLine([*cells, clean(release.mechanism, 120)]))
    return [
        Section(
            id="log",
            heading=heading,
            tables=(SectionTable("All releases", heads, lines, fold=f"{len(lines):,} entries", prose=len(heads) - 1),),
        )
    ]


def verification_section(asked: PageRequest) -> list[Section]:
    """Say whether the log and every file are what was written."""
    found = asked.checked
    lines = [
        TableLine(["Log and files", "in order" if found.ok else "damaged"]),
        TableLine(["Events in the log", f"{found.events:,}"]),
        TableLine(["Left by interrupted charges", f"{len(found.leftovers):,} files, which count nowhere"]),
    ]
    if not asked.redact:
        lines.append(TableLine(["Head of the chain", found.head]))
    return [
        Section(
            id="verify",
            heading="Verification",
            lead="Every event carries the hash of the one before, every file its own. Keep the head somewhere else: it "
            "tells whether this ledger was replaced as a whole.",
            tables=(SectionTable("Verification", ["Checked", "Found"], lines),),
        )
    ]
