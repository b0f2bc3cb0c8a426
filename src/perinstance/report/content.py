"""Everything the report says, gathered from an audit before any markup is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.auditing.loss_statistics import QUANTILE_ERROR
from perinstance.pairs.kinds import is_bound
from perinstance.report import figures, words
from perinstance.report.group_lines import groupings, groups_section
from perinstance.report.page import Card, Page, Section, SectionTable, refuse_few
from perinstance.report.redaction import SHARED, grid_text, grid_up, shared_losses
from perinstance.report.reported_losses import MOST_EXPOSED, CommonStatements, ReportRequest, most_exposed, weighted
from perinstance.report.svg import clean

if TYPE_CHECKING:
    from perinstance.analysis.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit
    from perinstance.auditing.rows_again import RareFeatures, RowsBeyond
    from perinstance.auditing.scattered_audit import ScatteredAudit

#: What is drawn, in this order. A new chart is a function in this list.
SECTIONS: tuple[Callable[[ReportRequest], Iterable[Section]], ...] = (
    figures.distribution_section,
    figures.plane_section,
    groups_section,
    figures.noise_section,
    figures.attack_section,
)
VERDICT_RATE = 0.01
REDACTED = " Redacted for colleagues: ids and extremes are left out. This copy is still not differentially private."
UNSAID = (
    "It is not a promise. A loss is what one release cost one person on this data set; a promise that holds for every "
    "data set is differential privacy, and needs a mechanism calibrated to it.",
    "It does not add up other releases from the same people. Losses of several releases compose; ask for the "
    "composition.",
    "It does not say what may be told to people: losses depend on everybody's rows, and telling them is a release of "
    "its own.",
    "It does not cover choices made by looking at the data before this release: features, penalties, noise, who was "
    "dropped.",
    "It protects membership and values of single rows. What the model truthfully says about everybody alike is not "
    "counted as a loss of anybody.",
)


def gather(
    audit: Audit | ScatteredAudit,
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
) -> Page:
    """Compute what the report shows.

    ``groups`` is one label per person, or several groupings by name; of an audit whose losses stayed with workers,
    columns of its table. ``dp`` and ``everyone`` are worst cases of one row, to stand beside losses of one row each.
    ``rechecks``, ``rare_features`` and ``beyond`` are what ``audit.recheck(X, y)``, ``audit.rare_features(X, y)`` and
    ``audit.rows_beyond(x_bound, y_bound, X, y)`` found. ``source``, ``target`` and ``unit`` name the file, the column
    that is predicted and what it is measured in. ``comparison`` is what ``perinstance.analysis.compare_accuracy``
    found; a redacted copy leaves it out.
    """
    if redact:
        refuse_few("report", len(audit))
    unit = clean(unit, 12)
    dp, everyone = (None, None) if words.holds_for_rows(audit) else (dp, everyone)
    everyone = grid_up(everyone) if redact and everyone is not None else everyone
    said = CommonStatements(dp, everyone, words.promise_of(audit))
    epsilon, people = weighted(audit, said.most)
    of_target = f" of {clean(target, 24)}" if target else ""
    asked = ReportRequest(
        audit,
        epsilon,
        people,
        [] if redact else most_exposed(audit, MOST_EXPOSED, rare_features, unit, said.most),
        groupings(groups, audit, epsilon),
        said,
        f"leave-one-out error{of_target}" + (f", {unit}" if unit else ""),
        shared_losses(epsilon, people) if redact else None,
    )
    sections = [_exposed(asked, f"Prediction error{of_target} without the person", bool(rare_features))]
    sections += [section for make in SECTIONS for section in make(asked)]
    if comparison is not None and not redact:
        sections.append(figures.accuracy_section(comparison))
    facts = words.health_lines(audit.health, words.kind_counts(audit), rechecks, redact)
    sections.append(Section("health", "Numerical health", facts=facts))
    sections.append(Section("again", "How to reproduce", code=words.recipe(audit, command)))
    return Page(
        title=clean(title, 120),
        band=f"Neighbouring data sets differ by {words.unit_of(audit)}, added or removed. "
        f"δ = {audit.delta:g}. Released: {words.release_line(audit.release)}.{REDACTED if redact else ''}",
        setup=_setup(asked, source),
        verdicts=[*filter(None, [_verdict(asked), _size(asked)])],
        warnings=words.bound_warnings(float(epsilon.max()), audit.health, said, beyond, redact),
        cards=_cards(asked),
        sections=sections,
        unsaid=UNSAID,
    )


def _setup(asked: ReportRequest, source: str | None) -> str:
    """Say whose losses these are, and what was published."""
    audit = asked.audit
    table = f"Table: {clean(source, 80)}. " if source else ""
    unit = " Every row is a person." if words.unit_of(audit) == words.ROW else ""
    if words.holds_for_rows(audit):
        unit = " What is promised, or said of anybody, holds for one row and is left out: these people have several."
    count = f"{words.table_of(audit)}, {words.features(audit.health.n_features)}.{unit}"
    said = f"{table}{count} Published: {words.release_line(audit.release)}."
    if asked.scattered:
        said += (
            f" The losses lie in {len(audit.rows):,} files, one per partition. Counts, the maximum and the most "
            f"exposed people are exact; quantiles are at most {words.share(QUANTILE_ERROR)} of themselves too large."
        )
    return said


def _verdict(asked: ReportRequest) -> str:
    """Give the answer in two sentences; a redacted copy by what enough people share, not by the most exposed."""
    powers, _ = asked.powers(np.array([VERDICT_RATE]))
    power = float([*powers.values()][-1][0]) if powers else 0.0
    said, shared = asked.statements, asked.shared
    if shared is None:
        median, *_, top = asked.quantiles().tolist()
        n, kind = len(asked.audit), asked.kind
        return words.verdict(n, median, top, said.dp, said.promise, power, VERDICT_RATE, kind, asked.scattered)
    whom = f"Of {words.people(shared.people)}"
    if not shared.told:
        return f"{whom} no loss can be told here: fewer than {SHARED} would stand behind every number."
    first = f"{whom}: " + "; ".join(f"{name} lost at most ε = {grid_text(cell.high)}" for name, cell in shared.told)
    if said.promise is not None:
        first += f", where the release promises everybody at most {words.loss(said.promise)}"
    return (
        f"{first}. Somebody who knows all the other rows finds one of these people with probability at most "
        f"{words.share_at_most(power)} at the price of {words.share(VERDICT_RATE)} false alarms."
    )


def _size(asked: ReportRequest) -> str:
    """Say in plain words whether this is small or large, with the odds of the best attack at several priors."""
    told, limit, rate = [], "at most" if is_bound(asked.kind) else "about", words.share(words.ODDS_RATE)
    for name, (power,) in asked.powers(np.array([words.ODDS_RATE]))[0].items():
        beliefs = ", ".join(
            f"{words.share(prior)} becomes {words.share_at_most(words.belief_after_alarm(prior, float(power)))}"
            for prior in words.PRIORS[1:]
        )
        times = words.loss(float(power) / words.ODDS_RATE, 2)
        told.append(
            f"For {name} this is {words.size_in_words(float(power))}: an alarm of the best attack, at {rate} false "
            f"alarms, raises the odds {limit} {times} times (a belief of {beliefs})."
        )
    return " ".join(told)


def _exposed(asked: ReportRequest, error_head: str, features: bool) -> Section:
    """List the people who pay most."""
    key, heading = "who", "Who is most exposed, and why"
    if asked.redact:
        missing = "Left out of this redacted copy: single people cannot be listed without exposing them."
        return Section(key, heading, lead=missing)
    after = (
        "Rare features: few others look like this person, so the fit leans on their row. Badly predicted: the outcome "
        "surprises a model that has not seen the person. A person stands out when fewer than one in twenty exceed them."
    )
    heads = ["Person", "Loss ε", "Leverage", error_head, "Why", "Kind"]
    lines = [[p.id, p.epsilon, p.leverage, p.residual, p.why, p.kind] for _, p in asked.worst]
    if features:
        heads.insert(5, "Rare features")
        for line, (_, person) in zip(lines, asked.worst, strict=True):
            line.insert(5, person.features)
        after += " Behind a feature: its share of the leverage, by how much would go without it."
    table = SectionTable("Most exposed people", heads, lines, prose=("Why", "Rare features"), stacked=True)
    soft = f"The {len(lines)} most exposed. Loss is what this release gave away about each of them."
    return Section(key, heading, soft=soft, tables=(table,), after=after)


def _cards(asked: ReportRequest) -> list[Card]:
    """The numbers at a glance; in a redacted copy nothing that fewer than forty people share."""
    cards = [Card("People", f"{len(asked.audit):,}", words.features(asked.audit.health.n_features))]
    shared = asked.shared
    if shared is not None:
        cells = [("Median loss", shared.quantile(0.5)), ("95% of the people", shared.quantile(0.95))]
        if shared.most is not None:
            cells.append((f"All but {words.people(shared.cells[-1].people)}", shared.most))
        cards += [Card(name, grid_text(c.high), "lost at most this") for name, c in cells if math.isfinite(c.high)]
        return [*cards, *_statement_cards(asked.statements)]
    kind, cost = asked.kind, words.accuracy_cost(asked.audit)
    most = "lost at most this" if is_bound(kind) else "lost about this or less"
    median, q95, q99, top = map(words.loss, asked.quantiles().tolist())
    cards += [
        Card("Median loss", median, f"half {most}"),
        Card("95% of the people", q95, most),
        Card("99% of the people", q99, most),
        Card("Most exposed person", top, "the largest loss"),
        *_statement_cards(asked.statements),
    ]
    if cost is not None:
        cards.append(Card("Cost of the noise", words.number(cost), "typical change of a prediction"))
    return [*cards, Card("Answers", kind, "weakest kind among the people")]


def _statement_cards(said: CommonStatements) -> list[Card]:
    """The statements that stand beside the losses."""
    told = (
        ("Promise (DP)", said.promise, "to everybody, whatever the data"),
        ("Worst-case statement (DP)", said.dp, "any data of this size within the bounds"),
        ("Anybody within bounds", said.everyone, "with this data set"),
    )
    return [Card(name, words.loss(value), about, worst=True) for name, value, about in told if value is not None]
