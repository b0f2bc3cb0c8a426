"""The page of an audit whose losses stayed with the workers of a cluster: the audit's page, from sketches.

``page_content`` gathers what it says; the markup and most sections are those of the audit's page.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perinstance.report import filled_page, write_page
from perinstance.report.scattered_page.page_content import gather

if TYPE_CHECKING:
    from perinstance.auditing.scattered.result import ScatteredAudit

__all__ = ["render", "to_html"]


def render(audit: ScatteredAudit, **options: Any) -> str:
    """Return the page; see ``perinstance.report.scattered_page.page_content.gather`` for the options."""
    return filled_page("report.html.j2", gather(audit, **options))


def to_html(audit: ScatteredAudit, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page, readable by its owner alone."""
    return write_page(path, render(audit, **options))
