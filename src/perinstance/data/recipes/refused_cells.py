"""Cells that a recipe has no number for: all columns at once, by name and row, never by what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import named_column
from perinstance.errors import InvalidTable

_SHOWN = 10  # columns named in one message


@dataclass(slots=True)
class RefusedCells:
    """Collects the columns of one block; ``start`` is the number of its first row."""

    start: int
    refuse: bool = True  #: False: whoever asked takes cells without a number as NaN
    found: list[str] = field(default_factory=list)

    def add(self, name: Any, cells: NDArray[np.bool_], what: str) -> None:
        """Take note of some cells of a column: missing, or unreadable as its kind."""
        count, row = int(cells.sum()), self.start + int(cells.argmax())
        last = self.start + len(cells) - 1  # of this block: the rows behind it have not been read
        more = f" (and {count - 1} more up to row {last})" if count > 1 else ""
        self.found.append(f"{named_column(name)}, row {row}{more}: {_WORDS[what]}")

    def refuse_any(self) -> None:
        """Refuse, if anything was found."""
        if not self.found or not self.refuse:
            return
        left_out = len(self.found) - _SHOWN
        shown = "; ".join(self.found[:_SHOWN]) + (f"; and {left_out} more columns" if left_out > 0 else "")
        raise InvalidTable(f"{shown}. Declare missing = ..., correct the cells, or declare the column otherwise")


_WORDS = {
    "missing": "missing (null, NaN or empty), and the recipe has no answer for it",
    "range": "not a finite number",
    "as_is": "not a finite number (text, NaN or infinity)",
    "yes": "neither a word for yes nor one for no",
    "dates": "not a date as declared",
}
