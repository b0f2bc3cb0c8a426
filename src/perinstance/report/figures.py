"""Sections that are a figure each: how losses are distributed, why, under other noise, and what an attacker gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.accuracy_comparison import AccuracyComparison
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.numerics.rounding import AXIS_RANGE, SEARCHED_RESIDUALS
from perinstance.pairs import GaussianShift, LaplaceShift, Pairs, PosteriorSamplePair
from perinstance.pairs.kinds import Kind, is_bound
from perinstance.report import charts, words
from perinstance.report.page import Section, SectionTable
from perinstance.report.redaction import SHARED, PlaneCell, SharedLosses, grid_text, shared_losses, shared_plane
from perinstance.report.reported_losses import ReportRequest, target_scale
from perinstance.report.svg import around

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit


#: The pair of one displacement over the noise's scale, by the law of the noise.
SHIFTS: dict[str, Callable[[NDArray], GaussianShift | LaplaceShift]] = {
    "gaussian": GaussianShift,
    "laplace": LaplaceShift,
}
RATES = (0.001, 0.01, 0.05)
ALL_RATES = np.array([*np.geomspace(1e-4, 1.0, 60), *RATES])  #: of the curves, then of the table
BARS = 48
CHOOSING = (
    "Choosing the noise by looking at this figure is itself a release:",
    "the choice depends on the data and is not paid for by any number here. Fix the noise in advance, or buy the "
    "choice from a budget.",
)
TOO_FEW = "Left out: the losses of too few people would stand behind the curves."

#: what may be said of the curves of an attack, by the kind of the losses behind them
_LEADS = {
    **dict.fromkeys(("exact", "upper"), "No test can do better than the curves below."),
    "estimate": "The curves below are estimates: a test may do better.",
}
_POWERS = {"exact": "Exact power of", "upper": "Upper bound of the power of", "estimate": "Estimated power of"}


def distribution_section(asked: ReportRequest) -> Iterator[Section]:
    """Show how many people lost how much, with the worst-case statements as lines."""
    said, shared = asked.statements, asked.shared
    caption = "Top: number of people by loss. Bottom: share of the people who lost at most that much."
    if not is_bound(asked.kind):
        caption = "Top: number of people by estimated loss. Bottom: share of the people whose estimate is no larger."
    if said.none:
        caption += " Declare bounds on the rows to see the worst-case statement beside it."
    statements = [
        (said.everyone, "anybody within bounds", "everyone"),
        (said.promise, "promised to all", "promise"),
        (said.dp, "worst case (DP)", "dp"),
    ]
    heading = "How the losses are distributed"
    if shared is not None and shared.most is None:
        yield Section("dist", heading, lead=f"Left out: too few people share a loss with {SHARED - 1} others.")
        return
    yield distribution_of(heading, asked.epsilon, asked.people, statements, shared, caption)


def distribution_of(
    heading: str,
    epsilon: Floats,
    people: NDArray,
    statements: list[tuple[float | None, str, str]],
    shared: SharedLosses | None,
    caption: str,
) -> Section:
    """Show these losses, which so many ``people`` have each, or the cells that enough people share."""
    markers = [charts.Marker(value, name, look) for value, name, look in statements if value is not None]
    if shared is None:
        untouched, unbounded = int(people[epsilon == 0].sum()), int(people[np.isinf(epsilon)].sum())
        notes = [f"{words.people(untouched)} lost nothing"] if untouched else []  # no place on a logarithmic axis
        notes += [f"{words.people(unbounded)}: no bound (∞)"] if unbounded else []
        shown = (epsilon > 0) & np.isfinite(epsilon)
        low, high = around([float(v) for v in (epsilon[shown].min(), epsilon[shown].max())] if shown.any() else [])
        low = max(low, high * AXIS_RANGE)
        places, ends = np.log10(np.clip(epsilon[shown], low, None)), (math.log10(low), math.log10(high))
        counts, edges = np.histogram(places, bins=BARS, range=ends, weights=people[shown])
        bars = [charts.LossBar(10**a, 10**b, int(c)) for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)]
        grid, order = np.geomspace(low, high, 240), np.argsort(epsilon, kind="stable")
        upto = np.concatenate([[0], np.cumsum(people[order])])
        shares = upto[np.searchsorted(epsilon[order], grid, side="right")] / max(upto[-1], 1)
        below = list(zip(grid.tolist(), shares.tolist(), strict=True))
    else:
        caption += f" Bars of fewer than {SHARED} people are put together, and the highest has no end to show."
        top = shared.cells[-1]
        notes = [f"{words.people(top.people)} lost more than {grid_text(top.low)}"]
        bars, below, count = [], [], 0
        for cell in shared.cells[:-1]:  # the lowest begins and the highest ends at a public distance from its neighbour
            low = cell.low if cell.low > 0 else cell.high / 3.0
            bars.append(charts.LossBar(low, cell.high, cell.people))
            below += [(low, count / shared.people), (cell.high, (count + cell.people) / shared.people)]
            count += cell.people
        bars.append(charts.LossBar(top.low, top.low * 3.0, top.people))
    figure = charts.distribution(bars, below, markers, notes)
    label = "Distribution of the " + ("totals" if "totals" in heading else "losses")
    return Section("dist", heading, figure=figure, figure_label=label, caption=caption)


def plane_section(asked: ReportRequest) -> Iterator[Section]:
    """Show everybody on the two axes on which the loss can be read, with lines of equal loss where there are such."""
    heading = "Why: rare features and surprise"
    # nobody has either in a training elsewhere; those of a cluster's audit lie with its workers
    if asked.scattered or np.isnan(np.asarray(asked.audit.leverage, dtype=float)).all():
        return
    scale = target_scale(asked.audit)
    residual = np.abs(np.asarray(asked.audit.residual, dtype=float)) * scale
    across, name, loss_at = _axis(asked.audit, residual, scale)
    shown: charts.Dots | list[PlaneCell]
    if asked.shared is None:
        shown = charts.Dots(across, residual, [i for i, _ in asked.worst])
        few = len(residual) <= charts.FEW
        caption = "Each dot is a person." if few else "Each cell holds some people; stronger colour is more."
        inside = across[(across > 0) & np.isfinite(across)]
        ends = (float(inside.min()), float(inside.max()) * 1.25) if len(inside) else (1.0, 1.0)
        finite = asked.epsilon[(asked.epsilon > 0) & np.isfinite(asked.epsilon)] if len(inside) else inside
        top = attained_quantile(finite, (0.5, 0.95, 1.0)) if len(finite) else ()
        levels = sorted({float(f"{value:.1g}") for value in top})
    else:
        seen = (across > 0) & (residual > 0) & np.isfinite(across) & np.isfinite(residual)
        shown = shared_plane(across[seen], residual[seen])
        if not shown:
            yield Section("why", heading, lead=f"Left out: no cell of this figure holds {SHARED} people.")
            return
        caption = f"Each cell holds at least {SHARED} people; stronger colour is more. People elsewhere are left out."
        ends = min(cell.left for cell in shown), max(cell.right for cell in shown)
        levels = sorted({cell.high for _, cell in asked.shared.told})
    curves: list[charts.Curve] = []
    if loss_at is None:
        caption += " No lines of equal loss: here the loss depends on more than these two numbers."
    else:
        caption += " Dashed: lines of equal loss."
        xs = np.geomspace(*ends, 80)
        for level in levels:  # by bisection in the residual at each value of the other axis
            low, high = (np.full(len(xs), end) for end in SEARCHED_RESIDUALS)
            for _ in range(60):
                middle = np.sqrt(low * high)
                above = loss_at(xs, middle) > level
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            curves.append(charts.Curve(f"{level:g}", "contour", xs, high))
        if not asked.redact:
            caption += " Numbered: the most exposed people of the table above."
    figure = charts.plane(shown, curves, name, asked.error_name)
    yield Section("why", heading, figure=figure, figure_label="Rare features against surprise", caption=caption)


def _axis(
    audit: Audit, residual: NDArray, scale: float
) -> tuple[NDArray, str, Callable[[NDArray, NDArray], NDArray] | None]:
    """Return one value per person, its name and, where the loss is a function of it and of the residual, that function.

    Chosen by what the release says of itself; residuals are shown in units of which the release's is ``scale``.
    """
    mechanism, delta = audit.release.mechanism(), audit.delta
    if mechanism.family == "output" and mechanism.noise in SHIFTS:
        shift, pairs = SHIFTS[mechanism.noise], cast("GaussianShift | LaplaceShift", audit.pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(residual > 0, pairs.distance / residual, 0.0)
        return (values, "distance per unit of prediction error", lambda x, r: shift(x * r).epsilon(delta))
    leverage, name = np.asarray(audit.leverage, dtype=float), "leverage without the person"
    if mechanism.family == "posterior" and mechanism.moved == "ridge":
        return (leverage, name, lambda x, r: PosteriorSamplePair(x, r / scale / mechanism.scale).epsilon(delta))
    return (leverage, name, None)


def noise_section(asked: ReportRequest) -> Iterator[Section]:
    """Show the losses under more and under less noise, and the accuracy that the noise costs."""
    heading = "What if: more or less noise"
    if asked.scattered:
        return
    swept = noise_sweep(asked.audit, _shared_quantiles) if asked.redact else noise_sweep(asked.audit)
    if swept is None:
        missing = "The losses of this release under other noise need a new audit: change its noise and audit again."
        yield Section("if", heading, lead=missing)
        return
    names = {0.5: ("median", ""), 0.95: ("95%", "second"), 1.0: ("maximum", "third")}
    rows = [(q, row) for q, row in zip(QUANTILES, swept.epsilon, strict=True) if np.isfinite(row).any()]
    curves = [charts.Curve(*names[q], swept.factors, row) for q, row in rows]
    if not curves:
        yield Section("if", heading, lead=TOO_FEW)
        return
    cost = 0.0 if asked.redact else words.accuracy_cost(asked.audit) or 0.0  # one row far out decides what noise costs
    typical = charts.Curve("typical change of a prediction", "second", swept.factors, cost * swept.factors)
    caption = "Losses if the noise had been larger or smaller by a factor; 1 is this release."
    caption += f" {note}" if (note := words.kind_note(asked.audit.pairs.kind)) else ""
    if swept.sampled:
        caption += " Drawn from an even sample of the people, the most exposed included."
    if asked.redact:
        caption += f" Rounded up to values that at least {SHARED} people share."
    figure = charts.sweep(curves, typical if cost > 0 else None)
    yield Section("if", heading, "", "", figure, "Losses under other noise", caption, warning=CHOOSING)


def _shared_quantiles(epsilon: Floats) -> Floats:
    """Return median and 95% as upper ends of shared cells, infinite where there is none; and no maximum."""
    shared = shared_losses(epsilon)
    return np.array([shared.quantile(0.5).high, shared.quantile(0.95).high, math.inf])


def attack_section(asked: ReportRequest) -> Iterator[Section]:
    """Show how often the best membership test finds the median and the most exposed person."""
    powers, kind = asked.powers(ALL_RATES)
    at_most = " (at most)" if asked.bounded else ""
    yield attack_curves({name.removeprefix("the ") + at_most: power for name, power in powers.items()}, kind)


def attack_curves(powers: dict[str, Floats], kind: Kind) -> Section:
    """Show the power of the best test at ``ALL_RATES``, for each of a few people."""
    heading, looks = "What an attacker gains", ("", "second")
    if not powers:
        return Section("attack", heading, lead=TOO_FEW)
    drawn = len(ALL_RATES) - len(RATES)
    curves = [
        charts.Curve(name, look, ALL_RATES[:drawn], power[:drawn])
        for (name, power), look in zip(powers.items(), looks, strict=False)
    ]
    power_lines = [
        [words.share(rate), *(words.share_at_most(float(power[drawn + k])) for power in powers.values())]
        for k, rate in enumerate(RATES)
    ]
    alarms = [float(power[drawn + RATES.index(words.ODDS_RATE)]) for power in powers.values()]
    belief_lines = [
        [words.share(p), *(words.share_at_most(words.belief_after_alarm(p, at)) for at in alarms)] for p in words.PRIORS
    ]
    estimated = "" if is_bound(kind) else ", by estimate,"
    of_powers = f"How often{estimated} the best test finds a person who is in the data:"
    of_beliefs = (
        "What somebody who thought the person to be in the data with some probability may think after this test, at "
        f"{words.share(words.ODDS_RATE)} false alarms, has answered yes:"
    )
    lead = (
        "The strongest attacker knows every other row and the mechanism, and asks one question: is this person in the "
        f"data? {_LEADS[kind]}"
    )
    tables = (
        SectionTable("Power of the best attack", ["False alarms allowed", *powers], power_lines, of_powers),
        SectionTable("Belief after an alarm", ["Believed before", *powers], belief_lines, of_beliefs),
    )
    figure, caption = charts.attack(curves), f"{_POWERS[kind]} the most powerful membership test."
    return Section("attack", heading, lead, "", figure, "Power of the best attack, figure", caption, tables=tables)


def accuracy_section(comparison: AccuracyComparison) -> Section:
    """Show private and non-private accuracy side by side."""
    lines = [list(line) for line in words.comparison_lines(comparison)]
    heads = ["Model", comparison.measure.capitalize()]
    lead = f"The {comparison.measure} on rows that the model has not seen: each was left out of a fit once."
    table = SectionTable("Accuracy with and without privacy", heads, lines)
    warning = ("Confidential.", words.COMPARISON_COST)
    return Section("accuracy", "What privacy costs in accuracy", lead, warning=warning, tables=(table,))


FACTORS = np.geomspace(1 / 16, 16, 25)
QUANTILES = (0.5, 0.95, 1.0)
# Quantiles of a figure need no more people than this; the most exposed are always kept. A pair without a table of its
# own is inverted person by person, hundreds of times slower.
MOST_PEOPLE = 4000
MOST_SLOW_PEOPLE = 100
# Sampled steps take up to a second each under less noise: a few people, and every third factor.
VERY_FEW_PEOPLE, EVERY = 20, 3


class NoiseLevels(NamedTuple):
    """Loss quantiles at several noise levels: one row per quantile."""

    factors: NDArray
    epsilon: NDArray
    sampled: bool


def noise_sweep(audit: Audit, summarise: Callable[[Floats], Floats] | None = None) -> NoiseLevels | None:
    """Recompute the quantiles of the losses for noise from a sixteenth to sixteen times the audited one."""
    pairs: Pairs = audit.pairs
    if len(pairs) == 0 or pairs[:1].with_noise(1.0) is None:
        return None
    most, factors = MOST_PEOPLE if pairs.fast_for_many else MOST_SLOW_PEOPLE, FACTORS
    if pairs.slow_alone:
        most, factors = VERY_FEW_PEOPLE, FACTORS[::EVERY]
    sampled = len(pairs) > most
    if sampled:
        order = np.argsort(np.asarray(audit.epsilon), kind="stable")
        pairs = pairs[order[np.unique(np.linspace(0, len(order) - 1, most).round().astype(int))]]
    rows = []
    for factor in factors:
        changed = pairs.with_noise(float(factor))
        assert changed is not None  # the first person's pair was of the same type
        epsilon = changed.epsilon(audit.delta)
        rows.append(attained_quantile(epsilon, QUANTILES) if summarise is None else summarise(epsilon))
    return NoiseLevels(factors, np.array(rows).T, sampled)
