"""Memory does not grow with the number of people: measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CHILD = """
import resource, sys
import numpy as np
import pyarrow.parquet, pyarrow.csv, narwhals, scipy.linalg
from perinstance.data import read_table, scan
from perinstance.engines import LocalSweep

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = peak()
target = 0 if sys.argv[1].endswith("npy") else "y"
with LocalSweep(read_table(scan(sys.argv[1]), target=target), threads=2) as sweep:
    gram = sweep.fold(lambda X, y: X.T @ X)
    total = sum(float(part.sum()) for part in sweep.map(lambda X, y: (X @ gram[0])))
print(peak() - before, sweep.n_rows)
"""


def megabytes(path) -> tuple[float, int]:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path)]
    used, rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(used), int(rows)


@pytest.mark.parametrize("form", ["one group", "small groups", "csv", "npy", "arrow"])
def test_memory_is_a_few_blocks(tmp_path, form):
    n, d = (150_000 if form == "csv" else 1_000_000), 20
    rng = np.random.default_rng(0)
    columns = {**{f"x{k}": rng.random(n) for k in range(d)}, "y": rng.random(n)}
    if form == "npy":
        path = tmp_path / "t.npy"
        np.save(path, np.column_stack(list(columns.values())))
    elif form == "arrow":
        path = tmp_path / "t.arrow"
        table = pa.table(columns)
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as sink:
            sink.write_table(table, max_chunksize=65536)
    elif form == "csv":
        import pyarrow.csv

        path = tmp_path / "t.csv"
        pyarrow.csv.write_csv(pa.table(columns), path)
    else:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=n if form == "one group" else 65536)
    used, rows = megabytes(path)
    decoded = 8 * n * (d + 1) / 2**20
    assert rows == n
    # 64 MB of blocks that are kept, a few that are under way (decoded and as a matrix), buffers of the decoder
    assert used < 190
    assert form == "csv" or decoded > 160
