"""An audit from Parquet against what it cannot do without: decoding once, and the audit in memory.

    python -m benchmarks.parquet [--rows 1e7] [--features 20] [--threads 2] [--ids]

Times are minima over repeats within one process; the peak memory is that of a fresh process that does nothing but the
audit from the file. A table of random numbers is made in a temporary folder (0.17 GB per million rows at 20 features).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perinstance as pi
from perinstance.engines import Local

DELTA = 1e-6
LIMIT_RATIO, LIMIT_MEGABYTES = 1.3, 1000


def make(path: Path, rows: int, features: int, ids: bool) -> None:
    """Write the table a million rows at a time."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - start)
        X = rng.standard_normal((n, features))
        columns = {f"x{k}": X[:, k] for k in range(features)}
        columns["y"] = X @ np.linspace(-1, 1, features) + rng.standard_normal(n)
        if ids:
            columns["person"] = pa.array(np.char.zfill(np.arange(start, start + n).astype(str), 8).tolist())
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=1 << 17)
    assert writer is not None
    writer.close()


def releases() -> dict[str, object]:
    from sklearn.linear_model import Ridge

    return {
        "PosteriorSample": pi.PosteriorSample(alpha=1.0, gamma=1.0),
        "OutputPerturbation": pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=0.01),
    }


def decode(path: Path, threads: int, ids: bool) -> None:
    rows = (8 << 20) // (8 * len(pq.read_schema(path)))
    for _ in pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18).iter_batches(rows, use_threads=threads > 1):
        pass


def best(call: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def from_file(path: Path, release: object, threads: int, ids: bool) -> object:
    table = pi.scan(path)
    return pi.audit(release, table, target="y", ids="person" if ids else None, delta=DELTA, engine=Local(threads))


def child(path: Path, name: str, threads: int, ids: bool) -> None:
    audit = from_file(path, releases()[name], threads, ids)
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(int(found[1]) / 1024 if found else float("nan"), float(np.max(audit.epsilon)))  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--ids", action="store_true", help="with a column of ids")
    parser.add_argument("--release", choices=list(releases()), action="append")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.release or list(releases())
    if options.child:
        child(Path(options.child), names[0], options.threads, options.ids)
        return 0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        make(path, int(options.rows), options.features, options.ids)
        d = best(lambda: decode(path, options.threads, options.ids), options.repeats)
        print(
            f"n = {options.rows:.0e}, d = {options.features}, {options.threads} threads, {path.stat().st_size >> 20} MB"
        )
        print(f"decoding once: {d:.2f} s")
        table = pq.read_table(path, columns=[f"x{k}" for k in range(options.features)])
        X = np.empty((table.num_rows, options.features))
        for k in range(options.features):
            X[:, k] = table.column(k).to_numpy()
        del table
        y = pq.read_table(path, columns=["y"])["y"].to_numpy()
        for name in names:
            release = releases()[name]
            engine = Local(options.threads)
            memory = best(lambda r=release, e=engine: pi.audit(r, X, y, delta=DELTA, engine=e), options.repeats)  # type: ignore[misc]
            file = best(lambda r=release: from_file(path, r, options.threads, options.ids), options.repeats)  # type: ignore[misc]
            command = [sys.executable, "-m", "benchmarks.parquet", "--child", str(path), "--release", name]
            command += ["--threads", str(options.threads), *(["--ids"] if options.ids else [])]
            peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])
            ratio = file / (d + memory)
            good &= ratio <= LIMIT_RATIO and peak < LIMIT_MEGABYTES
            print(f"{name}: in memory {memory:.2f} s, from Parquet {file:.2f} s = {ratio:.2f} times their sum", end="")
            print(f" (at most {LIMIT_RATIO}), peak memory {peak:.0f} MB (below {LIMIT_MEGABYTES})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
