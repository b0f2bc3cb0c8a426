"""Private and non-private accuracy side by side: a section of the curator's report, and lines of the terminal."""

from __future__ import annotations

from perinstance.analysis.utility.accuracy_comparison import AccuracyComparison
from perinstance.report import words
from perinstance.report.sections import Section, SectionTable, TableLine

COST = (
    "Each row was held out once; the private model of the others was drawn for this comparison and thrown away, so the "
    "published draw and its promise are as they would be without it. The errors themselves have no protection: they "
    "are for the curator alone. Publishing them, or choosing what to publish by them, is a release that no promise "
    "covers."
)


def comparison_lines(comparison: AccuracyComparison) -> list[tuple[str, str]]:
    """Name the three models and their errors."""
    share = comparison.measure.startswith("share")
    number = words.share if share else words.number
    return [
        ("private: this release", number(comparison.private)),
        ("not private: no noise, no clipping", number(comparison.not_private)),
        ("no model: the same answer for everybody", number(comparison.constant)),
    ]


def accuracy_section(comparison: AccuracyComparison) -> Section:
    """Make the section."""
    lines = [TableLine([name, error]) for name, error in comparison_lines(comparison)]
    return Section(
        id="accuracy",
        heading="What privacy costs in accuracy",
        lead=f"The {comparison.measure} on rows that the model has not seen; {comparison.parts} parts, each held out once.",
        warning=("Confidential.", COST),
        tables=(SectionTable("Accuracy with and without privacy", ["Model", comparison.measure.capitalize()], lines),),
    )
