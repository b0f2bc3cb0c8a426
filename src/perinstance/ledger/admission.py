"""Publishing under a filter: rows of people whose budget does not last are left out, and nobody is told whose.

What a release would cost each person is a function of their own row (``Mechanism.own_row``), so the choice of rows
tells nothing of the others. Charges are written before the draw: a crash between the two costs budget, never privacy.

Ridge regression with noise on its output, or a posterior sample, costs a person what their leverage and residual are,
and those hang on the other rows: refused. AdaOPS promises the same to everybody, from declared bounds, but for a
probability at which its noisy bounds fail; there its Renyi divergence has no bound that is a function of declared
numbers, so that no Renyi filter can count it. AdaSSP and noisy sums add noise of a fixed size to sums over rows: the
price is a function of the row's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.auditing.audit_call import audit
from perinstance.auditing.raw_tables import declared_words, read_again
from perinstance.data.source import Source
from perinstance.engines import Local
from perinstance.errors import InvalidInput, LedgerConflict, RefusedModel
from perinstance.folds.ids import several_rows
from perinstance.ledger.budgets import Budget
from perinstance.ledger.charging import ChargeWords, ChargeWriter, refuse_other_unit
from perinstance.ledger.files.sorted_pairs import SortedPairs
from perinstance.ledger.log.charged_releases import ChargedRelease, releases_of
from perinstance.ledger.totals.everybody import spent
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs
from perinstance.releases.base.release import mechanism_of

#: how a table may be described
COLUMNS = ("target", "ids", "features", "recipe")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Applicants:
    """A table and what a release would cost each of its people. Confidential."""

    X: Floats
    y: NDArray[Any] | None
    ids: pa.ChunkedArray
    pairs: Pairs
    cost: Floats


def applicants(release: Any, X: Any, y: Any, budget: Budget, **columns: Any) -> Applicants:
    """Read the table and price everybody; refuse a release whose price depends on others."""
    mechanism = mechanism_of(release)
    if getattr(release, "rows_per_person", None) is not None:
        raise RefusedModel(
            "a filter admits releases of one row per person; leave out rows_per_person, and make one row of each "
            "person's rows by a rule fixed without looking at the outcome"
        )
    if not mechanism.own_row:
        promise = ", and an (epsilon, delta) promise, which is the same for all, bounds no Renyi divergence"
        raise RefusedModel(
            f"{mechanism.name} cannot be admitted by a filter: what it costs a person depends on the other rows, so "
            f"leaving somebody out would tell of the others{promise if mechanism.promises else ''}; use AdaSSP, or "
            "NoisyMean(statistic='sum')"
        )
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown:
        raise InvalidInput(f"admit takes {', '.join(COLUMNS)}, got {', '.join(unknown)}")
    found = audit(release, X, y, **columns)
    if found.ids is None:
        raise InvalidInput("a ledger follows people by their ids; pass ids=")
    if found.pairs.kind == "estimate":
        raise RefusedModel("estimates cannot be charged against a budget; use a release with an upper bound")
    named: dict[str, Any] = {name: columns.get(name) for name in ("target", "ids", "features")}
    table: Any = read_again(found, X, y, **named)
    if found.n_rows is not None:  # their release is one of rows
        raise several_rows(int((np.diff(table.starts) > 1).sum()))
    rows, targets = _gathered(release, table)
    labels = targets if mechanism.needs_target else None
    return Applicants(rows, labels, found.ids, found.pairs, budget.cost(found.pairs))


def _gathered(release: Any, table: Source) -> tuple[Floats, NDArray[Any]]:
    """Return the rows that were priced, as ``fit`` takes them: classes that are declared in words are words again."""
    with closing(Local(threads=1).sweep(table, None)) as sweep:
        parts = list(sweep.map(lambda block: (np.array(block.X, dtype=np.float64), np.array(block.y))))
    rows, targets = np.concatenate([x for x, _ in parts]), np.concatenate([t for _, t in parts])
    words: Any = declared_words(release)
    if not words:
        return rows, targets
    known = np.isfinite(targets)
    labels = np.full(len(targets), None, dtype=object)
    labels[known] = np.array(words, dtype=object)[targets[known].astype(np.intp)]
    return rows, labels


def admit(writer: ChargeWriter, people: Applicants, key: str, words: ChargeWords) -> NDArray[np.intp]:
    """Charge those whose budget lasts, under the lock of the log, and return their positions."""
    while True:
        before = releases_of(writer.log.events())
        if key in before:
            raise LedgerConflict(f"the key {key!r} stands for a release already; choose another")
        refuse_other_unit(before.values(), words.unit)
        used = np.flatnonzero(admitted(writer, people, list(before.values())))
        pairs = people.pairs[used]
        charged = SortedPairs.of(people.ids.take(used), pairs)
        with writer.log.writing() as log:
            if releases_of(log.events) == before:
                writer.write(log, key, words, "reserved", pairs, charged)
                return used
        # somebody else's release came between: their charges count now


def admitted(writer: ChargeWriter, people: Applicants, releases: Sequence[ChargedRelease]) -> NDArray[np.bool_]:
    """Tell whose budget lasts for this release too."""
    assert writer.budget is not None  # asked by the caller
    before = np.zeros(len(people.cost))
    names = pa.chunked_array(people.ids.chunks, type=people.ids.type).cast(pa.large_string())
    for ids, cost in spent(writer.folder, releases, writer.budget):
        at = pc.index_in(names, value_set=ids)
        here = at.is_valid().to_numpy()
        before[here] = cost[at.drop_null().to_numpy()]
    return np.nextafter(before + people.cost, np.inf) <= writer.budget.budget
