"""Columns that look like identifiers and are about to be features, because nobody said what they are.

Looked at are the names and the first rows (a megabyte of them), never the whole table: what is found is a notice to
the curator and changes no number. Whoever names the features has said what is meant, and is told nothing.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import LARGEST_INTEGER, column_label
from perinstance.errors import IdentifierAsFeature, InvalidTable

FIRST_BYTES = 1 << 20  # of the rows that are looked at
ENOUGH_ROWS = 100  # a dozen consecutive numbers may be years, or doses
FEW_VALUES = 20  # of a category, whatever it is called
MANY_DIGITS = 8  # prices, populations and metres of a map have fewer

_PEOPLE = (
    "patient person subject participant user customer client member employee student pupil respondent individual "
    "resident citizen record row case"
)
_PERSON = f"(?:{'|'.join(_PEOPLE.split())})"
#: of names without what stands between their words: ``Patient ID``, ``patient_id``, ``idPatient``; pandas' index
_PERSON_ID = re.compile(rf"{_PERSON}?(?:id|identifier|uuid|guid)|id{_PERSON}|mrn|ssn|unnamed0")
_PERSON_NUMBER = re.compile(rf"{_PERSON}(?:number|no|nr|num)")  # or how many there are
_ANY_ID = re.compile(r"(?:^|[\W_])(?:id|Id|ID)$|[a-z](?:Id|ID)$")
_TIME = re.compile(r"(?:^|[\W_])(?:t|time|years?|months?|weeks?|days?|hours?|minutes?|seconds?)(?:$|[\W_])", re.I)


def warn_of_identifiers(source: Any) -> None:
    """Warn the caller's caller of each feature that is plainly an identifier; features without names are left alone."""
    if source.names is None:
        return
    try:
        first = _first_rows(source)
    except InvalidTable:  # the work itself will refuse the table, in its own order
        return
    for at, name in enumerate(source.names):
        why = why_identifier(name, None if first is None else first[:, at], source.n_rows)
        if why is not None:
            number = at if source.numbers is None else source.numbers[at]
            shown = name if getattr(source, "named", True) else None
            warnings.warn(notice(number, shown, why, source.has_ids), IdentifierAsFeature, stacklevel=3)


def _first_rows(source: Any) -> NDArray | None:
    """Return some rows of the features; None where much more would have to be read (a partition of a cluster)."""
    if hasattr(source, "delayed_blocks") or not getattr(getattr(source, "reader", None), "starts_quickly", True):
        return None
    pieces = source.pieces(FIRST_BYTES)
    try:
        piece = next(pieces, None)
        return np.empty((0, len(source.names))) if piece is None else piece().X
    finally:
        pieces.close()


def why_identifier(name: str, first: NDArray | None = None, n_rows: int | None = None) -> str | None:
    """Say why a column is taken for an identifier; None where it is not.

    ``first`` are its first cells; without them its name alone decides, and only where it names a person's number.

    >>> why_identifier("Patient ID"), why_identifier("ward_id"), why_identifier("age")
    ('its name says so', None, None)
    """
    word = re.sub(r"[\W_]", "", name).lower()
    named = _PERSON_ID.fullmatch(word) is not None
    if first is None:
        return "its name says so" if named else None
    if not len(first) or not (np.array_equal(first, np.floor(first)) and np.abs(first).max() < LARGEST_INTEGER):
        return None
    different, rows = len(np.unique(first)), len(first)
    if named and (different == rows or different > FEW_VALUES):
        return "its name says so"
    if different < rows or rows <= FEW_VALUES:
        return None
    if _ANY_ID.search(name) or _PERSON_NUMBER.fullmatch(word):
        return "its name says so, and no two rows are alike"
    if rows < ENOUGH_ROWS or _TIME.search(name):
        return None
    low, high = float(first.min()), float(first.max())
    if high - low == rows - 1:
        return "it counts the rows one by one"
    # numbers of one length, much longer than counting people needs, as cards and registers have them
    digits = len(str(int(high)))
    enough = max(MANY_DIGITS, len(str(max(rows, n_rows or 0))) + 3)
    if low < 10 ** (digits - 1) or digits < enough or not np.any(first % 10):
        return None
    return f"numbers of {digits} digits, no two alike"


def notice(number: int, name: str | None, why: str, has_ids: bool) -> str:
    """Say what was found and what to do; a name that could disturb a terminal is left out."""
    label = column_label(number, name)
    people = f"pass ids={name!r}" if label.endswith("')") else "pass it as ids="
    return (
        f"{label} is a feature and looks like an identifier ({why}); "
        f"{'' if has_ids else f'if it names people {people}; '}"
        "to leave it out, or if it is meant, name the features: features="
    )
