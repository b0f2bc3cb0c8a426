"""Declarations of columns, as a recipe's dictionaries say them: validated, and made the records of ``column_kinds``.

What a declaration says is public; nothing of the data ever enters it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np

from perinstance.checked_numbers import is_number
from perinstance.data.recipes.column_kinds import (
    AsItIs,
    ColumnKind,
    DeclaredCategories,
    DeclaredDates,
    DeclaredRange,
    DeclaredYesNo,
)
from perinstance.errors import InvalidInput

REFUSE = "refuse"  #: the answer for missing cells unless another one is declared
FILL_IN = "FILL IN"  #: how a place of a first draft begins that a person has to fill in


def column_kind(name: str, declared: Any) -> ColumnKind:
    """Read one declaration; ``name`` is the column's, for messages.

    >>> column_kind("age", {"range": [0, 110], "missing": 50})
    DeclaredRange(low=0.0, high=110.0, scale=True, missing=50.0, suffixes=('',))
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
    return reader(name, declared)


def _as_it_is(name: str, declared: dict[str, Any]) -> AsItIs:
    if declared["as_is"] is not True:
        raise InvalidInput(f"{name}: as_is must be true; for anything else declare a range")
    return AsItIs(_number_for_missing(name, declared))


def _range(name: str, declared: dict[str, Any]) -> DeclaredRange:
    low, high = _two(name, declared["range"], "range", lambda one: is_number(one) and np.isfinite(one))
    if not low < high or not np.isfinite(float(high) - float(low)):
        raise InvalidInput(f"{name}: range must be [lowest, highest] with lowest < highest")
    scale = _truth(name, declared, "scale")
    return DeclaredRange(float(low), float(high), scale, _number_for_missing(name, declared))


def _categories(name: str, declared: dict[str, Any]) -> DeclaredCategories:
    words = _words(name, declared["categories"], "categories")
    other = _truth(name, declared, "other")
    missing = declared.get("missing", REFUSE)
    missing = str(missing) if is_number(missing) else missing
    if missing not in (REFUSE, "other", *words):
        raise InvalidInput(f"{name}: missing must be one of the categories, 'other' or 'refuse'")
    return DeclaredCategories(words, other, None if missing == REFUSE else missing)


def _yes_no(name: str, declared: dict[str, Any]) -> DeclaredYesNo:
    if "no" not in declared:
        raise InvalidInput(f"{name}: yes and no go together; declare the words for both")
    yes, no = (_words(name, declared[key], key) for key in ("yes", "no"))
    if {one.lower() for one in yes} & {one.lower() for one in no}:
        raise InvalidInput(f"{name}: a word cannot mean both yes and no")
    missing = declared.get("missing", REFUSE)
    missing = {True: "yes", False: "no"}.get(missing, missing) if isinstance(missing, bool) else missing
    if missing not in (REFUSE, "yes", "no"):
        raise InvalidInput(f"{name}: missing must be 'yes', 'no' or 'refuse'")
    return DeclaredYesNo(yes, no, None if missing == REFUSE else missing)


def _dates(name: str, declared: dict[str, Any]) -> DeclaredDates:
    first, last = (_date(name, one) for one in _two(name, declared["dates"], "dates", lambda one: True))
    if not first < last:
        raise InvalidInput(f"{name}: dates must be [first, last] with first < last")
    form = declared.get("format")
    if form is not None and (not isinstance(form, str) or "%" not in form):
        raise InvalidInput(f"{name}: format is written as for strptime, for example '%d.%m.%Y'")
    missing = declared.get("missing", REFUSE)
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
    return words


def _truth(name: str, declared: dict[str, Any], key: str) -> bool:
    value = declared.get(key, True)
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: {key} must be true or false")
    return value


def _number_for_missing(name: str, declared: dict[str, Any]) -> float | None:
    missing = declared.get("missing", REFUSE)
    if missing == REFUSE:
        return None
    if not is_number(missing) or not np.isfinite(missing):
        raise InvalidInput(f"{name}: missing must be a number, the answer for missing cells, or 'refuse'")
    return float(missing)


def _date(name: str, value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
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
