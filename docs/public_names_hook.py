"""The API reference lists every public name: ``::: every name of PACKAGE`` becomes one entry for each of them."""

from __future__ import annotations

import importlib
import re
from typing import Any

_LINE = re.compile(r"^::: every name of (\S+)\n((?:    .*\n)*)", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write out the names of the packages' ``__all__``, but for those with an entry of their own.

    The options that follow a line hold for each of its names.
    """
    own = set(re.findall(r"^::: (\S+)$", markdown, re.MULTILINE))

    def entries(found: re.Match[str]) -> str:
        names = [f"{found[1]}.{name}" for name in importlib.import_module(found[1]).__all__]
        return "\n".join(f"::: {name}\n{found[2]}" for name in names if name not in own)

    return _LINE.sub(entries, markdown)
