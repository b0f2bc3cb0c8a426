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
from perinstance.auditing.scattered.partition_losses import PartitionLosses, WriteLosses, part_path, total_of
from perinstance.auditing.scattered.repeated_ids import refuse_repeated_ids
from perinstance.auditing.scattered.result import ScatteredAudit
from perinstance.data import private_file, private_folder
from perinstance.engines.checked_step import CellNames
from perinstance.engines.dask.engine import DaskSweep
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
        found = list(who.each_partition(step, "map"))
        refined = _answer_open(release, fit, sweep, who, step, found)
        audit = _result(step, who, found, refined)
        _finish(folder, audit, found)
    except BaseException:  # a part of an audit is of no use
        for number in range(who.partitions):
            with contextlib.suppress(OSError):
                part_path(str(folder), number).unlink()
        raise
    return audit


def _answer_open(
    release: Release, fit: Any, sweep: DaskSweep, who: DaskSweep, step: WriteLosses, found: list[PartitionLosses]
) -> int:
    """Answer the people whom the map left open, and have their partitions written."""
    left = [number for number, part in enumerate(found) if part.open is not None]
    if not left:
        return 0
    rows = [found[number].open for number in left]
    X, y = (np.concatenate([getattr(one, name) for one in rows]) for name in "Xy")
    block = Block(X, y)
    people = release.refine(fit, sweep, block, step.inside)
    cuts = np.cumsum([0, *(len(one) for one in rows if one is not None)])
    better = {
        number: People(people.leverage[a:b], people.residual[a:b], people.pairs[a:b])
        for number, a, b in zip(left, cuts[:-1], cuts[1:], strict=True)
    }
    for number, part in zip(left, who.each_partition(replace(step, better=better), "map", left), strict=True):
        found[number] = part
    return len(block)


def _result(step: WriteLosses, who: DaskSweep, found: list[PartitionLosses], refined: int) -> ScatteredAudit:
    return ScatteredAudit(
        release=step.release,
        fit=step.fit,
        delta=step.delta,
        inside=step.inside,
        n_features=who.n_features,
        folder=Path(step.folder),
        sketch=total_of([part.sketch for part in found]),
        exposed=total_of([part.exposed for part in found]),
        largest_leverage=max(part.largest_leverage for part in found),
        rows=tuple(part.rows for part in found),
        source=who.source,
        refined=refined,
    )


def _finish(folder: Path, audit: ScatteredAudit, found: list[PartitionLosses]) -> None:
    words = {
        "mechanism": str(audit.release.mechanism().name),
        "delta": audit.delta,
        "people": len(audit),
        "rows_of_partitions": [part.rows for part in found],
        "quantile_error": QUANTILE_ERROR,
    }
    with private_file(folder / DONE, "w") as file:
        json.dump(words, file, indent=1)
