"""People with several rows: what is released moves by no more than was promised, and rows are drawn, not chosen."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import perinstance as pi
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.pairs import GaussianShift, GeneralGaussian
from perinstance.releases.adassp.mechanism import people_squares
from perinstance.releases.descent import clipped_steps
from perinstance.releases.promises import estimator as promised
from perinstance.releases.promises.window import Window, published_before

D = 2
BOX = [(-1.0, 3.0), 2.0]
RELEASES = {
    "adassp": pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0),
    "adassp box": pi.AdaSSP(epsilon=0.5, delta=1e-5, x_bound=BOX, y_bound=(0.0, 2.0), n_public=90),
    "adassp one round": pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, rounds=1, fit_intercept=False),
    "adassp robust": pi.AdaSSP(epsilon=2.0, delta=1e-6, x_bound=BOX, y_bound=1.0, intervals="robust"),
    "logistic": pi.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=1.0, classes=(-1, 1), rounds=4),
}
EVERY = pytest.mark.parametrize("name", RELEASES)


def rows_of(rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.uniform(-3, 3, (n, D)), rng.choice([-1.0, 1.0], n)


class Recorder:
    """Answers around exact sums: drawn at first, then the same again; it keeps what each was drawn around."""

    def __init__(self, answers=None) -> None:
        self.centers, self.scales, self.answers = [], [], []
        self._rng, self._replay = np.random.default_rng(5), None if answers is None else published_before(answers)

    def __call__(self, ideal):
        center, scales = ideal.center, ideal.scale
        self.centers.append([Fraction(one) for one in center])
        self.scales.append([Fraction(float(one)) for one in scales])
        if self._replay is None:
            drawn = np.array([float(c) for c in center]) + np.array(scales) * self._rng.standard_normal(len(scales))
        else:
            drawn = self._replay(ideal)
        self.answers.append(drawn)
        return drawn


def fitted_around(monkeypatch, release, X, y, ids, answers=None) -> Recorder:
    recorder = Recorder(answers)
    with monkeypatch.context() as patch:
        patch.setattr(promised, "Window", partial(Window, draw=recorder))
        clone(release).fit(X, y, ids=ids)
    return recorder


def moved(one: Recorder, other: Recorder) -> Fraction:
    """The squared distance between two runs with the same answers, all parts together, in exact numbers."""
    assert one.scales == other.scales and len(one.answers) == len(other.answers)
    return sum(
        ((a - b) / s) ** 2
        for first, second, scales in zip(one.centers, other.centers, one.scales, strict=True)
        for a, b, s in zip(first, second, scales, strict=True)
    )


@EVERY
@pytest.mark.parametrize("k", [1, 3])
def test_all_parts_together_move_by_no_more_than_was_promised(monkeypatch, name, k):
    """Neighbours differ in one person with 0 to 50 rows; the worst of them reach the promise."""
    rng, release = np.random.default_rng(3), clone(RELEASES[name]).set_params(rows_per_person=k)
    X, y = rows_of(rng, 80)
    ids = [f"other {i // k}" for i in range(80)]
    base = fitted_around(monkeypatch, release, X, y, ids)
    promise, largest = release.promise(D), Fraction(0)
    assert promise.delta(release.epsilon) <= release.delta
    corner = np.full((50, D), 3.0) * [1.0, 1.0 if release.x_bound == 1.0 else -1.0]
    people = [rows_of(rng, m) for m in (0, 1, 2, 5, 50)] + [(corner[:m], np.ones(m)) for m in (k, 50)]
    for mine, own in people:
        order = rng.permutation(80 + len(own))
        table = np.vstack([X, mine])[order], np.append(y, own)[order]
        who = np.array([*ids, *["her"] * len(own)])[order]
        largest = max(largest, moved(base, fitted_around(monkeypatch, release, *table, who, base.answers)))
    assert largest <= Fraction(promise.distance) ** 2
    assert largest > Fraction(promise.distance) ** 2 / (1 if "one round" in name else 9) * Fraction(98, 100)
    # a promise made to rows would not hold for this person
    rowwise = clone(release).set_params(rows_per_person=None)
    crowd = np.vstack([X, corner[:3]]), np.append(y, np.ones(3))
    plain = fitted_around(monkeypatch, rowwise, X, y, None)
    if "one round" in name:
        assert moved(plain, fitted_around(monkeypatch, rowwise, *crowd, None, plain.answers)) > Fraction(
            rowwise.promise(D).distance ** 2
        )


@EVERY
def test_permuted_rows_are_the_same_release(monkeypatch, name):
    """With the same bits for the same rows, whatever the order: everything is asked around the same numbers."""
    from perinstance.sampling import random_bits

    rng, release = np.random.default_rng(4), clone(RELEASES[name]).set_params(rows_per_person=2)
    X, y = rows_of(rng, 60)
    ids, bits = rng.integers(0, 12, 60), rng.integers(0, 2**63, 60, dtype=np.uint64)
    found = []
    for order in (np.arange(60), rng.permutation(60)):
        monkeypatch.setattr(random_bits.secrets, "token_bytes", lambda size, order=order: bits[order].tobytes())
        found.append(
            fitted_around(monkeypatch, release, X[order], y[order], ids[order], found[0].answers if found else None)
        )
    assert found[0].centers == found[1].centers


@pytest.mark.parametrize(
    "release",
    [
        *RELEASES.values(),
        pi.AdaOPS(x_bound=1.0, y_bound=1.0),
        pi.NoisyMean(),
        pi.SlowScalingSum(),
        pi.NoisyDescent(noise=3.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_whose_rows_they_are_must_be_said(release):
    X, y = np.full((4, 1), 0.5), np.array([1.0, -1.0, 1.0, -1.0])
    release = clone(release).set_params(**({"x_bound": 1.0} if hasattr(release, "x_bound") else {}))
    with pytest.raises(InvalidTable, match="2 people have several rows.*or declare rows_per_person"):
        clone(release).fit(X, y, ids=["a", "b", "a", "b"])
    clone(release).fit(X, y, ids=["a", "b", "c", "d"])
    several = clone(release).set_params(rows_per_person=2)
    with pytest.raises(InvalidInput, match="pass ids="):
        several.fit(X, y)
    with pytest.raises(InvalidTable, match="3 ids for 4 rows"):
        several.fit(X, y, ids=[1, 2, 3])
    with pytest.raises(InvalidTable, match="an id is missing"):
        several.fit(X, y, ids=["a", None, "b", "c"])
    with pytest.raises(InvalidTable, match="different pandas indexes"):
        several.fit(pd.DataFrame(X, index=list("pqrs")), y, ids=pd.Series(list("aabb")))
    several.fit(X, y, ids=["a", "a", "a", "b"])
    assert ", for every person, with at most 2 rows used" in several.mechanism().words
    assert not several.mechanism().own_row
    if hasattr(several, "own_row_loss"):
        with pytest.raises(RefusedModel):
            several.own_row_loss(X[0], 1.0, 1e-6, None)


def test_ids_with_an_index_are_matched_with_the_rows(monkeypatch):
    release = pi.AdaSSP(x_bound=1.0, y_bound=1.0, rounds=1, rows_per_person=1)
    X = pd.DataFrame({"x": [0.25, 0.5, 0.75]}, index=["p", "q", "r"])
    y = pd.Series([1.0, 1.0, 1.0], index=["p", "q", "r"])
    ids = pd.Series(["a", "b", "b"], index=["r", "p", "q"])
    centers = fitted_around(monkeypatch, release, X, y, ids).centers
    assert centers[0][-1] == 2 and centers[0][0] in (Fraction(13, 16), Fraction(10, 16))  # r, and one of p and q


def test_the_file_says_to_whom_the_promise_is_made(tmp_path):
    X, y = np.linspace(-1, 1, 30)[:, None], np.linspace(-1, 1, 30)
    release = pi.AdaSSP(x_bound=1.0, y_bound=1.0, rows_per_person=3).fit(X, y, ids=np.arange(30) // 4)
    path = tmp_path / "model.json"
    path.write_text(release.to_json(features=["x"], target="y"), encoding="utf-8")
    promise = json.loads(path.read_text())["promise"]
    assert promise["rows_per_person"] == 3
    assert promise["neighbours"] == "add or remove one person with all their rows, of which at most 3 are used"
    model = pi.load_model(path)
    assert model.rows_per_person == 3 and model.document["declared"]["rows_per_person"] == 3
    assert "whatever stands in their records, with at most 3 records of each person used" in model.statement()
    assert pi.disclosure.regulator_summary(model)["neighbours"] == promise["neighbours"]
    assert "what one id stands for" in pi.disclosure.registry_entry(model)["deployment"]["privacy_loss"]["privacy_unit"]
    told = pi.disclosure.statement(model, [0.1])
    assert told.epsilon == 1.0 and not told.own_row  # others of their rows may be longer
    assert "at most 3 rows used" in told.published
    assert pi.load_model(_without_rows(path)).rows_per_person is None


def _without_rows(path):
    path.write_text(pi.AdaSSP(x_bound=1.0, y_bound=1.0).fit([[0.5]], [0.5]).to_json(), encoding="utf-8")
    return path


def test_intervals_take_a_persons_rows_for_one():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 1))
    y = np.clip(0.5 * X[:, 0] + 0.1 * rng.normal(size=4000), -1, 1)
    release = pi.AdaSSP(epsilon=4.0, x_bound=1.0, y_bound=1.0, rows_per_person=4, intervals="robust")
    release.fit(X, y, ids=np.arange(4000) // 4)
    wide = release.inference().bse
    release.rows_per_person = None  # the same numbers, as if a row were a person
    assert (release.inference().bse < wide).all()
    free = pi.AdaSSP(epsilon=4.0, x_bound=1.0, y_bound=1.0, rows_per_person=4).fit(X, y, ids=np.arange(4000) // 4)
    with pytest.raises(InvalidInput, match='intervals="robust"'):
        free.inference()
    assert free.inference("table").resolved.all() and len(free.predict(X[:2], use="estimate")) == 2


def sums(release, X) -> list[Fraction]:
    """What a noisy mean or sum is drawn around."""
    return [Fraction(one) for one in release.ideal(np.asarray(X)).center]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("inside", [True, False])
def test_people_of_a_noisy_mean_against_tables_without_them(noise, statistic, inside):
    rng = np.random.default_rng(6)
    counts = np.array([1, 2, 5, 1, 3])
    starts = np.append(0, counts.cumsum())
    X = rng.normal(size=(starts[-1], 2)) * [1.0, 1e6]
    others = rng.normal(size=(4, 2))
    release = pi.NoisyMean(scale=0.5, noise=noise, statistic=statistic)
    table = np.vstack([X, others]) if inside else others
    fit = release.confidential_fit(ArraySweep(table, np.zeros(len(table))))
    people = release.persons(fit, Block(X, np.zeros(len(X))), starts, inside)
    for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        ends = (np.delete(table, np.arange(a, b), axis=0), table) if inside else (others, np.vstack([others, X[a:b]]))
        gaps = [2 * (u - v) for u, v in zip(sums(release, ends[1]), sums(release, ends[0]), strict=True)]
        square = sum(g * g for g in gaps)
        truth = float(sum(map(abs, gaps))) if noise == "laplace" else float(square) ** 0.5
        assert truth <= people.pairs.distance[i] <= truth * (1 + 1e-9)
    assert people.pairs.kinds.tolist() == ["upper" if noise == "laplace" else "exact"] * 5
    plain = release.people(fit, Block(X, np.zeros(len(X))), inside)
    assert people.pairs.distance[0] == plain.pairs.distance[0] and people.residual[3] == plain.residual[8]
    np.testing.assert_allclose(people.leverage, counts / (len(table) - counts * inside))


def test_a_sum_that_uses_some_rows_is_bounded_by_the_longest():
    X, starts = np.array([[1.0], [-4.0], [3.0], [2.0]]), np.array([0, 3, 4])
    block = Block(X, np.zeros(4))
    release = pi.NoisyMean(statistic="sum", noise="gaussian", rows_per_person=2)
    fit = release.confidential_fit(ArraySweep(X, np.zeros(4)))
    people = release.persons(fit, block, starts)
    assert people.pairs.distance == pytest.approx([7.0, 2.0]) and people.pairs.kinds.tolist() == ["upper", "exact"]
    for other in (pi.NoisyMean(rows_per_person=2), pi.SlowScalingSum(rows_per_person=2)):
        with pytest.raises(RefusedModel, match="more rows than rows_per_person"):
            other.persons(other.confidential_fit(ArraySweep(X, np.zeros(4))), block, starts)


@pytest.mark.parametrize("transform", ["log", "sqrt"])
@pytest.mark.parametrize("inside", [True, False])
def test_people_of_a_transformed_sum_against_tables_without_them(transform, inside):
    from mpmath import log, mpf, sqrt

    f = {"log": lambda s: log(s + 1), "sqrt": sqrt}[transform]
    X, starts = np.array([[1.0, 2.0], [3.0, 0.5], [7.0, -1.0], [0.0, 4.0]]), np.array([0, 1, 4])
    release = pi.SlowScalingSum(transform=transform, scale=0.5)
    fit = release.confidential_fit(ArraySweep(X, np.zeros(4)))
    people = release.persons(fit, Block(X, np.zeros(4)), starts, inside)
    whole, amounts = np.maximum(X, 0).sum(axis=0), np.maximum(X, 0)
    for i in range(2):
        own = amounts[starts[i] : starts[i + 1]].sum(axis=0)
        ends = (whole - own, whole) if inside else (whole, whole + own)
        moves = [2 * (f(mpf(b)) - f(mpf(a))) for a, b in zip(*ends, strict=True)]
        truth = float(sqrt(sum(m * m for m in moves)))
        assert truth * (1 - 1e-14) <= people.pairs.distance[i] <= truth * (1 + 1e-9)


@EVERY
def test_people_of_a_promise_are_charged_with_all_their_rows(monkeypatch, name):
    """What really moves at one run, all of a person's rows together, is no more than their pair says."""
    rng, release = np.random.default_rng(9), clone(RELEASES[name]).set_params(rows_per_person=3)
    X, y = rows_of(rng, 60)
    X[:6] *= 0.05
    counts = np.array([3, 1, 2, 3, 7])
    starts = np.append(0, counts.cumsum())
    ids = np.append(np.repeat(np.arange(5), counts), np.arange(100, 144))
    fit = release.confidential_fit(ArraySweep(X, y))
    people = release.persons(fit, Block(X[:16], y[:16]), starts)
    alone = release.people(fit, Block(X, y)).pairs.distance
    for i in range(4):  # the last one has rows that are not used, and which differs from run to run
        keep = ids != i
        without = fitted_around(
            monkeypatch, release, X[keep & (ids != 4)], y[keep & (ids != 4)], ids[keep & (ids != 4)]
        )
        whole = fitted_around(monkeypatch, release, X[ids != 4], y[ids != 4], ids[ids != 4], without.answers)
        assert moved(whole, without) <= Fraction(people.pairs.distance[i]) ** 2
    assert people.pairs.distance[1] == alone[3]
    assert people.pairs.distance[4] == pytest.approx(np.sort(alone[9:16])[-3:].sum())
    assert people.pairs.distance.max() <= release.promise(D).distance * (1 + 1e-12)
    assert set(people.pairs.kinds[[0, 2, 3, 4]]) == {"upper"}


DESCENTS = {
    "ridge": pi.NoisyDescent(steps=3, learning_rate=0.05, clip=0.7, noise=2.0, publish="all"),
    "logistic": pi.NoisyDescent(LogisticRegression(), steps=3, clip=0.7, noise=2.0, classes=(-1, 1), publish="all"),
    "filtered": pi.NoisyDescent(steps=3, learning_rate=0.05, clip=0.7, noise=2.0, filter=(4, 0.3), refresh=2),
}


def descended(monkeypatch, release, X, y, ids, answers=None) -> tuple[list, list]:
    """What each step's noisy sum was drawn around, and what was drawn."""
    centers, drawn, rng = [], [], np.random.default_rng(2)

    def draw(law, grid):
        centers.append([Fraction(one) for one in law.center])
        values = np.array([float(c) for c in law.center]) + 2.0 * rng.standard_normal(len(law.center))
        drawn.append(values if answers is None else answers[len(drawn)])
        return SimpleNamespace(values=drawn[-1])

    with monkeypatch.context() as patch:
        patch.setattr(clipped_steps, "draw", draw)
        clone(release).fit(X, y, ids=ids)
    return centers, drawn


@pytest.mark.parametrize("name", DESCENTS)
@pytest.mark.parametrize("k", [1, 3])
def test_a_person_moves_a_step_by_the_clip_however_many_rows(monkeypatch, name, k):
    rng, release = np.random.default_rng(3), clone(DESCENTS[name]).set_params(rows_per_person=k)
    X, y = rows_of(rng, 40)
    ids = np.arange(40) // k
    base, answers = descended(monkeypatch, release, X, y, ids)
    assert release.promise().distance == clone(DESCENTS[name]).promise().distance
    clip, largest = Fraction(0.7), Fraction(0)
    for mine, own in [rows_of(rng, m) for m in (0, 1, 2, 5, 50)] + [(np.full((50, D), 9.0), np.ones(50))]:
        order = rng.permutation(40 + len(own))
        who = np.append(ids, np.full(len(own), 99))[order]
        moves, _ = descended(monkeypatch, release, np.vstack([X, mine])[order], np.append(y, own)[order], who, answers)
        for one, other in zip(base, moves, strict=True):
            largest = max(largest, sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))
    assert clip**2 * Fraction(98, 100) < largest <= clip**2


def test_a_step_sums_each_persons_gradients_and_clips_the_sum(monkeypatch):
    rng = np.random.default_rng(8)
    X, y = rows_of(rng, 12)
    X[4, 0] = np.nan  # adds nothing, and takes nothing away from the person's other rows
    ids, order = np.repeat([0, 1, 2, 3], [1, 3, 6, 2]), rng.permutation(12)
    release = clone(DESCENTS["ridge"]).set_params(rows_per_person=6, clip=3.0)
    centers, answers = descended(monkeypatch, release, X, y, ids)
    again, _ = descended(monkeypatch, release, X[order], y[order], ids[order], answers)
    assert again == centers
    each = -np.nan_to_num(np.column_stack([X, np.ones(12)]) * y[:, None])
    each[4] = 0.0
    sums = np.array([each[ids == i].sum(axis=0) for i in range(4)])
    clipped = sums * np.minimum(1.0, 3.0 / np.linalg.norm(sums, axis=1))[:, None]
    np.testing.assert_allclose([float(c) for c in centers[0]], clipped.sum(axis=0), atol=1e-9)


def test_people_of_a_descent():
    rng = np.random.default_rng(5)
    X, y = rows_of(rng, 12)
    X[:4] *= 0.01
    starts, block = np.array([0, 3, 4, 12]), Block(X, (y + 1) / 2)
    release = pi.NoisyDescent(LogisticRegression(), steps=4, clip=2.0, noise=3.0, rows_per_person=2)
    fit = release.confidential_fit(ArraySweep(X, block.y))
    bound = release.persons(fit, block, starts)
    lengths = np.minimum(np.linalg.norm(np.column_stack([X, np.ones(12)]), axis=1), 2.0)
    longest = [np.sort(lengths[a:b])[-2:].sum() for a, b in zip(starts[:-1], starts[1:], strict=True)]
    expected = np.minimum(longest, 2.0) / 3.0 * 2.0  # four steps
    np.testing.assert_allclose(bound.pairs.epsilon(1e-6), GaussianShift(expected).epsilon(1e-6), rtol=1e-6)
    assert set(bound.pairs.kinds) == {"upper"}
    reading = release.confidential_fit(ArraySweep(X, block.y), "estimate")
    with pytest.raises(RefusedModel, match="more rows than rows_per_person"):
        release.persons(reading, block, starts)
    few, first = Block(X[:4], block.y[:4]), np.array([0, 3, 4])
    release.rows_per_person = 3
    summed, truth = release.persons(reading, few, first), np.zeros(2)
    for theta in reading.path[:-1]:
        design = np.column_stack([few.X, np.ones(4)])
        each = (1 / (1 + np.exp(-design @ theta)) - few.y)[:, None] * design
        sums = np.add.reduceat(each, first[:-1], axis=0)
        truth += np.minimum(np.linalg.norm(sums, axis=1), 2.0) ** 2 / 9
    np.testing.assert_allclose(summed.pairs.epsilon(1e-6), GaussianShift(np.sqrt(truth)).epsilon(1e-6), rtol=1e-6)
    assert set(summed.pairs.kinds) == {"estimate"}


def test_people_are_sampled_and_not_rows(monkeypatch):
    X, y = rows_of(np.random.default_rng(1), 30)
    release = clone(DESCENTS["ridge"]).set_params(rows_per_person=10, rate=0.5)
    asked = []
    monkeypatch.setattr(clipped_steps, "poisson_sample", lambda n, rate: asked.append(n) or np.arange(n) == 1)
    centers, _ = descended(monkeypatch, release, X, y, np.repeat([0, 1, 2], 10))
    assert asked == [3, 3, 3]
    monkeypatch.undo()
    alone, _ = descended(monkeypatch, clone(release).set_params(rate=1.0), X[10:20], y[10:20], np.zeros(10, dtype=int))
    assert centers[0] == alone[0]


def test_an_audit_needs_to_know_whose_rows_they_are():
    X, y = np.full((3, 1), 0.5), np.zeros(3)
    release = pi.AdaSSP(x_bound=1.0, y_bound=1.0, rows_per_person=2)
    with pytest.raises(InvalidInput, match="audited person by person.*pass ids="):
        pi.audit(release, X, y)
    one = pi.audit(release, X, y, ids=["a", "b", "c"])
    whole = pi.audit(clone(release).set_params(rows_per_person=None), X, y)
    assert one.pairs.distance == pytest.approx(whole.pairs.distance / 2)


@pytest.mark.parametrize("n_public", [None, 70])
@pytest.mark.parametrize("inside", [True, False])
def test_people_of_adaops_against_refits(n_public, inside):
    """Every part at the released ridge and gamma, with and without all rows of each person; one row is as ever."""
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-0.5, 0.5, (60, D)), rng.uniform(-1, 1, 60)
    starts, k = np.array([0, 1, 3, 8]), 5
    release = pi.AdaOPS(epsilon=1.0, x_bound=1.0, y_bound=1.0, n_public=n_public, rows_per_person=k)
    ids = np.append(np.repeat([0, 1, 2], [1, 2, 5]), np.arange(10, 62))
    table = (X, y, ids) if inside else (X[8:], y[8:], ids[8:])
    release.fit(*table)
    fit = release.confidential_fit(ArraySweep(*table[:2]))
    block = Block(X[:8], y[:8])
    people = release.persons(fit, block, starts, inside)
    box, every = release._box(D), np.arange(60)
    units, spent, at = box.rows(X, y), fit.plan, fit.at
    seen = at.rows(units)
    first = np.sqrt(people_squares(spent.first, units, at.first))
    for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        base = every if inside else every[8:]
        with_, without = (base, every[(every < a) | (every >= b)]) if inside else (np.append(base, every[a:b]), base)
        grams = [seen.X[w].T @ seen.X[w] for w in (without, with_)]
        thetas = [
            np.linalg.solve(G + release.lambda_ * np.eye(3), seen.X[w].T @ seen.y[w])
            for G, w in zip(grams, (without, with_), strict=True)
        ]
        eigen = [np.linalg.eigvalsh(G)[0] for G in grams]
        squares = ((eigen[1] - eigen[0]) / spent.eigenvalue_at(at.x_bound).scale) ** 2 + first[a:b].sum() ** 2
        if n_public is None:
            squares += ((b - a) / spent.count.scale) ** 2
        if spent.size is not None:
            size = [np.log1p(at.x_bound * np.linalg.norm(t)) for t in thetas]
            squares += ((size[1] - size[0]) / spent.size_at(release._floor).scale) ** 2
        inverses = [np.linalg.inv(G + release.lambda_ * np.eye(3)) / release.gamma_ for G in grams]
        sample = GeneralGaussian.from_moments(
            *(np.array([m]) for m in (thetas[0], inverses[0], thetas[1], inverses[1]))
        )
        slow = (GaussianShift(np.sqrt(squares)) + sample).epsilon(1e-6)[0]
        assert people.pairs[i : i + 1].epsilon(1e-6)[0] == pytest.approx(slow, rel=1e-6, abs=1e-9)
        assert slow < 1.0
    one = release.people(fit, Block(X[:1], y[:1]), inside)
    assert type(one.pairs).concatenate([one.pairs, people.pairs]).epsilon(1e-6)[:2] == pytest.approx(
        people.pairs.epsilon(1e-6)[[0, 0]], rel=1e-6
    )
    assert one.residual[0] == pytest.approx(people.residual[0]) and one.leverage[0] == pytest.approx(people.leverage[0])
    assert set(people.pairs.kinds) == {"estimate"}
    for other, error in ((k - 1, "more rows than rows_per_person"), (None, "promises to rows")):
        with pytest.raises(RefusedModel, match=error):
            clone(release).set_params(rows_per_person=other).persons(fit, block, starts)


def test_an_audit_of_a_promise_answers_for_people():
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-0.5, 0.5, (60, D)), rng.uniform(-1, 1, 60)
    ids = np.append(np.repeat([7, 3, 5], [1, 4, 2]), np.arange(10, 63))
    order = rng.permutation(60)
    for release in (RELEASES["adassp"], pi.AdaOPS(x_bound=1.0, y_bound=1.0, n_public=60)):
        release = clone(release).set_params(rows_per_person=4).fit(X, y, ids=ids)
        one, other = pi.audit(release, X, y, ids=ids), pi.audit(release, X[order], y[order], ids=ids[order])
        assert len(one.losses) == 56 and one.losses.max() <= release.epsilon
        by_id = dict(zip(other.ids.to_pylist(), other.losses, strict=True))
        assert one.losses == pytest.approx([by_id[name] for name in one.ids.to_pylist()], rel=1e-6)
