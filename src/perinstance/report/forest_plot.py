"""A forest plot of published coefficients: estimate, interval, and which share of the variance is privacy noise.

Coefficients have different units, so every row has a scale of its own: zero stands in the middle of all of them, and
the end of the interval that is farther from it at the edge. The thick part of a line is what sampling alone would make.
"""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from perinstance.inference.table import ABOUT, LEVEL, Inference
from perinstance.report.svg import LETTER, WIDTH, Drawing, clean, own_text

ROW = 46.0  #: from one coefficient to the next
EDGE = 10.0
END = 340.0  #: of the lines; behind them stands the share of privacy noise
MOST_ROWS = 60


def drawn(found: Inference, level: float = LEVEL) -> Markup:
    """Draw the first coefficients, at most ``MOST_ROWS``; the intercept is drawn like any other."""
    table = found.to_dict(level)
    count = min(len(found.names), MOST_ROWS)
    said = f"{level:.0%} intervals of {count} coefficients, about {ABOUT[found.about]}."
    board = Drawing("forest", ROW * count + 8.0, "Forest plot", said)
    middle, half = (EDGE + END) / 2.0, (END - EDGE) / 2.0
    board.line(middle, 0.0, middle, ROW * count, "grid")
    for i in range(count):
        top, low, high, estimate = ROW * i, table["low"][i], table["high"][i], table["estimate"][i]
        y = top + 32.0
        words = f"{estimate:.4g} ({low:.4g} to {high:.4g})" if table["resolved"][i] else "hidden by the noise"
        board.text(WIDTH - 4.0, top + 17.0, words, "label", "end")
        kept = max(int((WIDTH - 16.0) / LETTER) - len(words) - 2, 6)
        board.text(EDGE, top + 17.0, clean(found.names[i], kept), "name", "start")
        if not table["resolved"][i]:
            board.line(EDGE, y, END, y, "whisker small")
            continue
        farthest = max(abs(low), abs(high)) or 1.0
        share = min(max(table["privacy_share"][i], 0.0), 1.0)
        inner = math.sqrt(1.0 - share) * (high - low) / 2.0
        board.line(middle + low / farthest * half, y, middle + high / farthest * half, y, "whisker")
        start = middle + (estimate - inner) / farthest * half
        board.rect(start, y - 4.0, 2.0 * inner / farthest * half, 8.0, "person")
        board.circle(middle + estimate / farthest * half, y, 4.5, "dot")
        board.text(WIDTH - 4.0, y + 5.0, f"noise {share:.0%}", "label", "end")
    return board.markup()


def caption(found: Inference, level: float = LEVEL) -> str:
    """Say what the plot shows."""
    return (
        f"Estimates and {level:.0%} intervals about {ABOUT[found.about]}. The vertical line is zero; every row has its "
        "own scale. The thick part is what sampling alone makes, 'noise' the share of privacy noise in the variance."
    )


def fragment(found: Inference) -> str:
    """Return the plot and the table for a notebook."""
    style = own_text("report.css")
    root, dark = style.index(":root"), style.index("* { box-sizing")
    rules = "\n".join(
        line for line in style.splitlines() if line.startswith((".chart", ".grid", ".person", ".whisker", ".dot"))
    )
    return (
        f'<div><style>{style[root:dark]}{rules}</style><figure role="group">{drawn(found)}'
        f"<figcaption>{escape(caption(found))}</figcaption></figure><pre>{escape(found.summary())}</pre></div>"
    )


def page(found: Inference, level: float = LEVEL, title: str = "Published coefficients") -> str:
    """Return one HTML page, without script or network; everything in it is public."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(clean(title))}</title><style>{own_text('report.css')}</style></head><body><main><h1>{escape(clean(title))}</h1>"
        f'<p class="setup">{escape(found.heading())}</p><figure role="group">{drawn(found, level)}'
        f"<figcaption>{escape(caption(found, level))}</figcaption></figure>"
        + "".join(f"<p>{escape(note)}</p>" for note in found.notes)
        + "</main></body></html>\n"
    )
