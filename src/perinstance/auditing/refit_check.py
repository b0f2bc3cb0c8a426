"""A few people checked by refitting: fit without each of them, and ask what adding them would cost.

An audit goes from one fit with everyone to what holds without the person; this fits without them and adds them, as for
somebody outside the data. The two share the sweep and the pairs, but not the downdate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.raw_tables import read_again, refuse_other_people
from perinstance.engines import Local
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit
    from perinstance.engines.protocol import TableSweep


@dataclass(frozen=True, slots=True)
class Recheck(ShownAsTable):
    """One person, twice. Confidential."""

    name: str  #: which person: "most exposed", "median", "least exposed"
    position: int
    epsilon: float  #: by the formula
    refitted: float  #: by refitting without the person
    kind: Kind  #: the weaker of the two

    @property
    def difference(self) -> float:
        """The relative difference of the two."""
        if self.epsilon == self.refitted:
            return 0.0
        return abs(self.epsilon - self.refitted) / max(abs(self.epsilon), abs(self.refitted))


def recheck(
    audit: Audit, X: Any, y: Any = None, *, target: Any = None, ids: Any = None, features: Any = None
) -> tuple[Recheck, ...]:
    """Refit without the most exposed, the median and the least exposed person; pass the table that was audited."""
    if not audit.inside:
        raise InvalidInput("only people of the table can be left out of it; these are outsiders")
    table = read_again(audit, X, y, target, ids, features)
    sweep = Local(threads=1).sweep(table)
    try:
        refuse_other_people(audit, table, sweep)
        chosen = _chosen(audit.losses)
        rows, labels = picked_rows(sweep, list(chosen.values()), len(audit))
        answers = []
        for k, (name, at) in enumerate(chosen.items()):
            rest = WithoutRows(sweep, [at])
            fit = audit.release.confidential_fit(rest, "exact")
            people = audit.release.people(fit, Block(rows[k : k + 1], labels[k : k + 1]), inside=False)
            if people.open is not None and people.open.any():
                people = audit.release.refine(fit, rest, Block(rows[k : k + 1], labels[k : k + 1]), inside=False)
            refitted = float(people.pairs.epsilon(audit.delta)[0])
            kind = weakest(audit.pairs[at].kind, people.pairs.kind)
            answers.append(Recheck(name, at, float(audit.losses[at]), refitted, kind))
    finally:
        sweep.close()
    return tuple(answers)


def _chosen(losses: NDArray) -> dict[str, int]:
    """Choose three people by their rank; in a tiny table they may be the same one."""
    order = np.argsort(losses, kind="stable")
    finite = order[np.isfinite(losses[order])]
    if len(finite) == 0:
        return {}
    found = {"most exposed": finite[-1], "median": finite[len(finite) // 2], "least exposed": finite[0]}
    kept: dict[str, int] = {}
    for name, at in found.items():
        if len(losses) > 1 and int(at) not in kept.values():
            kept[name] = int(at)
    return kept


def picked_rows(sweep: TableSweep, positions: list[int], n: int) -> tuple[NDArray, NDArray]:
    """Pick some rows out of the blocks, in the order asked for."""
    found: dict[int, tuple[NDArray, float]] = {}
    start = 0
    for block in sweep.map(lambda block: block):
        X, y = block.X, block.y
        for at in positions:
            if start <= at < start + len(y):
                found[at] = (np.array(X[at - start], dtype=np.float64), float(y[at - start]))
        start += len(y)
    if start != n:
        raise InvalidInput(f"the table has {start} rows and the audit {n} people; pass the table that was audited")
    if not positions:
        return np.empty((0, sweep.n_features)), np.empty(0)
    return np.array([found[at][0] for at in positions]), np.array([found[at][1] for at in positions])


class WithoutRows(Sweep):
    """A sweep that leaves some rows out; one thread, so that blocks come in order and rows can be counted."""

    def __init__(self, sweep: TableSweep, positions: Iterable[int]) -> None:
        self._sweep, self._positions = sweep, np.unique(np.fromiter(positions, dtype=np.int64))

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self._sweep.n_features

    @property
    def n_rows(self) -> int | None:
        """How many rows are left, where the table knows its own."""
        return None if self._sweep.n_rows is None else self._sweep.n_rows - len(self._positions)

    def fold(self, step: Callable[[Block], Any]) -> Any:
        """Return the sum of ``step(block)`` over all blocks."""
        return self._sweep.fold(self._skipping(step))

    def map(self, step: Callable[[Block], Any]) -> Iterator[Any]:
        """Yield ``step(block)`` of every block."""
        return self._sweep.map(self._skipping(step))

    def _skipping(self, step: Callable[[Block], Any]) -> Callable[[Block], Any]:
        start = 0

        def skip(block: Block) -> Any:
            nonlocal start
            here = self._positions - start
            start += len(block)
            here = here[(here >= 0) & (here < len(block))]
            return step(block.picked(np.delete(np.arange(len(block)), here)) if len(here) else block)

        return skip
