"""Search from disk asks for nothing elsewhere: the theme's script for it is replaced by the one beside this file."""

from __future__ import annotations

from typing import Any

THEIRS = "https://unpkg.com/iframe-worker/shim"
OURS = "search_worker.js"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Name our script, relative to the page."""
    return output.replace(THEIRS, "../" * page.url.count("/") + OURS)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same on the page for addresses that do not exist."""
    return output_content.replace(THEIRS, "/" + OURS)
