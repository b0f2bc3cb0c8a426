"""A page as a record, and its markup: one file, no network, no script. A new chart needs a section, and no markup."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from perinstance._version import __version__
from perinstance.errors import InvalidInput
from perinstance.report.redaction import SHARED
from perinstance.report.svg import own_text


@dataclass(frozen=True, slots=True)
class Card:
    """One number at a glance."""

    name: str
    value: str
    unit: str = ""
    worst: bool = False


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table with its heading, under a sentence that introduces it."""

    label: str  #: for screen readers
    heads: list[str]
    lines: list[list[str]]
    lead: str = ""
    fold: str = ""  #: when it is long: under this sentence it can be folded away
    prose: tuple[str, ...] = ()  #: heads of the columns that hold running text
    grey: Sequence[bool] = ()  #: of each line, where some are
    stacked: bool = False  #: on a phone, a line is a list of named cells


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, then whatever of these there is, in this order."""

    id: str
    heading: str
    lead: str = ""
    soft: str = ""  #: a lead in a paler colour
    figure: Markup | None = None
    figure_label: str = ""  #: for screen readers
    caption: str = ""
    warning: tuple[str, str] | None = None  #: its first words, and the rest
    tables: tuple[SectionTable, ...] = ()
    after: str = ""  #: said below the tables
    facts: Sequence[tuple[str, str]] = ()  #: names and values
    code: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page without its markup."""

    title: str
    band: str  #: stands at the top, after the word that it is confidential
    setup: str
    verdicts: list[str]
    warnings: list[tuple[str, str]]
    cards: list[Card]
    sections: list[Section]
    unsaid: tuple[str, ...]  #: what the page does not say

    @property
    def made(self) -> str:
        """When the page was made, and by which versions of what its numbers pass through."""
        import numba
        import scipy
        import sklearn

        parts = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba}
        others = ", ".join(f"{name} {module.__version__}" for name, module in parts.items())
        python = ".".join(str(part) for part in sys.version_info[:3])
        return f"Made on {datetime.date.today().isoformat()} by perinstance {__version__}, Python {python}, {others}."

    def markup(self) -> str:
        """Return one HTML page."""
        style = own_text("report.css")
        pages = Environment(
            autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=FunctionLoader(own_text)
        )
        # The policy allows exactly this style sheet and nothing else.
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        return pages.get_template("page.html.j2").render(c=self, style=Markup(style), style_hash=Markup(digest))


def write_page(path: str | os.PathLike[str], page: str) -> Path:
    """Write a page, readable by its owner alone."""
    from perinstance.data import private_file

    path = Path(path)
    with private_file(path) as stream:
        stream.write(page.encode("utf-8"))
    return path


def refuse_few(what: str, people: int) -> None:
    """Refuse a redacted copy of so few people that every number is somebody's."""
    if people < SHARED:
        raise InvalidInput(
            f"a redacted {what} needs at least {SHARED} people, got {people}; of so few every number belongs to "
            "somebody"
        )
