"""The figures of the report, drawn from numbers that are already computed: narrow, and growing on a wide screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.report.redaction import SHARED, PlaneCell
from perinstance.report.svg import LEFT, LINE, RIGHT, Drawing, LogScale, around
from perinstance.report.words import loss, people, share, short_count


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line through points."""

    name: str
    look: str
    x: NDArray
    y: NDArray


@dataclass(frozen=True, slots=True)
class Marker:
    """A vertical line with a name: a worst-case statement, a promise."""

    value: float
    name: str
    look: str


@dataclass(frozen=True, slots=True)
class LossBar:
    """So many people lost between low and high."""

    low: float
    high: float
    people: int


def distribution(
    bars: Sequence[LossBar], below: Sequence[tuple[float, float]], markers: Sequence[Marker], notes: Sequence[str]
) -> Markup:
    """Draw the histogram and, below it, the share of people who lost at most that much, over one logarithmic axis."""
    shown = [m for m in markers if m.value > 0 and math.isfinite(m.value)]
    ends = [value for bar in bars for value in (bar.low, bar.high)] or [0.1, 1.0]
    low, high = min(ends), max([*ends, *(m.value * 1.25 for m in shown)])
    low = min([low, *(m.value / 1.25 for m in shown)])
    scale = LogScale(low, high, LEFT, RIGHT)
    words = "; ".join(f"{m.name} at {loss(m.value)}" for m in shown)
    top = 14.0 + LINE * (len(shown) + len(notes)) + LINE
    base = top + 120.0
    told = f"Histogram of the loss of {people(sum(bar.people for bar in bars))} on a logarithmic axis, and below it "
    told += f"the share of people whose loss is no larger. {words}"
    drawing = Drawing("distribution", base + 190.0, "How the losses are distributed", told)
    tallest = max([bar.people for bar in bars], default=1)
    for bar in bars:
        if bar.people:
            height = (base - top - 6) * bar.people / tallest
            left, right = scale(bar.low), scale(bar.high)
            drawing.rect(left + 0.3, base - height, max(right - left - 0.6, 0.5), height, "bar")
    drawing.line(LEFT, base, RIGHT, base, "axis")
    drawing.text(LEFT - 6, top + 10, short_count(tallest), "label", "end")
    drawing.text(LEFT - 6, base, "0", "label", "end")
    drawing.text(2, top - 6, "people", "axis-title", "start")
    upper, lower = base + 32.0, base + 140.0
    scaled = [(scale(x), lower + (upper - lower) * part) for x, part in below if scale.low <= x <= scale.high]
    drawing.text(2, upper - 10, "share of people up to", "axis-title", "start")
    for level in (0.0, 0.5, 1.0):
        at = lower + (upper - lower) * level
        drawing.line(LEFT, at, RIGHT, at, "grid")
        drawing.text(LEFT - 6, at + 5, share(level), "label", "end")
    drawing.path(scaled, "curve")
    drawing.bottom_axis(scale, lower, "loss ε (logarithmic)")
    for marker in shown:
        drawing.line(scale(marker.value), top - 4, scale(marker.value), lower, f"marker {marker.look}")
    # a legend above the panels: no line of a marker comes near a name
    legend = [(f"{marker.name} {loss(marker.value)}", f"marker {marker.look}") for marker in shown]
    drawing.legend([*legend, *((note, "") for note in notes)], "note")
    return drawing.markup()


LOWEST = 1e-4  # of false alarms and of finds: below 1% is where an attack matters
TICKS = 10  # as many releases are numbered


def attack(curves: Sequence[Curve]) -> Markup:
    """Draw how often the best test finds a person against its false alarms, both logarithmic; a line is guessing."""
    rates = np.geomspace(LOWEST, 1.0, 40)
    guessing = Curve("guessing", "guess", rates, rates)
    told = "Power of the best membership test against its false-positive rate, compared with guessing."
    above = "finds the person (logarithmic)"
    drawing, top, bottom = _panel("attack", "What an attacker gains", told, [*curves, guessing], 270.0, above)
    x, y = LogScale(LOWEST, 1.0, LEFT, RIGHT), LogScale(LOWEST, 1.0, bottom, top)
    _lines(drawing, [guessing, *curves], x, y, share)
    drawing.bottom_axis(x, bottom, "false alarms (logarithmic)", share)
    return drawing.markup()


def growth(curves: Sequence[Curve]) -> Markup:
    """Draw quantiles of the totals after each release; x is the release's number, from 1."""
    last = max(int(curve.x[-1]) for curve in curves)
    told = "Quantiles of everybody's total after each release, on a logarithmic axis."
    drawing, top, bottom = _panel("growth", "How totals grew", told, curves, 220.0, "total loss ε (logarithmic)")

    def x(k: float) -> float:
        return LEFT + 14 + (RIGHT - LEFT - 22) * ((k - 1) / (last - 1) if last > 1 else 0.5)

    _lines(drawing, curves, x, LogScale(*around([float(v) for c in curves for v in c.y]), bottom, top))
    drawing.line(LEFT, bottom, RIGHT, bottom, "axis")
    for k in range(1, last + 1, -(-last // TICKS)):
        drawing.line(x(k), bottom, x(k), bottom + 5, "axis")
        drawing.text(x(k), bottom + 21, str(k), "label")
    drawing.text((LEFT + RIGHT) / 2, bottom + 42, "releases, in the order of their charges", "axis-title")
    return drawing.markup()


def sweep(curves: Sequence[Curve], cost: Curve | None) -> Markup:
    """Draw the loss quantiles against the noise, as multiples of what it was, and the accuracy that the noise costs."""
    told, high = "Loss quantiles against the size of the noise.", 310.0 if cost else 170.0
    drawing, top, bottom = _panel("sweep", "What if: other noise", told, curves, high, "loss ε")
    x, first = LogScale(*around([float(v) for v in curves[0].x], 1.0), LEFT, RIGHT), top + 170.0
    _lines(drawing, curves, x, LogScale(*around([float(v) for c in curves for v in c.y]), first, top))
    if cost is not None:
        drawing.text(2, first + 24, cost.name, "axis-title", "start")
        _lines(drawing, [cost], x, LogScale(*around([float(v) for v in cost.y]), bottom, first + 38))
    drawing.line(x(1.0), top, x(1.0), bottom, "marker chosen")
    drawing.text(x(1.0) + 5, top - 13, "this release", "note", "start")
    drawing.bottom_axis(x, bottom, "noise, relative to this release (logarithmic)")
    return drawing.markup()


def _panel(
    name: str, title: str, told: str, curves: Sequence[Curve], high: float, above: str
) -> tuple[Drawing, float, float]:
    """Begin a drawing of curves: their names, and a panel ``high`` pixels high under its axis' title; its two ends."""
    top = 34.0 + LINE * len(curves)
    drawing = Drawing(name, top + high + 52, title, told)
    drawing.legend([(curve.name, f"curve {curve.look}") for curve in curves], "label")
    drawing.text(2, top - 13, above, "axis-title", "start")
    return drawing, top, top + high


def _lines(
    drawing: Drawing, curves: Sequence[Curve], x: Callable[[float], float], y: LogScale, write: Any = None
) -> None:
    """Draw the left axis, then every curve where it has a logarithm."""
    drawing.left_axis(y, LEFT, RIGHT, write)
    for curve in curves:
        seen = (curve.y > 0) & np.isfinite(curve.y)
        points = [(x(a), y(b)) for a, b in zip(curve.x[seen], curve.y[seen], strict=True)]
        drawing.path(points, f"curve {curve.look}")
        if len(points) == 1:  # a line needs two
            drawing.line(points[0][0] - 10, points[0][1], points[0][0] + 10, points[0][1], f"curve {curve.look}")


FEW = 3000  # people who are drawn as single dots; more become a density
TOP, BOTTOM = 26.0, 356.0
DOT = 3.6  # the radius of a numbered dot
BINS = (48, 40)


@dataclass(frozen=True, slots=True)
class Dots:
    """Some people on the plane, by position; the first is the most exposed."""

    across: Floats
    up: Floats
    worst: list[int]


def plane(shown: Dots | list[PlaneCell], contours: Sequence[Curve], across_name: str, up_name: str) -> Markup:
    """Draw people as dots, as a density when there are many, or as shared cells; with lines of equal loss."""
    if isinstance(shown, Dots):
        seen = (shown.across > 0) & (shown.up > 0) & np.isfinite(shown.across) & np.isfinite(shown.up)
        # not the lowest half percent: a few tiny values would stretch a logarithmic axis
        ends = [np.quantile(v[seen], (0.005, 1.0)).tolist() if seen.any() else [] for v in (shown.across, shown.up)]
        x_ends, y_ends, count = around(ends[0]), around(ends[1]), int(seen.sum())
    else:
        x_ends = around([v for cell in shown for v in (cell.left, cell.right)], 1.0)
        y_ends = around([v for cell in shown for v in (cell.bottom, cell.top)], 1.0)
        count = sum(cell.people for cell in shown)
    x, y = LogScale(*x_ends, LEFT, RIGHT), LogScale(*y_ends, BOTTOM, TOP)
    told = f"Density of {people(count)} over {across_name} and the {up_name}, "
    told += "with lines of equal loss. Loss grows towards the upper right."
    drawing = Drawing("plane", BOTTOM + 52, "Why: rare features against surprise", told)
    if not isinstance(shown, Dots):
        for cell in shown:
            weight = min(0.25 * (1 + math.floor(math.log2(cell.people / SHARED))), 1.0)
            left, top = x(cell.left), y(cell.top)
            drawing.rect(left, top, x(cell.right) - left, y(cell.bottom) - top, "cell", weight)
    elif count <= FEW:
        for a, b in zip(shown.across[seen], shown.up[seen], strict=True):
            drawing.circle(x(a), y(b), 2.4, "person")
    else:
        _density(drawing, shown.across[seen], shown.up[seen], x, y)
    drawing.bottom_axis(x, BOTTOM, across_name + " (logarithmic)")
    drawing.left_axis(y, LEFT)
    drawing.text(2, 14, up_name + " (logarithmic)", "axis-title", "start")
    if isinstance(shown, Dots):  # a crowded number moves aside, at the end of a line from its dot
        worst = enumerate(shown.worst, start=1)
        places = {rank: (x(shown.across[i]), y(shown.up[i])) for rank, i in worst if seen[i]}
        for place in places.values():
            drawing.keep_clear(*place, DOT + 2)
        for rank, place in places.items():
            drawing.label_dot(*place, str(rank), "note halo")
        for place in places.values():
            drawing.circle(*place, DOT, "dot")
    for curve in contours:
        inside = (curve.x >= x.low) & (curve.x <= x.high) & (curve.y >= y.low) & (curve.y <= y.high)
        points = [(x(a), y(b)) for a, b in zip(curve.x[inside], curve.y[inside], strict=True)]
        drawing.path(points, "contour")
        for part in (0.5, 0.25, 0.75, 0.1, 0.9) if len(points) > 1 else ():  # the first where nothing is covered
            px, py = points[int(part * (len(points) - 1))]
            if drawing.free_text(px + 4, py - 4, f"ε = {curve.name}", "note halo", "start"):
                break
    return drawing.markup()


def _density(drawing: Drawing, across: NDArray, up: NDArray, x: LogScale, y: LogScale) -> None:
    """Fill cells by the logarithm of how many people they hold."""
    limits = ((math.log10(x.low), math.log10(x.high)), (math.log10(y.low), math.log10(y.high)))
    counts, xs, ys = np.histogram2d(np.log10(across), np.log10(up), bins=BINS, range=limits)
    width, height = (x.end - x.start) / BINS[0], (y.start - y.end) / BINS[1]
    strongest = math.log1p(counts.max(initial=1))
    for i, j in zip(*np.nonzero(counts), strict=True):
        weight = 0.18 + 0.82 * math.log1p(counts[i, j]) / strongest
        drawing.rect(x(10 ** xs[i]), y(10 ** ys[j + 1]), width, height, "cell", weight)


ROW = 38.0


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Quantiles of one group."""

    name: str
    size: int
    median: float
    q95: float
    largest: float
    small: bool


def groups(
    rows: Sequence[GroupRow], name: str, maximum: bool = True, title: str = "Losses by group", what: str = "loss ε"
) -> Markup:
    """Draw the median, the 95% quantile and, unless the copy is redacted, the maximum of each group."""
    values = [v for r in rows for v in ((r.median, r.q95, r.largest) if maximum else (r.median, r.q95))]
    scale = LogScale(*around(values), 12.0, RIGHT)
    bottom = 8.0 + ROW * len(rows)
    told = [
        f"{r.name}: {people(r.size)}, median {loss(r.median)}, maximum {loss(r.largest)}"
        if maximum
        else f"{r.name}: median at most {r.median:g}, 95% at most {r.q95:g}"
        for r in rows
    ]
    drawing = Drawing(name, bottom + 48, title, "; ".join(told))
    for k, row in enumerate(rows):
        y = 8.0 + ROW * k
        look = " small" if row.small else ""
        size = f" ({row.size:,})" if maximum else ""
        drawing.text(12, y + 12, f"{row.name[:28]}{size}", "label" + look, "start")
        median, q95, largest = (scale(min(max(v, scale.low), scale.high)) for v in (row.median, row.q95, row.largest))
        if maximum:
            drawing.line(median, y + 24, largest, y + 24, "whisker" + look)
        drawing.rect(median, y + 19, max(q95 - median, 1.5), 10, "bar" + look)
        if maximum:
            drawing.circle(largest, y + 24, 4, "dot" + look)
    label = f"{what}: bar from median to 95%" + (", dot at the maximum" if maximum else "")
    drawing.bottom_axis(scale, bottom, label)
    return drawing.markup()
