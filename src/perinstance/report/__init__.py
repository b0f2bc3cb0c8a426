"""The curator's report: one file, no network, no script.

``content`` gathers what it says and lists its sections, ``charts`` draws, ``words`` writes numbers.
"""

from __future__ import annotations

import base64
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from perinstance.report.content import gather

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

__all__ = ["render", "to_html"]


def render(audit: Audit, **options: Any) -> str:
    """Return the report as one HTML page; see ``perinstance.report.content.gather`` for the options."""
    folder = resources.files("perinstance.report")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        folder.joinpath("report.html.j2").read_text(encoding="utf-8")
    )
    # The policy allows exactly this style sheet and nothing else.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return page.render(c=gather(audit, **options), style=Markup(style), style_hash=Markup(digest))


def to_html(audit: Audit, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report, readable by its owner alone."""
    from perinstance.data import private_file

    path = Path(path)
    page = render(audit, **options)
    with private_file(path) as stream:
        stream.write(page.encode("utf-8"))
    return path
