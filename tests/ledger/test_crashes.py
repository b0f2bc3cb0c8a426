"""Killed, crowded and on a disk that fails: what was committed stays, what was not is not there."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import perinstance as pi
from perinstance.errors import LedgerConflict, LedgerTrouble, PerinstanceError
from perinstance.ledger.files import sorted_pairs
from perinstance.pairs import GaussianShift
from tests.forked import forked
from tests.ledger import killed_writer, many_writers


@pytest.mark.parametrize("kills", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, kills):
    """``kill -9``: no commit lost, no half release, no publication without a charge (asserted in the script)."""
    code, out, err = forked(killed_writer.main, tmp_path, kills, 7)
    assert code == 0 and f"{kills} kills" in out, err


@pytest.mark.parametrize("writers", [6, pytest.param(32, marks=pytest.mark.slow)])
def test_many_writers_at_once(tmp_path, writers):
    place = tmp_path / "ledger"
    code, told, err = forked(many_writers.main, writers, str(place))
    assert code == 0, err
    assert sorted(told.split()) == ["mine"] + ["theirs"] * (writers - 1)
    ledger = pi.Ledger(place)
    assert len(ledger.releases()) == 5 * writers + 1 and ledger.verify().ok
    assert not ledger.verify().leftovers


def test_threads_may_share_a_ledger(tmp_path):
    ledger = pi.Ledger(tmp_path / "l")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: ledger.charge_pairs(["a"], GaussianShift([0.1 + k]), key=f"{k}"), range(24)))
    assert len(ledger.releases()) == 24 and ledger.verify().ok


@pytest.mark.parametrize("call", ["open", "write_table", "fsync", "replace", "fchmod"])
def test_a_disk_that_fails_at_each_write(tmp_path, monkeypatch, call, number=errno.ENOSPC):
    """Whichever system call fails, whenever: the ledger is as before, and the next try works."""
    ledger = pi.Ledger(tmp_path / "l")
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="before")
    failed = 0
    for at in range(1, 40):
        with monkeypatch.context() as patch, _failing(patch, call, at, number) as calls:
            try:
                ledger.charge_pairs(["a", "b"], GaussianShift([1.0, 2.0]), key="next")
            except (PerinstanceError, OSError) as error:
                failed += 1
                assert not isinstance(error, LedgerConflict)
            else:
                assert calls() < at, "the failure was swallowed"
                break
        assert [release.key for release in ledger.releases()] == ["before"]
        assert ledger.verify().ok and len(ledger.totals()) == 1
    assert [release.key for release in ledger.releases()] == ["before", "next"]
    assert ledger.verify().ok and failed


class _failing:  # noqa: N801 - reads as a sentence
    def __init__(self, patch, call, at, number):
        self.count, self.at, self.number = 0, at, number
        where = sorted_pairs.pq.ParquetWriter if call == "write_table" else os
        real = getattr(where, call)
        patch.setattr(where, call, lambda *a, **k: self.step(lambda: real(*a, **k)))

    def step(self, real):
        self.count += 1
        if self.count == self.at:
            raise OSError(self.number, os.strerror(self.number))
        return real()

    def __enter__(self):
        return lambda: self.count

    def __exit__(self, *_):
        pass


def test_a_log_that_is_full_or_read_only_says_so(tmp_path, monkeypatch):
    import sqlite3

    ledger = pi.Ledger(tmp_path / "l")
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="before")
    real = sqlite3.connect

    def small(*arguments, **options):
        connection = real(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 1")  # the smallest that holds what is there
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(LedgerTrouble, match="disk is full"):
        for k in range(200):
            ledger.charge_pairs(["a"], GaussianShift([1.0 + k]), key=f"{k}", note="x" * 4000)
    monkeypatch.setattr(sqlite3, "connect", lambda path, **o: real(f"file:{path}?mode=ro", uri=True, **o))
    with pytest.raises(LedgerTrouble, match="read-only"):
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="other")
    monkeypatch.setattr(sqlite3, "connect", real)
    assert ledger.verify().ok and ledger.releases()[0].key == "before"
    (tmp_path / "l" / "log.sqlite").write_bytes(b"this is no database, whatever its name says" * 100)
    for name in ("log.sqlite-wal", "log.sqlite-shm"):
        (tmp_path / "l" / name).unlink(missing_ok=True)
    with pytest.raises(LedgerTrouble, match="damaged"):
        ledger.releases()


def test_a_filter_admits_while_the_budget_lasts(tmp_path):
    rng = np.random.default_rng(0)
    X, ids = rng.uniform(0.0, 1.0, (50, 1)), [f"id{i}" for i in range(50)]
    budget = pi.ledger.GaussianBudget(distance=0.5)
    ledger = pi.Ledger(tmp_path / "l", filter=budget)
    left = []
    for k in range(60):
        fitted = ledger.admit(pi.NoisyMean(scale=5.0, noise="gaussian", statistic="sum"), X, ids=ids, key=f"{k}")
        assert np.isfinite(fitted.value_).all() and not hasattr(fitted, "admitted_")
        left.append(ledger.releases()[-1].people)
    spent = np.minimum(np.floor(0.25 / (X[:, 0] / 5.0) ** 2), 60)  # how often each row may be used
    assert left == [int((spent > k).sum()) for k in range(60)] and left[-1] < left[0] == 50
    totals = ledger.totals(1e-6)
    assert totals.losses.max() <= budget.epsilon(1e-6)
    with pytest.raises(LedgerConflict, match="admit"):
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="beside")
    with pytest.raises(PerinstanceError, match="other rows"):
        ledger.admit(pi.PosteriorSample(alpha=1.0), X, X[:, 0], ids=ids, key="posterior")
    ops = pi.AdaOPS(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
    with pytest.raises(PerinstanceError, match="bounds no Renyi divergence"):
        ledger.admit(ops, X, X[:, 0], ids=ids, key="adaops")
    with pytest.raises(LedgerConflict, match="another filter"):
        pi.Ledger(tmp_path / "l", filter=pi.ledger.RenyiBudget(8.0, 1.0))
    assert pi.Ledger(tmp_path / "l").filter == budget


def test_an_adaptive_estimator_is_admitted_too(tmp_path):
    rng = np.random.default_rng(0)
    X, ids = rng.standard_normal((80, 2)) / 3, [f"id{i}" for i in range(80)]
    ledger = pi.Ledger(tmp_path / "l", filter=pi.ledger.RenyiBudget(order=8.0, budget=0.6))
    for k in range(4):
        ledger.admit(pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0), X, X[:, 0], ids=ids, key=f"{k}")
    people = [release.people for release in ledger.releases()]
    assert people[0] == 80 and people[-1] < 80
    assert ledger.totals(1e-6).losses.max() <= ledger.filter.epsilon(1e-6)


def test_what_is_admitted_is_what_was_priced(tmp_path):
    """Rows by a recipe, classes in words, files, and more people than a kernel model takes."""
    budget = pi.ledger.GaussianBudget(distance=3.0)
    ledger = pi.Ledger(tmp_path / "l", filter=budget)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(30)], "age": rng.uniform(0.0, 100.0, 30)})
    recipe = pi.Recipe({"age": {"range": [0, 100]}})
    total = pi.NoisyMean(scale=1.0, noise="gaussian", statistic="sum")
    fitted = ledger.admit(total, frame, ids="id", recipe=recipe, key="recipe")
    assert abs(fitted.value_[0] - recipe.transform(frame[["age"]]).sum()) < 10.0  # of 100 times that, as it is
    frame.to_csv(tmp_path / "people.csv", index=False)
    fitted = ledger.admit(
        pi.NoisyMean(100.0, "gaussian", "sum"), pi.scan(tmp_path / "people.csv"), ids="id", key="file"
    )
    assert abs(fitted.value_[0] - frame.age.sum()) < 1000.0
    frame["label"] = np.where(frame.age > 50, "yes", "no")
    frame["age"] /= 100.0
    for classes in (("no", "yes"), ("yes", "no")):
        steps = pi.NoisyDescent(LogisticRegression(), 40, 0.05, 1.0, noise=20.0, classes=classes)
        asked = {"target": "label", "ids": "id", "key": classes[0]}
        seen = []
        steps.fit = lambda X, y, seen=seen: seen.append((X, y))
        ledger.admit(steps, frame, **asked)
        (X, y), who = seen[0], ledger.releases()[-1].people
        assert len(y) == who == 30 and y.tolist() == frame.label.tolist() and (X[:, 0] == frame.age).all()
    with pytest.raises(PerinstanceError, match="admit takes target, ids, features, recipe, got outsiders"):
        ledger.admit(total, frame[["age"]], ids=list(frame.id), key="other", outsiders=(np.ones((1, 1)), None))
    many = np.full((20_001, 1), 1e-3)
    assert ledger.admit(total, many, ids=range(20_001), key="many").value_.shape == (1,)
