"""Everything the report says, gathered from an audit before any markup is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance._version import __version__
from perinstance.errors import InvalidInput
from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import words
from perinstance.report.accuracy_lines import accuracy_section
from perinstance.report.exposed_people import MOST_EXPOSED, ExposedPerson, most_exposed
from perinstance.report.figures import attack_section, distribution_section, noise_section
from perinstance.report.group_lines import SMALL_GROUP, groups_section
from perinstance.report.leverage_plane import plane_section
from perinstance.report.release_words import accuracy_cost, health_lines, recipe, release_line
from perinstance.report.sections import ReportRequest, Section
from perinstance.report.svg import clean

if TYPE_CHECKING:
    from perinstance.analysis.utility.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit

#: What is drawn, in this order. A new chart is a function in this list.
SECTIONS: tuple[Callable[[ReportRequest], Section], ...] = (
    distribution_section,
    plane_section,
    groups_section,
    noise_section,
    attack_section,
)
VERDICT_RATE = 0.01


@dataclass(frozen=True, slots=True)
class Card:
    """One number at a glance."""

    name: str
    value: str
    unit: str = ""
    worst: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """The report, without its markup."""

    title: str
    neighbours: str
    delta: str
    released: str
    redact: bool
    setup: str
    verdict: str
    cards: list[Card]
    worst: list[ExposedPerson]
    sections: list[Section]
    health: list[tuple[str, str]]
    reproduce: str
    version: str


def gather(
    audit: Audit,
    *,
    title: str = "Who paid for this release",
    groups: Sequence[Any] | None = None,
    dp: float | None = None,
    everyone: float | None = None,
    redact: bool = False,
    rechecks: Sequence[Any] = (),
    command: str | None = None,
    comparison: AccuracyComparison | None = None,
) -> Content:
    """Compute what the report shows.

    ``dp`` and ``everyone`` are the worst-case statements to stand beside the losses; ``rechecks`` is what
    ``audit.recheck(X, y)`` found, ``comparison`` what ``perinstance.analysis.compare_accuracy`` did; a redacted copy
    leaves it out.
    """
    epsilon = np.asarray(audit.epsilon, dtype=float)
    if redact and len(epsilon) < SMALL_GROUP:
        raise InvalidInput(
            f"a redacted report needs at least {SMALL_GROUP} people, got {len(epsilon)}; "
            "of so few every number belongs to somebody"
        )
    worst = most_exposed(audit, MOST_EXPOSED)
    asked = ReportRequest(audit, epsilon, [i for i, _ in worst], groups, dp, everyone, redact)
    return Content(
        title=clean(title, 120),
        neighbours="Neighbouring data sets differ by one person's row, added or removed.",
        delta=f"{audit.delta:g}",
        released=release_line(audit.release),
        redact=redact,
        setup=f"{words.people(len(epsilon))}, {audit.health.n_features} features. "
        f"Published: {release_line(audit.release)}.",
        verdict=_verdict(asked),
        cards=_cards(asked),
        worst=[] if redact else [line for _, line in worst],
        sections=[section(asked) for section in SECTIONS]
        + ([] if comparison is None or redact else [accuracy_section(comparison)]),
        health=health_lines(audit, rechecks, redact),
        reproduce=recipe(audit, command),
        version=__version__,
    )


def _verdict(asked: ReportRequest) -> str:
    """Give the answer in two sentences; a redacted copy tells of the 95% person instead of the most exposed one."""
    median, top = float(asked.epsilon[asked.median_person]), float(asked.epsilon[asked.top_person])
    power = float(asked.audit.pairs[[asked.top_person]].attack_power(VERDICT_RATE)[0])
    text = words.verdict(len(asked.epsilon), median, top, asked.dp, power, VERDICT_RATE)
    return text.replace("the most exposed person", "the person at the 95% quantile") if asked.redact else text


def _cards(asked: ReportRequest) -> list[Card]:
    audit, epsilon, dp, everyone = asked.audit, asked.epsilon, asked.dp, asked.everyone
    q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
    cards = [
        Card("People", f"{len(epsilon):,}", f"{audit.health.n_features} features"),
        Card("Median loss", words.loss(float(q[0])), "half lost at most this"),
        Card("95% of the people", words.loss(float(q[1])), "lost at most this"),
    ]
    if not asked.redact:
        cards.append(Card("99% of the people", words.loss(float(q[2])), "lost at most this"))
        cards.append(Card("Most exposed person", words.loss(float(q[3])), "the largest loss"))
    if dp is not None:
        cards.append(
            Card("Worst-case statement (DP)", words.loss(dp), "any data of this size within the bounds", worst=True)
        )
    if everyone is not None:
        cards.append(Card("Anybody within bounds", words.loss(everyone), "with this data set", worst=True))
    cost = accuracy_cost(audit)
    if cost is not None:
        cards.append(Card("Cost of the noise", words.number(cost), "typical change of a prediction"))
    cards.append(Card("Answers", audit.pairs.kind, "weakest kind among the people"))
    return cards
