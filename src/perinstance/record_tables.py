"""Records as small tables where a notebook shows them, a line for each field. Reprs, which end up in logs, stay."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any

import numpy as np

FEW = 8  # numbers of an array that are written out
LONGEST = 120  # letters of a value


class ShownAsTable:
    """What a frozen record inherits to be a table in a notebook. It has no fields of its own."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        lines = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_text(getattr(self, name)))}</td></tr>" for name in names
        )
        head = f'<thead><tr><th colspan="2">{escape(type(self).__name__)}</th></tr></thead>'
        return f"<table>{head}<tbody>{lines}</tbody></table>"


def _text(value: Any) -> str:
    """Write a value: numbers with all their digits, long arrays by their ends, records and the like by their type.

    >>> _text(0.1), _text(np.arange(100.0)), _text(None)
    ('0.1', '100 numbers from 0.0 to 99.0', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float):
        text = str(value)
    elif isinstance(value, np.ndarray) and value.size > FEW:
        text = f"{value.size:,} values"
        if value.dtype.kind in "fiu":
            text = f"{value.size:,} numbers from {value.min().item()!r} to {value.max().item()!r}"
    elif isinstance(value, np.ndarray | tuple | list):
        text = ", ".join(_text(part) for part in (value.ravel().tolist() if isinstance(value, np.ndarray) else value))
    else:
        size = f" of {len(value):,}" if hasattr(value, "__len__") else ""
        text = f"{type(value).__name__}{size}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
