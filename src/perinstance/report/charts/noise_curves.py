"""Losses, and the accuracy that noise costs, against the size of the noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from perinstance.report.charts.records import LEFT, RIGHT, Curve
from perinstance.report.charts.svg import LINE, WIDTH, Drawing, LogScale, around


def sweep(curves: Sequence[Curve], cost: Curve | None, chosen: float, noise_name: str) -> Markup:
    """Draw the loss quantiles against the noise, and the accuracy that the noise costs."""
    x = LogScale(*around([float(v) for v in curves[0].x], 1.0), LEFT, RIGHT)
    top = 34.0 + LINE * len(curves)
    first, bottom = top + 170.0, top + (310.0 if cost else 170.0)
    y = LogScale(*around([float(v) for c in curves for v in c.y]), first, top)
    drawing = Drawing(
        "sweep", WIDTH, bottom + 52, "What if: other noise", "Loss quantiles against the size of the noise."
    )
    for row, curve in enumerate(curves):
        drawing.line(LEFT, 9 + LINE * row, LEFT + 28, 9 + LINE * row, f"curve {curve.look}")
        drawing.text(LEFT + 36, 14 + LINE * row, curve.name, "label", "start")
    drawing.text(2, top - 13, "loss ε", "axis-title", "start")
    _lines(drawing, curves, x, y)
    if cost is not None:
        drawing.text(2, first + 24, cost.name, "axis-title", "start")
        _lines(drawing, [cost], x, LogScale(*around([float(v) for v in cost.y]), bottom, first + 38))
    drawing.line(x(chosen), top, x(chosen), bottom, "marker chosen")
    drawing.text(x(chosen) + 5, top - 13, "this release", "note", "start")
    drawing.bottom_axis(x, bottom, noise_name + " (logarithmic)")
    return drawing.markup()


def _lines(drawing: Drawing, curves: Sequence[Curve], x: LogScale, y: LogScale) -> None:
    drawing.left_axis(y, LEFT, RIGHT)
    for curve in curves:
        seen = (curve.y > 0) & np.isfinite(curve.y)
        drawing.path([(x(a), y(b)) for a, b in zip(curve.x[seen], curve.y[seen], strict=True)], f"curve {curve.look}")
