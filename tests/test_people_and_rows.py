"""Where people have several rows, what is said of anybody, shown or published is about people, and all their rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import PoissonRegressor

import perinstance as pi
from perinstance import analysis, report
from perinstance.cli.audit_command import worst_cases
from perinstance.cli.terminal import Told, audit_record
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel
from perinstance.pairs import GaussianShift


@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("k", [None, 1, 3])
def test_anybody_brings_as_many_rows_as_are_used(statistic, k):
    """Others at -1 and a person with k rows at 1, by hand; what is calibrated keeps what was asked for."""
    release = pi.NoisyMean(scale=2.0, noise="gaussian", statistic=statistic, rows_per_person=k)
    n, m = 10, k or 1
    move = m if statistic == "sum" else (m - n) / (n + m) + 1.0
    found = analysis.worst_case_dp(release, 1e-6, x_bound=1.0, n=n, d=1)
    assert found.epsilon == pytest.approx(GaussianShift([move / 2.0]).epsilon(1e-6)[0], rel=1e-9)
    assert (f"at most {m} rows used" if m > 1 else "one row") in found.assumptions[0]
    others, theirs = np.full((n, 1), -1.0), np.ones((m, 1))
    ids = [*range(n), *[99] * m]
    audit = pi.audit(release, np.vstack([others, theirs]), ids=ids)
    truth = audit.losses[-1]
    assert found.epsilon == pytest.approx(truth, rel=1e-9)
    alone = pi.audit(release, others, ids=ids[:n])
    assert alone.everyone(1.0).epsilon == pytest.approx(truth, rel=1e-9)
    assert audit.worst_case_dp(1.0).epsilon == pytest.approx(truth, rel=1e-9)
    scale = pi.calibrate(release, epsilon=1.0, x_bound=1.0, y_bound=1.0, people=n, n_features=1).value
    assert GaussianShift([move / scale]).epsilon(1e-6)[0] <= 1.0


@pytest.mark.parametrize("release", [pi.NoisyMean(rows_per_person=1), pi.SlowScalingSum(rows_per_person=1)])
def test_people_outside_a_table_whose_rows_are_left_out(release):
    """Beside 100 rows of which one is used, somebody who joins moves far more than beside 100."""
    table, ids = np.full((100, 1), 0.5), ["a"] * 100
    with pytest.raises(RefusedModel, match="more rows than rows_per_person"):
        pi.audit(release, table, ids=ids, outsiders=(np.ones((1, 1)), None, ["b"]))
    used = pi.audit(release, table[:1], ids=ids[:1], outsiders=(np.ones((1, 1)), None, ["b"]))
    assert np.isfinite(used.losses[0])


def visits():
    """20 people with 4 rows each."""
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, (80, 2)), rng.uniform(-1, 1, 80), np.repeat(np.arange(20), 4)


def test_a_report_does_not_hold_people_to_what_is_promised_to_rows():
    """The promise of one row is no bound of four rows' loss, which was shown as if it were."""
    X, y, ids = visits()
    audit = pi.audit(pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0), X, y, ids=ids)
    assert audit.losses.max() > 3.0
    page = report.render(audit, dp=1.0, everyone=0.5)
    assert "the most exposed person lost 3.1" in page and "holds for one row and is left out" in page
    assert "promises everybody" not in page and "Worst-case statement" not in page and "Anybody within" not in page
    assert "20 people, 80 rows" in audit._repr_html_()
    assert worst_cases(audit, 1.0, 1.0) == (None, None)
    record = audit_record(audit, Told())
    assert record["neighbours"] == "add or remove all rows of one person" and (record["people"], record["rows"]) == (
        20,
        80,
    )
    declared = pi.audit(pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0, rows_per_person=4), X, y, ids=ids)
    assert "promises everybody at most 1" in report.render(declared)
    with pytest.raises(RefusedModel, match="people with several rows"):
        pi.disclosure.publish_losses(audit, audit.release, X, y, ids=ids, epsilon=1.0)


def test_people_beyond_bounds_are_counted_once():
    X, y, ids = visits()
    X[:3], y[2:6] = 2.0, 5.0
    audit = pi.audit(pi.PosteriorSample(), X, y, ids=ids)
    found = audit.rows_beyond(1.0, 2.0, X, y, ids=ids)
    assert (found.people, found.features, found.targets, found.either) == (20, 1, 2, 2)


def test_a_filter_admits_rows_and_refuses_people_with_several(tmp_path):
    """Positions of people were taken for those of rows: who could not pay was published, and others left out."""
    X, _, ids = visits()
    ledger = pi.Ledger(tmp_path / "ledger", filter=pi.ledger.RenyiBudget(8, 1.0))
    release = pi.NoisyMean(statistic="sum", noise="gaussian", scale=5.0)
    with pytest.raises(InvalidTable, match="20 people have several rows"):
        ledger.admit(release, X, key="sums", ids=ids)
    assert not ledger.releases()
    ledger.admit(release, X[::4], key="sums", ids=ids[::4])
    assert len(ledger.totals()) == 20


def test_labels_of_rows_are_matched_by_their_index():
    """Labels in another order than the rows were taken by position."""
    X, y, ids = visits()
    frame = pd.DataFrame(X).rename(columns=str).assign(ward=np.where(ids < 5, "a", "b"))
    order = np.random.default_rng(1).permutation(80)
    audit = pi.audit(pi.PosteriorSample(), frame.drop(columns="ward").iloc[order], y[order], ids=ids[order])
    assert audit.by(frame["ward"])["people"].tolist() == [5, 15]
    assert audit.by({"ward": frame["ward"]})["people"].tolist() == [5, 15]
    with pytest.raises(InvalidTable, match="different pandas indexes"):
        audit.by(frame["ward"].set_axis([f"r{k}" for k in range(80)]))


def test_refits_on_a_cluster_leave_out_whom_they_are_about(tmp_path):
    """Each partition counted its people from zero, and others' rows were left out."""
    dd = pytest.importorskip("dask.dataframe")
    X, y, ids = visits()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.abs(y).round(), who=ids).sample(frac=1.0, random_state=1)
    release = pi.OutputPerturbation(PoissonRegressor(), scale=0.1)
    memory = pi.audit(release, frame, target="y", ids="who", method="exact").to_frame().set_index("id")["epsilon"]
    parts = dd.from_pandas(frame, npartitions=3)
    found = pi.audit(release, parts, target="y", ids="who", method="exact").to_frame().set_index("id")["epsilon"]
    np.testing.assert_allclose(found.loc[memory.index], memory, rtol=1e-7)
    scattered = pi.audit(pi.PosteriorSample(), parts, target="y", ids="who", out=tmp_path / "losses")
    assert (len(scattered), scattered.n_rows) == (20, 80) and "Every row is a person" not in report.render(scattered)
    with pytest.raises(InvalidInput, match="people have several rows"):
        scattered.by("who")


def test_equal_people_whom_rounding_leaves_open_are_answered_once(monkeypatch):
    """A column of ones that is fitted exactly: each of them took an exact sum of the table's."""
    from perinstance.analysis import group_privacy

    asked, ask = [], group_privacy.group_pairs
    monkeypatch.setattr(group_privacy, "group_pairs", lambda *args, **how: asked.append(1) or ask(*args, **how))
    found = pi.audit(pi.OutputPerturbation(), np.ones((120, 2)), np.ones(120), ids=np.repeat(np.arange(40), 3))
    assert len(asked) <= 2 and (found.losses == found.losses[0]).all() and np.isfinite(found.losses[0])
