"""A cluster of processes on one machine against its threads, on the same Parquet.

    python -m benchmarks.cluster [--rows 1e7] [--features 20] [--workers 2]

Both decode the file once and walk over it twice; times are minima over repeats in turn, after one audit each that
loads the compiled code. The cluster writes one file of losses per partition, the threads one file.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import perinstance as pi
from benchmarks.parquet import make
from benchmarks.ratio import Ratio
from perinstance.engines import Local

LIMIT = 1.3


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    release = pi.PosteriorSample(alpha=1.0, gamma=1.0)
    with tempfile.TemporaryDirectory() as place, _cluster(LocalCluster, asked.workers) as cluster, Client(cluster):
        folder = Path(place)
        make(folder / "people.parquet", int(asked.rows), asked.features, ids=False)

        def threads() -> None:
            table = pi.scan(folder / "people.parquet")
            pi.audit(release, table, target="y", engine=Local(asked.workers), out=folder / "losses.parquet")

        def workers() -> None:
            shutil.rmtree(folder / "losses", ignore_errors=True)
            pi.audit(release, pi.scan(folder / "people.parquet"), target="y", out=folder / "losses")

        seconds = np.full((asked.repeats + 1, 2), np.inf)
        for turn in range(asked.repeats + 1):
            for which, call in enumerate((threads, workers)):
                start = time.perf_counter()
                call()
                seconds[turn, which] = time.perf_counter() - start
        best = seconds[1:].min(axis=0)
        what = f"{asked.workers} worker processes, {asked.rows:.0e} x {asked.features}"
        ratio = Ratio(what, f"{asked.workers} threads", best[1] / best[0], LIMIT)
        print(f"{ratio.what} / {ratio.against}: {best[1]:.2f} s / {best[0]:.2f} s = {ratio.value:.2f}, at most {LIMIT}")
        raise SystemExit(not ratio.holds)


def _cluster(kind: type, workers: int):  # type: ignore[no-untyped-def]
    return kind(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")


if __name__ == "__main__":
    main()
