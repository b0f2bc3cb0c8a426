"""What the best membership test finds, against its false alarms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from perinstance.report.charts.records import LEFT, RIGHT, Curve
from perinstance.report.charts.svg import LINE, WIDTH, Drawing, LogScale
from perinstance.report.words import share

LOWEST = 1e-4  # of false alarms and of finds: below 1% is where an attack matters


def attack(curves: Sequence[Curve]) -> Markup:
    """Draw how often the best test finds a person against its false alarms, both logarithmic; a line is guessing."""
    names = [(curve.name, curve.look) for curve in curves] + [("guessing", "guess")]
    top = 34.0 + LINE * len(names)
    bottom = top + 270.0
    x, y = LogScale(LOWEST, 1.0, LEFT, RIGHT), LogScale(LOWEST, 1.0, bottom, top)
    drawing = Drawing(
        "attack",
        WIDTH,
        bottom + 52,
        "What an attacker gains",
        "Power of the best membership test against its false-positive rate, compared with guessing.",
    )
    for row, (name, look) in enumerate(names):
        drawing.line(LEFT, 9 + LINE * row, LEFT + 28, 9 + LINE * row, f"curve {look}")
        drawing.text(LEFT + 36, 14 + LINE * row, name, "label", "start")
    drawing.text(2, top - 13, "finds the person (logarithmic)", "axis-title", "start")
    drawing.left_axis(y, LEFT, RIGHT, share)
    drawing.path([(x(r), y(r)) for r in np.geomspace(LOWEST, 1.0, 40)], "curve guess")
    for curve in curves:
        drawing.path([(x(a), y(b)) for a, b in zip(curve.x, curve.y, strict=True)], f"curve {curve.look}")
    drawing.bottom_axis(x, bottom, "false alarms (logarithmic)", share)
    return drawing.markup()
