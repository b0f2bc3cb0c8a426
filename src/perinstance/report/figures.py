"""Three sections that are a figure each: how the losses are distributed, other noise, and what an attacker gains."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.interface.kinds import is_bound
from perinstance.report import charts, words
from perinstance.report.other_noise import QUANTILES, noise_sweep
from perinstance.report.release_words import accuracy_cost
from perinstance.report.sections import ReportRequest, Section, SectionTable, TableLine

RATES = (0.001, 0.01, 0.05)

#: what may be said of the curves of an attack, by the kind of the losses behind them
_LEADS = {
    "exact": "No test can do better than the curves below.",
    "upper": "No test can do better than the curves below.",
    "estimate": "The curves below are estimates: a test may do better.",
}
_POWERS = {"exact": "Exact power of", "upper": "Upper bound of the power of", "estimate": "Estimated power of"}


def distribution_section(asked: ReportRequest) -> Section:
    """Show how many people lost how much, with the worst-case statements as lines."""
    kind = asked.audit.pairs.kind
    caption = "Top: number of people by loss. Bottom: share of the people who lost at most that much."
    if not is_bound(kind):
        caption = "Top: number of people by estimated loss. Bottom: share of the people whose estimate is no larger."
    if asked.dp is None and asked.everyone is None:
        caption += " Declare bounds on the rows to see the worst-case statement beside it."
    if asked.redact:
        caption += " Losses above the 95% quantile are shown at it."
    markers = []
    if asked.everyone is not None:
        markers.append(charts.Marker(asked.everyone, "anybody within bounds", "everyone"))
    if asked.dp is not None:
        markers.append(charts.Marker(asked.dp, "worst case (DP)", "dp"))
    return Section(
        "dist",
        "How the losses are distributed",
        figure=charts.distribution(_without_extremes(asked), markers),
        figure_label="Distribution of the losses",
        caption=caption,
    )


def _without_extremes(asked: ReportRequest) -> Floats:
    """Cap the losses at their 95% quantile for a redacted figure."""
    if not asked.redact:
        return asked.epsilon
    return np.minimum(asked.epsilon, attained_quantile(asked.epsilon, 0.95))


def noise_section(asked: ReportRequest) -> Section:
    """Show the losses under more and under less noise, and the accuracy that the noise costs."""
    heading = "What if: more or less noise"
    swept = noise_sweep(asked.audit)
    if swept is None:
        missing = "The losses of this release under other noise need a new audit: change its noise and audit again."
        return Section("if", heading, lead=missing)
    names = {0.5: ("median", ""), 0.95: ("95%", "second"), 1.0: ("maximum", "third")}
    curves = [
        charts.Curve(*names[q], swept.factors, row)
        for q, row in zip(QUANTILES, swept.epsilon, strict=True)
        if not (asked.redact and q == 1.0)
    ]
    cost = accuracy_cost(asked.audit)
    cost_curve = None
    if cost is not None and cost > 0:
        cost_curve = charts.Curve("typical change of a prediction", "second", swept.factors, cost * swept.factors)
    caption = "Losses if the noise had been larger or smaller by a factor; 1 is this release."
    caption += f" {note}" if (note := words.kind_note(asked.audit.pairs.kind)) else ""
    if swept.sampled:
        caption += " Drawn from an even sample of the people, the most exposed included."
    return Section(
        "if",
        heading,
        figure=charts.sweep(curves, cost_curve, 1.0, "noise, relative to this release"),
        figure_label="Losses under other noise",
        caption=caption,
        warning=(
            "Choosing the noise by looking at this figure is itself a release:",
            "the choice depends on the data and is not paid for by any number here. Fix the noise in advance, or buy "
            "the choice from a budget.",
        ),
    )


def attack_section(asked: ReportRequest) -> Section:
    """Show how often the best membership test finds the median and the most exposed person."""
    pairs, rates = asked.audit.pairs, np.geomspace(1e-4, 1.0, 60)
    name = "95% person" if asked.redact else "most exposed person"
    who = [("median person", "", asked.median_person), (name, "second", asked.top_person)]
    curves = [
        charts.Curve(label, look, rates, np.asarray(pairs[np.full(len(rates), i)].attack_power(rates)))
        for label, look, i in who
    ]
    kind = pairs[[i for _, _, i in who]].kind
    lines = [
        TableLine([words.share(rate), *(words.share(float(pairs[[i]].attack_power(rate)[0])) for _, _, i in who)])
        for rate in RATES
    ]
    return Section(
        "attack",
        "What an attacker gains",
        lead="The strongest attacker knows every other row and the mechanism, and asks one question: is this person "
        f"in the data? {_LEADS[kind]}",
        figure=charts.attack(curves),
        figure_label="Power of the best attack, figure",
        caption=f"{_POWERS[kind]} the most powerful membership test.",
        table=SectionTable(
            "Power of the best attack",
            ["False alarms allowed", *(label for label, _, _ in who)],
            lines,
            lead=f"How often{'' if is_bound(kind) else ', by estimate,'} the best test finds a person who is in the "
            "data:",
        ),
    )
