"""Charges and totals, against a dictionary of pairs that is composed person by person."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, LedgerConflict
from perinstance.ledger import charging
from perinstance.ledger.files import sorted_pairs
from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    PosteriorSamplePair,
    SampledGaussian,
    StudentShift,
    compose,
)
from perinstance.pairs.composition import pairs_of_promise
from perinstance.training import Watch

DELTA = 1e-6


@pytest.fixture
def ledger(tmp_path):
    return pi.Ledger(tmp_path / "ledger")


def some_pairs(kind: str, n: int, rng):
    a, b = rng.uniform(0.01, 0.5, n), rng.uniform(0.1, 2.0, n)
    return {
        "shift": lambda: GaussianShift(a, rng.choice(["exact", "upper"], n)),
        "laplace": lambda: LaplaceShift(a),
        "posterior": lambda: PosteriorSamplePair(a, b),
        "objective": lambda: ObjectivePair(a, b, a + 0.1, a + 0.1),
        "gaussian": lambda: GeneralGaussian(np.c_[a, a / 2], np.c_[b, -b]),
        "composed": lambda: PosteriorSamplePair(a, b) + LaplaceShift(a),
        "student": lambda: StudentShift(a, np.full(n, 4.0), np.full(n, 2.0)),
        "promise": lambda: pairs_of_promise(a, 1e-9, n),
    }[kind]()


@pytest.mark.parametrize(
    "kinds",
    [
        ["shift"] * 3,
        ["shift", "posterior", "laplace"],
        ["objective", "gaussian", "composed"],
        ["shift", "promise", "posterior"],
        ["student", "shift", "shift"],
    ],
    ids="-".join,
)
def test_totals_are_compositions_person_by_person(ledger, kinds, monkeypatch):
    monkeypatch.setattr(sorted_pairs, "ROWS", 7)  # many row groups, whose borders differ from file to file
    rng = np.random.default_rng(1)
    people = [f"p{i}" for i in range(9 if "student" in kinds else 60)]  # some 20 ms for each of their losses
    books: dict[str, list] = {}
    for k, kind in enumerate(kinds):
        there = rng.permutation(people)[: rng.integers(len(people) // 3, len(people))]
        pairs = some_pairs(kind, len(there), rng)
        ledger.charge_pairs(list(there), pairs, key=f"{k}", fixed_in_advance=True)
        for i, name in enumerate(there):
            books.setdefault(str(name), []).append(pairs[i : i + 1])
    totals = ledger.totals(DELTA)
    assert totals.ids.to_pylist() == sorted(books)
    for name, loss, kind, count in zip(
        totals.ids.to_pylist(), totals.losses, totals.columns()["kind"], totals.counts, strict=True
    ):
        mine = books[name]
        assert count == len(mine)
        if any(isinstance(pair, StudentShift) for pair in mine) and len(mine) > 1:
            alone = max(float(pair.epsilon(DELTA)[0]) for pair in mine)
            assert alone <= loss and kind == "upper"
            continue
        whole = compose(mine) if len(mine) > 1 else mine[0]
        assert loss == pytest.approx(float(whole.epsilon(DELTA)[0]), rel=1e-9)
        assert kind == whole.kind
        history = ledger.person(name, DELTA)
        assert history.epsilon == pytest.approx(loss, rel=1e-9) and len(history.entries) == count
        assert history.kind == kind
    running = ledger.totals(DELTA, method="upper")
    assert running.ids.to_pylist() == totals.ids.to_pylist()
    assert (running.losses >= totals.losses * (1 - 1e-9)).all() or "student" in kinds
    assert set(running.columns()["kind"]) <= {"upper", "estimate"}


def test_ids_that_several_releases_share_are_read_once(ledger, monkeypatch):
    monkeypatch.setattr(sorted_pairs, "ROWS", 7)
    people, read, ids = [f"p{i:02d}" for i in range(20)], [], ChargeFile.ids
    for k in range(3):
        ledger.charge_pairs(people, GaussianShift(np.full(20, k + 1.0)), key=f"{k}")
    monkeypatch.setattr(ChargeFile, "ids", lambda file, group: read.append(group) or ids(file, group))
    assert len(ledger.totals()) == 20 and read == [0, 1, 2]


def test_an_audit_is_charged_with_what_it_found(ledger):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    ids = [f"id{i}" for i in range(40)]
    release = pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=2.0)
    audit = pi.audit(release, X, y, ids=ids, delta=DELTA)
    charged = ledger.charge(audit, key="January", note="a first model")
    assert (charged.people, charged.state, charged.kind) == (40, "committed", "exact")
    assert "Ridge" in charged.mechanism
    totals = ledger.totals(DELTA)
    assert dict(zip(totals.ids.to_pylist(), totals.losses, strict=True)) == dict(zip(ids, audit.losses, strict=True))
    assert totals.summary().maximum == audit.summary().maximum
    assert list(totals.by({"id0": "a", "id1": "a"})["group"]) == ["a", "missing"]
    assert totals.to_frame().shape == (40, 4)


def test_what_cannot_be_charged_says_so(ledger):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 2)), rng.standard_normal(10)
    release = pi.PosteriorSample(alpha=1.0)
    with pytest.raises(InvalidInput, match="pass ids="):
        ledger.charge(pi.audit(release, X, y), key="k")
    outside = pi.audit(release, X, y, outsiders=(X, y, [str(i) for i in range(10)]))
    with pytest.raises(InvalidInput, match="outside"):
        ledger.charge(outside, key="k")
    with pytest.raises(InvalidInput, match="ids repeat: 1 person"):
        ledger.charge_pairs(["a", "a"], GaussianShift([1.0, 2.0]), key="k")
    with pytest.raises(InvalidInput, match="one id per person"):
        ledger.charge_pairs(["a"], GaussianShift([1.0, 2.0]), key="k")
    for text in (" ", 7, "a\0b", "x" * 20_000):
        with pytest.raises(InvalidInput, match="key"):
            ledger.charge_pairs(["a"], GaussianShift([1.0]), key=text)
        with pytest.raises(InvalidInput, match="mechanism"):
            ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k", mechanism=text)
        with pytest.raises(InvalidInput, match="mechanism"):
            ledger.reserve_pairs(["a"], GaussianShift([1.0]), key="k", mechanism=text)
    for fixed in ("no", "false", 1, None):
        with pytest.raises(InvalidInput, match="fixed_in_advance must be True or False, got"):
            ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k", fixed_in_advance=fixed)
    with pytest.raises(InvalidInput, match="note"):
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k", note=7)
    assert ledger.releases() == () and ledger.verify().ok


def test_the_same_charge_twice_is_one(ledger):
    first = ledger.charge_pairs(["b", "a"], GaussianShift([1.0, 2.0]), key="k")
    again = ledger.charge_pairs(["a", "b"], GaussianShift([2.0, 1.0]), key="k")  # another order, the same people
    assert first == again and len(ledger.releases()) == 1
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(["a", "b"], GaussianShift([2.0, 1.5]), key="k")
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(["a", "b"], LaplaceShift([2.0, 1.0]), key="k")
    assert len(list((ledger._charges).iterdir())) == 1
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="fixed", fixed_in_advance=True)
    with pytest.raises(LedgerConflict, match="charged with fixed_in_advance=True"):
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="fixed", fixed_in_advance=False)


def test_any_log_can_be_shown(ledger, tmp_path, monkeypatch):
    """Earlier versions wrote words of other types, and never-ending ones; the log is never changed."""
    monkeypatch.setattr(charging.ChargeWords, "__post_init__", lambda words: None)
    for k, (mechanism, fixed) in enumerate([(5, "no"), ("x" * 2_000_000, 1), (None, True), ("a\0\x1b[2J", False)]):
        ledger.charge_pairs(
            ["a"], GaussianShift([1.0]), key=f"{k}", mechanism=mechanism, note=mechanism, fixed_in_advance=fixed
        )
    assert [release.fixed_in_advance for release in ledger.releases()] == [False, False, True, False]
    page = ledger.report(tmp_path / "page.html").read_text()
    assert len(page) < 10**6 and "\x1b" not in page
    assert not ledger.totals().guarantee and "None" in str(ledger.person("a").entries[2].mechanism)


def test_a_reservation_counts_until_it_is_cancelled(ledger):
    audit = _audit(["a", "b"])
    reservation = ledger.reserve(audit, key="k")
    assert ledger.totals().summary().maximum > 0
    reservation.cancel()
    reservation.cancel()  # saying it again changes nothing
    assert len(ledger.totals()) == 0 and ledger.releases()[0].state == "cancelled"
    with pytest.raises(LedgerConflict, match="cancelled"):
        reservation.commit()
    with pytest.raises(LedgerConflict, match="no release"):
        ledger.commit("other")


def test_a_publication_that_fails_stays_charged(ledger):
    audit = _audit(["a", "b"])
    with pytest.raises(ZeroDivisionError), ledger.reserve(audit, key="k"):
        _ = 1 / 0
    assert [release.state for release in ledger.releases()] == ["reserved"]
    assert ledger.totals().summary().maximum > 0
    with pytest.raises(LedgerConflict, match="reserved already"):  # it may have been seen: another draw costs again
        ledger.reserve(audit, key="k")
    ledger.commit("k")
    assert [release.state for release in ledger.releases()] == ["committed"]
    with pytest.raises(LedgerConflict, match="committed"):
        ledger.cancel("k")


def test_a_key_is_for_one_publication(ledger):
    """A second draw under a key that is published, or one under a cancelled key, would not be charged."""
    audit = _audit(["a", "b"])
    with ledger.reserve(audit, key="k"):
        pass
    with pytest.raises(LedgerConflict, match="published already"):
        ledger.reserve(audit, key="k")
    assert ledger.charge(audit, key="k").state == "committed"  # the same charge, and nothing is published by it
    ledger.reserve(audit, key="gone").cancel()
    with pytest.raises(LedgerConflict, match="was cancelled"):
        ledger.charge(audit, key="gone")
    with pytest.raises(LedgerConflict, match="was cancelled"):
        ledger.reserve(audit, key="gone")


def test_anything_with_pairs_can_be_charged(ledger):
    """A reading of a training has neither ids nor a release: its people are named here."""

    class Reading:
        pairs = GaussianShift([0.1, 0.2], "estimate")
        assumption = "odometer reading along this training"

    charged = ledger.charge(Reading(), key="training", ids=["a", "b"])
    assert (charged.people, charged.kind, charged.mechanism) == (2, "estimate", Reading.assumption)
    assert not ledger.totals().guarantee
    with pytest.raises(InvalidInput, match="pass ids="):
        ledger.charge(Reading(), key="other")
    with pytest.raises(InvalidInput, match="ids already"):
        ledger.charge(_audit(["a", "b"]), key="other", ids=["a", "b"])
    with pytest.raises(InvalidInput, match="charge_pairs"):
        ledger.charge(GaussianShift([1.0]), key="other", ids=["a"])


def test_guarantees_and_readings_are_told_apart(ledger):
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="1", fixed_in_advance=True)
    assert ledger.totals().guarantee
    ledger.charge_pairs(["b"], GaussianShift([1.0]), key="2")
    assert not ledger.totals().guarantee and "reading" in ledger.totals().assumption
    assert ledger.person("a").guarantee and not ledger.person("b").guarantee
    ledger.charge_pairs(["a"], GaussianShift([1.0], "estimate"), key="3", fixed_in_advance=True)
    assert not ledger.person("a").guarantee and ledger.person("a").kind == "estimate"
    assert ledger.totals().kind == "estimate"
    absent = ledger.person("A")  # a typing error must not read as a guarantee for somebody
    assert not absent.entries and "nobody of this name" in absent.assumption and "guarantee" not in str(absent)


def test_totals_below_the_budget_of_a_filter_are_readings(tmp_path):
    """What is said is the budget; the total is exceeded by whoever stops when the outputs have told most."""
    budget, m, steps, delta = pi.ledger.GaussianBudget(distance=1.0), 0.25, 15, 1e-3
    ledger = pi.Ledger(tmp_path / "l", filter=budget)
    assert ledger.totals().guarantee  # nobody lost anything
    for k in range(2):
        ledger.admit(pi.NoisyMean(scale=4.0, noise="gaussian", statistic="sum"), [[1.0]], ids=["a"], key=f"{k}")
    for found in (ledger.totals(delta), ledger.totals(delta, "upper"), ledger.person("a", delta)):
        assert not found.guarantee and "reading" in found.assumption and "budget" in found.assumption
    # the reading after t steps, and the best time to stop: log ratios walk by N(m^2/2, m^2) with the person
    readings = GaussianShift(m * np.sqrt(np.arange(1, steps + 1))).epsilon(delta)
    grid = np.linspace(-3.0, 6.0, 1801)
    law = np.exp(-0.5 * ((grid[None, :] - grid[:, None] - m * m / 2) / m) ** 2)
    law /= law.sum(axis=1, keepdims=True)

    def told(limits):
        value = np.zeros(len(grid))
        for epsilon in limits[::-1]:
            value = np.maximum(law @ value, -np.expm1(np.minimum(epsilon - grid, 0.0)))
        return law[np.argmin(np.abs(grid))] @ value

    assert told(readings) > 2.0 * delta
    assert told(np.full(steps, budget.epsilon(delta))) <= delta


def test_a_promise_of_another_tool_is_never_too_small():
    """Randomised response is the worst that epsilon allows; the Gaussian pair must lie above, and so at delta > 0."""
    for epsilon in (1e-6, 0.1, 1.0, 5.0, 40.0, 700.0):
        for delta in (0.0, 1e-7, 0.01):
            pairs = pairs_of_promise(epsilon, delta, 1)
            assert pairs.kind == "upper"
            for at in np.linspace(0.0, min(epsilon, 50.0), 9):
                worst = delta + (1 - delta) * -np.expm1(at - epsilon) / (1 + np.exp(-epsilon))
                assert float(pairs.delta(at)[0]) >= worst * (1 - 1e-12)
    for wrong in ((-1.0, 0.0), (1.0, 1.0), (np.nan, 0.0)):
        with pytest.raises(InvalidInput, match="promise"):
            pairs_of_promise(*wrong, 1)


def test_people_get_other_names_or_none(ledger, tmp_path):
    for k in range(3):
        ledger.charge_pairs(["anna-secret", "bob", f"only{k}"], GaussianShift([1.0, 0.5, 0.1]), key=f"{k}")
    ledger.totals(method="upper")  # running sums hold ids too
    before = ledger.person("anna-secret").epsilon
    assert ledger.forget("anna-secret") == 3
    assert ledger.person("anna-secret").entries == ()
    totals = ledger.totals()
    assert len(totals) == 5 and totals.losses.max() == before
    for path in (tmp_path / "ledger").rglob("*"):
        if path.is_file():
            assert b"anna-secret" not in path.read_bytes(), path.name
    assert ledger.rename({"bob": "bert"}) == 3
    assert len(ledger.person("bert").entries) == 3 and ledger.person("bob").entries == ()
    assert ledger.totals(method="upper").ids.to_pylist() == ledger.totals().ids.to_pylist()
    with pytest.raises(InvalidInput, match="nobody of that name"):
        ledger.forget("bob")
    with pytest.raises(InvalidInput, match="two people"):
        ledger.rename({"bert": "x", "only1": "x"})
    with pytest.raises(InvalidInput, match="ids repeat: 1 person"):
        ledger.rename({"bert": "only1"})
    assert ledger.verify().ok and not ledger.verify().leftovers


def test_it_can_be_exported(ledger, tmp_path):
    ledger.charge_pairs(["a", "b"], GaussianShift([1.0, 0.5]), key="k", note="=1+1")
    folder = ledger.export(tmp_path / "copy")
    assert {path.name for path in folder.iterdir()} == {"releases.json", "00001.parquet"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def test_an_empty_ledger_answers(ledger):
    assert len(ledger.totals()) == 0 and ledger.totals().summary().people == 0
    assert len(ledger.totals(method="upper")) == 0
    assert ledger.person("x").epsilon == 0.0 and ledger.verify().ok
    with pytest.raises(InvalidInput, match="method"):
        ledger.totals(method="fast")
    with pytest.raises(InvalidInput, match="delta"):
        ledger.totals(delta=2.0)


HOSTILE = ["'; DROP TABLE ledger_events; --", "../../etc/passwd", "=cmd()", "a" * 5000, "ä", "a\u0308", "0", "00"]
HOSTILE += ["NA", "\u202e", " x", "x ", "\n"]


def test_hostile_ids_are_people_like_any_other(ledger):
    ledger.charge_pairs(HOSTILE, GaussianShift(np.arange(1.0, 1 + len(HOSTILE))), key="'; DROP TABLE ledger_head; --")
    ledger.charge_pairs([7, 8], GaussianShift([0.5, 0.5]), key="numbers")
    ledger.charge_pairs(["7", "007"], GaussianShift([0.5, 0.5]), key="texts")
    assert len(ledger.person("7").entries) == 2 and len(ledger.person("007").entries) == 1
    for k, name in enumerate(HOSTILE):
        assert ledger.person(name).entries[0].epsilon == float(GaussianShift([k + 1.0]).epsilon(DELTA)[0])
    assert ledger.verify().ok


def _audit(ids):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((len(ids), 1)), rng.standard_normal(len(ids))
    return pi.audit(pi.PosteriorSample(alpha=1.0), X, y, ids=ids, delta=DELTA)


def test_rows_and_people_are_not_in_one_ledger(tmp_path):
    """An id names a person in all charges of a ledger, or a row in all of them; older logs name people."""
    people, rows = pi.Ledger(tmp_path / "people"), pi.Ledger(tmp_path / "rows")
    first = people.charge_pairs(["a", "b"], GaussianShift([0.1, 0.2]), "first")
    assert first.unit == people.releases()[0].unit == "person"
    visits = rows.charge_pairs(["a 1", "a 2"], GaussianShift([0.1, 0.2]), "first", unit="row")
    assert visits.unit == rows.releases()[0].unit == "row"
    X, y = np.array([[0.1], [0.2], [0.3]]), np.zeros(3)
    audit = pi.audit(pi.PosteriorSample(), X, y, ids=["a", "b", "c"])
    for ledger, unit in ((people, "row"), (rows, "person")):
        for charge in (ledger.charge, ledger.reserve):
            with pytest.raises(LedgerConflict, match="keep them in two ledgers"):
                charge(audit, "second", unit=unit)
        with pytest.raises(LedgerConflict, match="keep them in two ledgers"):
            ledger.charge_pairs(["z"], 0.5, "second", unit=unit)
    several = pi.audit(pi.NoisyMean(rows_per_person=2), X, ids=["a", "b", "c"])
    with pytest.raises(LedgerConflict, match="costs people, not rows"):
        rows.charge(several, "second", unit="row")
    with pytest.raises(InvalidInput, match="unit must be"):
        people.charge(audit, "second", unit="visit")
    assert len(people.releases()) == len(rows.releases()) == 1
    assert people.charge(audit, "second").unit == "person"
    filtered = pi.Ledger(tmp_path / "filtered", filter=pi.ledger.GaussianBudget(1.0))
    filtered.admit(pi.NoisyMean(statistic="sum", noise="gaussian", scale=9.0), X, ids=["a", "b", "c"], key="third")
    assert filtered.releases()[0].unit == "person"


def test_descents_and_readings_add_up(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2, 2)) / 3
    ids = ["p0", "p1"]
    ledger = pi.Ledger(tmp_path / "ledger")
    whole = pi.audit(pi.NoisyDescent(steps=20, clip=1.0, epsilon=1.0, delta=DELTA), X, X[:, 0], ids=ids)
    sampled = pi.audit(pi.NoisyDescent(steps=20, clip=1.0, noise=4.0, rate=0.2), X, X[:, 0], ids=ids)
    watch = Watch(people=2, rate=0.3, noise_multiplier=3.0, clip=1.0)
    for _ in range(12):  # of fewer steps sums are finer, and take seconds a person
        batch = np.flatnonzero(rng.random(2) < 0.3)
        watch.step(batch, rng.random(len(batch)))
    reading = watch.audit(DELTA)
    ledger.charge(whole, key="descent")
    ledger.charge(sampled, key="sampled descent")
    ledger.charge(reading, key="watch", ids=ids)
    steps = SampledGaussian([0.01, 0.1], [1.0, 0.5], [100, 7])
    ledger.charge_pairs(["p0", "new"], steps, key="elsewhere")
    totals = ledger.totals(DELTA)
    by_id = dict(zip(totals.ids.to_pylist(), totals.losses.tolist(), strict=True))
    assert ledger.person("new").entries[-1].epsilon == steps.epsilon(DELTA)[1]
    assert by_id["new"] == pytest.approx(steps.epsilon(DELTA)[1], rel=1e-9)  # in company other roads may be taken
    for name in ids:
        person = ledger.person(name)
        assert person.epsilon == pytest.approx(by_id[name], rel=1e-9)
        at = ids.index(name)
        parts = max(audit.losses[at] for audit in (whole, sampled, reading))
        assert parts <= person.epsilon <= sum(audit.losses[at] for audit in (whole, sampled, reading)) + 1.0
    assert totals.kind == "estimate"  # one of them was a reading
