"""Everything the page says, from sketches and the most exposed people; nothing of the length of the table is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perinstance.auditing.scattered.loss_sketch import QUANTILE_ERROR, LossSketch
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import KINDS, Kind
from perinstance.report import words
from perinstance.report.audit_sections.figures import attack_bounds, distribution_of
from perinstance.report.audit_sections.group_lines import SMALL_GROUP, all_groups, shared_groups
from perinstance.report.charts.records import GroupRow
from perinstance.report.charts.svg import clean
from perinstance.report.content import (
    LEVELS,
    NEIGHBOURS,
    VERDICT_RATE,
    Content,
    full_cards,
    made,
    refuse_few,
    setup,
    shared_cards,
    shared_verdict,
    size_of_bounds,
)
from perinstance.report.exposed_people import MOST_EXPOSED, ExposedPerson, target_scale
from perinstance.report.meaning import most_attack_power
from perinstance.report.redaction import grid_up, shared_losses
from perinstance.report.release_words import bound_warnings, health_lines, promise_of, recipe, release_line
from perinstance.report.sections import CommonStatements, Section

if TYPE_CHECKING:
    from perinstance.auditing.scattered.result import ScatteredAudit


def gather(
    audit: ScatteredAudit,
    *,
    title: str = "Who paid for this release",
    groups: str | Sequence[str] = (),
    dp: float | None = None,
    everyone: float | None = None,
    redact: bool = False,
    command: str | None = None,
    source: str | None = None,
    target: str | None = None,
    unit: str = "",
) -> Content:
    """Compute what the page shows; ``groups`` names columns of the audited table."""
    names = [groups] if isinstance(groups, str) else list(groups)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput("groups must name columns of the audited table; labels that lie here cannot be matched")
    if redact:
        refuse_few(len(audit))
    promise, unit = promise_of(audit), clean(unit, 12)
    said = CommonStatements(dp, grid_up(everyone) if redact and everyone is not None else everyone, promise)
    epsilon, people = _weighted(audit.sketch, promise)
    shared = shared_losses(epsilon, people) if redact else None
    summary = audit.summary()
    quantiles = np.minimum(audit.quantile(LEVELS), math.inf if promise is None else promise)
    told = {"the median person": float(quantiles[0]), "the most exposed person": float(quantiles[3])}
    told = told if shared is None else {name: cell.high for name, cell in shared.told}
    of_target = f" of {clean(target, 24)}" if target else ""
    kinds = {str(KINDS[code]): int(count) for code, count in enumerate(audit.sketch.kinds) if count}
    return Content(
        title=clean(title, 120),
        neighbours=NEIGHBOURS,
        delta=f"{audit.delta:g}",
        released=release_line(audit.release),
        redact=redact,
        setup=f"{setup(audit, source)} {_where(audit)}",
        verdict=_verdict(audit, quantiles, summary.kind, said)
        if shared is None
        else shared_verdict(shared, audit.delta, promise),
        size=size_of_bounds(told, audit.delta),
        warnings=bound_warnings(float(epsilon.max()), audit.health, said, None, redact),
        cards=full_cards(audit, quantiles, summary.kind, said)
        if shared is None
        else shared_cards(shared, audit.n_features, said),
        worst=[] if redact else _most_exposed(audit, unit, promise),
        error_head=f"Prediction error{of_target} without the person",
        features=False,
        sections=[
            *distribution_of(epsilon, people, summary.kind, said, shared),
            *(_groups(audit, name, k, promise, redact) for k, name in enumerate(names, start=1)),
            *attack_bounds({f"{name.removeprefix('the ')} (at most)": loss for name, loss in told.items()}, audit),
        ],
        health=health_lines(audit.health, kinds, (), redact),
        reproduce=recipe(audit, command),
        made=made(),
    )


def _weighted(sketch: LossSketch, promise: float | None) -> tuple[Floats, np.ndarray]:
    """Return losses and how many people have each; what is promised holds for everybody."""
    epsilon, people = sketch.weighted()
    return (epsilon if promise is None else np.minimum(epsilon, promise)), people


def _where(audit: ScatteredAudit) -> str:
    precision = words.share(QUANTILE_ERROR)
    return (
        f"The losses lie in {len(audit.rows):,} files, one per partition. Counts, the maximum and the most exposed "
        f"people are exact; quantiles are at most {precision} of themselves too large."
    )


def _verdict(audit: ScatteredAudit, quantiles: Floats, kind: Kind, said: CommonStatements) -> str:
    median, top = float(quantiles[0]), float(quantiles[3])
    power = most_attack_power(top, audit.delta, VERDICT_RATE)
    return words.verdict(len(audit), median, top, said.dp, said.promise, power, VERDICT_RATE, kind, at_most=True)


def _most_exposed(audit: ScatteredAudit, unit: str, promise: float | None) -> list[ExposedPerson]:
    top = audit.exposed
    limit = math.inf if promise is None else promise
    rare, surprising = (_threshold(sketch) for sketch in (audit.reasons.leverage, audit.reasons.residual))
    count, scale = min(MOST_EXPOSED, len(top.epsilon)), target_scale(audit)
    return [
        ExposedPerson(
            clean(str(top.names[k])),
            words.loss(min(float(top.epsilon[k]), limit)),
            words.number(float(top.leverage[k])),
            words.number(float(top.residual[k]) * scale) + (f" {unit}" if unit else ""),
            words.reason(bool(top.leverage[k] >= rare), bool(abs(top.residual[k]) >= surprising)),
            str(KINDS[top.codes[k]]),
        )
        for k in range(count)
    ]


def _threshold(sketch: LossSketch) -> float:
    """Return the value that only a few exceed; infinite for an empty or constant column, where nobody stands out."""
    if len(sketch.bins) < 2:
        return math.inf
    return float(sketch.quantile(1 - words.STANDS_OUT))


def _groups(audit: ScatteredAudit, column: str, number: int, promise: float | None, redact: bool) -> Section:
    sketches = audit.sketches_by(column)
    if redact:
        large = {name: sketch for name, sketch in sketches.items() if sketch.people >= SMALL_GROUP}
        return shared_groups(
            {name: shared_losses(*_weighted(sketch, promise)) for name, sketch in large.items()}, number, column
        )
    limit = math.inf if promise is None else promise
    rows = []
    for name, sketch in sketches.items():
        median, q95, largest = np.minimum(sketch.quantile([0.5, 0.95, 1.0]), limit)
        small = sketch.people < SMALL_GROUP
        rows.append(GroupRow(clean(name, 40), sketch.people, float(median), float(q95), float(largest), small))
    return all_groups(sorted(rows, key=lambda row: -row.largest), number, column)
