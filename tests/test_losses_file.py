"""audit(out=...): a private file of everybody's losses, which is there when it is whole, and not before."""

from __future__ import annotations

import stat

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import perinstance as pi
from perinstance.auditing import audit_call
from perinstance.data import LossWriter
from perinstance.engines import Local

POSTERIOR = pi.PosteriorSample(alpha=1.0, gamma=0.5)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(330, 3))
X[150] *= 1e3
FAR = np.where(np.arange(330)[:, None] == 150, 1e2 * X, X)  # that row is answered after the map
Y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=330)
IDS = [f"={k}" if k % 50 == 49 else f"{k:04d}" for k in range(330)]


def assert_says(path, found, names):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = pq.read_table(path).to_pandas() if path.suffix == ".parquet" else pd.read_csv(path, dtype={"id": str})
    columns = found.columns()
    assert list(written) == [*(["row"] if names is None else []), *columns]
    if names is None:
        assert written["row"].tolist() == list(range(len(found)))
    else:  # a spreadsheet would take a text that begins with = for a formula
        assert written["id"].str.removeprefix("'").tolist() == list(names)
    for name in ("epsilon", "leverage", "residual", "kind"):
        assert (written[name].to_numpy() == columns[name]).all()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("release", [POSTERIOR, pi.OutputPerturbation(LogisticRegression(), scale=0.1)])
def test_the_file_says_what_the_audit_says(tmp_path, monkeypatch, release, suffix):
    rows_of, y = (FAR, Y) if release is POSTERIOR else (X, (Y > 0).astype(float))
    engine, path = Local(threads=2, block_bytes=2000), tmp_path / f"losses.{suffix}"
    for rows, names in ((32, IDS), (100, None), (1 << 17, IDS)):
        monkeypatch.setattr(audit_call, "ROWS", rows)
        found = pi.audit(release, rows_of, y, ids=names, engine=engine, out=path)
        assert found.health.refined > 0
        assert_says(path, found, names)


def test_files_and_outsiders(tmp_path):
    pa_csv.write_csv(pa.table({"name": IDS, **dict(zip("abc", X.T, strict=True)), "y": Y}), tmp_path / "table.csv")
    path = tmp_path / "losses.csv"
    inside = pi.audit(POSTERIOR, pi.scan(tmp_path / "table.csv"), target="y", ids="name", out=path)
    assert_says(path, inside, IDS)
    outside = pi.audit(POSTERIOR, X, Y, outsiders=(X[:90], Y[:90], IDS[:90]), out=path)
    assert_says(path, outside, IDS[:90])


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("where", ["people", "writer"])
def test_an_error_in_the_middle_leaves_what_was_there(tmp_path, monkeypatch, where, error):
    class Breaks(pi.PosteriorSample):
        def people(self, fit, block, inside=True):
            if where == "people" and (X[200] == block.X).all(axis=1).any():
                raise error
            return super().people(fit, block, inside)

    drafts = []
    write = LossWriter.write

    def full(writer, columns):
        drafts.extend(stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob(".losses*"))
        if writer.n_rows >= 128:
            raise error
        write(writer, columns)

    monkeypatch.setattr(audit_call, "ROWS", 64)
    monkeypatch.setattr(LossWriter, "write", full)
    (tmp_path / "losses.csv").write_text("of last year")
    with pytest.raises(error):
        pi.audit(Breaks(), X, Y, engine=Local(threads=2, block_bytes=640), out=tmp_path / "losses.csv")
    assert drafts == ([0o600] * 3 if where == "writer" else [])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("losses.csv", "of last year")]
