"""Answers in the caller's own flavour of table: pandas with its index, polars, pyarrow or numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Flavour:
    """What kind of table came in, and its index when it has one."""

    kind: str  #: ``"numpy"``, ``"pandas"``, ``"polars"`` or ``"pyarrow"``
    index: Any = None  #: a pandas index, or None

    def series(self, values: NDArray, name: str) -> Any:
        """One value per person: a Series, a ChunkedArray, or the array itself."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.Series(np.asarray(values), index=self.index, name=name)
        if self.kind == "polars":
            import polars as pl

            return pl.Series(name, np.asarray(values))
        return pa.chunked_array([pa.array(values)]) if self.kind == "pyarrow" else values

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Several values per person: a table. Numpy has none, so it gets pandas where that is installed."""
        if self.kind not in ("polars", "pyarrow"):
            try:
                import pandas as pd
            except ImportError:
                pass
            else:
                plain = {
                    name: one.to_numpy(zero_copy_only=False) if hasattr(one, "chunks") else np.asarray(one)
                    for name, one in columns.items()
                }
                return pd.DataFrame(plain, index=self.index)
        arrow = (pa.Array, pa.ChunkedArray)
        arrays = {name: one if isinstance(one, arrow) else pa.array(np.asarray(one)) for name, one in columns.items()}
        if self.kind == "polars":
            import polars as pl

            return pl.DataFrame(arrays)
        return pa.table(arrays)
