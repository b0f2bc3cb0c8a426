"""The curator's report: one file, no network, no script.

``content`` gathers what it says and lists its sections, ``charts`` draws, ``words`` writes numbers; ``ledger_page`` is
the page of a ledger.
"""

from __future__ import annotations

import base64
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

__all__ = ["render", "to_html"]


def render(audit: Audit, **options: Any) -> str:
    """Return the report as one HTML page; see ``perinstance.report.content.gather`` for the options."""
    from perinstance.report.content import gather  # not to explain one loss

    return filled_page("report.html.j2", gather(audit, **options))


def filled_page(template: str, content: Any) -> str:
    """Fill a template of this folder, which finds what it says under ``c``."""
    style = _text("report.css")
    pages = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=FunctionLoader(_text))
    # The policy allows exactly this style sheet and nothing else.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return pages.get_template(template).render(c=content, style=Markup(style), style_hash=Markup(digest))


def _text(name: str) -> str:
    return resources.files("perinstance.report").joinpath(name).read_text(encoding="utf-8")


def to_html(audit: Audit, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report, readable by its owner alone."""
    return write_page(path, render(audit, **options))


def write_page(path: str | os.PathLike[str], page: str) -> Path:
    """Write a page, readable by its owner alone."""
    from perinstance.data import private_file

    path = Path(path)
    with private_file(path) as stream:
        stream.write(page.encode("utf-8"))
    return path
