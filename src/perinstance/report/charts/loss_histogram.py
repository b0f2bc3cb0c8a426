"""How many people lost how much."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from perinstance.report.charts.records import LEFT, RIGHT, LossBar, Marker
from perinstance.report.charts.svg import LINE, WIDTH, Drawing, LinearScale, LogScale
from perinstance.report.words import loss, people, share, short_count


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
    drawing = Drawing(
        "distribution",
        WIDTH,
        base + 190.0,
        "How the losses are distributed",
        f"Histogram of the loss of {people(sum(bar.people for bar in bars))} on a logarithmic axis, and below it the "
        f"share of people whose loss is no larger. {words}",
    )
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
    _share_below(drawing, below, scale, base)
    # a legend above the panels: no line of a marker comes near a name
    for row, marker in enumerate(shown):
        at = scale(marker.value)
        drawing.line(at, top - 4, at, base + 140.0, f"marker {marker.look}")
        drawing.line(LEFT, 9 + LINE * row, LEFT + 28, 9 + LINE * row, f"marker {marker.look}")
        drawing.text(LEFT + 36, 14 + LINE * row, f"{marker.name} {loss(marker.value)}", "note", "start")
    for row, note in enumerate(notes, start=len(shown)):
        drawing.text(LEFT + 36, 14 + LINE * row, note, "note", "start")
    return drawing.markup()


def _share_below(drawing: Drawing, below: Sequence[tuple[float, float]], scale: LogScale, base: float) -> None:
    top, bottom = base + 32.0, base + 140.0
    height = LinearScale(0, 1, bottom, top)
    drawing.text(2, top - 10, "share of people up to", "axis-title", "start")
    for level in (0.0, 0.5, 1.0):
        drawing.line(LEFT, height(level), RIGHT, height(level), "grid")
        drawing.text(LEFT - 6, height(level) + 5, share(level), "label", "end")
    drawing.path([(scale(x), height(y)) for x, y in below if scale.low <= x <= scale.high], "curve")
    drawing.bottom_axis(scale, bottom, "loss ε (logarithmic)")
