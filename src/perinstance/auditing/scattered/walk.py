"""Leads an audit whose losses stay with the workers: write every partition, answer who was left open, write again."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

import numpy as np

from perinstance.auditing.scattered.loss_sketch import QUANTILE_ERROR
from perinstance.auditing.scattered.partition_losses import (
    PartitionLosses,
    PeopleSketch,
    WriteLosses,
    part_path,
    total_of,
)
from perinstance.auditing.scattered.repeated_ids import refuse_repeated_ids
from perinstance.auditing.scattered.result import ScatteredAudit
from perinstance.data import private_file, private_folder
from perinstance.engines.first_look import CellNames
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.releases.base.release import Release

JOINED = 32  #: partitions whose sketches are added by the workers before they travel: about half a megabyte each time
EXPOSED = 1000  #: people who are kept one by one
DONE = "_complete.json"  #: is written last: a folder without it is a part of an audit; readers skip names with "_"


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
        found = reduce(add, who.each_partition(step, "map", join=JOINED))
        if not sum(found.rows):
            raise InvalidTable("the table has no rows; there is nobody to audit")
        known, refined = _answer_open(sweep, who, step, found)
        audit = ScatteredAudit(
            release=release,
            fit=fit,
            delta=delta,
            inside=inside,
            n_features=who.n_features,
            folder=folder,
            sketch=known.losses,
            exposed=known.exposed,
            reasons=known.reasons,
            rows=found.rows,
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


def _answer_open(sweep: Any, who: Any, step: WriteLosses, found: PartitionLosses) -> tuple[PeopleSketch, int]:
    """Answer the people whom the map left open, have their partitions written, and return everybody's sketch."""
    if not found.open:
        return cast(PeopleSketch, found.known), 0
    left, rows = list(found.open), list(found.open.values())
    block = Block(np.concatenate([one.X for one in rows]), np.concatenate([one.y for one in rows]))
    people = step.release.refine(step.fit, sweep, block, step.inside)
    cuts = np.cumsum([0, *(len(one) for one in rows)])
    better = {
        number: People(people.leverage[a:b], people.residual[a:b], people.pairs[a:b])
        for number, a, b in zip(left, cuts[:-1], cuts[1:], strict=True)
    }
    again = total_of(list(who.each_partition(replace(step, better=better), "map", left, JOINED)))
    return total_of([found.known, again.known]), len(block)


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
