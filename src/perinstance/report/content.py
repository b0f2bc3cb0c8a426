"""Everything the report says, gathered from an audit before any markup is made."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.kinds import Kind, is_bound
from perinstance.report import words
from perinstance.report.audit_sections.figures import (
    accuracy_section,
    attack_section,
    distribution_section,
    noise_section,
)
from perinstance.report.audit_sections.group_lines import groupings, groups_section
from perinstance.report.audit_sections.leverage_plane import plane_section
from perinstance.report.charts.svg import clean
from perinstance.report.exposed_people import MOST_EXPOSED, ExposedPerson, most_exposed
from perinstance.report.meaning import ODDS_RATE, PRIORS, belief_after_alarm, most_attack_power, size_in_words
from perinstance.report.redaction import SHARED, SharedLosses, grid_text, grid_up, shared_losses
from perinstance.report.release_words import (
    accuracy_cost,
    bound_warnings,
    health_lines,
    promise_of,
    recipe,
    release_line,
    versions,
)
from perinstance.report.sections import CommonStatements, ReportRequest, Section

if TYPE_CHECKING:
    from perinstance.analysis.utility.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit
    from perinstance.auditing.rows_again import RareFeatures, RowsBeyond
    from perinstance.auditing.scattered.result import ScatteredAudit

#: What is drawn, in this order. A new chart is a function in this list.
SECTIONS: tuple[Callable[[ReportRequest], list[Section]], ...] = (
    distribution_section,
    plane_section,
    groups_section,
    noise_section,
    attack_section,
)
VERDICT_RATE = 0.01
LEVELS = (0.5, 0.95, 0.99, 1.0)  #: of the cards
NEIGHBOURS = "Neighbouring data sets differ by one person's row, added or removed."


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
    size: str  #: whether this is small or large
    warnings: list[tuple[str, str]]
    cards: list[Card]
    worst: list[ExposedPerson]
    error_head: str
    features: bool  #: whether the table of the most exposed names features
    sections: list[Section]
    health: list[tuple[str, str]]
    reproduce: str
    made: str


def gather(
    audit: Audit,
    *,
    title: str = "Who paid for this release",
    groups: Any = None,
    dp: float | None = None,
    everyone: float | None = None,
    redact: bool = False,
    rechecks: Sequence[Any] = (),
    beyond: RowsBeyond | None = None,
    rare_features: Sequence[RareFeatures] = (),
    command: str | None = None,
    comparison: AccuracyComparison | None = None,
    source: str | None = None,
    target: str | None = None,
    unit: str = "",
) -> Content:
    """Compute what the report shows.

    ``groups`` is one label per person, or several groupings by name. ``dp`` and ``everyone`` are the worst-case
    statements to stand beside the losses. ``rechecks``, ``rare_features`` and ``beyond`` are what ``audit.recheck(X,
    y)``, ``audit.rare_features(X, y)`` and ``audit.rows_beyond(x_bound, y_bound, X, y)`` found. ``source``, ``target``
    and ``unit`` name the file, the column that is predicted and what it is measured in. ``comparison`` is what
    ``perinstance.analysis.compare_accuracy`` found; a redacted copy leaves it out.
    """
    epsilon = np.asarray(audit.epsilon, dtype=float)
    if redact:
        refuse_few(len(epsilon))
    unit, promise = clean(unit, 12), promise_of(audit)
    if promise is not None:
        epsilon = np.minimum(epsilon, promise)  # what is promised holds for everybody
    worst = [] if redact else most_exposed(audit, MOST_EXPOSED, rare_features, unit, promise)
    of_target = f" of {clean(target, 24)}" if target else ""
    asked = ReportRequest(
        audit,
        epsilon,
        [i for i, _ in worst],
        groupings(groups, len(epsilon)),
        CommonStatements(dp, grid_up(everyone) if redact and everyone is not None else everyone, promise),
        f"leave-one-out error{of_target}" + (f", {unit}" if unit else ""),
        shared_losses(epsilon) if redact else None,
    )
    return Content(
        title=clean(title, 120),
        neighbours=NEIGHBOURS,
        delta=f"{audit.delta:g}",
        released=release_line(audit.release),
        redact=redact,
        setup=setup(audit, source),
        verdict=_verdict(asked) if asked.shared is None else shared_verdict(asked.shared, audit.delta, promise),
        size=_size(asked),
        warnings=bound_warnings(float(epsilon.max()), audit.health, asked.statements, beyond, redact),
        cards=_cards(asked),
        worst=[line for _, line in worst],
        error_head=f"Prediction error{of_target} without the person",
        features=bool(rare_features) and not redact,
        sections=[section for make in SECTIONS for section in make(asked)]
        + ([] if comparison is None or redact else [accuracy_section(comparison)]),
        health=health_lines(audit.health, Counter(np.asarray(audit.kind).tolist()), rechecks, redact),
        reproduce=recipe(audit, command),
        made=made(),
    )


def refuse_few(n: int) -> None:
    """Refuse a redacted copy of so few people that every number is somebody's."""
    if n < SHARED:
        raise InvalidInput(
            f"a redacted report needs at least {SHARED} people, got {n}; of so few every number belongs to somebody"
        )


def setup(audit: Audit | ScatteredAudit, source: str | None) -> str:
    """Say whose losses these are, and what was published."""
    table = f"Table: {clean(source, 80)}. " if source else ""
    count = f"{words.people(len(audit))}, {words.features(audit.health.n_features)}."
    return f"{table}{count} Published: {release_line(audit.release)}."


def made() -> str:
    """Say when and by what this page was made."""
    return f"Made on {datetime.date.today().isoformat()} by {versions()}."


def _verdict(asked: ReportRequest) -> str:
    """Give the answer in two sentences."""
    median, top = float(asked.epsilon[asked.median_person]), float(asked.epsilon[asked.top_person])
    power, kind = float(asked.audit.pairs[[asked.top_person]].attack_power(VERDICT_RATE)[0]), asked.audit.pairs.kind
    said = asked.statements
    return words.verdict(len(asked.epsilon), median, top, said.dp, said.promise, power, VERDICT_RATE, kind)


def shared_verdict(shared: SharedLosses, delta: float, promise: float | None) -> str:
    """Give the answer by what enough people share; the most exposed are not told of."""
    told = shared.told
    if not told:
        return (
            f"Of {words.people(shared.people)} no loss can be told here: fewer than {SHARED} would stand behind every "
            "number."
        )
    losses = "; ".join(f"{name} lost at most ε = {grid_text(cell.high)}" for name, cell in told)
    power = words.share_at_most(most_attack_power(told[-1][1].high, delta, VERDICT_RATE))
    first = f"Of {words.people(shared.people)}: {losses}"
    if promise is not None:
        first += f", where the release promises everybody at most {words.loss(promise)}"
    return (
        f"{first}. Somebody who knows all the other rows finds one of these people with probability at most {power} at "
        f"the price of {words.share(VERDICT_RATE)} false alarms."
    )


def _size(asked: ReportRequest) -> str:
    if asked.shared is not None:
        return size_of_bounds({name: cell.high for name, cell in asked.shared.told}, asked.audit.delta)
    who = {"the median person": asked.median_person, "the most exposed person": asked.top_person}
    powers = {name: float(asked.audit.pairs[[i]].attack_power(ODDS_RATE)[0]) for name, i in who.items()}
    return _size_of_powers(powers, "about" if asked.audit.pairs.kind == "estimate" else "at most")


def size_of_bounds(losses: dict[str, float], delta: float) -> str:
    """Say whether these losses are small or large, by what any release of them could give an attacker."""
    return _size_of_powers({name: most_attack_power(loss, delta, ODDS_RATE) for name, loss in losses.items()})


def _size_of_powers(powers: dict[str, float], limit: str = "at most") -> str:
    """Say in plain words whether this is small or large, with the odds of the best attack at several priors."""
    told = []
    for name, power in powers.items():
        beliefs = ", ".join(
            f"{words.share(prior)} becomes {words.share_at_most(belief_after_alarm(prior, power))}"
            for prior in PRIORS[1:]
        )
        times = words.loss(power / ODDS_RATE, 2)
        told.append(
            f"For {name} this is {size_in_words(power)}: an alarm of the best attack, at {words.share(ODDS_RATE)} "
            f"false alarms, raises the odds {limit} {times} times (a belief of {beliefs})."
        )
    return " ".join(told)


def _statement_cards(said: CommonStatements) -> list[Card]:
    """The statements that stand beside the losses."""
    cards = []
    if said.promise is not None:
        cards.append(Card("Promise (DP)", words.loss(said.promise), "to everybody, whatever the data", worst=True))
    if said.dp is not None:
        about = "any data of this size within the bounds"
        cards.append(Card("Worst-case statement (DP)", words.loss(said.dp), about, worst=True))
    if said.everyone is not None:
        cards.append(Card("Anybody within bounds", words.loss(said.everyone), "with this data set", worst=True))
    return cards


def _cards(asked: ReportRequest) -> list[Card]:
    if asked.shared is not None:
        return shared_cards(asked.shared, asked.audit.health.n_features, asked.statements)
    return full_cards(asked.audit, attained_quantile(asked.epsilon, LEVELS), asked.audit.pairs.kind, asked.statements)


def full_cards(audit: Audit | ScatteredAudit, losses: Floats, kind: Kind, said: CommonStatements) -> list[Card]:
    """The cards of a full copy; ``losses`` at ``LEVELS``."""
    most = "lost at most this" if is_bound(kind) else "lost about this or less"
    cards = [
        Card("People", f"{len(audit):,}", words.features(audit.health.n_features)),
        Card("Median loss", words.loss(float(losses[0])), f"half {most}"),
        Card("95% of the people", words.loss(float(losses[1])), most),
        Card("99% of the people", words.loss(float(losses[2])), most),
        Card("Most exposed person", words.loss(float(losses[3])), "the largest loss"),
        *_statement_cards(said),
    ]
    cost = accuracy_cost(audit)
    if cost is not None:
        cards.append(Card("Cost of the noise", words.number(cost), "typical change of a prediction"))
    return [*cards, Card("Answers", kind, "weakest kind among the people")]


def shared_cards(shared: SharedLosses, n_features: int, said: CommonStatements) -> list[Card]:
    """The cards of a redacted copy: nothing that fewer than forty people share."""
    cards = [Card("People", f"{shared.people:,}", words.features(n_features))]
    for name, q in (("Median loss", 0.5), ("95% of the people", 0.95)):
        cell = shared.quantile(q)
        if math.isfinite(cell.high):
            cards.append(Card(name, grid_text(cell.high), "lost at most this"))
    if shared.most is not None:
        name = f"All but {words.people(shared.cells[-1].people)}"
        cards.append(Card(name, grid_text(shared.most.high), "lost at most this"))
    return [*cards, *_statement_cards(said)]
