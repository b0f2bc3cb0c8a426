"""Tables in memory: numpy, pandas, polars, pyarrow, anything narwhals knows; validated at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.data.checks.cells import column_label, refuse_types, type_word, unique_labels
from perinstance.data.memory.columns import (
    Columns,
    FrameColumns,
    Matrix,
    Vector,
    coded_target,
    plain_array,
    prepare_columns,
    refuse_numbers,
)
from perinstance.data.recipes.arrow_cells import as_arrow
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.source import (
    BLOCK_BYTES,
    Chosen,
    Flavour,
    Piece,
    Source,
    choose_columns,
    rows_per_block,
    rows_per_view,
)
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block, in_order_of
from perinstance.folds.ids import read_ids, refuse_duplicates


@dataclass(frozen=True, slots=True, eq=False)
class Table(Source):
    """A table in memory, checked for everything that can be known without reading its cells; see ``Source``."""

    columns: Columns
    target: Vector
    n_rows: int

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        if block_bytes is None and self.columns.viewed:
            step = rows_per_view(self.n_rows, self.n_features)
        else:  # what is converted is kept small
            step = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES)
        for start in range(0, self.n_rows, step):
            yield partial(self._block, start, min(start + step, self.n_rows))

    def _block(self, start: int, stop: int) -> Block:
        return Block(self.columns.rows(start, stop), self.target.rows(start, stop), start)


def read_table(
    X: Any,
    y: Any = None,
    *,
    target: Any = None,
    ids: Any = None,
    features: Any = None,
    preparation: Preparation | None = None,
    classes: tuple[str, ...] | None = None,
    several: bool = False,
) -> Source:
    """Make a source of blocks of whatever the caller has.

    Parameters
    ----------
    X : a matrix, a table, the answer of ``scan``, or a source
        Numbers only, apart from the column of ids; anything that the preparation takes, where there is one.
    y : array or column, optional
        The target, when it is not a column of X.
    target : column of X, optional
        Its name (its number, for numpy).
    ids : column of X, or one id per row, optional
        Strings as written, or whole numbers.
    features : columns of X, optional
        Which columns to use; all others by default.
    preparation : Preparation, optional
        What turns raw rows into numbers: a recipe, or steps that learn nothing.
    classes : words, optional
        Not None: the target may be words. These are its classes; none of them: those of this table.
    several : bool
        Whether an id may repeat: people have several rows then (``persons.by_person``).

    Examples
    --------
    >>> table = read_table([[1, 2], [3, 4], [5, 7]], y=[0, 1, 1])
    >>> table.n_rows, table.n_features
    (3, 2)
    """
    if hasattr(X, "pieces"):  # a source already, with its target
        if not all(one is None for one in (y, target, ids, features, preparation)):
            raise InvalidTable("this table has its target beside it; leave y, target=, ids= and features= away")
        return X
    if preparation is not None:
        target, features = _prepared_names(preparation, y, target, features)
    if (y is None) == (target is None):
        both = ", not both" * (y is not None)
        raise InvalidTable(f"give either y or target=, the column of the table that holds it{both}")
    if hasattr(X, "select_columns"):  # a scan
        if y is not None:
            raise InvalidTable("a file is audited with target=, the name of one of its columns; y cannot stand beside")
        steps = {} if preparation is None else {"preparation": preparation}
        return X.select_columns(target=target, ids=ids, features=features, **steps)
    frame, names = _frame_of(X), None
    if frame is None:
        columns, vector = _from_matrix(X, target, features, preparation)
        flavour, n = Flavour("numpy"), len(X if hasattr(X, "__len__") else np.asarray(X))
    else:
        chosen, n = choose_columns(frame.columns, target, ids if _is_label(ids) else None, features), len(frame)
        columns, vector = _from_frame(X, frame, chosen, preparation, classes)
        kind = _kind_of(frame)
        flavour = Flavour(kind if kind in ("pandas", "polars", "pyarrow") else "numpy", getattr(X, "index", None))
        if chosen.ids is not None:
            names = pa.chunked_array([read_ids(frame.get_column(frame.columns[chosen.ids]).to_native())])
    vector = _vector(in_order_of(X, y), classes) if vector is None else vector
    if n == 0:
        raise InvalidTable("the table has no rows; there is nobody to audit")
    if len(vector) != n:
        raise InvalidTable(f"X has {n} rows and y has {len(vector)}; both must have one entry per person")
    if not columns.numbers:
        raise InvalidTable("the table has no features; at least one column besides the target and the ids is needed")
    if names is None and ids is not None:
        names = _given_ids(in_order_of(X, ids, "ids"), n)
    if names is not None and not several:
        refuse_duplicates(names)
    return Table(
        columns=columns,
        target=vector,
        n_rows=n,
        n_features=len(columns.numbers),
        names=columns.names,
        numbers=columns.numbers,
        ids=names,
        has_ids=names is not None,
        flavour=flavour,
        rereadable=preparation is None,
        classes=vector.words,
    )


def _prepared_names(preparation: Preparation, y: Any, target: Any, features: Any) -> tuple[Any, Any]:
    """Return the target and the features that a recipe names."""
    if preparation.columns is not None:
        if features is not None:
            raise InvalidTable("a recipe names the columns it uses; leave features= away")
        features = preparation.columns
    if preparation.target is not None:
        declared = preparation.target.target_column
        if y is not None or target not in (None, declared):
            raise InvalidTable(f"the recipe declares '{declared}' as the target; leave y and target= away")
        target = declared
    return target, features


def _frame_of(X: Any) -> Any:
    """Return the table as a narwhals frame, or None when it is an array."""
    import narwhals.stable.v1 as nw

    if isinstance(X, (np.ndarray, list, tuple)):
        return None
    unread, frame = "the table could not be read: ", None
    with suppress(Exception):  # duplicate columns, mainly; the text would quote them
        frame = nw.from_native(X, pass_through=True)
    if frame is None and X is not None:
        unique_labels(getattr(X, "column_names", getattr(X, "columns", ())), unread)
        raise InvalidTable("the table could not be read")
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable("the table is lazy; call .collect() first, or scan() the file it comes from")
    if isinstance(frame, nw.DataFrame):
        unique_labels(frame.columns, unread)
        return frame
    if isinstance(getattr(X, "ndim", None), int) and X.ndim == 1:
        raise InvalidTable("X must have two dimensions, one row per person, got one; reshape(-1, 1) for one column")
    return None


def _from_matrix(X: Any, target: Any, features: Any, preparation: Preparation | None) -> tuple[Columns, Vector | None]:
    values = plain_array(X, "X")
    if values.ndim != 2:
        raise InvalidTable(f"X must have two dimensions, one row per person, got {values.ndim}; reshape it")
    d = values.shape[1]
    if preparation is not None:
        if target is not None:
            raise InvalidTable("a matrix has no names, so its target is passed as y; or pass a table")
        return prepare_columns(values, preparation), None
    if values.size or values.dtype.kind != "f":
        refuse_types({"X": type_word(values.dtype)})
    wanted = range(d) if features is None else [_column_number(one, d) for one in features]
    if target is None:
        return Matrix(values, tuple(wanted)), None
    at = _column_number(target, d)
    return Matrix(values, tuple(one for one in wanted if one != at)), Vector(values[:, at], column_label(at))


def _column_number(one: Any, d: int) -> int:
    if isinstance(one, (bool, str)) or not isinstance(one, (int, np.integer)) or not -d <= one < d:
        raise InvalidTable(f"columns of a matrix are called by number, 0 to {d - 1}; got something else")
    return int(one) % d


def _from_frame(
    X: Any, frame: Any, chosen: Chosen, preparation: Preparation | None, classes: tuple[str, ...] | None
) -> tuple[Columns, Vector | None]:
    labels = list(frame.columns)
    used = tuple(labels[at] for at in chosen.features)
    inner: Vector | None = None
    if chosen.target is not None:
        label = column_label(chosen.target, labels[chosen.target])
        inner = _column_target(frame.get_column(labels[chosen.target]), label, preparation, classes)
    if preparation is not None:
        return prepare_columns(frame.select(*used).to_native(), preparation), inner
    refuse_types({column_label(at, labels[at]): type_word(frame.schema[labels[at]]) for at in chosen.features})
    plain = len(used) == len(labels) and _kind_of(frame) == "pandas" and len(X) and X.dtypes.nunique() == 1
    # a pandas table that is one matrix is viewed; of columns in separate places to_numpy() would copy them all
    if (
        plain
        and isinstance(X.dtypes.iloc[0], np.dtype)
        and np.shares_memory(X.iloc[:1].to_numpy(), X.iloc[:1, 0].to_numpy())
    ):
        return Matrix(X.to_numpy(), chosen.features, tuple(map(str, used))), inner
    return FrameColumns(frame, used, chosen.features, tuple(map(str, used))), inner


def _kind_of(frame: Any) -> str:
    return str(frame.implementation).rpartition(".")[2].lower()


def _is_label(ids: Any) -> bool:
    return isinstance(ids, (str, int))


def _vector(y: Any, classes: tuple[str, ...] | None = None) -> Vector:
    """Make a target of an array, a list or a column."""
    import narwhals.stable.v1 as nw

    # an array is none of its kinds, and to find that out takes longer than anything else here
    series = y if type(y) is np.ndarray else nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(series, nw.DataFrame):
        _refuse_several(len(series.columns))
        series = series.get_column(series.columns[0])
    if isinstance(series, nw.Series):
        return _column_target(series, "the target", None, classes)
    values = plain_array(y, "the target")
    if values.ndim == 2:
        _refuse_several(values.shape[1])
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidTable(f"the target must have one number per person, got {values.ndim} dimensions")
    if classes is not None and values.dtype.kind in "UOT":
        codes, words = coded_target(values, classes or None)
        return Vector(codes, words=words)
    refuse_numbers(classes)
    refuse_types({"the target": type_word(values.dtype)})
    return Vector(values)


def _column_target(series: Any, label: str, preparation: Preparation | None, classes: tuple[str, ...] | None) -> Vector:
    """Make a target of a narwhals column: by the recipe, as classes written in words, or as numbers."""
    import narwhals.stable.v1 as nw

    if preparation is not None and preparation.target is not None:
        return Vector(preparation.target.target_numbers(as_arrow(series), 0), label)
    if classes is not None and series.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object):
        codes, words = coded_target(series.to_numpy(), classes or None, label)
        return Vector(codes, label, words)
    refuse_numbers(classes, label)
    refuse_types({label: type_word(series.dtype)})
    return Vector(series, label)


def _refuse_several(targets: int) -> None:
    if targets != 1:
        raise InvalidTable(
            f"the target has {targets} columns, and a release has one; audit a release for each of them, "
            "and compose their losses"
        )


def _given_ids(ids: Any, n: int) -> pa.ChunkedArray:
    if _is_label(ids):
        raise InvalidTable("ids names a column, but X is a matrix without names; pass one id per row")
    names = read_ids(ids)
    if len(names) != n:
        raise InvalidTable(f"X has {n} rows and ids has {len(names)}; pass one id per row")
    return pa.chunked_array([names])
