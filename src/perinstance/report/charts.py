"""The five figures of the report, drawn from numbers that are already computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.numerics.rounding import AXIS_RANGE
from perinstance.report.svg import Drawing, LinearScale, LogScale, around, tick_label
from perinstance.report.words import loss, people, share

WIDTH = 720.0
FEW = 3000  # people who are drawn as single dots; more become a density
LEFT, RIGHT = 64.0, 700.0


@dataclass(frozen=True, slots=True)
class Marker:
    """A vertical line with a name: a worst-case statement, a chosen point."""

    value: float
    name: str
    look: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line through points."""

    name: str
    look: str
    x: NDArray
    y: NDArray


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Quantiles of one group."""

    name: str
    size: int
    median: float
    q95: float
    largest: float
    small: bool


def distribution(epsilon: NDArray, markers: Sequence[Marker]) -> Markup:
    """Draw the histogram and the share of people below, over one logarithmic axis."""
    positive = epsilon[(epsilon > 0) & np.isfinite(epsilon)]
    shown = [m for m in markers if m.value > 0 and math.isfinite(m.value)]
    ends = [float(positive.min()), float(positive.max())] if len(positive) else []
    low, high = around([*ends, *(m.value for m in shown)])
    low = max(low, high * AXIS_RANGE)
    scale = LogScale(low, high, LEFT, RIGHT)
    drawing = Drawing(
        "distribution",
        WIDTH,
        420,
        "How the losses are distributed",
        f"Histogram of the loss of {people(len(epsilon))} on a logarithmic axis, and below it the share of people "
        f"whose loss is no larger. " + "; ".join(f"{m.name} at {loss(m.value)}" for m in shown),
    )
    counts, edges = np.histogram(
        np.log10(np.clip(positive, low, None)), bins=48, range=(math.log10(low), math.log10(high))
    )
    top, base = 46.0, 210.0
    tallest = max(int(counts.max(initial=0)), 1)
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        height = (base - top) * count / tallest
        if count:
            drawing.rect(scale(10**left) + 0.5, base - height, scale(10**right) - scale(10**left) - 1, height, "bar")
    drawing.line(LEFT, base, RIGHT, base, "axis")
    drawing.text(LEFT - 8, top + 4, f"{tallest:,}", "label", "end")
    drawing.text(LEFT - 8, base + 4, "0", "label", "end")
    drawing.text(LEFT - 8, (top + base) / 2, "people", "label", "end")
    _share_below(drawing, epsilon, scale)
    for place, marker in enumerate(shown):
        _mark(drawing, marker, scale, place)
    untouched = int((epsilon == 0).sum())
    unbounded = int(np.isinf(epsilon).sum())
    if untouched:
        drawing.text(LEFT + 4, base - 8, f"{people(untouched)} lost nothing", "note", "start")
    if unbounded:
        drawing.text(RIGHT - 4, base - 24, f"{people(unbounded)}: no bound (∞)", "note alarm", "end")
    return drawing.markup()


def _share_below(drawing: Drawing, epsilon: NDArray, scale: LogScale) -> None:
    top, base = 238.0, 362.0
    height = LinearScale(0, 1, base, top)
    for level in (0.0, 0.5, 1.0):
        drawing.line(LEFT, height(level), RIGHT, height(level), "grid")
        drawing.text(LEFT - 8, height(level) + 4, share(level), "label", "end")
    grid = np.geomspace(scale.low, scale.high, 240)
    below = np.searchsorted(np.sort(epsilon), grid, side="right") / max(len(epsilon), 1)
    drawing.path([(scale(x), height(y)) for x, y in zip(grid, below, strict=True)], "curve")
    drawing.bottom_axis(scale, base, "loss ε (logarithmic)")


def _mark(drawing: Drawing, marker: Marker, scale: LogScale, place: int) -> None:
    x = scale(marker.value)
    row = 14.0 + 14.0 * (place % 2)
    drawing.line(x, row + 4, x, 362, f"marker {marker.look}")
    anchor = "end" if x > (LEFT + RIGHT) / 2 else "start"
    drawing.text(x + (-5 if anchor == "end" else 5), row + 6, f"{marker.name} {loss(marker.value)}", "note", anchor)


def plane(
    across: NDArray, residual: NDArray, contours: Sequence[Curve], worst: Sequence[int], name: str, redact: bool
) -> Markup:
    """Draw how rare the features are against how badly the person is predicted, as a density, with equal-loss lines."""
    size = np.abs(residual)
    seen = (across > 0) & (size > 0) & np.isfinite(across) & np.isfinite(size)
    x_low, x_high = around(_trim(across[seen]))
    y_low, y_high = around(_trim(size[seen]))
    x, y = LogScale(x_low, x_high, LEFT, RIGHT), LogScale(y_low, y_high, 372, 24)
    drawing = Drawing(
        "plane",
        WIDTH,
        430,
        "Why: rare features against surprise",
        f"Density of {people(int(seen.sum()))} over {name} and the leave-one-out prediction error, "
        "with lines of equal loss. Loss grows towards the upper right.",
    )
    if seen.sum() <= FEW and not redact:
        for a, b in zip(across[seen], size[seen], strict=True):
            drawing.circle(x(a), y(b), 3, "person")
    else:
        _density(drawing, across[seen], size[seen], x, y)
    for curve in contours:
        inside = (curve.x >= x_low) & (curve.x <= x_high) & (curve.y >= y_low) & (curve.y <= y_high)
        points = [(x(a), y(b)) for a, b in zip(curve.x[inside], curve.y[inside], strict=True)]
        drawing.path(points, "contour")
        if len(points) > 1:
            px, py = points[len(points) // 2]
            drawing.text(px + 4, py - 4, f"ε = {curve.name}", "note halo", "start")
    if not redact:
        for rank, i in enumerate(worst, start=1):
            if seen[i]:
                drawing.circle(x(across[i]), y(size[i]), 5, "dot")
                drawing.text(x(across[i]) + 8, y(size[i]) + 4, str(rank), "note halo", "start")
    drawing.bottom_axis(x, 372, name + " (logarithmic)")
    drawing.line(LEFT, 24, LEFT, 372, "axis")
    for tick in y.ticks():
        drawing.text(LEFT - 8, y(tick) + 4, tick_label(tick), "label", "end")
    drawing.text(LEFT, 14, "leave-one-out prediction error (logarithmic)", "axis-title", "start")
    return drawing.markup()


def _density(drawing: Drawing, across: NDArray, up: NDArray, x: LogScale, y: LogScale) -> None:
    """Fill cells by the logarithm of how many people they hold."""
    bins = (72, 44)
    limits = ((math.log10(x.low), math.log10(x.high)), (math.log10(y.low), math.log10(y.high)))
    counts, xs, ys = np.histogram2d(np.log10(across), np.log10(up), bins=bins, range=limits)
    width, height = (x.end - x.start) / bins[0], (y.start - y.end) / bins[1]
    strongest = math.log1p(counts.max(initial=1))
    for i, j in zip(*np.nonzero(counts), strict=True):
        weight = 0.18 + 0.82 * math.log1p(counts[i, j]) / strongest
        drawing.rect(x(10 ** xs[i]), y(10 ** ys[j + 1]), width, height, "cell", weight)


def _trim(values: NDArray) -> list[float]:
    """Drop the lowest half percent, so that a few tiny values do not stretch a logarithmic axis."""
    if len(values) == 0:
        return []
    return [float(np.quantile(values, 0.005)), float(values.max())]


def groups(rows: Sequence[GroupRow]) -> Markup:
    """Draw median, 95% and maximum of each group as one bar."""
    left = 190.0
    scale = LogScale(*around([v for r in rows for v in (r.median, r.q95, r.largest)]), left, RIGHT)
    drawing = Drawing(
        "groups",
        WIDTH,
        70 + 26 * len(rows),
        "Losses by group",
        "; ".join(f"{r.name}: {people(r.size)}, median {loss(r.median)}, maximum {loss(r.largest)}" for r in rows),
    )
    for k, row in enumerate(rows):
        y = 22.0 + 26 * k
        look = " small" if row.small else ""
        drawing.text(left - 10, y + 4, f"{row.name[:18]} ({row.size:,})", "label" + look, "end")
        ends = [min(max(v, scale.low), scale.high) for v in (row.median, row.q95, row.largest)]
        drawing.line(scale(ends[0]), y, scale(ends[2]), y, "whisker" + look)
        drawing.rect(scale(ends[0]), y - 6, max(scale(ends[1]) - scale(ends[0]), 1.5), 12, "bar" + look)
        drawing.circle(scale(ends[2]), y, 4, "dot" + look)
    drawing.bottom_axis(scale, 22.0 + 26 * len(rows), "loss ε: bar from median to 95%, dot at the maximum")
    return drawing.markup()


def sweep(curves: Sequence[Curve], cost: Curve | None, chosen: float, noise_name: str) -> Markup:
    """Draw the loss quantiles against the noise, and the accuracy that the noise costs."""
    x_low, x_high = around([float(v) for v in curves[0].x], 1.0)
    x = LogScale(x_low, x_high, LEFT, RIGHT)
    y = LogScale(*around([float(v) for c in curves for v in c.y]), 226, 24)
    drawing = Drawing(
        "sweep", WIDTH, 430 if cost else 290, "What if: other noise", "Loss quantiles against the size of the noise."
    )
    _lines(drawing, curves, x, y)
    bottom = 226.0
    if cost is not None:
        bottom = 366.0
        y2 = LogScale(*around([float(v) for v in cost.y]), 366, 262)
        drawing.text(LEFT, 252, cost.name, "axis-title", "start")
        _lines(drawing, [Curve("", cost.look, cost.x, cost.y)], x, y2)
    drawing.text(LEFT, 14, "loss ε", "axis-title", "start")
    drawing.line(x(chosen), 24, x(chosen), bottom, "marker chosen")
    drawing.text(x(chosen) + 5, 22, "this release", "note", "start")
    drawing.bottom_axis(x, bottom, noise_name + " (logarithmic)")
    return drawing.markup()


def _lines(drawing: Drawing, curves: Sequence[Curve], x: LogScale, y: LogScale) -> None:
    for tick in y.ticks():
        drawing.line(LEFT, y(tick), RIGHT, y(tick), "grid")
        drawing.text(LEFT - 8, y(tick) + 4, tick_label(tick), "label", "end")
    for curve in curves:
        seen = (curve.y > 0) & np.isfinite(curve.y)
        drawing.path([(x(a), y(b)) for a, b in zip(curve.x[seen], curve.y[seen], strict=True)], f"curve {curve.look}")
        if curve.name and seen.any():
            last = int(np.flatnonzero(seen)[-1])
            drawing.text(x(curve.x[last]) - 4, y(curve.y[last]) - 6, curve.name, "note halo", "end")


def attack(curves: Sequence[Curve]) -> Markup:
    """Draw how often the best test finds a person against its false alarms; the diagonal is guessing."""
    x, y = LogScale(1e-4, 1.0, LEFT, 460), LinearScale(0, 1, 296, 24)
    drawing = Drawing(
        "attack",
        WIDTH,
        350,
        "What an attacker gains",
        "Power of the best membership test against its false-positive rate, compared with guessing.",
    )
    for level in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.line(x.start, y(level), x.end, y(level), "grid")
        drawing.text(LEFT - 8, y(level) + 4, share(level), "label", "end")
    rates = np.geomspace(1e-4, 1.0, 120)
    drawing.path([(x(r), y(r)) for r in rates], "curve guess")
    for k, curve in enumerate(curves):
        drawing.path([(x(a), y(b)) for a, b in zip(curve.x, curve.y, strict=True)], f"curve {curve.look}")
        drawing.line(490, 60 + 30 * k, 516, 60 + 30 * k, f"curve {curve.look}")
        drawing.text(524, 64 + 30 * k, curve.name, "label", "start")
    drawing.line(490, 60 + 30 * len(curves), 516, 60 + 30 * len(curves), "curve guess")
    drawing.text(524, 64 + 30 * len(curves), "guessing", "label", "start")
    drawing.text(LEFT, 14, "finds the person", "axis-title", "start")
    drawing.bottom_axis(x, 296, "false alarms (logarithmic)")
    return drawing.markup()
