"""How totals grew from release to release."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from perinstance.report.charts.records import LEFT, RIGHT, Curve
from perinstance.report.charts.svg import LINE, WIDTH, Drawing, LinearScale, LogScale, around

TICKS = 10  # as many releases are numbered


def growth(curves: Sequence[Curve]) -> Markup:
    """Draw quantiles of the totals after each release; x is the release's number, from 1."""
    last = max(int(curve.x[-1]) for curve in curves)
    top = 34.0 + LINE * len(curves)
    bottom = top + 220.0
    x = LinearScale(1.0, float(last), LEFT + 14, RIGHT - 8)
    y = LogScale(*around([float(v) for curve in curves for v in curve.y]), bottom, top)
    drawing = Drawing(
        "growth",
        WIDTH,
        bottom + 52,
        "How totals grew",
        "Quantiles of everybody's total after each release, on a logarithmic axis.",
    )
    for row, curve in enumerate(curves):
        drawing.line(LEFT, 9 + LINE * row, LEFT + 28, 9 + LINE * row, f"curve {curve.look}")
        drawing.text(LEFT + 36, 14 + LINE * row, curve.name, "label", "start")
    drawing.text(2, top - 13, "total loss ε (logarithmic)", "axis-title", "start")
    drawing.left_axis(y, LEFT, RIGHT)
    for curve in curves:
        seen = (curve.y > 0) & np.isfinite(curve.y)
        points = [(x(a), y(b)) for a, b in zip(curve.x[seen], curve.y[seen], strict=True)]
        drawing.path(points, f"curve {curve.look}")
        if len(points) == 1:  # a line needs two
            drawing.line(points[0][0] - 10, points[0][1], points[0][0] + 10, points[0][1], f"curve {curve.look}")
    drawing.line(LEFT, bottom, RIGHT, bottom, "axis")
    for k in range(1, last + 1, -(-last // TICKS)):
        drawing.line(x(k), bottom, x(k), bottom + 5, "axis")
        drawing.text(x(k), bottom + 21, str(k), "label")
    drawing.text((LEFT + RIGHT) / 2, bottom + 42, "releases, in the order of their charges", "axis-title")
    return drawing.markup()
