"""Who carries the loss: a bar for each group."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from perinstance.report.charts.records import RIGHT, GroupRow
from perinstance.report.charts.svg import WIDTH, Drawing, LogScale, around
from perinstance.report.words import loss, people

ROW = 38.0


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
    drawing = Drawing(name, WIDTH, bottom + 48, title, "; ".join(told))
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
