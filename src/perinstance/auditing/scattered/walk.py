"""Leads an audit whose losses stay with the workers: write every partition, answer who was left open, write again."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perinstance.auditing.scattered.loss_sketch import QUANTILE_ERROR
from perinstance.auditing.scattered.partition_losses import PartitionLosses, WriteLosses, part_path
from perinstance.auditing.scattered.repeated_ids import refuse_repeated_ids
from perinstance.auditing.scattered.result import ScatteredAudit
from perinstance.data import private_file, private_folder
from perinstance.engines.first_look import CellNames
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.releases.base.release import Release

EXPOSED = 1000  #: people who are kept one by one
DONE = "complete.json"  #: is written last: a folder without it is a part of an audit


def open_folder(out: str | os.PathLike[str]) -> Path:
    """Make the folder for its owner alone, or take an empty one."""
    if "://" in os.fspath(out):
        raise InvalidInput(
            "losses are confidential, and a bucket has no owner-only files; name a folder of a file system"
        )
    folder = private_folder(out)
    if any(folder.iterdir()):
        raise InvalidInput(f"the folder {folder.name!r} is not empty; choose a new one, or empty it")
    return folder.absolute()


def scatter(release: Release, fit: Any, sweep: Any, who: Any, inside: bool, delta: float, folder: Path) -> Any:
    """Have every partition of ``who`` answered and written; ``sweep`` is the table of the fit."""
    step = WriteLosses(release, fit, delta, inside, str(folder), EXPOSED, CellNames.of(who.source))
    try:
        if who.source.has_ids:
            refuse_repeated_ids(who, ahead=4)
        found = _Total()
        for number, part in enumerate(who.each_partition(step, "map")):
            found.add(number, part)
        refined = _answer_open(sweep, who, step, found)
        audit = ScatteredAudit(
            release=release,
            fit=fit,
            delta=delta,
            inside=inside,
            n_features=who.n_features,
            folder=folder,
            sketch=found.sketch,
            exposed=found.exposed,
            reasons=found.reasons,
            rows=tuple(found.rows),
            source=who.source,
            refined=refined,
        )
        _finish(audit)
    except BaseException:  # a part of an audit is of no use
        for number in range(who.partitions):
            with contextlib.suppress(OSError):
                part_path(str(folder), number).unlink()
        raise
    return audit


class _Total:
    """Adds what comes back, in the order of the partitions; only rows of people who are left open are kept."""

    def __init__(self) -> None:
        self.sketch: Any = None
        self.exposed: Any = None
        self.reasons: Any = None
        self.rows: list[int] = []
        self.open: dict[int, Block] = {}

    def add(self, number: int, part: PartitionLosses, again: bool = False) -> None:
        """Take the answer of one partition; ``again``: its rows were counted before."""
        if not again:
            self.rows.append(part.rows)
        if part.open is not None:
            self.open[number] = part.open
        if part.sketch is None or part.exposed is None:
            return
        self.sketch = part.sketch if self.sketch is None else self.sketch + part.sketch
        self.exposed = part.exposed if self.exposed is None else self.exposed + part.exposed
        self.reasons = part.reasons if self.reasons is None else self.reasons + part.reasons


def _answer_open(sweep: Any, who: Any, step: WriteLosses, found: _Total) -> int:
    """Answer the people whom the map left open, and have their partitions written."""
    if not found.open:
        return 0
    left, rows = list(found.open), list(found.open.values())
    block = Block(np.concatenate([one.X for one in rows]), np.concatenate([one.y for one in rows]))
    people = step.release.refine(step.fit, sweep, block, step.inside)
    cuts = np.cumsum([0, *(len(one) for one in rows)])
    better = {
        number: People(people.leverage[a:b], people.residual[a:b], people.pairs[a:b])
        for number, a, b in zip(left, cuts[:-1], cuts[1:], strict=True)
    }
    again = who.each_partition(replace(step, better=better), "map", left)
    for number, part in zip(left, again, strict=True):
        found.add(number, part, again=True)
    return len(block)


def _finish(audit: ScatteredAudit) -> None:
    words = {
        "mechanism": str(audit.release.mechanism().name),
        "delta": audit.delta,
        "people": len(audit),
        "rows_of_partitions": list(audit.rows),
        "quantile_error": QUANTILE_ERROR,
    }
    with private_file(audit.folder / DONE, "w") as file:
        json.dump(words, file, indent=1)
