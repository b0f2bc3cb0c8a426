"""Three sections that are a figure each: how the losses are distributed, other noise, and what an attacker gains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.utility.accuracy_comparison import AccuracyComparison
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import AXIS_RANGE
from perinstance.pairs.kinds import Kind, is_bound, weakest
from perinstance.report import charts, words
from perinstance.report.audit_sections.other_noise import QUANTILES, noise_sweep
from perinstance.report.charts.svg import around
from perinstance.report.meaning import ODDS_RATE, PRIORS, belief_after_alarm, most_attack_power
from perinstance.report.redaction import SHARED, SharedLosses, grid_text, shared_losses
from perinstance.report.release_words import COMPARISON_COST, accuracy_cost, comparison_lines
from perinstance.report.sections import CommonStatements, ReportRequest, Section, SectionTable, TableLine

RATES = (0.001, 0.01, 0.05)
ALL_RATES = np.array([*np.geomspace(1e-4, 1.0, 60), *RATES])  #: of the curves, then of the table
BARS = 48
TOO_FEW = "Left out: the losses of too few people would stand behind the curves."

#: what may be said of the curves of an attack, by the kind of the losses behind them
_LEADS = {
    "exact": "No test can do better than the curves below.",
    "upper": "No test can do better than the curves below.",
    "estimate": "The curves below are estimates: a test may do better.",
}
_POWERS = {"exact": "Exact power of", "upper": "Upper bound of the power of", "estimate": "Estimated power of"}


def distribution_section(asked: ReportRequest) -> list[Section]:
    """Show how many people lost how much, with the worst-case statements as lines."""
    return distribution_of(asked.epsilon, None, asked.audit.pairs.kind, asked.statements, asked.shared)


def distribution_of(
    epsilon: Floats, people: NDArray | None, kind: Kind, statements: CommonStatements, shared: SharedLosses | None
) -> list[Section]:
    """Show these losses, which so many ``people`` have each."""
    heading = "How the losses are distributed"
    caption = "Top: number of people by loss. Bottom: share of the people who lost at most that much."
    if not is_bound(kind):
        caption = "Top: number of people by estimated loss. Bottom: share of the people whose estimate is no larger."
    if statements.none:
        caption += " Declare bounds on the rows to see the worst-case statement beside it."
    markers = [
        charts.Marker(value, name, look)
        for value, name, look in (
            (statements.everyone, "anybody within bounds", "everyone"),
            (statements.promise, "promised to all", "promise"),
            (statements.dp, "worst case (DP)", "dp"),
        )
        if value is not None
    ]
    if shared is None:
        figure = charts.distribution(*loss_bars(epsilon, people), markers, _extreme_notes(epsilon, people))
    elif shared.most is None:
        return [Section("dist", heading, lead=f"Left out: too few people share a loss with {SHARED - 1} others.")]
    else:
        caption += f" Bars of fewer than {SHARED} people are put together, and the highest has no end to show."
        figure = charts.distribution(*shared_bars(shared), markers, top_note(shared))
    return [Section("dist", heading, figure=figure, figure_label="Distribution of the losses", caption=caption)]


def loss_bars(epsilon: Floats, people: NDArray | None = None) -> tuple[list[charts.LossBar], list[tuple[float, float]]]:
    """Return bars of equal width on a logarithmic axis, and the share of people below; ``people`` have each loss."""
    weights = np.ones(len(epsilon), dtype=np.int64) if people is None else people
    shown = (epsilon > 0) & np.isfinite(epsilon)
    positive = epsilon[shown]
    low, high = around([float(positive.min()), float(positive.max())] if len(positive) else [])
    low = max(low, high * AXIS_RANGE)
    limits = (math.log10(low), math.log10(high))
    places = np.log10(np.clip(positive, low, None))
    counts, edges = np.histogram(places, bins=BARS, range=limits, weights=weights[shown])
    bars = [charts.LossBar(10**a, 10**b, int(c)) for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)]
    grid = np.geomspace(low, high, 240)
    order = np.argsort(epsilon, kind="stable")
    upto = np.concatenate([[0], np.cumsum(weights[order])])
    below = upto[np.searchsorted(epsilon[order], grid, side="right")] / max(upto[-1], 1)
    return bars, list(zip(grid.tolist(), below.tolist(), strict=True))


def shared_bars(shared: SharedLosses) -> tuple[list[charts.LossBar], list[tuple[float, float]]]:
    """Return the cells as bars; the lowest begins and the highest ends at a public distance from its neighbour."""
    total, count = shared.people, 0
    bars, below = [], []
    for cell in shared.cells[:-1]:
        low = cell.low if cell.low > 0 else cell.high / 3.0
        bars.append(charts.LossBar(low, cell.high, cell.people))
        below += [(low, count / total), (cell.high, (count + cell.people) / total)]
        count += cell.people
    top = shared.cells[-1]
    bars.append(charts.LossBar(top.low, top.low * 3.0, top.people))
    return bars, below


def _extreme_notes(epsilon: Floats, people: NDArray | None) -> list[str]:
    weights = np.ones(len(epsilon), dtype=np.int64) if people is None else people
    return extreme_notes(int(weights[epsilon == 0].sum()), int(weights[np.isinf(epsilon)].sum()))


def extreme_notes(untouched: int, unbounded: int) -> list[str]:
    """Say how many a logarithmic axis cannot show."""
    notes = [f"{words.people(untouched)} lost nothing"] if untouched else []
    return notes + ([f"{words.people(unbounded)}: no bound (∞)"] if unbounded else [])


def top_note(shared: SharedLosses) -> list[str]:
    """Say how many are in the last cell, which has no end."""
    top = shared.cells[-1]
    return [f"{words.people(top.people)} lost more than {grid_text(top.low)}"]


def noise_section(asked: ReportRequest) -> list[Section]:
    """Show the losses under more and under less noise, and the accuracy that the noise costs."""
    heading = "What if: more or less noise"
    swept = noise_sweep(asked.audit, _shared_quantiles) if asked.redact else noise_sweep(asked.audit)
    if swept is None:
        missing = "The losses of this release under other noise need a new audit: change its noise and audit again."
        return [Section("if", heading, lead=missing)]
    names = {0.5: ("median", ""), 0.95: ("95%", "second"), 1.0: ("maximum", "third")}
    curves = [
        charts.Curve(*names[q], swept.factors, row)
        for q, row in zip(QUANTILES, swept.epsilon, strict=True)
        if np.isfinite(row).any()
    ]
    if not curves:
        return [Section("if", heading, lead=TOO_FEW)]
    cost = None if asked.redact else accuracy_cost(asked.audit)  # one row far out decides what noise costs on average
    cost_curve = None
    if cost is not None and cost > 0:
        cost_curve = charts.Curve("typical change of a prediction", "second", swept.factors, cost * swept.factors)
    caption = "Losses if the noise had been larger or smaller by a factor; 1 is this release."
    caption += f" {note}" if (note := words.kind_note(asked.audit.pairs.kind)) else ""
    if swept.sampled:
        caption += " Drawn from an even sample of the people, the most exposed included."
    if asked.redact:
        caption += f" Rounded up to values that at least {SHARED} people share."
    return [
        Section(
            "if",
            heading,
            figure=charts.sweep(curves, cost_curve, 1.0, "noise, relative to this release"),
            figure_label="Losses under other noise",
            caption=caption,
            warning=(
                "Choosing the noise by looking at this figure is itself a release:",
                "the choice depends on the data and is not paid for by any number here. Fix the noise in advance, or "
                "buy the choice from a budget.",
            ),
        )
    ]


def _shared_quantiles(epsilon: Floats) -> Floats:
    """Return median and 95% as upper ends of shared cells, infinite where there is none; and no maximum."""
    shared = shared_losses(epsilon)
    return np.array([shared.quantile(0.5).high, shared.quantile(0.95).high, math.inf])


def attack_section(asked: ReportRequest) -> list[Section]:
    """Show how often the best membership test finds the median and the most exposed person."""
    if asked.shared is not None:
        # a bound that holds for any release of that loss: nobody's own curve
        return attack_bounds({f"{name} (at most)": cell.high for name, cell in asked.shared.told}, asked.audit)
    pairs = asked.audit.pairs
    who = {"median person": asked.median_person, "most exposed person": asked.top_person}
    powers = {name: np.asarray(pairs[np.full(len(ALL_RATES), i)].attack_power(ALL_RATES)) for name, i in who.items()}
    return attack_curves(powers, pairs[list(who.values())].kind)


def attack_bounds(losses: dict[str, float], audit: Any) -> list[Section]:
    """Show what any release of these losses could give an attacker at most."""
    powers = {
        name: np.array([most_attack_power(loss, audit.delta, float(rate)) for rate in ALL_RATES])
        for name, loss in losses.items()
    }
    # never exact, and no bound where the losses are estimates
    return attack_curves(powers, weakest("upper", audit.summary().kind))


def attack_curves(powers: dict[str, Floats], kind: Kind) -> list[Section]:
    """Show the power of the best test at ``ALL_RATES``, for each of a few people."""
    heading, looks = "What an attacker gains", ("", "second")
    if not powers:
        return [Section("attack", heading, lead=TOO_FEW)]
    drawn = len(ALL_RATES) - len(RATES)
    curves = [
        charts.Curve(name, look, ALL_RATES[:drawn], power[:drawn])
        for (name, power), look in zip(powers.items(), looks, strict=False)
    ]
    power_lines = [
        TableLine([words.share(rate), *(words.share_at_most(float(power[drawn + k])) for power in powers.values())])
        for k, rate in enumerate(RATES)
    ]
    alarms = [power[drawn + RATES.index(ODDS_RATE)] for power in powers.values()]
    belief_lines = [
        TableLine([words.share(p), *(words.share_at_most(belief_after_alarm(p, float(at))) for at in alarms)])
        for p in PRIORS
    ]
    return [
        Section(
            "attack",
            heading,
            lead="The strongest attacker knows every other row and the mechanism, and asks one question: is this "
            f"person in the data? {_LEADS[kind]}",
            figure=charts.attack(curves),
            figure_label="Power of the best attack, figure",
            caption=f"{_POWERS[kind]} the most powerful membership test.",
            tables=(
                SectionTable(
                    "Power of the best attack",
                    ["False alarms allowed", *powers],
                    power_lines,
                    lead=f"How often{'' if is_bound(kind) else ', by estimate,'} the best test finds a person who is "
                    "in the data:",
                ),
                SectionTable(
                    "Belief after an alarm",
                    ["Believed before", *powers],
                    belief_lines,
                    lead="What somebody who thought the person to be in the data with some probability may think after "
                    f"this test, at {words.share(ODDS_RATE)} false alarms, has answered yes:",
                ),
            ),
        )
    ]


def accuracy_section(comparison: AccuracyComparison) -> Section:
    """Show private and non-private accuracy side by side."""
    lines = [TableLine([name, error]) for name, error in comparison_lines(comparison)]
    heads = ["Model", comparison.measure.capitalize()]
    return Section(
        id="accuracy",
        heading="What privacy costs in accuracy",
        lead=f"The {comparison.measure} on rows that the model has not seen: each was left out of a fit once.",
        warning=("Confidential.", COMPARISON_COST),
        tables=(SectionTable("Accuracy with and without privacy", heads, lines),),
    )
