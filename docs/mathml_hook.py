"""Formulas become MathML while the pages are built: every browser draws it, and nothing is fetched from elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the TeX that the Markdown extension marked."""

    def translate(found: re.Match[str]) -> str:
        display = "block" if found[2] == "[" else "inline"
        return convert(html.unescape(found[3]), display=display)

    return _FORMULA.sub(translate, content)
