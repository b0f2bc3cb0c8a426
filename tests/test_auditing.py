"""audit() and Audit: flavours, indices, outsiders, statistics, errors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.engines import Local
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.releases.base.release import mechanism_of


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=300)


RELEASES = [
    pi.PosteriorSample(alpha=1.0, gamma=0.5),
    pi.PosteriorSample(alpha=0.0, gamma=0.5, fit_intercept=True),
    pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.1),
    pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=3.0),
]


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_streaming_equals_in_memory(people, release):
    X, y = people
    whole = pi.audit(release, X, y)
    for threads, size in ((1, 1000), (2, 5000)):
        parts = pi.audit(release, X, y, engine=Local(threads=threads, block_bytes=size))
        for name in ("epsilon", "leverage", "residual"):
            assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-10)
        again = pi.audit(release, X, y, engine=Local(threads=3 - threads, block_bytes=size))
        assert (again.epsilon == parts.epsilon).all()  # threads never change a bit


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_a_dominant_person_is_found_in_any_block(people, release):
    X, y = people[0].copy(), people[1]
    X[211] *= 1e5
    whole = pi.audit(release, X, y)
    parts = pi.audit(release, X, y, engine=Local(block_bytes=500))
    assert whole.health.refined == parts.health.refined == 1
    assert parts.leverage == pytest.approx(whole.leverage, rel=1e-9)
    assert parts.epsilon == pytest.approx(whole.epsilon, rel=1e-8)
    assert len(parts.pairs) == 300
    assert parts.pairs.epsilon(1e-6) == pytest.approx(parts.epsilon, rel=1e-12)


def test_an_insider_is_an_outsider_of_the_others(people):
    X, y = people
    for release in RELEASES:
        inside = pi.audit(release, X, y)
        outside = pi.audit(release, X[1:], y[1:], outsiders=(X[:1], y[:1], ["first"]))
        assert outside.epsilon[0] == pytest.approx(inside.epsilon[0], rel=1e-9)
        assert outside.leverage[0] == pytest.approx(inside.leverage[0], rel=1e-10)
        assert outside.residual[0] == pytest.approx(inside.residual[0], rel=1e-10)
        assert outside.ids.to_pylist() == ["first"]
        assert "outside" in repr(outside)


def test_pandas_index_and_ids_are_kept(people):
    pd = pytest.importorskip("pandas")
    X, y = people
    index = pd.Index([f"row {i}" for i in range(300)], name="who")
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=index).assign(
        target=y, person=[f"{i:03}" for i in range(300)]
    )
    answer = pi.audit(RELEASES[0], frame, target="target", ids="person")
    assert answer.epsilon.index.equals(index) and answer.kind.index.equals(index)
    table = answer.to_frame()
    assert list(table.columns) == ["id", "epsilon", "leverage", "residual", "kind"]
    assert table["id"].iloc[7] == "007"
    plain = pi.audit(RELEASES[0], X, y)
    assert answer.epsilon.to_numpy() == pytest.approx(plain.epsilon, rel=1e-12)
    groups = answer.by(frame["a"] > 0)
    assert groups["people"].sum() == 300


def test_polars_and_pyarrow_come_back_as_such(people):
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    X, y = people
    plain = pi.audit(RELEASES[0], X, y)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "t": y}
    polars = pi.audit(RELEASES[0], pl.DataFrame(columns), target="t")
    assert isinstance(polars.epsilon, pl.Series) and isinstance(polars.to_frame(), pl.DataFrame)
    assert isinstance(polars.by(["x", "y"] * 150), pl.DataFrame)
    assert polars.epsilon.to_numpy() == pytest.approx(plain.epsilon, rel=1e-12)
    arrow = pi.audit(RELEASES[0], pa.table(columns), target="t")
    assert isinstance(arrow.epsilon, pa.ChunkedArray) and isinstance(arrow.to_frame(), pa.Table)
    assert arrow.epsilon.to_numpy() == pytest.approx(plain.epsilon, rel=1e-12)


def test_statistics_by_hand(people):
    answer = pi.audit(RELEASES[0], *people)
    assert repr(answer) == "Audit(300 people in the data, PosteriorSample, delta=1e-06)"  # no value
    losses = np.sort(answer.epsilon)
    assert answer.moments(4) == pytest.approx([np.mean(losses**k) for k in (1, 2, 3, 4)])
    assert (
        answer.quantile(0.5) == losses[149] and answer.quantile(1.0) == losses[-1] and answer.quantile(0) == losses[0]
    )
    assert list(answer.quantile([0.95, 1])) == [losses[284], losses[-1]]
    assert answer.share_above(losses[99]) == pytest.approx(200 / 300)
    assert answer.share_above([0.0, losses[-1]]) == pytest.approx([1.0, 0.0])
    summary = answer.summary()
    assert (summary.people, summary.kind, summary.infinite) == (300, "exact", 0)
    assert summary.maximum == losses[-1] and summary.mean == pytest.approx(losses.mean())
    assert "300 people at delta = 1e-06 (exact)" in str(summary)
    table = answer.by(np.arange(300) % 3)
    for k in range(3):
        of = answer.epsilon[np.arange(300) % 3 == k]
        assert table["mean"][k] == pytest.approx(of.mean()) and table["maximum"][k] == of.max()


def test_health_tells_how_the_numbers_were_made(people):
    X, y = people
    health = pi.audit(RELEASES[0], X, y).health
    assert (health.n_people, health.n_features, health.factorisation, health.rank) == (300, 3, "cholesky", 3)
    assert 1 <= health.condition < 2 and 0 < health.error < 1e-13 and health.refined == 0
    assert health.largest_leverage == pytest.approx(
        np.max(pi.audit(RELEASES[0], X, y).leverage / (1 + pi.audit(RELEASES[0], X, y).leverage))
    )


def test_progress_is_told(people):
    seen = []
    pi.audit(RELEASES[0], *people, progress=lambda *told: seen.append(told), engine=Local(threads=1, block_bytes=4000))
    assert seen[-1] == ("map", 300, 300) and ("fold", 300, 300) in seen and len(seen) > 4


@pytest.mark.parametrize("delta", [0, 1, -0.1, np.nan, "small", None, [1e-6], True])
def test_delta_is_validated(people, delta):
    with pytest.raises(InvalidInput, match="delta must lie in"):
        pi.audit(RELEASES[0], *people, delta=delta)


def test_what_cannot_be_audited_is_refused(people):
    X, y = people
    with pytest.raises(InvalidInput, match="a release is audited"):
        pi.audit(Ridge(), X, y)
    with pytest.raises(InvalidInput, match=r"the class PosteriorSample; make one: PosteriorSample\(\)"):
        pi.audit(pi.PosteriorSample, X, y)
    with pytest.raises(InvalidInput, match="the class PosteriorSample"):
        mechanism_of(pi.PosteriorSample)
    with pytest.raises(InvalidInput, match="method must be one of"):
        pi.audit(RELEASES[0], X, y, method="guess")
    with pytest.raises(InvalidTable, match="outsiders have 2"):
        pi.audit(RELEASES[0], X, y, outsiders=(X[:, :2], y))
    with pytest.raises(InvalidInput, match="outsiders must be"):
        pi.audit(RELEASES[0], X, y, outsiders=X)
    with pytest.raises(InvalidTable):
        pi.audit(RELEASES[0], X)
    with pytest.raises(InvalidTable, match="no rows"):
        pi.audit(RELEASES[0], X[:0], y[:0])
    with pytest.raises(InvalidTable, match="has no target"):
        pi.audit(pi.NoisyMean(), X, y)
    answer = pi.audit(RELEASES[0], X, y)
    for call in (
        lambda: answer.quantile(2),
        lambda: answer.share_above(np.nan),
        lambda: answer.moments(0),
        lambda: answer.by([1]),
    ):
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_missing_value_is_named_by_row_and_column_only(people, bad):
    X, y = people[0].copy(), people[1]
    X[41, 2] = bad
    with pytest.raises(InvalidTable) as caught:
        pi.audit(RELEASES[2], X, y)
    assert "41" in str(caught.value) and "2" in str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "npy"])
@pytest.mark.parametrize("columns", [1, 3])
def test_a_mean_of_a_file(tmp_path, kind, columns):
    """There is no target; the rows are never all in memory."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, columns)).round(3)
    table = pa.table({f"x{j}": X[:, j] for j in range(columns)})
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        pa_csv.write_csv(table, path)
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        np.save(path, X)
    for release in (pi.NoisyMean(scale=2.0), pi.NoisyMean(scale=2.0, noise="gaussian", statistic="sum")):
        memory = pi.audit(release, X)
        file = pi.audit(release, pi.scan(path), engine=Local(threads=2, block_bytes=800))
        assert file.losses == pytest.approx(memory.losses, rel=1e-12)
        assert len(file) == 700
    with pytest.raises(InvalidTable, match="has no target"):
        pi.audit(pi.NoisyMean(), pi.scan(path), target="x0")
    with pytest.raises(InvalidTable, match="give either y or target"):
        pi.audit(pi.PosteriorSample(), pi.scan(path))


def test_a_mean_of_a_file_with_ids(tmp_path):
    table = pa.table({"who": ["007", "b", "c"], "a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 5.0], "note": ["x", "y", "z"]})
    pq.write_table(table, tmp_path / "t.parquet")
    found = pi.audit(pi.NoisyMean(), pi.scan(tmp_path / "t.parquet"), ids="who", features=["b"])
    assert found.ids.to_pylist() == ["007", "b", "c"]
    assert found.losses == pytest.approx(pi.audit(pi.NoisyMean(), [0.0, 1.0, 5.0]).losses, rel=1e-12)
    with pytest.raises(InvalidTable, match="text"):
        pi.audit(pi.NoisyMean(), pi.scan(tmp_path / "t.parquet"), ids="who")


def test_one_person_alone():
    for release in RELEASES[:1]:
        answer = pi.audit(release, [[2.0]], [3.0])
        assert answer.leverage[0] == pytest.approx(4.0) and answer.residual[0] == pytest.approx(3.0)
    assert pi.audit(pi.PosteriorSample(0.0), [[2.0]], [3.0]).epsilon[0] == np.inf
    assert pi.audit(pi.NoisyMean(), [7.0]).epsilon[0] == np.inf  # without the person there is no mean
    assert pi.audit(pi.NoisyMean(statistic="sum"), [7.0]).epsilon[0] == pytest.approx(7.0, abs=1e-5)


def test_another_delta_needs_no_second_audit_and_the_most_exposed_come_first():
    X, y = np.random.default_rng(1).normal(size=(300, 3)), np.random.default_rng(2).normal(size=300)
    ids = [f"p{k}" for k in range(300)]
    release = pi.PosteriorSample(alpha=1.0, gamma=1.0)
    answer = pi.audit(release, X, y, ids=ids, delta=1e-6)
    np.testing.assert_array_equal(answer.at(1e-3).losses, pi.audit(release, X, y, delta=1e-3).losses)
    assert answer.at(1e-3).delta == 1e-3 and (answer.at(1e-3).losses < answer.losses).all()
    top = answer.most_exposed(4)
    order = np.argsort(-answer.losses)[:4]
    assert list(top["person"]) == [ids[k] for k in order] and list(top["epsilon"]) == answer.losses[order].tolist()
    assert len(answer.most_exposed(1000)) == 300
    assert list(pi.audit(release, X, y).most_exposed(2)["person"]) == order[:2].tolist()
    for bad in (lambda: answer.at(2.0), lambda: answer.at("x"), lambda: answer.most_exposed(0)):
        with pytest.raises(InvalidInput):
            bad()


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "pyarrow"])
def test_several_groupings_stand_below_each_other(kind):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    labels = {"ward": ["a", "b"] * 10, "sex": ["f"] * 5 + ["m"] * 15}
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    given = {"mapping": lambda: labels, "pandas": lambda: pd.DataFrame(labels), "polars": lambda: pl.DataFrame(labels),
             "pyarrow": lambda: pa.table(labels)}[kind]()  # fmt: skip
    audit = pi.audit(pi.PosteriorSample(), X, y, ids=[f"p{i}" for i in range(20)])
    found = audit.by(given)
    assert list(found["by"]) == ["ward", "ward", "sex", "sex"] and list(found["group"]) == ["a", "b", "f", "m"]
    alone = audit.by(labels["sex"])
    assert list(found["maximum"])[2:] == list(alone["maximum"]) and list(found["people"])[2:] == [5, 15]
    assert {one.id for one in audit.rare_features(X, y, count=3)} <= {f"p{i}" for i in range(20)}
    for wrong in ({}, {"ward": ["a"]}):
        with pytest.raises(pi.errors.InvalidInput):
            audit.by(wrong)


def test_equal_rows_that_are_left_open_are_answered_once(monkeypatch):
    """A column of ones that is fitted exactly leaves everybody open, and all of them are one row."""
    asked = []
    refine = pi.OutputPerturbation.refine

    def counted(self, fit, sweep, block, inside=True):
        asked.append(len(block))
        return refine(self, fit, sweep, block, inside)

    monkeypatch.setattr(pi.OutputPerturbation, "refine", counted)
    X, y = np.ones((500, 1)), np.ones(500)
    y[7] = 2.0
    found = pi.audit(pi.OutputPerturbation(scale=0.1), X, y)
    assert found.refined == 0 or max(asked) <= 2
    exact = pi.audit(pi.OutputPerturbation(scale=0.1), X, np.ones(500))
    assert exact.refined == 500 and asked[-1] == 1
    np.testing.assert_array_equal(exact.losses, 0.0)
