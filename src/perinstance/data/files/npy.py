"""A numpy matrix in a ``.npy`` file, mapped block by block: never more than a few blocks of it are resident."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.checks.cells import check_dtype
from perinstance.data.memory.column_choice import Chosen
from perinstance.errors import InvalidTable


@dataclass(frozen=True, slots=True)
class NpyReader:
    """See ``Reader``; columns are called by number."""

    path: Path
    labels: tuple[int, ...]
    types: tuple[pa.DataType, ...]
    n_rows: int
    stored: int
    first_row: int = 0
    starts_quickly: bool = True
    rereadable: bool = True

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [str(at) for at in chosen.wanted]
        for start in range(0, self.n_rows, rows):
            window = _mapped(self.path)[start : start + rows]  # the mapping ends with it
            columns = [np.ascontiguousarray(window[:, at]) for at in chosen.wanted]
            native = [one.astype(one.dtype.newbyteorder("="), copy=False) for one in columns]
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in native], names=names)


def open_npy(path: Path) -> NpyReader:
    """Read the header; pickled objects are never loaded."""
    mapped = _mapped(path)
    if mapped.ndim != 2:
        raise InvalidTable(f"the matrix must have two dimensions, one row per person, got {mapped.ndim}")
    check_dtype(mapped.dtype, "the matrix")
    kind = pa.from_numpy_dtype(mapped.dtype.newbyteorder("="))
    n, d = mapped.shape
    return NpyReader(path, tuple(range(d)), (kind,) * d, n, path.stat().st_size)


def _mapped(path: Path) -> NDArray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError):
        raise InvalidTable(f"{path.name!r} cannot be mapped as a numpy matrix; save floats with numpy.save") from None
