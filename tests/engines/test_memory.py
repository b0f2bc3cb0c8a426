"""Memory does not grow with the number of people: measured in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from perinstance.data import Limits, read_table, scan
from perinstance.data.files.parquet import _open
from perinstance.data.source import BLOCK_BYTES, rows_per_block
from perinstance.engines import LocalSweep
from tests.forked import forked
from tests.peak import peak_megabytes


def decode(path: str) -> None:
    """Use the library alone, in batches as long as our blocks: what its decoder takes is not ours to spare."""
    before = peak_megabytes()
    with _open(Path(path), Limits()) as file:
        rows = sum(len(batch) for batch in file.iter_batches(rows_per_block(20, BLOCK_BYTES)))
    print(peak_megabytes() - before, rows)


def sweep_twice(path: str) -> None:
    before = peak_megabytes()
    target = 0 if path.endswith("npy") else "y"
    with LocalSweep(read_table(scan(path), target=target), threads=2, memory_bytes=0) as sweep:
        gram = sweep.fold(lambda b: b.X.T @ b.X)
        sum(float(part.sum()) for part in sweep.map(lambda b: b.X @ gram[0]))
    print(peak_megabytes() - before, sweep.n_rows)


def megabytes(path: Path, what) -> tuple[float, int]:
    code, out, err = forked(what, str(path))
    assert code == 0, err
    used, rows = out.split()
    return float(used), int(rows)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is told by Linux only")
@pytest.mark.parametrize("form", ["parquet", "csv", "npy"])
def test_memory_does_not_hold_the_table(tmp_path, form):
    n, d = 600_000, 20
    rng = np.random.default_rng(0)
    values = rng.integers(0, 10, n) if form == "csv" else rng.random(n)
    columns = {**{f"x{k}": np.roll(values, k) for k in range(d)}, "y": values}
    path = tmp_path / ("t.npy" if form == "npy" else "t.csv" if form == "csv" else "t.parquet")
    if form == "npy":
        np.save(path, np.column_stack(list(columns.values())))
    elif form == "csv":
        pyarrow.csv.write_csv(pa.table(columns), path)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=n)
    used, rows = megabytes(path, sweep_twice)
    assert rows == n
    # the table is 100 MB of float64, in one row group, and is never there as a whole: what stays are blocks under way
    # (decoded, as a matrix, and on their way to the disk), near 64 MB at most, and buffers of the decoder
    if form == "parquet":
        decoder, rows = megabytes(path, decode)
        assert rows == n
        assert used - decoder < 80
    else:
        assert used < (80 if form == "npy" else 150)
