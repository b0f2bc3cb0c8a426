"""What a recipe may declare of a column, and the numbers that follow: ranges, categories, yes or no, dates.

A declaration is a plain dictionary, one table of the TOML file. It is public; nothing of the data ever enters it.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.checked_numbers import is_number
from perinstance.data.recipes.arrow_cells import ReadCells, Vocabulary, read_days, read_numbers, read_words
from perinstance.errors import InvalidInput

REFUSE = "refuse"  #: the answer for missing cells unless another one is declared
FILL_IN = "FILL IN"  #: how a place of a first draft begins that a person has to fill in


class ColumnKind(ABC):
    """How the cells of one raw column become numbers."""

    __slots__ = ()
    missing: Any  #: the answer for missing cells; None: they are refused

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What is appended to the column's name, for each column of numbers."""
        return ("",)

    @property
    def bound(self) -> float:
        """The largest norm of the numbers of one cell."""
        return 1.0

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read the cells: as numbers, where a kind does not say otherwise."""
        return read_numbers(array, decimal)

    @abstractmethod
    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Write the numbers: as many columns as there are suffixes, missing cells by the declared answer."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Return the declaration: texts, numbers, truth values and lists of them."""


@dataclass(frozen=True, slots=True)
class AsItIs(ColumnKind):
    """A number, taken as it is."""

    missing: float | None = None

    @property
    def bound(self) -> float:
        """See ``ColumnKind``."""
        return float("inf")

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Copy."""
        out[:, 0] = cells.answered(self.missing)

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"as_is": True, **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredRange(ColumnKind):
    """A number in ``[low, high]``, clipped, and scaled to [-1, 1] by ``2 (x - low) / (high - low) - 1``."""

    low: float
    high: float
    scale: bool = True
    missing: float | None = None

    @property
    def bound(self) -> float:
        """See ``ColumnKind``."""
        return 1.0 if self.scale else max(abs(self.low), abs(self.high))

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Clip and scale."""
        np.clip(cells.answered(self.missing), self.low, self.high, out=out[:, 0])
        if self.scale:
            _scale(out[:, 0], self.low, self.high)

    def unscaled(self, numbers: NDArray) -> NDArray:
        """Return the values of these numbers, in the column's own unit."""
        return self.low + (np.asarray(numbers) + 1) / 2 * (self.high - self.low) if self.scale else np.asarray(numbers)

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"range": [self.low, self.high], **({} if self.scale else {"scale": False}), **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredCategories(ColumnKind):
    """One of several words: a column of zeros and ones for each, and one for "other" unless ``other`` is false."""

    words: tuple[str, ...]
    other: bool = True
    missing: str | None = None

    @property
    def suffixes(self) -> tuple[str, ...]:
        """See ``ColumnKind``."""
        return (*(f"_{word}" for word in self.words), *(("_other",) if self.other else ()))

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words."""
        return read_words(array, Vocabulary(self.words, tuple(range(len(self.words)))))

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Set the one column of each cell; an unknown word is "other"."""
        other = len(self.words)
        answer = self.words.index(self.missing) if self.missing in self.words else other
        codes = np.where(cells.missing, answer, np.where(cells.values < 0, other, cells.values))
        for k in range(out.shape[1]):
            out[:, k] = codes == k

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"categories": list(self.words), **({} if self.other else {"other": False}), **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredYesNo(ColumnKind):
    """Yes is 1, no is 0; upper and lower case are the same, any other word is refused."""

    yes: tuple[str, ...]
    no: tuple[str, ...]
    missing: str | None = None

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words; truth values speak for themselves."""
        if pa.types.is_boolean(array.type):
            return read_numbers(array, decimal)
        codes = (1,) * len(self.yes) + (0,) * len(self.no)
        cells = read_words(array, Vocabulary((*self.yes, *self.no), codes, fold_case=True))
        return ReadCells(cells.values, cells.missing, (cells.values < 0) & ~cells.missing)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Copy the codes."""
        out[:, 0] = cells.answered(float(self.missing == "yes"))

    def plain(self) -> dict[str, Any]:
        """See ``ColumnKind``."""
        return {"yes": list(self.yes), "no": list(self.no), **_answer(self.missing)}


@dataclass(frozen=True, slots=True)
class DeclaredDates(ColumnKind):
    """A date or time between two days, clipped, and scaled to [-1, 1]."""

    first: dt.date
    last: dt.date
    format: str | None = None
    missing: dt.date | None = None

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read days."""
        return read_days(array, self.format)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Clip and scale."""
        first, last = _day(self.first), _day(self.last)
        np.clip(cells.answered(None if self.missing is None else _day(self.missing)), first, last, out=out[:, 0])
        _scale(out[:, 0], first, last)

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


def column_kind(name: str, declared: Any) -> ColumnKind:
    """Read one declaration; ``name`` is the column's, for messages.

    >>> column_kind("age", {"range": [0, 110], "missing": 50})
    DeclaredRange(low=0.0, high=110.0, scale=True, missing=50.0)
    """
    if not isinstance(declared, dict) or not all(isinstance(key, str) for key in declared):
        raise InvalidInput(f"{name}: declare a column as a table, for example {{'range': [0, 110]}}")
    found = [kind for kind in _READERS if kind in declared]
    if len(found) != 1:
        got = "none of them" if not found else " and ".join(found)
        raise InvalidInput(f"{name}: declare one of {', '.join(_READERS)}; got {got}")
    reader, allowed = _READERS[found[0]]
    unknown = sorted(set(declared) - {found[0], "missing", *allowed})
    if unknown:
        raise InvalidInput(f"{name}: {', '.join(unknown)} cannot stand with {found[0]}; leave it out")
    return reader(name, {"missing": REFUSE, **declared})


def _as_it_is(name: str, declared: dict[str, Any]) -> AsItIs:
    if declared["as_is"] is not True:
        raise InvalidInput(f"{name}: as_is must be true; for anything else declare a range")
    return AsItIs(_number_for_missing(name, declared))


def _range(name: str, declared: dict[str, Any]) -> DeclaredRange:
    low, high = _two(name, declared["range"], "range", lambda one: is_number(one) and np.isfinite(one))
    if not low < high or not np.isfinite(float(high) - float(low)):
        raise InvalidInput(f"{name}: range must be [lowest, highest] with lowest < highest")
    return DeclaredRange(float(low), float(high), _truth(name, declared, "scale"), _number_for_missing(name, declared))


def _categories(name: str, declared: dict[str, Any]) -> DeclaredCategories:
    words, missing = _words(name, declared["categories"], "categories"), declared["missing"]
    missing = str(missing) if is_number(missing) else missing
    if missing not in (REFUSE, "other", *words):
        raise InvalidInput(f"{name}: missing must be one of the categories, 'other' or 'refuse'")
    return DeclaredCategories(words, _truth(name, declared, "other"), None if missing == REFUSE else missing)


def _yes_no(name: str, declared: dict[str, Any]) -> DeclaredYesNo:
    if "no" not in declared:
        raise InvalidInput(f"{name}: yes and no go together; declare the words for both")
    yes, no = (_words(name, declared[key], key) for key in ("yes", "no"))
    if {one.lower() for one in yes} & {one.lower() for one in no}:
        raise InvalidInput(f"{name}: a word cannot mean both yes and no")
    missing = declared["missing"]
    missing = ("yes" if missing else "no") if isinstance(missing, bool) else missing
    if missing not in (REFUSE, "yes", "no"):
        raise InvalidInput(f"{name}: missing must be 'yes', 'no' or 'refuse'")
    return DeclaredYesNo(yes, no, None if missing == REFUSE else missing)


def _dates(name: str, declared: dict[str, Any]) -> DeclaredDates:
    first, last = (_date(name, one) for one in _two(name, declared["dates"], "dates", lambda one: True))
    if not first < last:
        raise InvalidInput(f"{name}: dates must be [first, last] with first < last")
    form, missing = declared.get("format"), declared["missing"]
    if form is not None and (not isinstance(form, str) or "%" not in form):
        raise InvalidInput(f"{name}: format is written as for strptime, for example '%d.%m.%Y'")
    return DeclaredDates(first, last, form, None if missing == REFUSE else _date(name, missing))


_READERS: dict[str, tuple[Callable[[str, dict[str, Any]], ColumnKind], tuple[str, ...]]] = {
    "range": (_range, ("scale",)),
    "categories": (_categories, ("other",)),
    "yes": (_yes_no, ("no",)),
    "dates": (_dates, ("format",)),
    "as_is": (_as_it_is, ()),
}


def _two(name: str, value: Any, key: str, good: Callable[[Any], bool]) -> tuple[Any, Any]:
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(good(one) for one in value):
        raise InvalidInput(f"{name}: {key} must be a list of two, the lowest and the highest possible")
    return value[0], value[1]


def _words(name: str, value: Any, key: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, (str, int)) else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise InvalidInput(f"{name}: {key} must be a list of words")
    words = tuple(str(one).lower() if isinstance(one, bool) else str(one).strip() for one in listed)
    if len(set(words)) < len(words):
        raise InvalidInput(f"{name}: {key} names a word twice")
    if any("\ud800" <= letter <= "\udfff" for word in words for letter in word):
        raise InvalidInput(f"{name}: {key} holds half a character (a lone surrogate); correct it")
    return words


def _truth(name: str, declared: dict[str, Any], key: str) -> bool:
    value = declared.get(key, True)
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: {key} must be true or false")
    return value


def _number_for_missing(name: str, declared: dict[str, Any]) -> float | None:
    missing = declared["missing"]
    if missing == REFUSE:
        return None
    if not is_number(missing) or not np.isfinite(missing):
        raise InvalidInput(f"{name}: missing must be a number, the answer for missing cells, or 'refuse'")
    return float(missing)


def _date(name: str, value: Any) -> dt.date:
    if isinstance(value, dt.date):
        return value.date() if isinstance(value, dt.datetime) else value
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name}: dates are written as 2024-12-31") from None


def left_to_fill_in(record: dict[str, Any]) -> list[str]:
    """Return the names of columns (and the target) of which a draft still asks for something."""
    columns, target = record.get("columns"), record.get("target")
    places = list(columns.items()) if isinstance(columns, dict) else []
    places += [(str(target.get("column", "target")), target)] if isinstance(target, dict) else []
    return [name for name, one in places if _unfilled(one)]


def _unfilled(declared: Any) -> bool:
    if isinstance(declared, str):
        return declared.startswith(FILL_IN)
    inner = declared.values() if isinstance(declared, dict) else declared if isinstance(declared, list) else ()
    return any(_unfilled(one) for one in inner)
