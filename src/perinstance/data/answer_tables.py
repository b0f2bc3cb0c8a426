"""Answers in the caller's own flavour of table: pandas with its index, polars, pyarrow or numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
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
        if self.kind == "pyarrow":
            import pyarrow as pa

            return pa.chunked_array([pa.array(values)])
        return values

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Several values per person: a table. Numpy has none, so it gets pandas where that is installed."""
        if self.kind == "polars":
            import polars as pl

            return pl.DataFrame({name: _numpy_or_arrow(values) for name, values in columns.items()})
        if self.kind != "pyarrow":
            try:
                import pandas as pd
            except ImportError:
                pass
            else:
                plain = {name: _plain(values) for name, values in columns.items()}
                return pd.DataFrame(plain, index=self.index)
        import pyarrow as pa

        return pa.table({name: _numpy_or_arrow(values) for name, values in columns.items()})


def _numpy_or_arrow(values: Any) -> Any:
    import pyarrow as pa

    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(np.asarray(values))


def _plain(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False) if hasattr(values, "chunks") else np.asarray(values)
