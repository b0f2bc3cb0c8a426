"""How rare somebody's features are against how badly they are predicted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.report.charts.records import LEFT, RIGHT, Curve, Dots
from perinstance.report.charts.svg import WIDTH, Drawing, LogScale, around
from perinstance.report.redaction import SHARED, PlaneCell
from perinstance.report.words import people

FEW = 3000  # people who are drawn as single dots; more become a density
TOP, BOTTOM = 26.0, 356.0
DOT = 3.6  # the radius of a numbered dot
BINS = (48, 40)


def plane(shown: Dots | list[PlaneCell], contours: Sequence[Curve], across_name: str, up_name: str) -> Markup:
    """Draw people as dots, as a density when there are many, or as shared cells; with lines of equal loss."""
    if isinstance(shown, Dots):
        seen = (shown.across > 0) & (shown.up > 0) & np.isfinite(shown.across) & np.isfinite(shown.up)
        x_ends, y_ends = around(_trim(shown.across[seen])), around(_trim(shown.up[seen]))
        count = int(seen.sum())
    else:
        x_ends = around([v for cell in shown for v in (cell.left, cell.right)], 1.0)
        y_ends = around([v for cell in shown for v in (cell.bottom, cell.top)], 1.0)
        count = sum(cell.people for cell in shown)
    x, y = LogScale(*x_ends, LEFT, RIGHT), LogScale(*y_ends, BOTTOM, TOP)
    drawing = Drawing(
        "plane",
        WIDTH,
        BOTTOM + 52,
        "Why: rare features against surprise",
        f"Density of {people(count)} over {across_name} and the {up_name}, "
        "with lines of equal loss. Loss grows towards the upper right.",
    )
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
    if isinstance(shown, Dots):
        _number(drawing, shown, seen, x, y)
    for curve in contours:
        _contour(drawing, curve, x, y)
    return drawing.markup()


def _number(drawing: Drawing, dots: Dots, seen: NDArray[np.bool_], x: LogScale, y: LogScale) -> None:
    """Number the most exposed; a crowded number moves aside, at the end of a line from its dot."""
    places = {rank: (x(dots.across[i]), y(dots.up[i])) for rank, i in enumerate(dots.worst, start=1) if seen[i]}
    for place in places.values():
        drawing.keep_clear(*place, DOT + 2)
    for rank, place in places.items():
        drawing.label_dot(*place, str(rank), "note halo")
    for place in places.values():
        drawing.circle(*place, DOT, "dot")


def _contour(drawing: Drawing, curve: Curve, x: LogScale, y: LogScale) -> None:
    inside = (curve.x >= x.low) & (curve.x <= x.high) & (curve.y >= y.low) & (curve.y <= y.high)
    points = [(x(a), y(b)) for a, b in zip(curve.x[inside], curve.y[inside], strict=True)]
    drawing.path(points, "contour")
    for place in (0.5, 0.25, 0.75, 0.1, 0.9):  # along the line, the first place where the name covers no other
        if len(points) > 1:
            px, py = points[int(place * (len(points) - 1))]
            if drawing.free_text(px + 4, py - 4, f"ε = {curve.name}", "note halo", "start", tries=1):
                return


def _density(drawing: Drawing, across: NDArray, up: NDArray, x: LogScale, y: LogScale) -> None:
    """Fill cells by the logarithm of how many people they hold."""
    limits = ((math.log10(x.low), math.log10(x.high)), (math.log10(y.low), math.log10(y.high)))
    counts, xs, ys = np.histogram2d(np.log10(across), np.log10(up), bins=BINS, range=limits)
    width, height = (x.end - x.start) / BINS[0], (y.start - y.end) / BINS[1]
    strongest = math.log1p(counts.max(initial=1))
    for i, j in zip(*np.nonzero(counts), strict=True):
        weight = 0.18 + 0.82 * math.log1p(counts[i, j]) / strongest
        drawing.rect(x(10 ** xs[i]), y(10 ** ys[j + 1]), width, height, "cell", weight)


def _trim(values: NDArray) -> list[float]:
    """Drop the lowest half percent, so that a few tiny values do not stretch a logarithmic axis."""
    if len(values) == 0:
        return []
    return [float(np.quantile(values, 0.005)), float(values.max())]
