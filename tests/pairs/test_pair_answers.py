"""No answer falls below those that were kept (``make_pair_answers.py``), nor rises above what ``exact`` promises."""

from __future__ import annotations

import csv
import json
from collections import defaultdict

import numpy as np
import pytest

from perinstance.pairs import from_columns
from tests.pairs.make_pair_answers import FILE, answer

BELOW = 1e-9
#: closed forms have no reason to be wider than they were; sums may be up to what ``exact`` allows
ABOVE = {"shift/1": 1e-9, "laplace/1": 1e-9, "student/1": 1e-9, "posterior/1": 1e-9, "dominated/1": 1e-9}
EXACT = 1e-6
#: an epsilon next to zero is good to this; so many digits are left of a sum of terms of size one
NEXT_TO_ZERO = 1e-12


def kept() -> dict[tuple[str, str, str], list[dict[str, str]]]:
    with FILE.open(newline="") as file:
        groups = defaultdict(list)
        for row in csv.DictReader(file):
            groups[row["schema"], row["function"], row["direction"]].append(row)
    return groups


GROUPS = kept()


def compared(got, wanted, schema, function):
    """Return which answers are wrong: below the kept ones, or too far above."""
    with np.errstate(invalid="ignore"):
        room = NEXT_TO_ZERO if function == "epsilon" else 1e-300
        below = ~(got >= wanted * (1 - BELOW) - 1e-307)
        above = ~(got <= wanted * (1 + ABOVE.get(schema, EXACT)) + room)
    return (below | above) & (got != wanted)


@pytest.mark.parametrize("schema", sorted({schema for schema, _, _ in GROUPS}))
def test_answers_stay_where_they_were(schema):
    wrong = []
    for (kind, function, direction), rows in GROUPS.items():
        if kind != schema:
            continue
        people = [json.loads(row["columns"]) for row in rows]
        names = people[0].keys()
        kinds = {name: ["exact"] * len(rows) for name in kind_columns(schema)}
        pairs = from_columns({name: [p[name] for p in people] for name in names} | kinds, schema)
        arguments = np.array([float(row["argument"]) for row in rows])
        got = answer(pairs, function, arguments, direction)
        wanted = np.array([float(row["answer"]) for row in rows])
        wrong += [
            (function, direction, rows[i], got[i]) for i in np.flatnonzero(compared(got, wanted, schema, function))
        ]
    assert not wrong


def kind_columns(schema: str) -> list[str]:
    """Return the names of the columns of kinds that belong to a schema."""
    if not schema.startswith("composed"):
        return ["kind"]
    parts = schema[schema.index("(") + 1 : -1].split(",")
    return [f"{part.split('/')[0]}{i}_kind" for i, part in enumerate(parts, 1)]


@pytest.mark.parametrize(("schema", "directions"), [("shift/1", 3), ("posterior/1", 2)])
def test_people_with_a_common_delta_are_told_what_was_kept(schema, directions):
    """Many people at one delta take another road (a table for that delta) than a few with deltas of their own."""
    for (kind, function, direction), rows in GROUPS.items():
        if kind != schema or function != "epsilon" or (directions == 2 and direction == "with"):
            continue
        for row in rows:
            people = {name: np.full(600, x) for name, x in json.loads(row["columns"]).items()}
            got = from_columns({**people, "kind": ["exact"] * 600}, schema).epsilon(float(row["argument"]), direction)
            wanted = np.full(600, float(row["answer"]))
            assert not compared(got, wanted, schema, function).any(), (row, got[0])
