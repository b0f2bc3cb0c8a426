"""Tables whose rows have weights: read once into memory, person by person, each row as a release wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.persons import PersonTable, by_person
from perinstance.data.source import Source
from perinstance.errors import InvalidTable
from perinstance.numerics.array_types import Floats

#: rows, targets and weights -> the rows and targets that a release is given
Weighing = Callable[[NDArray, NDArray, Floats], tuple[NDArray, NDArray]]


def column_of_weights(X: Any, name: Any) -> Any:
    """Read one column of a table or of a scanned file as numbers."""
    from perinstance.data.memory.table import read_table

    columns = getattr(X, "column_names", getattr(X, "columns", None))  # of a pyarrow table, of every other one
    if columns is not None and name not in list(columns):
        raise InvalidTable(f"the weights are not among the {len(columns)} columns of the table; check their name")
    if hasattr(X, "select_columns"):
        source = X.select_columns(target=None, features=[name])
    else:
        source = read_table(X, np.zeros(len(X)), features=[name])
    return np.concatenate([np.asarray(piece().X[:, 0], dtype=np.float64) for piece in source.pieces()])


def weighted_people(source: Source, weights: Floats, weigh: Weighing, look: bool) -> PersonTable:
    """Return the people of a table with their rows weighed; ``weights`` are in the order of the table's rows.

    ``look``: as for ``by_person``.
    """
    people = by_person(source, look)
    several = people if isinstance(people, PersonTable) else None
    order = np.arange(len(weights), dtype=np.int64) if several is None else several.order
    parts, names = [], []
    for block in (piece() for piece in people.pieces()):
        parts.append(weigh(block.X, block.y, weights[order[block.start : block.start + len(block)]]))
        names.append(block.ids)
    X, y = (np.concatenate(one) for one in zip(*parts, strict=True))
    return PersonTable(
        X=X,
        y=y,
        starts=np.arange(len(y) + 1, dtype=np.int64) if several is None else several.starts,
        order=order,
        ids=pa.chunked_array(names) if people.has_ids and people.ids is None else people.ids,
        n_rows=len(y),
        n_features=X.shape[1],
        first_row=source.first_row,
        has_ids=source.has_ids,
        flavour=people.flavour,
        row_flavour=people.flavour if several is None else several.row_flavour,
        classes=source.classes,
    )
