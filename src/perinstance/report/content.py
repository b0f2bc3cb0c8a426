"""Everything the report says, gathered from an audit before any markup is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance._version import __version__
from perinstance.errors import InvalidInput
from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import charts, words
from perinstance.report.exposed_people import MOST_EXPOSED, ExposedPerson, most_exposed
from perinstance.report.group_lines import SMALL_GROUP, GroupLine, group_line, group_rows, groups_chart
from perinstance.report.leverage_plane import plane_chart
from perinstance.report.other_noise import QUANTILES, noise_sweep
from perinstance.report.release_words import accuracy_cost, health_lines, recipe, release_line
from perinstance.report.svg import clean

RATES = (0.001, 0.01, 0.05)
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
    distribution: Markup
    distribution_caption: str
    plane: Markup
    plane_caption: str
    groups: list[GroupLine]
    groups_chart: Markup | None
    small_group: int
    sweep: Markup | None
    sweep_caption: str
    attack: Markup
    attack_people: list[str]
    attack_rows: list[list[str]]
    health: list[tuple[str, str]]
    reproduce: str
    version: str


def gather(
    audit: Any,
    *,
    title: str = "Who paid for this release",
    groups: Sequence[Any] | None = None,
    dp: float | None = None,
    everyone: float | None = None,
    redact: bool = False,
    rechecks: Sequence[Any] = (),
    command: str | None = None,
) -> Content:
    """Compute what the report shows.

    ``dp`` and ``everyone`` are the worst-case statements to stand beside the losses; ``rechecks`` is what
    ``audit.recheck(X, y)`` found.
    """
    epsilon = np.asarray(audit.epsilon, dtype=float)
    if redact and len(epsilon) < SMALL_GROUP:
        raise InvalidInput(
            f"a redacted report needs at least {SMALL_GROUP} people, got {len(epsilon)}; "
            "of so few every number belongs to somebody"
        )
    middle, top = _median_person(epsilon), int(np.argmax(epsilon))
    # In a redacted copy the most exposed person gives way to the 95% person: an extreme is a single person.
    shown_top = _quantile_person(epsilon, 0.95) if redact else top
    power = float(audit.pairs[[shown_top]].attack_power(VERDICT_RATE)[0])
    verdict = words.verdict(len(epsilon), float(epsilon[middle]), float(epsilon[shown_top]), dp, power, VERDICT_RATE)
    if redact:
        verdict = verdict.replace("the most exposed person", "the person at the 95% quantile")
    worst = most_exposed(audit, MOST_EXPOSED)
    plane, plane_caption = plane_chart(audit, [w for w, _ in worst], redact)
    sweep, sweep_caption = _sweep(audit, redact)
    attack, attack_people, attack_rows = _attack(audit, middle, shown_top, redact)
    rows = group_rows(epsilon, groups) if groups is not None else []
    return Content(
        title=clean(title, 120),
        neighbours="Neighbouring data sets differ by one person's row, added or removed.",
        delta=f"{audit.delta:g}",
        released=release_line(audit.release),
        redact=redact,
        setup=f"{words.people(len(epsilon))}, {audit.health.n_features} features. "
        f"Published: {release_line(audit.release)}.",
        verdict=verdict,
        cards=_cards(audit, epsilon, dp, everyone, redact),
        worst=[] if redact else [line for _, line in worst],
        distribution=charts.distribution(_blunted(epsilon, redact), _markers(dp, everyone)),
        distribution_caption=_distribution_caption(dp, everyone, redact),
        plane=plane,
        plane_caption=plane_caption,
        groups=[group_line(row, redact) for row in rows],
        groups_chart=groups_chart(rows, redact),
        small_group=SMALL_GROUP,
        sweep=sweep,
        sweep_caption=sweep_caption,
        attack=attack,
        attack_people=attack_people,
        attack_rows=attack_rows,
        health=health_lines(audit, rechecks, redact),
        reproduce=recipe(audit, command),
        version=__version__,
    )


def _blunted(epsilon: NDArray, redact: bool) -> NDArray:
    """Cap the losses at their 95% quantile for a redacted figure."""
    return np.minimum(epsilon, attained_quantile(epsilon, 0.95)) if redact and len(epsilon) else epsilon


def _median_person(epsilon: NDArray) -> int:
    return _quantile_person(epsilon, 0.5)


def _quantile_person(epsilon: NDArray, q: float) -> int:
    """Return the position of the person whose loss is that quantile."""
    return int(np.argmax(epsilon == attained_quantile(epsilon, q)))


def _cards(audit: Any, epsilon: NDArray, dp: float | None, everyone: float | None, redact: bool) -> list[Card]:
    q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
    cards = [
        Card("People", f"{len(epsilon):,}", f"{audit.health.n_features} features"),
        Card("Median loss", words.loss(float(q[0])), "half lost at most this"),
        Card("95% of the people", words.loss(float(q[1])), "lost at most this"),
    ]
    if not redact:
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


def _markers(dp: float | None, everyone: float | None) -> list[charts.Marker]:
    lines = []
    if everyone is not None:
        lines.append(charts.Marker(everyone, "anybody within bounds", "everyone"))
    if dp is not None:
        lines.append(charts.Marker(dp, "worst case (DP)", "dp"))
    return lines


def _distribution_caption(dp: float | None, everyone: float | None, redact: bool) -> str:
    text = "Top: number of people by loss. Bottom: share of the people who lost at most that much."
    if dp is None and everyone is None:
        text += " Declare bounds on the rows to see the worst-case statement beside it."
    if redact:
        text += " Losses above the 95% quantile are shown at it."
    return text


def _sweep(audit: Any, redact: bool) -> tuple[Markup | None, str]:
    swept = noise_sweep(audit)
    if swept is None:
        return None, "The losses of this release under other noise need a new audit: change its noise and audit again."
    names = {0.5: ("median", ""), 0.95: ("95%", "second"), 1.0: ("maximum", "third")}
    curves = [
        charts.Curve(*names[q], swept.factors, row)
        for q, row in zip(QUANTILES, swept.epsilon, strict=True)
        if not (redact and q == 1.0)
    ]
    cost = accuracy_cost(audit)
    cost_curve = None
    if cost is not None and cost > 0:
        cost_curve = charts.Curve("typical change of a prediction", "second", swept.factors, cost * swept.factors)
    caption = "Losses if the noise had been larger or smaller by a factor; 1 is this release."
    if swept.sampled:
        caption += " Drawn from an even sample of the people, the most exposed included."
    return charts.sweep(curves, cost_curve, 1.0, "noise, relative to this release"), caption


def _attack(audit: Any, middle: int, top: int, redact: bool) -> tuple[Markup, list[str], list[list[str]]]:
    rates = np.geomspace(1e-4, 1.0, 60)
    name = "95% person" if redact else "most exposed person"
    who = [("median person", "", middle), (name, "second", top)]
    curves = []
    for label, look, i in who:
        pairs = audit.pairs[np.full(len(rates), i)]
        curves.append(charts.Curve(label, look, rates, np.asarray(pairs.attack_power(rates))))
    table = [
        [words.share(rate), *(words.share(float(audit.pairs[[i]].attack_power(rate)[0])) for _, _, i in who)]
        for rate in RATES
    ]
    return charts.attack(curves), [label for label, _, _ in who], table
