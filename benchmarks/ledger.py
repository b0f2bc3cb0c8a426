"""The ledger: a charge against writing its Parquet file, totals of 20 Gaussian releases against reading them.

``python -m benchmarks.ledger 1e7`` takes ten million people. Times are those of the processor, of all threads: what
others run does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perinstance as pi
from benchmarks.ratio import Ratio
from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.pairs import GaussianShift

PEOPLE, RELEASES, LIMIT = 1_000_000, 20, 3


def _write(ids: pa.Array, pairs: GaussianShift, path: Path) -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array(pairs.codes.astype(np.int8)), ["exact", "upper", "estimate"])
    pq.write_table(pa.table({"id": ids, "distance": pairs.distance, "kind": codes}), path, compression="zstd")
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _timed(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


#: in a process of its own: how much more memory a page's numbers take than those of a ledger of one person
WALK = """
import resource, sys
import perinstance as pi
from perinstance.pairs import GaussianShift
small = pi.Ledger(sys.argv[1])
for k in range(2):
    small.charge_pairs(["a"], GaussianShift([1.0 + k]), key=f"{k}")
small.overview(1e-6)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pi.Ledger(sys.argv[2]).overview(1e-6)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _walk_memory(folder: Path, ledger: Path) -> float:
    """Return in MiB how much a walk over everybody takes."""
    asked = [sys.executable, "-c", WALK, str(folder / "small"), str(ledger)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def measure(people: int) -> list[Ratio]:
    """Charge ids in order and out of order, take totals and one history."""
    rng = np.random.default_rng(0)
    names = np.char.add("p", np.char.zfill(np.arange(people).astype(str), 9)).astype(object)
    shuffled = pa.array(rng.permutation(names))
    ordered = pa.array(names)
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for what, ids, releases in (("ids out of order", shuffled, 3), ("ids in order", ordered, RELEASES)):
            ledger = pi.Ledger(folder / what.replace(" ", "-"))
            times = []
            for k in range(releases):
                pairs = GaussianShift(rng.random(people))
                written = _timed(partial(_write, ids, pairs, folder / "file.parquet"))
                charged = _timed(partial(ledger.charge_pairs, ids, pairs, key=f"{k}"))
                times.append((charged, written))
            charged, written = np.min(times, axis=0)
            ratios.append(Ratio(f"a charge to {people:,} people, {what}", "writing the file", charged / written, LIMIT))
        files = [ChargeFile(ledger._charges, release.stored.file) for release in ledger.releases()]
        read = min(_timed(lambda: [None for file in files for _ in file.tables()]) for _ in range(2))
        total = min(_timed(lambda: ledger.totals(1e-6)) for _ in range(2))
        ratios.append(Ratio(f"totals over {RELEASES} Gaussian releases", "reading them", total / read, LIMIT))
        first = _timed(lambda: ledger.person("p000012345"))
        one = min(_timed(lambda k=k: ledger.person(f"p{k:09d}")) for k in range(0, people, people // 5))
        ratios.append(Ratio(f"a person's history in {RELEASES} releases, milliseconds", "one", 1000 * one))
        ratios.append(Ratio("the first one after opening a ledger, milliseconds", "one", 1000 * first))
        memory = _walk_memory(folder, folder / "ids-in-order")
        ratios.append(Ratio("memory of a walk over everybody, MiB", "one", memory))
    return ratios


def run() -> list[Ratio]:
    """Measure with a million people."""
    return measure(PEOPLE)


if __name__ == "__main__":
    for ratio in measure(int(float(sys.argv[1])) if len(sys.argv) > 1 else PEOPLE):
        print(f"{ratio.what} / {ratio.against}: {ratio.value:.2f}")
