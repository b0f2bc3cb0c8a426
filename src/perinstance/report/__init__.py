"""The curator's report: one file, no network, no script.

``content`` gathers what it says and lists its sections, ``charts`` draws, ``words`` writes numbers; ``ledger_page`` is
the page of a ledger.
"""

import os
from pathlib import Path
from typing import Any

__all__ = ["render", "to_html"]


def render(audit: Any, **options: Any) -> str:
    """Return the report of an audit as one HTML page; see ``perinstance.report.content.gather`` for the options."""
    from perinstance.report.content import gather  # not to explain one loss

    return gather(audit, **options).markup()


def to_html(audit: Any, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report, readable by its owner alone."""
    from perinstance.report.page import write_page

    return write_page(path, render(audit, **options))
