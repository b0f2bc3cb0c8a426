"""What a worker does with one partition: its people's losses go to a file, a sketch of them goes back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.auditing.map_people import with_better
from perinstance.auditing.scattered.loss_sketch import LossSketch
from perinstance.data import LossWriter
from perinstance.engines.first_look import CellNames, checked_step
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs
from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True, eq=False)
class MostExposed:
    """The people with the largest losses of some partitions, largest first; adding two gives those of both."""

    epsilon: Floats
    leverage: Floats
    residual: Floats
    codes: NDArray[np.uint8]
    names: NDArray[Any]  #: ids, or "partition:row" where there are none
    limit: int

    def __add__(self, other: MostExposed) -> MostExposed:
        both = [np.concatenate([a, b]) for a, b in zip(self._columns(), other._columns(), strict=True)]
        best = np.argsort(-both[0], kind="stable")[: self.limit]
        epsilon, leverage, residual, codes, names = (column[best] for column in both)
        return MostExposed(epsilon, leverage, residual, codes, names, self.limit)

    def _columns(self) -> tuple[NDArray, ...]:
        return self.epsilon, self.leverage, self.residual, self.codes, self.names


@dataclass(frozen=True, slots=True, eq=False)
class ReasonSketches:
    """Leverages and sizes of the residuals of some people: what is large among them is why somebody is exposed."""

    leverage: LossSketch
    residual: LossSketch  #: of those who have one

    @classmethod
    def of(cls, leverage: Floats, residual: Floats) -> ReasonSketches:
        """Look at some people."""
        known = residual[~np.isnan(residual)]
        return cls(*(LossSketch.of(values, np.empty(0, dtype=np.uint8)) for values in (leverage, known)))

    def __add__(self, other: ReasonSketches) -> ReasonSketches:
        return ReasonSketches(self.leverage + other.leverage, self.residual + other.residual)


@dataclass(frozen=True, slots=True, eq=False)
class PeopleSketch:
    """What is known of some people, in little room; adding two gives both sets."""

    losses: LossSketch
    exposed: MostExposed
    reasons: ReasonSketches

    def __add__(self, other: PeopleSketch) -> PeopleSketch:
        return PeopleSketch(self.losses + other.losses, self.exposed + other.exposed, self.reasons + other.reasons)


@dataclass(frozen=True, slots=True, eq=False)
class PartitionLosses:
    """What comes back of one partition, or of a few neighbours: little, unless somebody is left open."""

    rows: tuple[int, ...]  #: of each partition
    known: PeopleSketch | None  #: of the partitions that were written; None of nobody
    open: dict[int, Block]  #: by partition, rows of people who could not be answered there; it was not written then

    def __add__(self, other: PartitionLosses) -> PartitionLosses:
        return PartitionLosses(self.rows + other.rows, total_of([self.known, other.known]), {**self.open, **other.open})


@dataclass(frozen=True, slots=True)
class WriteLosses:
    """The step that travels. ``better`` has the people who were answered elsewhere, by partition."""

    release: Release
    fit: Any
    delta: float
    inside: bool
    folder: str
    exposed: int
    cells: CellNames
    better: dict[int, People] | None = None

    def __call__(self, number: int, blocks: tuple[Block, ...]) -> PartitionLosses:
        """Answer for the people of one partition."""
        if not blocks:
            return PartitionLosses((0,), None, {})
        found = [
            checked_step(lambda block: self.release.people(self.fit, block, self.inside), block, self.cells)
            for block in blocks
        ]
        open_rows = [
            b.picked(p.open) for b, p in zip(blocks, found, strict=True) if p.open is not None and p.open.any()
        ]
        rows = sum(len(block) for block in blocks)
        better = None if self.better is None else self.better.get(number)
        if open_rows and better is None:
            X, y = (np.concatenate([getattr(block, name) for block in open_rows]) for name in "Xy")
            return PartitionLosses((rows,), None, {number: Block(X, y)})
        leverage, residual, pairs = _joined(found, better)
        epsilon = pairs.epsilon(self.delta)
        ids = None if blocks[0].ids is None else pa.concat_arrays([block.ids for block in blocks])
        names = {"row": np.arange(rows) + blocks[0].start} if ids is None else {"id": ids}
        with LossWriter(part_path(self.folder, number)) as writer:
            writer.write({**names, "epsilon": epsilon, "leverage": leverage, "residual": residual, "kind": pairs.kinds})
        best = np.argsort(-epsilon, kind="stable")[: self.exposed]
        called = np.array(
            [f"{number}:{row}" for row in names["row"][best]] if ids is None else ids.take(best).to_pylist()
        )
        exposed = MostExposed(
            epsilon[best], leverage[best], residual[best], pairs.codes[best], called.astype(object), self.exposed
        )
        known = PeopleSketch(LossSketch.of(epsilon, pairs.codes), exposed, ReasonSketches.of(leverage, residual))
        return PartitionLosses((rows,), known, {})


def part_path(folder: str, number: int) -> Path:
    """Return the file of one partition's losses."""
    return Path(folder) / f"part-{number:05d}.parquet"


def _joined(found: list[People], better: People | None) -> tuple[Floats, Floats, Pairs]:
    pairs = type(found[0].pairs).concatenate([people.pairs for people in found])
    leverage = np.concatenate([people.leverage for people in found])
    residual = np.concatenate([people.residual for people in found])
    if better is not None:
        masks = [np.zeros(len(p.leverage), dtype=bool) if p.open is None else p.open for p in found]
        at = np.flatnonzero(np.concatenate(masks))
        leverage[at], residual[at] = better.leverage, better.residual
        pairs = with_better(pairs, better.pairs, at)
    return leverage, residual, pairs


@dataclass(frozen=True, slots=True)
class GroupSketches:
    """The sketches of some groups; adding two gives those of both sets of people."""

    groups: dict[str, LossSketch]

    def __add__(self, other: GroupSketches) -> GroupSketches:
        merged = dict(self.groups)
        for name, sketch in other.groups.items():
            merged[name] = merged[name] + sketch if name in merged else sketch
        return GroupSketches(merged)


def total_of(parts: list[Any]) -> Any:
    """Add what came back, in the order of the partitions; None is nothing."""
    found = [part for part in parts if part is not None]
    return reduce(add, found) if found else None
