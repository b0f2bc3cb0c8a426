"""audit(out=...): rows leave while the walk goes on, and the file is the one that writing at the end would give."""

from __future__ import annotations

import stat
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.auditing import map_people
from perinstance.data import LossWriter, write_losses
from perinstance.engines import Local

RELEASES = [
    pi.PosteriorSample(alpha=1.0, gamma=0.5),
    pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.1),
    pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=3.0),
    pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.1),
]


def table(release, n=330, dominant=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=n)
    if isinstance(getattr(release, "estimator", None), LogisticRegression):
        y = (y > 0).astype(float)
    if dominant is not None:
        X[dominant] *= 30.0 if y.max() == 1 else 1e5
    return X, y


def at_the_end(path, found, rows):
    """Write all of it at once after the walk: the old road."""
    columns = found.columns()
    names = {} if "id" in columns else {"row": np.arange(len(found))}
    columns = {**names, **columns}
    runs = [slice(start, start + rows) for start in range(0, len(found), rows)]
    write_losses(path, [{name: values[run] for name, values in columns.items()} for run in runs])
    return path.read_bytes()


@pytest.mark.parametrize(
    ("release", "dominant", "suffix"),
    [(one, dominant, form) for one in RELEASES for dominant, form in ((None, "csv"), (150, "parquet"))],
    ids=str,
)
def test_the_file_is_that_of_writing_at_the_end(tmp_path, monkeypatch, release, dominant, suffix):
    X, y = table(release, dominant=dominant)
    ids = np.array([f"={k}" if k % 50 == 49 else f"{k:04d}" for k in range(len(y))])
    for rows, names, size in ((32, ids, 2000), (100, None, 900), (1 << 17, ids, 5000)):
        monkeypatch.setattr(map_people, "ROWS", rows)
        path = tmp_path / f"losses.{suffix}"
        found = pi.audit(release, X, y, ids=names, engine=Local(threads=2, block_bytes=size), out=path)
        assert (found.health.refined > 0) == (dominant is not None or release is RELEASES[3])
        assert path.read_bytes() == at_the_end(tmp_path / f"end.{suffix}", found, rows)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_and_outsiders(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(map_people, "ROWS", 40)
    release = RELEASES[0]
    X, y = table(release)
    ids = [f"{k:04d}" for k in range(len(y))]
    columns = {"name": ids, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}
    pa_csv.write_csv(pa.table(columns), tmp_path / "table.csv")
    path, end = tmp_path / f"losses.{suffix}", tmp_path / f"end.{suffix}"
    engine = Local(block_bytes=1000)
    scanned = pi.scan(tmp_path / "table.csv")
    inside = pi.audit(release, scanned, target="y", ids="name", engine=engine, out=path)
    assert inside.ids.to_pylist() == ids and path.read_bytes() == at_the_end(end, inside, 40)
    outside = pi.audit(release, X, y, outsiders=(X[:90], y[:90], ids[:90]), engine=engine, out=path)
    assert outside.ids.to_pylist() == ids[:90] and path.read_bytes() == at_the_end(end, outside, 40)


class Watch:
    """Look at the unfinished file whenever a block is done."""

    def __init__(self, folder):
        self.folder, self.rows, self.lines = folder, {}, []

    def __call__(self, stage, done, total):
        drafts = list(self.folder.glob(".losses.csv.*.part"))
        assert all(stat.S_IMODE(draft.stat().st_mode) == 0o600 for draft in drafts)
        assert not (self.folder / "losses.csv").exists()
        if stage == "map" and drafts:
            whole, _, _ = drafts[0].read_text().rpartition("\n")  # what is behind it may be half a line
            self.lines = whole.splitlines()
            self.rows[done] = max(len(self.lines) - 1, 0)


def test_rows_are_written_before_the_walk_ends(tmp_path):
    n = 5 * map_people.ROWS // 2
    X = np.random.default_rng(1).normal(size=(n, 1))
    watch = Watch(tmp_path)
    engine = Local(threads=2, block_bytes=16 * 50_000)
    pi.audit(RELEASES[0], X, X[:, 0] + 1, engine=engine, progress=watch, out=tmp_path / "losses.csv")
    # a block is told before it is written, and the end of a run may wait in a buffer, large on some systems
    for done, rows in watch.rows.items():
        full = max(done - 50_000, 0) // map_people.ROWS * map_people.ROWS
        assert full - 20_000 <= rows <= full
    assert max(watch.rows.values()) > map_people.ROWS - 20_000
    assert (tmp_path / "losses.csv").read_text().splitlines()[: len(watch.lines)] == watch.lines


def test_those_behind_an_open_person_wait_for_her(tmp_path, monkeypatch):
    monkeypatch.setattr(map_people, "ROWS", 1000)
    X, y = table(RELEASES[0], n=40_000, dominant=25_500)
    watch = Watch(tmp_path)
    engine = Local(threads=1, block_bytes=32 * 2000)
    found = pi.audit(RELEASES[0], X, y, engine=engine, progress=watch, out=tmp_path / "losses.csv")
    assert found.health.refined == 1
    assert 10_000 < max(watch.rows.values()) <= 24_000  # the block of rows 24,000 to 26,000 holds the person
    alone = pi.audit(RELEASES[0], X, y, engine=Local(block_bytes=1 << 30))
    written = np.genfromtxt(tmp_path / "losses.csv", delimiter=",", skip_header=1, usecols=(0, 1, 2, 3))
    assert (written[:, 0] == np.arange(40_000)).all()
    assert (written[:, 1] == found.epsilon).all() and written[:, 1] == pytest.approx(alone.epsilon, rel=1e-8)
    assert written[25_500, 2] == pytest.approx(alone.leverage[25_500], rel=1e-9)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("where", ["progress", "people", "refine", "writer"])
def test_an_error_in_the_middle_leaves_nothing(tmp_path, monkeypatch, where, error):
    monkeypatch.setattr(map_people, "ROWS", 64)
    seen = []

    class Breaks(pi.PosteriorSample):
        def people(self, fit, block, inside=True):
            if where == "people" and (block.X == 7.0).any():
                raise error
            return super().people(fit, block, inside)

        def refine(self, *arguments):
            if where == "refine":
                raise error
            return super().refine(*arguments)

    class Full(LossWriter):
        def write(self, columns):
            if where == "writer" and self.n_rows >= 128:
                raise error
            super().write(columns)
            seen.append(len(list(tmp_path.glob(".losses*"))))

    def progress(stage, done, total):
        if where == "progress" and stage == "map" and done > 250:
            raise error

    monkeypatch.setattr("perinstance.auditing.audit_call.LossWriter", Full)
    X, y = table(RELEASES[0], dominant=290)
    X[200, 0] = 7.0
    (tmp_path / "losses.csv").write_text("of last year")
    with pytest.raises(error):
        engine = Local(threads=2, block_bytes=32 * 20)
        pi.audit(Breaks(), X, y, engine=engine, progress=progress, out=tmp_path / "losses.csv")
    assert len(seen) >= 2 and set(seen) == {1}  # some of it was written by then
    assert [file.name for file in tmp_path.iterdir()] == ["losses.csv"]
    assert (tmp_path / "losses.csv").read_text() == "of last year"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("perinstance")]
