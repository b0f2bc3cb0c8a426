"""Raw tables of any kind, by columns: frames and Arrow tables by their names, matrices by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.data.recipes.arrow_cells import as_arrow
from perinstance.errors import InvalidTable


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
        if self.names is None:
            return as_arrow(self.columns[:, at])
        return as_arrow(self.columns.get_column(self.names[at]))


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
