"""What a recipe may declare of a column, and the numbers that follow: ranges, categories, yes or no, dates.

Each kind is a frozen record; ``declarations`` makes it from a plain dictionary, one table of the TOML file.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.recipes.arrow_cells import ReadCells, Vocabulary, read_days, read_numbers, read_words


class ColumnKind(Protocol):
    """How the cells of one raw column become numbers."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What is appended to the column's name, for each column of numbers."""

    @property
    def bound(self) -> float:
        """The largest norm of the numbers of one cell."""

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read the cells."""

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Write the numbers: as many columns as there are suffixes, missing cells by the declared answer."""

    @property
    def answers_missing(self) -> bool:
        """Whether missing cells have a declared answer."""

    def plain(self) -> dict[str, Any]:
        """Return the declaration: texts, numbers, truth values and lists of them."""


@dataclass(frozen=True, slots=True)
class AsItIs:
    """A number, taken as it is."""

    missing: float | None = None
    suffixes: tuple[str, ...] = ("",)
    bound: float = float("inf")

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read numbers."""
        return read_numbers(array, decimal)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Copy."""
        out[:, 0] = cells.values
        if cells.missing is not None:
            out[cells.missing, 0] = self.missing

    @property
    def answers_missing(self) -> bool:
        """See ``ColumnKind``."""
        return self.missing is not None

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"as_is": True, **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredRange:
    """A number in ``[low, high]``, clipped, and scaled to [-1, 1] by ``2 (x - low) / (high - low) - 1``."""

    low: float
    high: float
    scale: bool = True
    missing: float | None = None
    suffixes: tuple[str, ...] = ("",)

    @property
    def bound(self) -> float:
        """See ``ColumnKind``."""
        return 1.0 if self.scale else max(abs(self.low), abs(self.high))

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read numbers."""
        return read_numbers(array, decimal)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Clip and scale."""
        values = cells.values
        if cells.missing is not None and self.missing is not None:
            values = np.where(cells.missing, self.missing, values)
        np.clip(values, self.low, self.high, out=out[:, 0])
        if self.scale:
            _scale(out[:, 0], self.low, self.high)

    def unscaled(self, numbers: NDArray) -> NDArray:
        """Return the values of these numbers, in the column's own unit."""
        return self.low + (np.asarray(numbers) + 1) / 2 * (self.high - self.low) if self.scale else np.asarray(numbers)

    @property
    def answers_missing(self) -> bool:
        """See ``ColumnKind``."""
        return self.missing is not None

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"range": [self.low, self.high], **({} if self.scale else {"scale": False}), **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredCategories:
    """One of several words: a column of zeros and ones for each, and one for "other" unless ``other`` is false."""

    words: tuple[str, ...]
    other: bool = True
    missing: str | None = None
    bound: float = 1.0

    @property
    def suffixes(self) -> tuple[str, ...]:
        """See ``ColumnKind``."""
        return (*(f"_{word}" for word in self.words), *(("_other",) if self.other else ()))

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words."""
        return read_words(array, Vocabulary(self.words, tuple(range(len(self.words)))))

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Set the one column of each cell."""
        codes = np.where(cells.values < 0, len(self.words), cells.values)  # unknown: other
        if cells.missing is not None:
            answer = self.words.index(self.missing) if self.missing in self.words else len(self.words)
            codes[cells.missing] = answer
        for k in range(out.shape[1]):
            out[:, k] = codes == k

    @property
    def answers_missing(self) -> bool:
        """See ``ColumnKind``."""
        return self.missing is not None

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {
            "categories": list(self.words),
            **({} if self.other else {"other": False}),
            **_answer(self.missing),
        }


@dataclass(frozen=True, slots=True)
class DeclaredYesNo:
    """Yes is 1, no is 0; upper and lower case are the same, any other word is refused."""

    yes: tuple[str, ...]
    no: tuple[str, ...]
    missing: str | None = None
    suffixes: tuple[str, ...] = ("",)
    bound: float = 1.0

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words; truth values speak for themselves."""
        if pa.types.is_boolean(array.type):
            return read_numbers(array, decimal)
        words = (*self.yes, *self.no)
        cells = read_words(array, Vocabulary(words, (1,) * len(self.yes) + (0,) * len(self.no), fold_case=True))
        unknown = cells.values < 0
        if cells.missing is not None:
            unknown &= ~cells.missing
        return ReadCells(cells.values, cells.missing, unknown if unknown.any() else None)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Copy the codes."""
        out[:, 0] = cells.values
        if cells.missing is not None:
            out[cells.missing, 0] = float(self.missing == "yes")

    @property
    def answers_missing(self) -> bool:
        """See ``ColumnKind``."""
        return self.missing is not None

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"yes": list(self.yes), "no": list(self.no), **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredDates:
    """A date or time between two days, clipped, and scaled to [-1, 1]."""

    first: dt.date
    last: dt.date
    format: str | None = None
    missing: dt.date | None = None
    suffixes: tuple[str, ...] = ("",)
    bound: float = 1.0

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read days."""
        return read_days(array, self.format)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Clip and scale."""
        values = cells.values
        if cells.missing is not None and self.missing is not None:
            values = np.where(cells.missing, _day(self.missing), values)
        first, last = _day(self.first), _day(self.last)
        np.clip(values, first, last, out=out[:, 0])
        _scale(out[:, 0], first, last)

    @property
    def answers_missing(self) -> bool:
        """See ``ColumnKind``."""
        return self.missing is not None

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {
            "dates": [self.first.isoformat(), self.last.isoformat()],
            **({} if self.format is None else {"format": self.format}),
            **_answer(None if self.missing is None else self.missing.isoformat()),
        }


def _day(date: dt.date) -> float:
    return float((date - dt.date(1970, 1, 1)).days)


def _scale(column: NDArray, low: float, high: float) -> None:
    """Put ``2 (x - low) / (high - low) - 1`` in the place of x; roundings are monotone, so it stays within [-1, 1]."""
    column -= low
    column /= high - low
    column *= 2
    column -= 1


def _answer(missing: Any) -> dict[str, Any]:
    return {} if missing is None else {"missing": missing}
