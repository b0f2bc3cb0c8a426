"""Sums that grow with every charge: Renyi divergences at fixed orders and what a filter counts, rounded up.

They are kept in a sealed file beside the charges (``sealed_sums``), brought up to date by the charges since, and
rebuilt from the files whenever it is not what was written, or does not fit the log any more (a cancelled or rewritten
release). Totals from them are upper bounds that cost the same after a thousand releases as after one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.analysis.people.composition_bounds import renyi_to_epsilon
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.aligned_files import AlignedRows, aligned_rows, filled, pairs_at
from perinstance.ledger.files.charge_files import ChargeFile, plain_columns
from perinstance.ledger.files.kind_columns import coded
from perinstance.ledger.log.charged_releases import ChargedRelease, releases_of
from perinstance.ledger.log.event_log import Event, EventLog
from perinstance.ledger.totals.composed_people import opened
from perinstance.ledger.totals.sealed_sums import newest_sums, sums_metadata, write_sums
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ADDITION, BOUND_DOWN, NORM_UP
from perinstance.pairs import Pairs

#: Renyi orders that are kept
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0)
SPENT = "spent"


@dataclass(frozen=True, slots=True)
class RunningBlock:
    """Some people: what each has spent, and the weakest kind of what was charged."""

    ids: pa.Array
    divergences: Floats  #: (orders, people)
    spent: Floats  #: of the filter's budget; zeros without a filter
    codes: np.ndarray

    def epsilon(self, delta: float) -> Floats:
        """Return the best of the orders; somebody who lost nothing has zero."""
        bounds = [renyi_to_epsilon(d, order, delta) for order, d in zip(ORDERS, self.divergences, strict=True)]
        return np.where(self.divergences.any(axis=0), np.min(bounds, axis=0) * NORM_UP, 0.0)


#: names of files that this process has added up itself, or compared with the charges; a name says what is in its file
_COMPARED: set[str] = set()


def running_blocks(
    root: Path, charges: Path, events: Sequence[Event], budget: Budget | None, log: EventLog, *, compared: bool = False
) -> Iterator[RunningBlock]:
    """Bring the file up to date with these events, then walk over everybody.

    ``compared`` refuses sums that only fit their name, which without a secret everybody can write: once in a process
    they are compared with what the charges add up to, and made anew should they be smaller.
    """
    file = _current(root, charges, events, budget, log, compared)
    try:
        for group in file.tables():
            columns = plain_columns(group)
            rows = np.array([columns[_name(order)] for order in ORDERS])
            yield RunningBlock(group.column("id").combine_chunks(), rows, columns[SPENT], columns["kind"])
    finally:
        file.close()


def too_small(file: ChargeFile, charges: Path, events: Sequence[Event], budget: Budget | None) -> bool:
    """Tell whether somebody's sums are below what the charges up to these events add up to."""
    with opened(charges, _charged(events, events)) as files:
        for found in aligned_rows([file, *files]):
            stored = plain_columns(found.parts[0])
            at = np.arange(len(found.ids)) if found.rows[0] is None else found.rows[0]
            charged = AlignedRows(found.ids, found.parts[1:], found.rows[1:])
            sums, codes = _sums(charged, 0, [release.schema for release in files], budget)
            least = {**{name: values * BOUND_DOWN for name, values in sums.items()}, "kind": codes}
            if not all((filled(stored[name], at, 0) >= values).all() for name, values in least.items()):
                return True
    return False


def _name(order: float) -> str:
    return f"renyi_{order:g}"


def _charged(events: Sequence[Event], some: Sequence[Event]) -> list[ChargedRelease]:
    """Return the releases that some of the events have charged, and that count."""
    keys = {event.key for event in some if event.kind == "charged"}
    return [release for release in releases_of(events).values() if release.counts and release.key in keys]


def _current(
    root: Path, charges: Path, events: Sequence[Event], budget: Budget | None, log: EventLog, compared: bool
) -> ChargeFile:
    """Open the file that is up to date with these events; made now, unless there is one."""
    base, since = newest_sums(root, events, ORDERS, log.seal)
    if base is not None and compared and log.secret is None and base.path.name not in _COMPARED:
        if too_small(base, charges, events[:since], budget):
            base.close()
            base, since = None, 0
        else:
            _COMPARED.add(base.path.name)
    if base is not None and since == len(events):
        return base
    try:
        before = [] if base is None else [base]
        tables = _tables(before, charges, _charged(events, events[since:]), budget)
        file = write_sums(root, _schema(events), tables, log.seal)
        if base is None or base.path.name in _COMPARED:
            _COMPARED.add(file.path.name)
        return file
    finally:
        if base is not None:
            base.close()


def _schema(events: Sequence[Event]) -> pa.Schema:
    schema = pa.schema(
        [("id", pa.large_string()), *((_name(order), pa.float64()) for order in ORDERS), (SPENT, pa.float64())]
    ).append(pa.field("kind", pa.dictionary(pa.int8(), pa.string())))
    return schema.with_metadata(sums_metadata(events, ORDERS))


def _tables(
    base: list[ChargeFile], charges: Path, releases: list[ChargedRelease], budget: Budget | None
) -> Iterator[dict[str, Any]]:
    """Add up; files are opened when there is a draft already, so that whoever deletes them deletes the draft after."""
    with opened(charges, releases) as files:
        for found in aligned_rows([*base, *files]):
            sums, codes = _sums(found, len(base), [file.schema for file in files], budget)
            yield {"id": found.ids, **sums, "kind": coded(codes)}


def _sums(
    found: AlignedRows, base: int, schemas: list[str], budget: Budget | None
) -> tuple[dict[str, Floats], NDArray[np.uint8]]:
    """Return the sums of these people, and the weakest kind of what they are made of."""
    n = len(found.ids)
    sums = {name: np.zeros(n) for name in (*map(_name, ORDERS), SPENT)}
    codes = np.zeros(n, dtype=np.uint8)
    if base:
        before, at = plain_columns(found.parts[0]), found.rows[0]
        sums = {name: before[name] if at is None else filled(before[name], at, 0.0) for name in sums}
        codes = before["kind"].copy() if at is None else filled(before["kind"], at, 0)
    for k, schema in enumerate(schemas, start=base):
        rows = found.rows[k]
        there = slice(None) if rows is None else np.flatnonzero(rows >= 0)
        pairs: Pairs = pairs_at(found.parts[k], schema, rows)[there]
        for order in ORDERS:
            sums[_name(order)] = _plus(sums[_name(order)], there, np.asarray(pairs.renyi(order)))
        if budget is not None:
            sums[SPENT] = _plus(sums[SPENT], there, budget.cost(pairs))
        codes[there] = np.maximum(codes[there], pairs.codes)
    return sums, codes


def _plus(total: Floats, there: Any, cost: Floats) -> Floats:
    """Add to those who were there, rounded up."""
    total = total.copy()
    total[there] = (total[there] + cost) * (1 + ADDITION)
    return total
