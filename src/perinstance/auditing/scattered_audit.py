"""``ScatteredAudit``: losses that stay with the workers of a cluster, a file for each partition. It is confidential.

Here is what little room holds of them. Every partition is answered and written, those who were left open are answered
here, and their partitions written again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.loss_statistics import QUANTILE_ERROR, LossCounts, Summary, group_columns
from perinstance.auditing.map_people import PeopleAnswers, answer_open, together, walk_people
from perinstance.auditing.result import Audit, Health
from perinstance.data import LossWriter, private_file, private_folder
from perinstance.data.memory.columns import label_texts
from perinstance.data.source import Flavour, Source
from perinstance.engines import TableSweep
from perinstance.engines.dask import Dask, DaskSweep, partition_labels, result, results
from perinstance.engines.protocol import CellNames, checked_step
from perinstance.errors import InvalidInput, InvalidTable, PerinstanceError
from perinstance.folds.block import Block
from perinstance.folds.ids import id_hashes, several_rows
from perinstance.folds.sweep import People
from perinstance.models.interface import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import kind_codes
from perinstance.releases.base.release import Release, losses_of_block

JOINED = 32  #: partitions whose sketches are added by the workers before they travel: about half a megabyte each time
EXPOSED = 1000  #: people who are kept one by one
DONE = "_complete.json"  #: is written last: a folder without it is a part of an audit; readers skip names with "_"
SUSPECTS = 100  #: equal hashes of ids that are looked at; more are no accident, and the first ones tell
BUCKETS = 16  #: at most: a worker holds one bucket of everybody's hashes, eight bytes a person


@dataclass(frozen=True, slots=True, eq=False)
class PeopleSketch:
    """What is known of the people of some partitions, in little room; adding two gives both."""

    rows: tuple[int, ...]  #: people of each partition
    open: dict[int, Block]  #: by partition, rows of people who could not be answered there; it was not written then
    losses: LossCounts
    leverage: LossCounts
    residual: LossCounts  #: sizes, of those who have one
    exposed: dict[str, NDArray]  #: columns of the people with the largest losses, largest first

    @classmethod
    def of(cls, rows: int, found: PeopleAnswers | None, exposed: dict[str, NDArray], left: dict[int, Block]) -> Self:
        """Take the answers of one partition; None where there are none."""
        numbers = [np.empty(0)] * 3 if found is None else [found.epsilon, found.leverage, found.residual]
        codes = np.empty(0, dtype=np.uint8) if found is None else found.pairs.codes
        epsilon, leverage, residual = numbers
        sizes = LossCounts.rounded(residual[~np.isnan(residual)])
        return cls((rows,), left, LossCounts.rounded(epsilon, codes), LossCounts.rounded(leverage), sizes, exposed)

    def __add__(self, other: PeopleSketch) -> PeopleSketch:
        parts = [one for one in (self.exposed, other.exposed) if one]
        both = {name: np.concatenate([one[name] for one in parts]) for name in self.exposed | other.exposed}
        best = largest(both["epsilon"]) if both else slice(0)
        return PeopleSketch(
            rows=self.rows + other.rows,
            open=self.open | other.open,
            losses=self.losses + other.losses,
            leverage=self.leverage + other.leverage,
            residual=self.residual + other.residual,
            exposed={name: values[best] for name, values in both.items()},
        )


def largest(losses: Floats) -> NDArray[np.intp]:
    """Return the positions of the largest losses that are kept one by one, largest first."""
    return np.argsort(-losses, kind="stable")[:EXPOSED]


@dataclass(frozen=True, slots=True)
class WriteLosses:
    """The step that travels: answer for the people of one partition, and write their losses to a file."""

    release: Release
    fit: Any
    delta: float
    inside: bool
    folder: Path
    cells: CellNames
    better: dict[int, People] | None = None  #: by partition, people who were answered elsewhere

    def __call__(self, number: int, blocks: tuple[Block, ...]) -> PeopleSketch:
        """Return the sketch of one partition."""
        step = partial(losses_of_block, release=self.release, fit=self.fit, inside=self.inside, delta=self.delta)
        rows = sum(block.n_people for block in blocks)
        if not blocks:
            return PeopleSketch.of(0, None, {}, {})
        found = PeopleAnswers.of([checked_step(step, block, self.cells) for block in blocks])
        if found.rows is not None:
            if self.better is None:
                return PeopleSketch.of(rows, None, {}, {number: found.rows})
            better = self.better[number]
            found = found.with_open(better, better.pairs.epsilon(self.delta))
        best, ids = largest(found.epsilon), None if blocks[0].ids is None else pa.concat_arrays([b.ids for b in blocks])
        numbers = {"epsilon": found.epsilon, "leverage": found.leverage, "residual": found.residual}
        names = {"row": np.arange(rows) + blocks[0].start} if ids is None else {"id": ids}
        with LossWriter(part_path(self.folder, number)) as writer:
            writer.write({**names, **numbers, "kind": found.pairs.kinds})
        person = [f"{number}:{row}" for row in names["row"][best]] if ids is None else ids.take(best).to_pylist()
        exposed = {"person": np.array(person, dtype=object)} | {name: values[best] for name, values in numbers.items()}
        return PeopleSketch.of(rows, found, exposed | {"kind": found.pairs.kinds[best]}, {})


def part_path(folder: Path, number: int) -> Path:
    """Return the file of one partition's losses."""
    return folder / f"part-{number:05d}.parquet"


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


def scatter(
    release: Release, fit: Any, sweep: TableSweep, who: DaskSweep, inside: bool, delta: float, folder: Path
) -> ScatteredAudit:
    """Have every partition of ``who`` answered and written; ``sweep`` is the table of the fit."""
    step = WriteLosses(release, fit, delta, inside, folder, CellNames.of(who.source))
    try:
        if who.source.has_ids:
            refuse_repeated_ids(who, ahead=4)
        found = reduce(add, who.each_partition(step, "map", join=JOINED))
        if not sum(found.rows):
            raise InvalidTable("the table has no rows; there is nobody to audit")
        refined = sum(block.n_people for block in found.open.values())
        if refined:
            people = answer_open(release, fit, sweep, together(list(found.open.values())), inside)
            better, start = {}, 0
            for number, block in found.open.items():
                at = slice(start, start := start + block.n_people)
                better[number] = People(people.leverage[at], people.residual[at], people.pairs[at])
            again = who.each_partition(replace(step, better=better), "map", list(better), JOINED)
            found = replace(reduce(add, again, found), rows=found.rows, open={})
        words = {
            "mechanism": str(release.mechanism().name),
            "delta": delta,
            "people": sum(found.rows),
            "rows_of_partitions": list(found.rows),
            "quantile_error": QUANTILE_ERROR,
        }
        _remove_drafts(folder)
        with private_file(folder / DONE, "w") as file:
            json.dump(words, file, indent=1)
    except BaseException:  # a part of an audit is of no use
        _remove_drafts(folder)
        for number in range(who.partitions):
            with contextlib.suppress(OSError):
                part_path(folder, number).unlink()
        raise
    rows = None if who.n_rows == sum(found.rows) else who.n_rows
    return ScatteredAudit(release, fit, delta, inside, who.n_features, folder, found, who.source, refined, rows)


def _remove_drafts(folder: Path) -> None:
    """Remove what a worker that was killed had begun to write; another one has answered for it."""
    for draft in folder.glob(".part-*.part"):
        with contextlib.suppress(OSError):
            draft.unlink()


def refuse_repeated_ids(sweep: DaskSweep, ahead: int) -> None:
    """Refuse a table in which somebody has two rows: hashes meet on the workers, nothing of its length comes here."""
    import dask

    buckets = min(BUCKETS, sweep.partitions)
    split: Callable[..., Any] = dask.delayed(_hashes, nout=buckets)
    blocks = sweep.blocks()
    parts = [split(one, buckets) for one in blocks]
    for repeated in results(buckets, lambda k: dask.delayed(_equal_hashes)(*(part[k] for part in parts)), ahead):
        for shared_hash, first, second in repeated:
            if result(dask.delayed(_same_person)(blocks[first], blocks[second], first == second, shared_hash)):
                raise several_rows(1, "at least ")


def _ids(blocks: Any) -> pa.ChunkedArray:
    """Return the ids of a partition; none where it has no rows, or was refused (which the map tells)."""
    present = [] if isinstance(blocks, PerinstanceError) else blocks
    return pa.chunked_array([block.ids.cast(pa.large_string()) for block in present], type=pa.large_string())


def _hashes(blocks: Any, buckets: int) -> list[NDArray[np.uint64]]:
    """Run on a worker: the hashes of one partition's ids, bucket by bucket."""
    hashes = id_hashes(_ids(blocks))
    member = hashes % np.uint64(buckets)
    return [hashes[member == bucket] for bucket in range(buckets)]


def _equal_hashes(*parts: NDArray[np.uint64]) -> list[tuple[np.uint64, int, int]]:
    """Run on a worker: hashes that occur twice, and the partitions of their first two rows."""
    hashes = np.concatenate(parts)
    order = np.argsort(hashes, kind="stable")
    at = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])[:SUSPECTS]
    ends = np.cumsum([len(part) for part in parts])
    first, second = (np.searchsorted(ends, order[at + k], side="right").tolist() for k in (0, 1))
    return list(zip(hashes[order][at], first, second, strict=True))


def _same_person(left: Any, right: Any, one: bool, shared_hash: np.uint64) -> bool:
    """Run on a worker: whether ids of this hash are the same text. Of 1e9 people two share a hash by chance, at .03."""
    first, second = (
        ids.filter(pa.array(id_hashes(ids) == shared_hash)).to_pylist() for ids in (_ids(left), _ids(right))
    )
    return len(set(first)) < len(first) if one else bool(set(first) & set(second))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScatteredAudit:
    """Sums over everybody, and the most exposed people one by one; the others are in ``folder``.

    Counts, means and the maximum are exact. Quantiles are never below the truth and at most a thousandth above.
    """

    release: Release
    fit: ConfidentialFit
    delta: float
    inside: bool  #: whether these people are in the data
    n_features: int
    folder: Path  #: one Parquet file of losses per partition, for the owner alone
    known: PeopleSketch
    source: Source
    refined: int = 0
    n_rows: int | None = None  #: of these people, where some have several; None: every row is a person

    def __len__(self) -> int:
        return sum(self.rows)

    def __repr__(self) -> str:
        where = "in the data" if self.inside else "outside the data"
        about = f"{type(self.release).__name__}, delta={self.delta:g}, {len(self.rows)} partitions"
        return f"ScatteredAudit({len(self):,} people {where}, {about})"

    @property
    def rows(self) -> tuple[int, ...]:
        """How many people are in each partition."""
        return self.known.rows

    @property
    def sketch(self) -> LossCounts:
        """Everybody's losses, in little room."""
        return self.known.losses

    @property
    def health(self) -> Health:
        """Condition, factorisation, largest leverage."""
        return Health.of(self.fit.health, self.n_features, self.known.leverage.maximum, self.refined)

    def summary(self) -> Summary:
        """Return the losses of all people in a few numbers."""
        return self.sketch.summary(self.delta)

    def quantile(self, q: ArrayLike) -> Any:
        """Return a loss that at least a share q of the people does not exceed: at most a thousandth too large."""
        return self.sketch.quantile(q)

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss may exceed t (those within a thousandth of t count)."""
        return self.sketch.share_above(t)

    def moments(self, k: int = 4) -> Floats:
        """Return ``E eps, ..., E eps^k`` over these people, k at most 4."""
        return self.sketch.moments(k)

    def most_exposed(self, count: int = 10) -> Any:
        """Return the people with the largest losses, exactly, as a table."""
        if not 1 <= count <= EXPOSED:
            raise InvalidInput(f"of the most exposed people {EXPOSED} are kept, got {count}")
        return Flavour("pandas").frame({name: values[:count] for name, values in self.known.exposed.items()})

    def by(self, column: str) -> Any:
        """Return people, mean, median, 95%, maximum and weakest kind of each group: a column of the audited table.

        The workers read the labels and the losses of each partition again.
        """
        groups = self.sketches_by(column)
        names = np.array(sorted(groups), dtype=object)
        return Flavour("pandas").frame(group_columns(names, [groups[name].summary(self.delta) for name in names]))

    def sketches_by(self, column: str) -> dict[str, LossCounts]:
        """Return the sketch of each group by its label, in ``column`` of the audited table."""
        import dask

        if self.n_rows is not None:
            raise InvalidInput("people have several rows here; audit without a folder, and pass audit.by their labels")
        labels = partition_labels(self.source, column)
        groups: dict[str, LossCounts] = {}
        for part in results(len(labels), lambda k: dask.delayed(_by_group)(self.folder, k, labels[k]), 64):
            groups |= {name: groups[name] + sketch if name in groups else sketch for name, sketch in part.items()}
        return groups

    def gathered(self) -> Audit:
        """Bring everybody's pairs and losses here, by one more pass of the workers: a ledger is charged with them."""
        if not self.inside:
            raise InvalidInput(
                "people outside are not gathered again; audit them without out=, or read the folder of losses"
            )
        about: dict[str, Any] = {"release": self.release, "fit": self.fit, "delta": self.delta, "inside": self.inside}
        with contextlib.closing(Dask().sweep(self.source, None)) as sweep:
            return Audit.of(walk_people(**about, sweep=sweep, who=sweep), sweep, **about)

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the curator's report. Confidential: readable by its owner alone; ``redact=True`` is for colleagues.

        ``groups`` names columns of the audited table, which the workers read again; ``dp``, ``everyone``, ``title``,
        ``source``, ``target`` and ``unit`` are those of ``Audit.to_html``.
        """
        from perinstance import report

        return report.to_html(self, path, **options)


def _by_group(folder: Path, number: int, labels: Any) -> dict[str, LossCounts]:
    """Run on a worker: the sketch of each group of one partition."""
    if not len(labels):
        return {}
    table = pq.read_table(part_path(folder, number), columns=["epsilon", "kind"])
    losses = table["epsilon"].to_numpy()
    codes = kind_codes(table["kind"].to_numpy(zero_copy_only=False).astype(str), len(losses))
    names, member = np.unique(label_texts(labels).astype(str), return_inverse=True)
    return {str(name): LossCounts.rounded(losses[member == k], codes[member == k]) for k, name in enumerate(names)}
