"""Sums that grow with every charge: Renyi divergences at fixed orders and what a filter counts, rounded up.

They are kept in a file beside the charges, brought up to date by the charges since, and rebuilt from the files whenever
they do not fit the log any more (a cancelled or rewritten release). Totals from them are upper bounds that cost the
same after a thousand releases as after one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perinstance.analysis.people.composition_bounds import renyi_to_epsilon
from perinstance.data.confidential.private_files import private_file, refuse_wider
from perinstance.errors import PerinstanceError
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.aligned_files import AlignedRows, aligned_rows, filled, pairs_at
from perinstance.ledger.files.charge_files import ChargeFile, plain_columns
from perinstance.ledger.files.kind_columns import coded
from perinstance.ledger.log.charged_releases import releases_of
from perinstance.ledger.log.event_log import Event
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ADDITION, NORM_UP
from perinstance.pairs import Pairs

#: Renyi orders that are kept
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0)
SPENT = "spent"
FILE = "running.parquet"


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


def running_blocks(root: Path, charges: Path, events: Sequence[Event], budget: Budget | None) -> Iterator[RunningBlock]:
    """Bring the file up to date with these events, then walk over everybody."""
    _update(root, charges, events, budget)
    file = ChargeFile(root, FILE)
    try:
        for group in file.tables():
            columns = plain_columns(group)
            rows = np.array([columns[_name(order)] for order in ORDERS])
            yield RunningBlock(group.column("id").combine_chunks(), rows, columns[SPENT], columns["kind"])
    finally:
        file.close()


def delete_running(root: Path) -> None:
    """Delete the file: it holds ids that have changed."""
    (root / FILE).unlink(missing_ok=True)


def _name(order: float) -> str:
    return f"renyi_{order:g}"


def _update(root: Path, charges: Path, events: Sequence[Event], budget: Budget | None) -> None:
    since = _valid_until(root, events)
    if since == len(events):
        return
    releases = [release for release in releases_of(events).values() if release.counts]
    fresh = {event.key for event in events[since:] if event.kind == "charged"}
    added = [release for release in releases if release.key in fresh]
    base = [ChargeFile(root, FILE)] if since else []
    files = [ChargeFile(charges, release.stored.file) for release in added]
    try:
        _write(root, base, files, events, budget)
    finally:
        for file in (*base, *files):
            file.close()


def _valid_until(root: Path, events: Sequence[Event]) -> int:
    """Return up to which event the file counts; 0 if it must be built anew."""
    with suppress(OSError, ValueError, TypeError, KeyError, IndexError, PerinstanceError, pa.ArrowException):
        refuse_wider(root / FILE)
        told = json.loads(pq.read_schema(root / FILE).metadata[b"ledger"])
        entry = int(told["entry"])
        same = events[entry - 1].digest == told["digest"] and told["orders"] == list(ORDERS)
        if same and all(event.kind in ("charged", "committed") for event in events[entry:]):
            return entry
    return 0


def _write(
    root: Path, base: list[ChargeFile], files: list[ChargeFile], events: Sequence[Event], budget: Budget | None
) -> None:
    schema = pa.schema(
        [("id", pa.large_string()), *((_name(order), pa.float64()) for order in ORDERS), (SPENT, pa.float64())]
    ).append(pa.field("kind", pa.dictionary(pa.int8(), pa.string())))
    told = {"entry": len(events), "digest": events[-1].digest, "orders": list(ORDERS)}
    meta = {
        b"ledger": json.dumps(told).encode(),
        b"perinstance": json.dumps({"pairs": "", "starts": [], "groups": []}).encode(),
    }
    schema = schema.with_metadata(meta)
    with private_file(root / FILE) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for found in aligned_rows([*base, *files]):
            columns = _sums(found, len(base), [file.schema for file in files], budget)
            writer.write_table(pa.table({"id": found.ids, **columns}, schema=schema))


def _sums(found: AlignedRows, base: int, schemas: list[str], budget: Budget | None) -> dict[str, object]:
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
    return {**sums, "kind": coded(codes)}


def _plus(total: Floats, there: Any, cost: Floats) -> Floats:
    """Add to those who were there, rounded up."""
    total = total.copy()
    total[there] = (total[there] + cost) * (1 + ADDITION)
    return total
