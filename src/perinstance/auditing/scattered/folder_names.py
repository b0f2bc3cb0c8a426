"""Whether losses are to go to one file or to a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def is_folder(out: Any) -> bool:
    """Tell whether losses are to go to a folder: anything that is not called like a file of losses.

    >>> is_folder("losses/"), is_folder("losses.parquet"), is_folder(None)
    (True, False, False)
    """
    return out is not None and Path(out).suffix.lower() not in (".csv", ".parquet")
