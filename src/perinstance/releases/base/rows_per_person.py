"""People with several rows in a release: how many rows of each are used, which, and what that costs at most.

With ``rows_per_person=k`` whatever a person's rows add to a sum is the sum of at most k rows' parts, so it moves by at
most k times what one row moves it by (the triangle inequality), and noise k times as large makes the promise that
holds for a row hold for the person. Which rows are used of whoever has more is drawn (``sampling.random_bits``),
independently of everything else: given the draw the promise holds, so it holds (docs/mathematics.md, 12).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import whole_number
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel
from perinstance.folds.block import in_order_of
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT
from perinstance.sampling.random_bits import chosen_rows

MOST_ROWS = 10**6  # of a person: more is a typing error


def most_rows(release: Any) -> int:
    """Validate ``rows_per_person`` of a release, and return how many rows of a person count: 1 where none is declared.

    >>> from types import SimpleNamespace
    >>> most_rows(SimpleNamespace(rows_per_person=None)), most_rows(SimpleNamespace(rows_per_person=3))
    (1, 3)
    """
    declared = getattr(release, "rows_per_person", None)
    return 1 if declared is None else whole_number("rows_per_person", declared, 1, MOST_ROWS, 3)


def used_rows(release: Any, X: Any, ids: Any, rows: int) -> NDArray[np.bool_] | slice:
    """Return which of so many rows are used. X is the table as it was given: ids with a pandas index are matched.

    Without ids a row is a person. With ids an id that repeats is refused, unless ``rows_per_person`` is declared.
    """
    k = most_rows(release)
    if ids is None:
        if release.rows_per_person is not None:
            raise InvalidInput("rows_per_person needs to know whose rows they are; pass ids=, one id for each row")
        return slice(None)
    from perinstance.folds.ids import several_rows

    people = codes_of_ids(X, ids)
    if len(people) != rows:
        raise InvalidTable(f"ids must be one for each row, got {len(people)} ids for {rows} rows")
    if release.rows_per_person is not None:
        return chosen_rows(people, k)
    repeated = int((np.bincount(people) > 1).sum())
    if repeated:
        raise several_rows(repeated, or_declare=True)
    return slice(None)


def codes_of_ids(X: Any, ids: Any) -> NDArray[np.int64]:
    """Return a number for each row that says whose it is, rows in the order of X."""
    from perinstance.folds.ids import person_codes

    return person_codes(in_order_of(X, ids, "ids"))


def rows_words(release: Any) -> tuple[str, ...]:
    """Say in the words of a mechanism how many rows of a person are used; nothing where a row is a person."""
    if release.rows_per_person is None:
        return ()
    k = most_rows(release)
    return (f", for every person, with at most {k:,} row{'s'[: k > 1]} used",)


def rows_at_most(release: Any) -> str:
    """Say how many rows somebody has in a statement about anybody."""
    k = most_rows(release)
    return "one row" if k == 1 else f"at most {k:,} rows used"


def refuse_rows_of_people(release: Any, what: str) -> None:
    """Refuse what is asked row by row of a release whose rows are drawn: it does not keep which rows it used."""
    if release.rows_per_person is not None:
        raise RefusedModel(
            f"{what} of a release with rows_per_person is refused: which rows of a person were used is drawn, and not "
            "kept; publish without it, one row for each person"
        )


def rows_that_count(release: Any, rows: int) -> int:
    """Return how many rows of a person are used at most in an audit of so many rows: all, where nothing is declared."""
    return rows if release.rows_per_person is None else most_rows(release)


def refuse_more_rows(release: Any, counts: NDArray[np.int64]) -> int:
    """Refuse an audit that would need to know which rows were used of those who have more; return how many they are."""
    if release.rows_per_person is not None and counts.max(initial=0) > most_rows(release):
        raise RefusedModel(
            "people have more rows than rows_per_person, and what this release costs depends on which of all rows were "
            "used, which is drawn and not kept; audit a sum, or leave rows out before fit and audit"
        )
    return 0


def refuse_fit_of_more_rows(release: Any, sweep: Sweep) -> None:
    """Refuse a fit with rows that the release leaves out: what others lose, inside and outside, depends on which."""
    if release.rows_per_person is not None:
        sweep.fold(lambda block: 0 if block.starts is None else refuse_more_rows(release, np.diff(block.starts)))


def starts_of(rows: int, starts: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return whose row each of so many rows is, and how many rows each person has, from where their rows begin."""
    counts = np.asarray(starts[1:], dtype=np.int64) - np.asarray(starts[:-1], dtype=np.int64)
    return np.repeat(np.arange(len(counts)), counts), counts


def largest_sums(parts: Floats, people: NDArray[np.int64], count: int, k: int) -> Floats:
    """Return the sum of the k largest parts of each of ``count`` people, rounded up; parts are at least zero.

    Parts are added in falling order, one after the other: the sum follows from the person's own parts alone.

    >>> largest_sums(np.array([1.0, 4.0, 2.0, 3.0]), np.array([0, 0, 0, 1]), 2, 2).round(9).tolist()
    [6.0, 3.0]
    """
    order = np.lexsort((-parts, people))
    who = people[order]
    firsts = np.searchsorted(who, np.arange(count))
    kept = np.arange(len(who)) - firsts[who] < k
    sums = np.bincount(who[kept], weights=parts[order][kept], minlength=count)
    several = np.bincount(who[kept], minlength=count)
    return np.where(several > 1, sums * (1.0 + several * UNIT), sums)


def largest_in_size(values: Floats, people: NDArray[np.int64], starts: NDArray) -> Floats:
    """Return of each person the value that is largest in size; rows of one person stand together.

    >>> largest_in_size(np.array([1.0, -4.0, 2.0]), np.array([0, 0, 1]), np.array([0, 2, 3])).tolist()
    [-4.0, 2.0]
    """
    return values[np.lexsort((-np.abs(values), people))][starts[:-1]]
