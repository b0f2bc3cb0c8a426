"""What a recipe may declare of a column, and the numbers that follow: ranges, categories, yes or no, dates.

A declaration is a plain dictionary, one table of the TOML file. It is public; nothing of the data ever enters it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.checked_numbers import is_number
from perinstance.data.recipes.arrow_cells import ReadCells, read_days, read_numbers, read_words
from perinstance.data.recipes.cell_rules import OF_NUMBERS, CellRules
from perinstance.errors import InvalidInput

REFUSE = "refuse"  #: the answer for missing cells unless another one is declared
_EPOCH = dt.date(1970, 1, 1)
FILL_IN = "FILL IN"  #: how a place of a first draft begins that a person has to fill in


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnKind:
    """How the cells of one raw column become numbers."""

    plain: dict[str, Any]  #: the declaration: texts, numbers, truth values and lists of them
    missing: float | None = None  #: the answer for missing cells, as a number or a code; None: they are refused
    suffixes: tuple[str, ...] = ("",)  #: appended to the column's name, for each column of numbers
    bound: float = 1.0  #: the largest norm of the numbers of one cell
    ends: tuple[float, float] = (-1.0, 1.0)  #: between which each of the numbers lies
    rules: CellRules = field(default_factory=CellRules)  #: how its cells are written

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read the cells: as numbers, where a kind does not say otherwise."""
        return read_numbers(array, decimal)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Write the numbers: as many columns as there are suffixes, missing cells by the declared answer."""
        out[:, 0] = cells.answered(self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRange(ColumnKind):
    """A number, or a day, in ``[low, high]``, clipped, and scaled to [-1, 1] by ``2 (x - low) / (high - low) - 1``."""

    low: float
    high: float
    scale: bool = True

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Clip and scale; roundings are monotone, so it stays within [-1, 1]."""
        column = out[:, 0]
        np.clip(cells.answered(self.missing), self.low, self.high, out=column)
        if self.scale:
            column -= self.low
            column /= self.high - self.low
            column *= 2
            column -= 1

    def unscaled(self, numbers: NDArray) -> NDArray:
        """Return the values of these numbers, in the column's own unit."""
        return self.low + (np.asarray(numbers) + 1) / 2 * (self.high - self.low) if self.scale else np.asarray(numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDates(DeclaredRange):
    """A date or time between two days (counted from 1970-01-01), clipped, and scaled to [-1, 1]."""

    format: str | tuple[str, ...] | None = None

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read days."""
        return read_days(array, self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCategories(ColumnKind):
    """One of several words: a column of zeros and ones for each, and one for "other" unless that is left out."""

    words: tuple[str, ...]

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words; an unknown one is "other"."""
        cells = read_words(array, {word: code for code, word in enumerate(self.words)})
        return ReadCells(np.where(cells.values < 0, len(self.words), cells.values), cells.missing, cells.unreadable)

    def fill(self, cells: ReadCells, out: NDArray) -> None:
        """Set the one column of each cell."""
        codes = cells.answered(self.missing)
        for k in range(out.shape[1]):
            out[:, k] = codes == k


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredYesNo(ColumnKind):
    """Yes is 1, no is 0; upper and lower case are the same, any other word is refused."""

    yes: tuple[str, ...]
    no: tuple[str, ...]

    def read(self, array: pa.Array, decimal: str) -> ReadCells:
        """Read words; truth values speak for themselves."""
        if pa.types.is_boolean(array.type):
            return read_numbers(array, decimal)
        cells = read_words(array, dict.fromkeys(self.yes, 1) | dict.fromkeys(self.no, 0), fold_case=True)
        return ReadCells(cells.values, cells.missing, (cells.values < 0) & ~cells.missing)


def column_kind(name: str, declared: Any) -> ColumnKind:
    """Read one declaration; ``name`` is the column's, for messages.

    >>> column_kind("age", {"range": [0, 110], "missing": 50}).plain
    {'range': [0.0, 110.0], 'missing': 50.0}
    """
    if not isinstance(declared, dict) or not all(isinstance(key, str) for key in declared):
        raise InvalidInput(f"{name}: declare a column as a table, for example {{'range': [0, 110]}}")
    found = [kind for kind in _READERS if kind in declared]
    if len(found) != 1:
        got = "none of them" if not found else " and ".join(found)
        raise InvalidInput(f"{name}: declare one of {', '.join(_READERS)}; got {got}")
    reader, allowed = _READERS[found[0]]
    unknown = sorted(set(declared) - {found[0], "missing", *_RULES, *allowed})
    if unknown:
        raise InvalidInput(f"{name}: {', '.join(unknown)} cannot stand with {found[0]}; leave it out")
    rules = CellRules.of(name, declared, found[0] in ("range", "as_is"))
    kind = reader(name, {"missing": REFUSE, **declared})
    return replace(kind, rules=rules, plain={**kind.plain, **rules.plain()})


def _as_it_is(name: str, declared: dict[str, Any]) -> ColumnKind:
    if declared["as_is"] is not True:
        raise InvalidInput(f"{name}: as_is must be true; for anything else declare a range")
    missing, bound = _number_for_missing(name, declared), float("inf")
    return ColumnKind(plain=_plain(missing, as_is=True), missing=missing, bound=bound, ends=(-bound, bound))


def _range(name: str, declared: dict[str, Any]) -> DeclaredRange:
    low, high = _two(name, declared["range"], "range", lambda one: is_number(one) and np.isfinite(one))
    if not low < high or not np.isfinite(float(high) - float(low)):
        raise InvalidInput(f"{name}: range must be [lowest, highest] with lowest < highest")
    low, high, missing = float(low), float(high), _number_for_missing(name, declared)
    if _truth(name, declared, "scale"):
        return DeclaredRange(plain=_plain(missing, range=[low, high]), missing=missing, low=low, high=high)
    plain, bound = _plain(missing, range=[low, high], scale=False), max(abs(low), abs(high))
    return DeclaredRange(plain=plain, missing=missing, bound=bound, ends=(low, high), low=low, high=high, scale=False)


def _categories(name: str, declared: dict[str, Any]) -> DeclaredCategories:
    words, missing = _words(name, declared["categories"], "categories"), declared["missing"]
    missing = str(missing) if is_number(missing) else missing
    if missing not in (REFUSE, "other", *words):
        raise InvalidInput(f"{name}: missing must be one of the categories, 'other' or 'refuse'")
    other = _truth(name, declared, "other")
    plain = _plain(missing, categories=list(words), **({} if other else {"other": False}))
    code = None if missing == REFUSE else words.index(missing) if missing in words else len(words)
    suffixes = tuple(f"_{word}" for word in (*words, "other")[: len(words) + other])
    return DeclaredCategories(plain=plain, missing=code, suffixes=suffixes, words=words)


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
    plain = _plain(missing, yes=list(yes), no=list(no))
    code = None if missing == REFUSE else float(missing == "yes")
    return DeclaredYesNo(plain=plain, missing=code, ends=(0.0, 1.0), yes=yes, no=no)


def _dates(name: str, declared: dict[str, Any]) -> DeclaredDates:
    first, last = (_date(name, one) for one in _two(name, declared["dates"], "dates", lambda one: True))
    if not first < last:
        raise InvalidInput(f"{name}: dates must be [first, last] with first < last")
    form, missing = declared.get("format"), declared["missing"]
    forms = tuple(form) if isinstance(form, list | tuple) else (form,)
    if form is not None and not all(isinstance(one, str) and "%" in one for one in forms):
        raise InvalidInput(f"{name}: format is written as for strptime, for example '%d.%m.%Y', or a list of such")
    swapped = {one.replace("%d", "%M").replace("%m", "%d").replace("%M", "%m") for one in forms if one}
    if swapped & {one for one in forms if one and one.find("%d") != one.find("%m")}:
        raise InvalidInput(f"{name}: 01/02 is two days by two of the formats; declare one of them")
    answer = None if missing == REFUSE else _date(name, missing)
    written = {} if form is None else {"format": forms[0] if len(forms) == 1 else list(forms)}
    plain = _plain(
        None if answer is None else answer.isoformat(), dates=[first.isoformat(), last.isoformat()], **written
    )
    low, high = (float((one - _EPOCH).days) for one in (first, last))
    day, formats = None if answer is None else float((answer - _EPOCH).days), None if form is None else forms
    return DeclaredDates(plain=plain, missing=day, low=low, high=high, format=formats)


def _plain(missing: Any, **declared: Any) -> dict[str, Any]:
    return declared if missing in (None, REFUSE) else {**declared, "missing": missing}


_RULES = ("unit", "na", *OF_NUMBERS)
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
