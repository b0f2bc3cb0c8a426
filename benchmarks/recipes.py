"""A raw Parquet file (texts, dates, missing cells) by its recipe, against the table of its numbers as Parquet.

    python -m benchmarks.recipes [--rows 1e7] [--threads 2]

Both audits are out of core, in turn, in one process; times are minima over repeats. The raw table has five columns
that become ten.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perinstance as pi
from benchmarks.ratio import Ratio
from perinstance.engines import Local

LIMIT = 2.0
RECIPE = pi.Recipe(
    {
        "age": {"range": [0, 110], "missing": 50},
        "ward": {"categories": ["ICU", "heart", "surgery"], "missing": "other"},
        "smoker": {"yes": ["yes"], "no": ["no"], "missing": "no"},
        "admitted": {"dates": ["2015-01-01", "2024-12-31"]},
        "bmi": {"range": [10, 60], "missing": 25},
    },
    target={"column": "cost", "range": [0, 20_000]},
    intercept=True,
)


def raw_rows(rng: np.random.Generator, n: int) -> pa.Table:
    days = np.datetime64("2016-01-01") + rng.integers(0, 3000, n).astype("timedelta64[D]")
    return pa.table(
        {
            "age": pa.array(rng.uniform(18, 95, n).round(1), mask=rng.random(n) < 0.01),
            "ward": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, 4, n), mask=rng.random(n) < 0.01), ["ICU", "heart", "surgery", "ear"]
            ).cast(pa.string()),
            "smoker": pa.DictionaryArray.from_arrays(rng.integers(0, 2, n), ["yes", "no"]).cast(pa.string()),
            "admitted": pa.array(days),
            "bmi": pa.array(rng.normal(26, 4, n).round(1), mask=rng.random(n) < 0.02),
            "cost": rng.uniform(0, 20_000, n).round(2),
        }
    )


def make(folder: Path, rows: int) -> None:
    """Write both tables, a million rows at a time."""
    rng = np.random.default_rng(0)
    names = RECIPE.get_feature_names_out()
    writers: dict[str, pq.ParquetWriter] = {}
    for start in range(0, rows, 1_000_000):
        raw = raw_rows(rng, min(1_000_000, rows - start))
        X = RECIPE.transform(raw)
        numbers = pa.table({**dict(zip(names, X.T, strict=True)), "cost": RECIPE.transform_target(raw)})
        for name, table in (("raw", raw), ("numbers", numbers)):
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writers[name].write_table(table, row_group_size=1 << 17)
    for writer in writers.values():
        writer.close()


def measure(rows: int, threads: int, repeats: int = 3) -> Ratio:
    """Audit both files in turn."""
    release, engine = pi.PosteriorSample(alpha=1.0, gamma=1.0), Local(threads=threads)
    best = {"raw": float("inf"), "numbers": float("inf")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, rows)
        for _ in range(repeats):
            for kind, recipe, target in (("numbers", None, "cost"), ("raw", RECIPE, None)):
                start = time.perf_counter()
                scanned = pi.scan(folder / f"{kind}.parquet")
                pi.audit(release, scanned, target=target, recipe=recipe, engine=engine)
                best[kind] = min(best[kind], time.perf_counter() - start)
    what = f"audit of {rows:,} raw rows by a recipe, {best['raw']:.2f} s"
    return Ratio(what, f"audit of their numbers, {best['numbers']:.2f} s", best["raw"] / best["numbers"], LIMIT)


def run() -> list[Ratio]:
    return [measure(1_000_000, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    ratio = measure(int(asked.rows), asked.threads)
    print(f"{ratio.what} / {ratio.against}: {ratio.value:.2f}, promised <= {ratio.limit:g}")


if __name__ == "__main__":
    main()
