"""Pairs kept as columns, one array per parameter: keeping, picking, joining, showing and storing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LARGEST
from perinstance.pairs.arguments import check_parts, frozen, people_array
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import KINDS, Kind, kind_codes

Self = TypeVar("Self", bound="ColumnPairs")


class Column:
    """A parameter of the pairs, read through a view that nobody can change; the slot ``_name`` keeps it."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = "_" + name

    @overload
    def __get__(self, pairs: None, owner: type) -> Column: ...
    @overload
    def __get__(self, pairs: ColumnPairs, owner: type) -> Floats: ...
    def __get__(self, pairs: ColumnPairs | None, owner: type) -> Column | Floats:
        return self if pairs is None else frozen(getattr(pairs, self._slot))


class ColumnPairs(Pairs):
    """Pairs given by some parameters per person: the slots of a subclass, in the order ``to_frame`` shows them."""

    __slots__: tuple[str, ...] = ()

    #: Whether every parameter is one number per person (and not several coordinates).
    one_number_each: ClassVar[bool] = True
    #: The parameters of a pair that costs nothing, where they are not zero.
    NO_LOSS: ClassVar[Mapping[str, float]] = {}
    #: The parameter that larger noise makes smaller by as much, where there is one.
    OVER_NOISE: ClassVar[str | None] = None
    #: The largest size up to which a parameter gives exact answers; beyond, answers are upper bounds (often infinite).
    EXACT_UP_TO: ClassVar[Mapping[str, float]] = {}

    def __init__(self, kind: Kind | ArrayLike, **columns: ArrayLike) -> None:
        for name, array in self._validated(columns).items():
            setattr(self, "_" + name, array)
        self._codes = kind_codes(kind, len(self))
        for name, most in self.EXACT_UP_TO.items():
            self._bounded_only(getattr(self, "_" + name), most)

    def _bounded_only(self, parameter: Floats, most: float) -> None:
        """Label as an upper bound whoever has a parameter beyond ``most``; one that is infinite costs exactly that."""
        if max(parameter.max(initial=0.0), -parameter.min(initial=0.0)) > most:
            beyond = np.isfinite(parameter) & (np.abs(parameter) > most)
            who = np.any(beyond.reshape(len(self), -1), axis=1)
            self._codes = np.maximum(self._codes, np.where(who, KINDS.index("upper"), 0).astype(np.uint8))

    def _validated(self, columns: dict[str, ArrayLike]) -> dict[str, Floats]:
        """Return one number >= 0 per person and column; of length one it is everybody's."""
        arrays = {name: people_array(name, values) for name, values in columns.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        n = max(lengths.values()) if 0 not in lengths.values() else 0
        if any(length not in (1, n) for length in lengths.values()):
            raise InvalidInput(
                f"parameters must have the same length, got {lengths}; pass one entry per person in each"
            )
        return {name: np.broadcast_to(array, (n,)) if len(array) != n else array for name, array in arrays.items()}

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))

    def __getitem__(self: Self, index: Any) -> Self:
        index = [index] if isinstance(index, (int, np.integer)) else index  # one person is still a vector of pairs
        columns = {slot[1:]: getattr(self, slot)[index] for slot in self.__slots__}
        return type(self)(kind=self._codes[index], **columns)

    @classmethod
    def concatenate(cls: type[Self], parts: list[Self]) -> Self:
        """Put vectors of pairs of one type behind each other; tables of fewer columns are padded with zeros."""
        check_parts(cls, parts)
        columns = {}
        for slot in cls.__slots__:
            each = [getattr(part, slot) for part in parts]
            if not cls.one_number_each:
                k = max(table.shape[1] for table in each)
                each = [np.pad(table, ((0, 0), (0, k - table.shape[1]))) for table in each]
            columns[slot[1:]] = np.concatenate(each)
        return cls(kind=np.concatenate([part._codes for part in parts]), **columns)

    def parameters(self) -> dict[str, Floats]:
        """Return the parameters alone, one array per name: what ``type(pairs)(**parameters, kind=...)`` takes back."""
        return {slot[1:]: getattr(self, slot[1:]) for slot in self.__slots__}

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return the parameters and the words of ``kind``, one entry per person: for files.

        A parameter of several numbers per person has a column for each: ``shift_1``, ``shift_2``, ...
        """
        columns: dict[str, NDArray[Any]] = {}
        for name, values in self.parameters().items():
            names = [name] if self.one_number_each else [f"{name}_{j + 1}" for j in range(values.shape[1])]
            columns |= zip(names, [values] if self.one_number_each else values.T, strict=True)
        return {**columns, "kind": self.kinds}

    @classmethod
    def _stored_names(cls, given: set[str]) -> set[str]:
        """Return the columns that ``to_columns`` writes; ``given`` are those of a file, which may say how many."""
        names = [slot[1:] for slot in cls.__slots__]
        if not cls.one_number_each:
            k = sum(name.startswith(f"{names[0]}_") for name in given)
            names = [f"{name}_{j + 1}" for name in names for j in range(k)]
        return {*names, "kind"}

    @classmethod
    def _from_stored(cls: type[Self], columns: Mapping[str, Any]) -> Self:
        """Rebuild the pairs from columns of one length, all of them there."""
        if cls.one_number_each:
            return cls(**columns)
        k, n = (len(columns) - 1) // len(cls.__slots__), len(columns["kind"])
        tables = {
            slot[1:]: np.reshape([columns[f"{slot[1:]}_{j + 1}"] for j in range(k)], (k, n)).T for slot in cls.__slots__
        }
        return cls(kind=columns["kind"], **tables)

    def with_noise(self: Self, factor: float) -> Self | None:
        """Return the pairs under noise that is ``factor`` times as large; None where that is not one formula."""
        if self.OVER_NOISE is None:
            return None
        if not is_number(factor) or not 0 < factor <= LARGEST:
            raise InvalidInput(f"factor must be a positive number, got {got(factor)}; factor=2 doubles the noise")
        changed = {self.OVER_NOISE: getattr(self, self.OVER_NOISE) / float(factor)}
        return type(self)(kind=self._codes, **{**self.parameters(), **changed})
