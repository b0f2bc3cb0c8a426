"""How people write cells: words for missing, thousands marks, currencies, values below a limit; declared, never learnt.

What is declared is taken off a text before it is read as a number, a word or a date. A cell that does not have the
declared form is left as it is, and refused by whoever reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from perinstance.errors import InvalidInput
from perinstance.folds.ids import is_text

LIMIT = "limit"  #: a value beyond a limit counts as the limit: "<0.6" is 0.6
THOUSANDS = {
    ".": r"\.",
    ",": ",",
    "'": "['\u2019]",
    " ": "[ \u00a0\u202f]",
    "_": "_",
}  #: marks, and what looks like them
CURRENCIES = ("€", "EUR", "$", "USD", "£", "GBP", "CHF", "kr", "%")  #: that are tried for a proposal
OF_NUMBERS = ("thousands", "currency", "censored")
_BEYOND = r"^(<=|>=|<|>|≤|≥)\s*"


@dataclass(frozen=True, slots=True)
class CellRules:
    """What one column declares of the writing of its cells."""

    unit: str = ""  #: what the numbers are measured in, for readers
    na: tuple[str, ...] = ()  #: words that mean missing, exactly as written
    thousands: str = ""
    currency: tuple[str, ...] = ()  #: before or behind a number
    censored: bool = False  #: "<0.6" and ">200" count as their limits

    @classmethod
    def of(cls, name: str, declared: dict[str, Any], numbers: bool) -> CellRules:
        """Read what is declared; ``numbers`` tells whether the column holds any."""
        idle = [key for key in OF_NUMBERS if key in declared and not numbers]
        if idle:
            raise InvalidInput(f"{name}: {', '.join(idle)} is of numbers, in a range or as they are; leave it out")
        unit, thousands = declared.get("unit", ""), declared.get("thousands", "")
        if not isinstance(unit, str):
            raise InvalidInput(f"{name}: unit must be a text, for example 'EUR'")
        if thousands not in ("", *THOUSANDS):
            raise InvalidInput(f"{name}: thousands must be one of {', '.join(map(repr, THOUSANDS))}")
        if declared.get("censored", LIMIT) != LIMIT:
            raise InvalidInput(f"{name}: censored must be 'limit': a value written <0.6 then counts as 0.6")
        words = {key: texts_of(f"{name}: {key}", declared.get(key)) for key in ("na", "currency")}
        return cls(unit, words["na"], thousands, words["currency"], "censored" in declared)

    def plain(self) -> dict[str, Any]:
        """Return the declaration."""
        found = {"unit": self.unit, "na": list(self.na), "thousands": self.thousands, "currency": list(self.currency)}
        return {key: value for key, value in found.items() if value} | ({"censored": LIMIT} if self.censored else {})

    def cleaned(self, array: pa.Array, decimal: str, na: tuple[str, ...] = ()) -> pa.Array:
        """Return the cells as they would be written plainly; ``na`` are the whole table's words for missing."""
        words = (*self.na, *na)
        if not (words or self.thousands or self.currency or self.censored):
            return array
        if pa.types.is_dictionary(array.type):
            return pa.DictionaryArray.from_arrays(array.indices, self.cleaned(array.dictionary, decimal, na))
        if not is_text(array.type):
            return array
        text = pc.utf8_trim_whitespace(array)
        if words:
            text = pc.if_else(pc.is_in(text, value_set=pa.array(words, text.type)), pa.scalar(None, text.type), text)
        if self.censored:
            text = pc.replace_substring_regex(text, _BEYOND, "")
        if self.currency:
            marks = "|".join(map(re.escape, self.currency))
            text = pc.replace_substring_regex(text, rf"^([+-]?)\s*(?:{marks})\s*", r"\1")
            text = pc.replace_substring_regex(text, rf"\s*(?:{marks})$", "")
        if self.thousands:
            mark, point = THOUSANDS[self.thousands], re.escape(decimal)
            grouped = pc.match_substring_regex(text, rf"^[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]*)?$")
            text = pc.if_else(pc.fill_null(grouped, False), pc.replace_substring_regex(text, mark, ""), text)
        return text


def rules_to_try(decimal: str) -> list[CellRules]:
    """Return manners of writing numbers, from the plain one to those that need most declarations."""
    marks = ["", *(mark for mark in THOUSANDS if mark != decimal)]
    tried = [CellRules(thousands=mark, currency=signs) for signs in ((), CURRENCIES) for mark in marks]
    return [*tried, *(CellRules("", (), way.thousands, way.currency, True) for way in tried)]


def texts_of(name: str, value: Any) -> tuple[str, ...]:
    """Read a list of texts."""
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) and one.strip() for one in listed):
        raise InvalidInput(f"{name} must be a list of texts, for example ['k.A.', '-']")
    return tuple(one.strip() for one in listed)
