"""One column's numbers; cells that have none are refused, all columns at once, by name and row, never by content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import named_column
from perinstance.data.recipes.arrow_cells import as_arrow
from perinstance.data.recipes.column_kinds import ColumnKind
from perinstance.errors import InvalidTable

_SHOWN = 10  # columns named in one message
_WRONG = {
    "missing": "missing (null, NaN or empty), and the recipe has no answer for it",
    "range": "not a finite number",
    "as_is": "not a finite number (text, NaN or infinity)",
    "yes": "neither a word for yes nor one for no",
    "dates": "not a date as declared",
}


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
        self.found.append(f"{named_column(name)}, row {row}{more}: {_WRONG[what]}")

    def refuse_any(self) -> None:
        """Refuse, if anything was found."""
        left_out = len(self.found) - _SHOWN
        shown = "; ".join(self.found[:_SHOWN]) + (f"; and {left_out} more columns" if left_out > 0 else "")
        if self.found and self.refuse:
            raise InvalidTable(f"{shown}. Declare missing = ..., correct the cells, or declare the column otherwise")


def fill_column(name: str, kind: ColumnKind, array: Any, decimal: str, out: NDArray, refused: RefusedCells) -> None:
    """Write one column's numbers, or take note of the cells that have none."""
    cells = kind.read(as_arrow(array), decimal)
    gaps = cells.missing & (kind.missing is None)
    for lost, what in ((cells.unreadable, next(iter(kind.plain()))), (gaps, "missing")):
        if lost.any():
            refused.add(name, lost, what)
    kind.fill(cells, out)
    if not refused.refuse:
        out[gaps | cells.unreadable] = np.nan
