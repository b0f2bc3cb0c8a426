"""Pairs read back from plain columns: what ``to_columns`` wrote, under the name and version that ``schema`` gave."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.pairs.base import Pairs, PairSchema
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.columns import ColumnPairs
from perinstance.pairs.composition import Composed


def from_columns(columns: Mapping[str, ArrayLike], schema: PairSchema | str) -> Pairs:
    """Rebuild the pairs that ``pairs.to_columns()`` wrote, bit for bit.

    Parameters
    ----------
    columns : mapping of names to arrays
        All columns of the pairs and no others, one entry per person in each: numbers, and words (or codes) in ``kind``.
    schema : PairSchema or str
        ``pairs.schema()``, or its text.

    Examples
    --------
    >>> from perinstance.pairs import LaplaceShift, from_columns
    >>> pairs = LaplaceShift([0.5, 2.0])
    >>> from_columns(pairs.to_columns(), "laplace/1").epsilon(0.0)
    array([0.5, 2. ])
    """
    given: object = columns
    if not isinstance(given, Mapping) or not isinstance(schema, PairSchema | str):
        raise InvalidInput(
            f"from_columns takes a mapping of names to arrays and a schema, got {type(columns).__name__} and "
            f"{type(schema).__name__}; pass pairs.to_columns() and pairs.schema()"
        )
    schema = PairSchema.parse(schema) if isinstance(schema, str) else schema
    if schema.name != Composed.FORMAT[0]:
        return _single(dict(columns), schema)
    _check_version(schema, Composed)
    if not schema.parts:
        raise InvalidInput(f"a composition needs the schemas of its releases, got {schema}; pass str(pairs.schema())")
    starts = [f"{part.name}{i}_" for i, part in enumerate(schema.parts, start=1)]
    shares = [
        {name.removeprefix(start): values for name, values in columns.items() if name.startswith(start)}
        for start in starts
    ]
    _refuse_unknown({name for name in columns if not name.startswith(tuple(starts))}, schema)
    return Composed([_single(share, part) for share, part in zip(shares, schema.parts, strict=True)])


def without_loss(schema: PairSchema | str, column: str) -> float:
    """Return what a column of numbers holds for somebody whom a release does not concern: a pair that costs nothing.

    >>> without_loss("shift/1", "distance"), without_loss("student/1", "dimension")
    (0.0, 1.0)
    """
    schema = PairSchema.parse(schema) if isinstance(schema, str) else schema
    for i, part in enumerate(schema.parts, start=1):
        if column.startswith(f"{part.name}{i}_"):
            return without_loss(part, column.removeprefix(f"{part.name}{i}_"))
    return single_pairs()[schema.name].NO_LOSS.get(column, 0.0)


def _single(columns: dict[str, ArrayLike], schema: PairSchema) -> Pairs:
    """Rebuild the pairs of one release."""
    singles = single_pairs()
    pair = singles.get(schema.name)
    if pair is None or schema.parts:
        known = ", ".join([*singles, Composed.FORMAT[0]])
        raise InvalidInput(
            f"no pair is called {str(schema)!r}, there are {known}; if a newer perinstance wrote it, upgrade"
        )
    _check_version(schema, pair)
    wanted = pair._stored_names(set(columns))
    missing = sorted(wanted - set(columns))
    if missing:
        raise InvalidInput(f"columns {missing} of {schema} are missing; pass all that pairs.to_columns() gave")
    _refuse_unknown(set(columns) - wanted, schema)
    arrays: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():  # of ``kind`` the words, or their codes where whole numbers were given
        array = np.asarray(values) if name == "kind" else real_values(f"column {name!r}", values)
        if array.ndim != 1:
            raise InvalidInput(f"column {name!r} must have one dimension, got {array.ndim}; pass one entry per person")
        arrays[name] = array
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"columns of {schema} must have one length, got {lengths}; pass one entry per person")
    return pair._from_stored(arrays)


def _check_version(schema: PairSchema, pair: type[Pairs]) -> None:
    name, version = pair.FORMAT
    if schema.version != version:
        raise InvalidInput(
            f"columns of {name!r} are read in version {version}, got version {schema.version}; "
            "read them with the perinstance that wrote them, or a newer one"
        )


def _refuse_unknown(names: set[str], schema: PairSchema) -> None:
    if names:
        raise InvalidInput(f"{schema} has no columns {sorted(names)}; pass only what pairs.to_columns() gave")


@cache
def single_pairs() -> dict[str, type[ColumnPairs]]:
    """Return every pair that stands by itself, by its name in files: the public ones, and the one known from above."""
    from perinstance import pairs

    public = [getattr(pairs, name) for name in dir(pairs)]
    single = [pair for pair in (*public, Dominated) if isinstance(pair, type) and issubclass(pair, ColumnPairs)]
    return {pair.FORMAT[0]: pair for pair in single}
