"""People who occur twice, in different partitions: found by hashes that meet on the workers, bucket by bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.checks.ids import id_hashes, several_rows
from perinstance.engines.dask.engine import DaskSweep
from perinstance.engines.dask.graph_runs import result, results
from perinstance.errors import PerinstanceError
from perinstance.folds.block import Block

SUSPECTS = 100  #: equal hashes that are looked at; more are no accident, and the first ones tell
BUCKETS = 16  #: at most: a worker holds one bucket of everybody's hashes, eight bytes a person


def refuse_repeated_ids(sweep: DaskSweep, ahead: int) -> None:
    """Refuse a table in which somebody has two rows; nothing of its length comes here."""
    import dask

    buckets = min(BUCKETS, sweep.partitions)
    split: Callable[..., Any] = dask.delayed(_hashes, nout=buckets)
    parts = [split(blocks, buckets) for blocks in sweep.blocks()]
    found = results(buckets, lambda bucket: dask.delayed(_equal_hashes)(*(part[bucket] for part in parts)), ahead)
    blocks = sweep.blocks()
    for repeated in found:
        for shared_hash, first, second in repeated:
            if result(dask.delayed(_same_person)(blocks[first], blocks[second], first == second, shared_hash)):
                raise several_rows(1, "at least ")


def _hashes(blocks: Any, buckets: int) -> list[NDArray[np.uint64]]:
    """Run on a worker: the hashes of one partition's ids, bucket by bucket."""
    if isinstance(blocks, PerinstanceError) or not blocks:
        return [np.empty(0, dtype=np.uint64)] * buckets
    hashes = id_hashes(pa.chunked_array([_ids(block) for block in blocks]))
    member = hashes % np.uint64(buckets)
    return [hashes[member == bucket] for bucket in range(buckets)]


def _ids(block: Block) -> pa.Array:
    assert block.ids is not None
    return block.ids


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
    texts = []
    for blocks in (left, right):
        ids = pa.chunked_array([_ids(block) for block in blocks])
        texts.append(ids.filter(pa.array(id_hashes(ids) == shared_hash)).to_pylist())
    return len(set(texts[0])) < len(texts[0]) if one else bool(set(texts[0]) & set(texts[1]))
