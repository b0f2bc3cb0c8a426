"""Where both sides have names, names decide: columns in another order change no answer, or are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

import perinstance as pi
from perinstance.disclosure import published_losses
from perinstance.errors import InvalidInput

NAMES = ("a", "b", "c")
SCALES = np.array([1.0, 10.0, 100.0])
RNG = np.random.default_rng(5)
ROWS = RNG.uniform(-1, 1, (40, 3)) * SCALES
TARGET = ROWS @ [0.3, -0.02, 0.005]
BOUNDS = dict(x_bound=SCALES.tolist(), y_bound=1.0)
RIDGE = pi.PosteriorSample(alpha=1.0, gamma=2.0)
PROMISED = pi.AdaSSP(epsilon=1.0, delta=1e-6, **BOUNDS)
ORDER = ("c", "a", "b")  # neither its own inverse, nor one that moves two columns alone


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def scanned(write, suffix: str):
    def container(frame: pd.DataFrame, folder: Path):
        path = folder / f"{'_'.join(map(str, frame.columns))}{suffix}"
        if not path.exists():
            write(arrow(frame), path)
        return pi.scan(path)

    return container


MEMORY = {
    "one matrix": lambda frame, folder: pd.DataFrame(np.ascontiguousarray(frame.to_numpy()), columns=frame.columns),
    "pandas columns": lambda frame, folder: pd.DataFrame({name: frame[name].to_numpy() for name in frame}),
    "float32": lambda frame, folder: frame.astype(np.float32),
    "mixed": lambda frame, folder: frame.assign(b=frame["b"].round().astype(int)),
    "polars": lambda frame, folder: pl.DataFrame({name: frame[name].to_numpy() for name in frame}),
    "arrow": lambda frame, folder: arrow(frame),
}
FILES = {
    "parquet": scanned(pq.write_table, ".parquet"),
    "csv": scanned(pcsv.write_csv, ".csv"),
    "feather": scanned(pf.write_feather, ".feather"),
}
EVERY = [*MEMORY, *FILES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("permuted")


def table(kind: str, order, folder: Path, target: bool = False):
    frame = pd.DataFrame(ROWS, columns=list(NAMES))[list(order)]
    if target:
        frame["t"] = TARGET
    return (MEMORY | FILES)[kind](frame, folder)


def audited(release, kind: str, order, folder: Path, **more):
    return pi.audit(release, table(kind, order, folder, target=True), target="t", **more)


def same(call, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(call(), dtype=np.float64), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_features_named_in_an_order_are_read_in_it(kind, folder):
    asked = pi.audit(PROMISED, table(kind, NAMES, folder, target=True), target="t", features=list(NAMES))
    found = audited(PROMISED, kind, ORDER, folder, features=list(NAMES))
    np.testing.assert_array_equal(found.losses, asked.losses)
    if kind in MEMORY:  # no target among the columns: all of them are features
        alone = pi.audit(PROMISED, table(kind, ORDER, folder), TARGET, features=list(NAMES))
        np.testing.assert_allclose(alone.losses, asked.losses, rtol=1e-6 if kind == "float32" else 1e-12)


def test_features_of_a_matrix_are_read_in_the_order_of_their_numbers():
    bounds = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=SCALES[[2, 0, 1]].tolist(), y_bound=1.0)
    found = pi.audit(bounds, ROWS, TARGET, features=[2, 0, 1])
    expected = pi.audit(bounds, ROWS[:, [2, 0, 1]], TARGET)
    np.testing.assert_array_equal(found.losses, expected.losses)


def test_dask_partitions_are_read_by_name():
    frame = pd.DataFrame(ROWS, columns=list(NAMES)).assign(t=TARGET)
    known = pi.audit(PROMISED, frame, target="t")
    parts = pytest.importorskip("dask.dataframe").from_pandas(frame[[*ORDER, "t"]], npartitions=2)
    np.testing.assert_allclose(pi.audit(PROMISED, parts, target="t", features=list(NAMES)).losses, known.losses)
    output = np.array([0.3, -0.02, 0.005])
    ridge = pi.audit(RIDGE, frame, target="t")
    same(lambda: ridge.realised(output, parts, target="t").losses, ridge.realised(output, frame, target="t").losses)


@pytest.mark.parametrize("kind", EVERY)
def test_a_model_file_predicts_by_name(kind, folder):
    release = pi.PosteriorSample(alpha=1.0, gamma=2.0, fit_intercept=True).fit(ROWS, TARGET)
    path = folder / "model.json"
    path.write_text(release.to_json(features=NAMES, target="t"), encoding="utf-8")
    model = pi.load_model(path)
    expected = model.predict(table(kind, NAMES, folder))
    np.testing.assert_array_equal(model.predict(table(kind, ORDER, folder)), expected)


@pytest.mark.parametrize("kind", MEMORY)
def test_a_fitted_release_predicts_and_is_audited_by_name(kind, folder):
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, **BOUNDS).fit(table("one matrix", NAMES, folder), TARGET)
    with pytest.raises(ValueError, match="same order as they were in fit"):  # scikit-learn's own refusal
        release.predict(table(kind, ORDER, folder))
    known = pi.audit(release, table(kind, NAMES, folder), TARGET)
    same(lambda: pi.audit(release, table(kind, ORDER, folder), TARGET).losses, known.losses)
    with pytest.raises(InvalidInput, match="another order"):
        release.to_json(features=["c", "b", "a"])


@pytest.mark.parametrize("kind", EVERY)
def test_what_is_asked_after_an_audit_is_asked_by_name(kind, folder):
    known = audited(RIDGE, kind, NAMES, folder)
    there, again = table(kind, NAMES, folder, target=True), table(kind, ORDER, folder, target=True)
    output = np.array([0.3, -0.02, 0.005])

    def asked(question):
        same(lambda: question(again), question(there))

    asked(lambda rows: known.realised(output, rows, target="t").losses)
    asked(lambda rows: known.deletions_together([0, 3], 10.0, rows, target="t").loss)
    asked(lambda rows: known.republished([0, 3], rows, target="t").after)
    asked(lambda rows: [one.refitted for one in known.recheck(rows, target="t")])
    asked(lambda rows: known.rows_beyond(SCALES / 2, 0.5, rows, target="t").features)
    rare = [known.rare_features(rows, target="t", count=3) for rows in (there, again)]
    assert [one.names for one in rare[0]] == [one.names for one in rare[1]]
    new = table("one matrix", ORDER, folder)
    outside = pi.audit(RIDGE, there, target="t", outsiders=(new, TARGET))
    expected = pi.audit(RIDGE, there, target="t", outsiders=(table("one matrix", NAMES, folder), TARGET))
    np.testing.assert_allclose(outside.losses, expected.losses, rtol=1e-9)


def test_raw_columns_of_steps_without_names_are_asked_by_name():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    steps = make_pipeline(FunctionTransformer(np.tanh), RIDGE)
    frame = pd.DataFrame(ROWS, columns=list(NAMES))
    known = pi.audit(steps, frame, TARGET)
    output = np.array([0.3, -0.02, 0.005])
    expected = known.realised(output, frame, TARGET).losses
    np.testing.assert_array_equal(known.realised(output, frame[["c", "a", "b"]], TARGET).losses, expected)


def test_what_was_published_of_another_order_is_refused():
    frame = pd.DataFrame(ROWS, columns=list(NAMES))
    known = pi.audit(RIDGE, frame, TARGET)
    other = pi.PosteriorSample(alpha=1.0, gamma=2.0).fit(frame[["c", "b", "a"]], TARGET)
    with pytest.raises(InvalidInput, match="another order"):
        known.realised(other, frame, TARGET)
    with pytest.raises(InvalidInput, match="another order"):
        pi.disclosure.publish_losses(known, other, frame, TARGET, epsilon=1.0, x_bound=200.0)


def test_losses_are_published_of_rows_by_name(monkeypatch):
    frame = pd.DataFrame(ROWS, columns=list(NAMES))
    known = pi.audit(RIDGE, frame, TARGET)
    release = pi.PosteriorSample(alpha=1.0, gamma=2.0).fit(frame, TARGET)
    seen = []
    monkeypatch.setattr(published_losses, "refuse_other_people", lambda audit, source, sweep: seen.append(source.names))
    pi.disclosure.publish_losses(known, release, frame[["c", "a", "b"]], TARGET, epsilon=1.0, x_bound=200.0)
    assert seen == [NAMES]


def test_a_statement_takes_a_row_by_name(folder):
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, **BOUNDS, rounds=1).fit(
        pd.DataFrame(ROWS, columns=list(NAMES)), TARGET
    )
    path = folder / "told.json"
    path.write_text(release.to_json(target="t"), encoding="utf-8")
    row = pd.Series(dict(zip(NAMES, [0.9, 0.1, 3.0], strict=True)))
    for published in (release, pi.load_model(path)):
        expected = pi.disclosure.statement(published, row.to_numpy(), 0.5).epsilon
        frame = row[list(ORDER)].to_frame().T
        for given_row in (row[list(ORDER)], row[list(ORDER)].to_dict(), frame, arrow(frame), pl.from_pandas(frame)):
            assert pi.disclosure.statement(published, given_row, 0.5).epsilon == expected
        with pytest.raises(InvalidInput, match="by their names"):
            pi.disclosure.statement(published, row.rename({"a": "z"}), 0.5)


def test_a_release_made_again_from_its_file_reads_columns_by_name(tmp_path):
    """Bounds are declared in the order of the publication; by position they were put on other columns."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (40, 3)) * [1, 3, 9], columns=["a", "b", "c"])
    y = rng.uniform(-1, 1, 40)
    release = pi.AdaSSP(epsilon=5.0, x_bound=[1.0, 3.0, 9.0], y_bound=1.0).fit(X, y)
    (tmp_path / "m.json").write_text(release.to_json(), encoding="utf-8")
    again = pi.load_model(tmp_path / "m.json").release()
    np.testing.assert_array_equal(pi.audit(again, X[["c", "b", "a"]], y).losses, pi.audit(again, X, y).losses)
