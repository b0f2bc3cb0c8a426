"""Raw tables of any kind, by columns, and what a recipe does to a column: numbers, or a refusal without a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
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


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of any kind, by columns."""

    columns: Any
    names: list[Any] | None
    n_columns: int
    n_rows: int

    def column(self, at: int) -> pa.Array:
        """Return one column."""
        if isinstance(self.columns, (pa.Table, pa.RecordBatch)):
            return as_arrow(self.columns.column(at))
        return as_arrow(self.columns[:, at] if self.names is None else self.columns.get_column(self.names[at]))


def raw_table(X: Any) -> RawTable:
    """Take pandas, polars, pyarrow and whatever narwhals knows by names, matrices by position."""
    import narwhals.stable.v1 as nw

    if isinstance(X, (pa.Table, pa.RecordBatch)):  # as blocks of a file come: nothing to look up
        return RawTable(X, X.schema.names, X.num_columns, X.num_rows)
    frame = X if isinstance(X, (np.ndarray, list, tuple)) else nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable("the table is lazy; call .collect() first")
    if isinstance(frame, nw.DataFrame):
        return RawTable(frame, list(frame.columns), len(frame.columns), len(frame))
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InvalidTable("Sparse data was passed for X, but dense data is required; use '.toarray()'")
    try:
        values = np.asarray(X)
        values = np.asarray(X, dtype=object) if values.dtype.kind in "US" and values is not X else values
    except Exception:  # whatever a foreign __array__ raises may quote a cell
        raise InvalidTable("X is no rectangular table; pass a matrix or a table") from None
    if values.ndim != 2:
        raise InvalidTable(
            f"Expected 2D array, got {values.ndim}D array instead: X must have one row per person. Reshape your data."
        )
    for axis, what in ((1, f"feature(s) (shape={values.shape})"), (0, "sample(s)")):
        if values.shape[axis] == 0:
            raise InvalidTable(f"Found array with 0 {what} while a minimum of 1 is required.")
    if values.dtype.kind == "c":
        raise InvalidTable("Complex data not supported: split it into real and imaginary parts")
    return RawTable(values, None, values.shape[1], values.shape[0])


@dataclass(slots=True)
class RefusedCells:
    """Collects the columns of one block; ``start`` is the number of its first row."""

    start: int
    refuse: bool = True  #: False: whoever asked takes cells without a number as NaN
    found: list[str] = field(default_factory=list)

    def fill(self, name: str, kind: ColumnKind, array: Any, decimal: str, out: NDArray) -> None:
        """Write one column's numbers to ``out``, and take note of the cells that have none."""
        cells = kind.read(as_arrow(array), decimal)
        gaps = cells.missing & (kind.missing is None)
        for lost, what in ((cells.unreadable, next(iter(kind.plain))), (gaps, "missing")):
            if lost.any():
                count, row, last = int(lost.sum()), self.start + int(lost.argmax()), self.start + len(lost) - 1
                more = f" (and {count - 1} more up to row {last})" if count > 1 else ""  # of the rows read so far
                self.found.append(f"{named_column(name)}, row {row}{more}: {_WRONG[what]}")
        kind.fill(cells, out)
        if not self.refuse:
            out[gaps | cells.unreadable] = np.nan

    def refuse_any(self) -> None:
        """Refuse all columns at once, by name and row, if anything was found."""
        left_out = len(self.found) - _SHOWN
        shown = "; ".join(self.found[:_SHOWN]) + (f"; and {left_out} more columns" if left_out > 0 else "")
        if self.found and self.refuse:
            raise InvalidTable(f"{shown}. Declare missing = ..., correct the cells, or declare the column otherwise")
