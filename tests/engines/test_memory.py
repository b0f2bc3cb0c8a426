"""Memory does not grow with the number of people: measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

#: the library alone, in batches as long as our blocks: what its decoder takes is not ours to spare
DECODER = """
import sys
import pyarrow.parquet, pyarrow.csv, narwhals, scipy.linalg
from perinstance.data import Limits
from perinstance.data.files.parquet import _open
from perinstance.data.source import BLOCK_BYTES, rows_per_block
from tests.peak import peak_megabytes
from pathlib import Path

before = peak_megabytes()
with _open(Path(sys.argv[1]), Limits()) as file:
    rows = sum(len(batch) for batch in file.iter_batches(rows_per_block(20, BLOCK_BYTES)))
print(peak_megabytes() - before, rows)
"""

CHILD = """
import sys
import numpy as np
import pyarrow.parquet, pyarrow.csv, narwhals, scipy.linalg
from perinstance.data import read_table, scan
from perinstance.engines import LocalSweep
from tests.peak import peak_megabytes

before = peak_megabytes()
target = 0 if sys.argv[1].endswith("npy") else "y"
with LocalSweep(read_table(scan(sys.argv[1]), target=target), threads=2, memory_bytes=0) as sweep:
    gram = sweep.fold(lambda b: b.X.T @ b.X)
    total = sum(float(part.sum()) for part in sweep.map(lambda b: b.X @ gram[0]))
print(peak_megabytes() - before, sweep.n_rows)
"""


def megabytes(path, code: str = CHILD) -> tuple[float, int]:
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    used, rows = answer.stdout.split()
    return float(used), int(rows)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is told by Linux only")
@pytest.mark.parametrize("form", ["parquet", "csv", "npy"])
def test_memory_does_not_hold_the_table(tmp_path, form):
    n, d = 1_200_000, 20
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
    used, rows = megabytes(path)
    assert rows == n
    # the table is 200 MB of float64, in one row group, and is never there as a whole: what stays are blocks under way
    # (decoded, as a matrix, and on their way to the disk), near 64 MB, and buffers of the decoder
    if form == "parquet":
        decoder, rows = megabytes(path, DECODER)
        assert rows == n
        assert used - decoder < 96
    else:
        assert used < (80 if form == "npy" else 190)
