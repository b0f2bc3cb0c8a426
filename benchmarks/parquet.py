"""An audit from Parquet against what it cannot do without: decoding once, and the audit in memory.

    python -m benchmarks.parquet [--rows 1e7] [--features 20] [--threads 2] [--ids] [--file made-before.parquet]

Times are minima over repeats within one process, the three in turn, on the wall and of the processor (all threads
together: a busy machine changes the former, hardly the latter); the peak memory is that of a fresh process that does
nothing but the audit from the file. A table of random numbers is made in a temporary folder (0.17 GB per million rows
at 20 features).
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
from benchmarks.ratio import Ratio
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


def decode(path: Path, threads: int) -> None:
    rows = (4 << 20) // (8 * len(pq.read_schema(path)))
    for _ in pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18).iter_batches(rows, use_threads=threads > 1):
        pass


def best(calls: list[Callable[[], object]], repeats: int) -> np.ndarray:
    """Return the least seconds of each, on the wall and of the processor; they take turns."""
    seconds = np.full((repeats, len(calls), 2), np.inf)
    for turn in range(repeats):
        for which, call in enumerate(calls):
            start = np.array([time.perf_counter(), time.process_time()])
            call()
            seconds[turn, which] = np.array([time.perf_counter(), time.process_time()]) - start
    return seconds.min(axis=0)


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
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--ids", action="store_true", help="with a column of ids")
    parser.add_argument("--release", choices=list(releases()), action="append")
    parser.add_argument("--file", type=Path, help="a table that make() wrote before; made anew by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.release or list(releases())
    if options.child:
        child(Path(options.child), names[0], options.threads, options.ids)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "people.parquet"
        if options.file is None:
            make(path, int(options.rows), options.features, options.ids)
        return compare(path, names, options.threads, options.repeats, options.ids)


def compare(path: Path, names: list[str], threads: int, repeats: int, ids: bool) -> int:
    """Print the comparison; 1 when a limit is not kept."""
    X, y = load(path)
    print(f"n = {len(X):.0e}, d = {X.shape[1]}, {threads} threads, {path.stat().st_size >> 20} MB of file")
    good = True
    for name in names:
        wall, processor, peak = measure(path, X, y, name, threads, repeats, ids)
        good &= wall <= LIMIT_RATIO and peak < LIMIT_MEGABYTES
        print(f"{name}: {wall:.2f} times decoding + audit in memory on the wall, {processor:.2f} of the processor")
        print(f"  (at most {LIMIT_RATIO}); peak memory {peak:.0f} MB (below {LIMIT_MEGABYTES})", flush=True)
    return 0 if good else 1


def measure(
    path: Path, X: np.ndarray, y: np.ndarray, name: str, threads: int, repeats: int, ids: bool
) -> tuple[float, float, float]:
    """Return the ratio on the wall, the ratio of the processor, and the peak memory of a fresh process in MB."""
    release = releases()[name]
    pi.audit(release, X[:5000], y[:5000], delta=DELTA)  # compiled before the clock runs
    decoding, memory, file = best(
        [
            lambda: decode(path, threads),
            lambda: pi.audit(release, X, y, delta=DELTA, engine=Local(threads)),
            lambda: from_file(path, release, threads, ids),
        ],
        repeats,
    )
    command = [sys.executable, "-m", "benchmarks.parquet", "--child", str(path), "--release", name]
    command += ["--threads", str(threads), *(["--ids"] if ids else [])]
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])
    wall, processor = file / (decoding + memory)
    return float(wall), float(processor), peak


def run() -> list[Ratio]:
    """Measure at n = 1e7, d = 20, two threads."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        make(path, 10_000_000, 20, ids=False)
        X, y = load(path)
        for name in releases():
            wall, _, peak = measure(path, X, y, name, threads=2, repeats=4, ids=False)
            found.append(
                Ratio(f"{name} from Parquet, n = 1e7, d = 20", "decoding once + audit in memory", wall, LIMIT_RATIO)
            )
            found.append(Ratio(f"{name} from Parquet, peak memory", "1 GB", peak / LIMIT_MEGABYTES, 1.0))
    return found


def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the whole table as a matrix, a column at a time."""
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name.startswith("x")]
    X = np.empty((file.metadata.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = file.read([name])[name].to_numpy()
    return X, file.read(["y"])["y"].to_numpy()


if __name__ == "__main__":
    sys.exit(main())
