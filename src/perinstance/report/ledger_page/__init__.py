"""The page of a ledger: one file, no network, no script.

``page_content`` gathers what it says; ``growth_sections`` shows how totals grew and what each release cost,
``people_sections`` who is near a limit, ``record_sections`` the log and what it is worth.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perinstance.report import filled_page, write_page
from perinstance.report.ledger_page.page_content import gather

if TYPE_CHECKING:
    from perinstance.ledger import Ledger

__all__ = ["render", "to_html"]


def render(ledger: Ledger, **options: Any) -> str:
    """Return the page; see ``perinstance.report.ledger_page.page_content.gather`` for the options."""
    return filled_page("ledger.html.j2", gather(ledger, **options))


def to_html(ledger: Ledger, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page, readable by its owner alone."""
    return write_page(path, render(ledger, **options))
