"""A small drawing board: SVG elements, escaped by construction, coloured by the page's style sheet.

Only classes are set, never ``style`` attributes: the page's Content-Security-Policy allows no inline style.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from xml.etree import ElementTree as ET

from markupsafe import Markup

from perinstance.numerics.rounding import TICK_SLACK

WIDTH = 440.0  #: of every figure; on a screen of 360 pixels a text of ``FONT`` is still read
FONT = 14.0  #: as the style sheet has it on a narrow screen, the larger of its sizes
LINE = 18.0  #: from one line of text to the next
LETTER = 0.62 * FONT  #: the width of a letter, rather too much than too little
LEFT, RIGHT = 58.0, 428.0  #: of the panels

# What XML 1.0 does not allow in text; hostile names may carry it.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str, longest: int = 60) -> str:
    """Make a name fit to be shown: no control characters, no direction marks, not endless."""
    text = _DIRECTION_MARKS.sub("", _FORBIDDEN.sub("�", text[: longest + 1]))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def own_text(name: str) -> str:
    """Return a file of this folder: the template, the style sheet."""
    return resources.files("perinstance.report").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps [low, high] on a logarithmic axis to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; what lies outside is put on the edge."""
        position = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.start + min(max(position, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the powers of ten inside, thinned to at most seven; on a short axis also their twos and fives."""
        first, last = math.ceil(math.log10(self.low) - TICK_SLACK), math.floor(math.log10(self.high) + TICK_SLACK)
        if math.log10(self.high / self.low) <= 2.2:
            fine = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
            return [v for v in fine if self.low <= v <= self.high]
        step = max(1, math.ceil((last - first + 1) / 7))
        return [10.0**k for k in range(first, last + 1, step)]


def around(values: Sequence[float], margin: float = 1.25) -> tuple[float, float]:
    """Return the limits of a logarithmic axis that shows all positive finite values, at least one decade."""
    shown = [v for v in values if v > 0 and math.isfinite(v)]
    low, high = (min(shown), max(shown)) if shown else (0.1, 1.0)
    low, high = low / margin, high * margin
    if high / low < 10:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    return low, high


def tick_label(value: float) -> str:
    """Write a tick.

    >>> tick_label(0.01), tick_label(1e-9), tick_label(1000.0)
    ('0.01', '10⁻⁹', '1000')
    """
    if 1e-3 <= value <= 1e4:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + TICK_SLACK)
    lead = round(value / 10.0**exponent)
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ("" if lead == 1 else f"{lead}·") + "10" + raised


class Drawing:
    """One figure, with a title and a description that a screen reader reads."""

    def __init__(self, name: str, height: float, title: str, description: str) -> None:
        self.height = height
        self._boxes: list[tuple[float, float, float, float]] = []  # of texts, so that others can keep clear of them
        named = {"role": "img", "aria-labelledby": f"{name}-title {name}-desc", "class": "chart"}
        self._root = ET.Element("svg", {"viewBox": f"0 0 {WIDTH:g} {height:g}", **named})
        self._child("title", title, id=f"{name}-title")
        self._child("desc", description, id=f"{name}-desc")

    def _child(self, tag: str, content: str = "", **attributes: str) -> None:
        element = ET.SubElement(self._root, tag, attributes)
        if content:
            element.text = clean(content, 400)

    def _shape(self, tag: str, look: str, **numbers: float) -> None:
        self._child(tag, **{name: f"{value:.2f}" for name, value in numbers.items()}, **{"class": look})

    def rect(self, x: float, y: float, width: float, height: float, look: str, opacity: float | None = None) -> None:
        """Draw a rectangle."""
        extra = {} if opacity is None else {"fill-opacity": opacity}
        self._shape("rect", look, x=x, y=y, width=max(width, 0), height=max(height, 0), **extra)

    def line(self, x1: float, y1: float, x2: float, y2: float, look: str) -> None:
        """Draw a straight line."""
        self._shape("line", look, x1=x1, y1=y1, x2=x2, y2=y2)

    def circle(self, x: float, y: float, radius: float, look: str) -> None:
        """Draw a dot."""
        self._shape("circle", look, cx=x, cy=y, r=radius)

    def path(self, points: Sequence[tuple[float, float]], look: str) -> None:
        """Draw a line through points."""
        if len(points) > 1:
            steps = " L".join(f"{x:.2f} {y:.2f}" for x, y in points)
            self._child("path", **{"d": f"M{steps}", "class": look})

    def text(self, x: float, y: float, words: str, look: str = "label", anchor: str = "middle") -> None:
        """Write."""
        self._boxes.append(_box(x, y, words, anchor))
        self._child("text", words, **{"x": f"{x:.2f}", "y": f"{y:.2f}", "class": look, "text-anchor": anchor})

    def free_text(self, x: float, y: float, words: str, look: str, anchor: str = "middle") -> bool:
        """Write if that is inside the figure and covers no other text; say whether it is."""
        left, right, top, bottom = _box(x, y, words, anchor)
        inside = left >= 0 and right <= WIDTH and top >= 0 and bottom <= self.height
        free = inside and not any(left < b and a < right and top < d and c < bottom for a, b, c, d in self._boxes)
        if free:
            self.text(x, y, words, look, anchor)
        return free

    def legend(self, lines: Sequence[tuple[str, str]], look: str) -> None:
        """Name some lines, by their looks, above the panels."""
        for row, (words, drawn) in enumerate(lines):
            if drawn:
                self.line(LEFT, 9 + LINE * row, LEFT + 28, 9 + LINE * row, drawn)
            self.text(LEFT + 36, 14 + LINE * row, words, look, "start")

    def keep_clear(self, x: float, y: float, radius: float) -> None:
        """Let no later text cover this place."""
        self._boxes.append((x - radius, x + radius, y - radius, y + radius))

    def label_dot(self, x: float, y: float, words: str, look: str) -> None:
        """Write next to a dot, where that covers nothing; further away a line leads to the dot."""
        half = len(words) * LETTER / 2
        for away in (10.0, 20.0, 32.0, 46.0, 62.0):
            for turn in range(16):
                across, down = math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)
                at_x, at_y = x + across * (away + half), y + down * away
                if self.free_text(at_x, at_y + 0.35 * FONT, words, look):
                    if away > 10.0:
                        self.line(x, y, at_x - across * half, at_y - down * half, "leader")
                    return

    def bottom_axis(self, scale: LogScale, y: float, label: str, write: Callable[[float], str] | None = None) -> None:
        """Draw a logarithmic axis below a panel."""
        self.line(scale.start, y, scale.end, y, "axis")
        for tick in scale.ticks():
            self.line(scale(tick), y, scale(tick), y + 5, "axis")
            words = (write or tick_label)(tick)
            # the last one ends with the panel, lest it be cut off
            at_end = scale(tick) + len(words) * LETTER / 2 > WIDTH
            self.free_text(scale(tick), y + 21, words, "label", "end" if at_end else "middle")
        self.text((scale.start + scale.end) / 2, y + 42, label, "axis-title")

    def left_axis(
        self, scale: LogScale, x: float, right: float | None = None, write: Callable[[float], str] | None = None
    ) -> None:
        """Draw a logarithmic axis at the left of a panel, with lines across it up to ``right``."""
        self.line(x, scale.end, x, scale.start, "axis")
        for tick in scale.ticks():
            if right is not None:
                self.line(x, scale(tick), right, scale(tick), "grid")
            self.free_text(x - 6, scale(tick) + 5, (write or tick_label)(tick), "label", "end")

    def markup(self) -> Markup:
        """Return the figure as markup that may stand in a page."""
        return Markup(ET.tostring(self._root, encoding="unicode"))


def _box(x: float, y: float, words: str, anchor: str) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of a text on the baseline y."""
    width = len(words) * LETTER
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, left + width, y - 0.85 * FONT, y + 0.25 * FONT
