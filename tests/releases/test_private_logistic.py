"""PrivateLogisticRegression: its loss, its sums, its promise, what it refuses and what it keeps quiet about."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import perinstance as pi
from perinstance.errors import ClassesNotDeclared, InvalidInput, InvalidTable
from perinstance.numerics.rounding import STEP_UP
from perinstance.pairs import GaussianShift
from perinstance.releases.logistic.mechanism import SLOPE_BITS, _moved, read_gram, run, slopes, spend
from perinstance.releases.promises.class_labels import declared_classes
from perinstance.releases.promises.window import Window, simulated
from perinstance.sampling import exact_sums, fixed_rows

from .slow_roads import Plain, Watched

RELEASE = pi.PrivateLogisticRegression(x_bound=1.0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(400, 3)) / math.sqrt(3)
    return X, (rng.uniform(size=400) < expit(X @ [4.0, -3.0, 0.0] - 0.5)).astype(int)


# --- the loss


@given(st.floats(-1e300, 1e300), st.sampled_from([-1.0, 1.0]))
def test_slopes_are_on_the_grid_and_never_steeper_than_a_half(eta, sign):
    (found,) = slopes(np.array([eta]), np.array([sign]))
    truth = 0.5 * math.exp(-max(sign * eta, 0.0))
    assert 0 <= sign * found <= truth <= 0.5 and truth - sign * found <= 1.01 * 2.0**-SLOPE_BITS
    assert (found * 2.0**SLOPE_BITS).is_integer()
    p = expit(eta)  # the loss is least on average at the true log odds
    both = slopes(np.array([eta, eta]), np.array([1.0, -1.0]))
    assert p * both[0] + (1 - p) * both[1] == pytest.approx(0.0, abs=1e-11)


def test_a_slope_depends_on_its_row_alone():
    eta = np.random.default_rng(2).uniform(-50, 50, size=41)
    alone = [slopes(eta[i : i + 1], np.ones(1))[0] for i in range(41)]
    assert slopes(eta, np.ones(41)).tolist() == alone


# --- exact sums


def test_one_person_moves_a_sum_by_no_more_than_is_charged():
    """On rows as they are drawn from, in exact numbers: |slope| ||x|| <= B/2, and what noise is made for is above."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 3)) * 10, rng.choice([-1.0, 1.0], size=50)
    theta = rng.normal(size=3)
    rows = fixed_rows(X, y, 1.0, 1.0)
    for i in range(0, 50, 5):
        keep = np.arange(50) != i
        rest = fixed_rows(X[keep], y[keep], 1.0, 1.0)
        asked = [exact_sums(_moved(seen, theta)) for seen in (rows, rest)]
        square = sum((a - b) ** 2 for a, b in zip(*asked, strict=True))
        assert square <= (Fraction(STEP_UP) / 2) ** 2


# --- the promise


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (4.0, 1e-9), (1e-6, 1e-4)])
@pytest.mark.parametrize("rounds", [1, 99])
def test_the_budget_is_spent_and_no_more(epsilon, delta, rounds):
    spent = spend(epsilon, delta, 2.0, rounds)
    assert 0.999 * delta <= spent.promise.delta(epsilon) <= delta
    parts = [Fraction(spent.gram_distance), *(Fraction(one) for one in spent.round_distances)]
    assert sum(part**2 for part in parts) <= Fraction(spent.promise.distance) ** 2


NOBODY = np.zeros((0, 1)), np.zeros(0)
ONE = np.array([[1.0]]), np.array([1.0])
#: these pull the estimate the other way, so that the one person is misclassified and the slope stays at its bound
OTHERS = np.ones((60, 1)), -np.ones(60)
ONE_MORE = np.ones((61, 1)), np.append(OTHERS[1], 1.0)


@pytest.mark.parametrize("pair", [(NOBODY, ONE), (OTHERS, ONE_MORE)], ids=["nobody else", "outvoted"])
def test_two_rounds_at_hard_neighbours_by_quadrature(pair):
    """All noisy numbers of one dimension integrated: ``E_P[(1 - e^(eps - L))_+]``, each given those before."""
    epsilon, delta = 1.0, 0.05
    for here, there in (pair, pair[::-1]):
        total = _quadrature(spend(epsilon, delta, 1.0, 2), here, there, epsilon)
        assert total <= delta * (1 + 1e-6)
        if pair[0] is OTHERS:  # hard neighbours, and a control: of three times the budget more is lost
            assert total > 0.9 * delta
            assert _quadrature(spend(3.0, delta, 1.0, 2), here, there, epsilon, nodes=11) > delta


def _quadrature(spent, here, there, epsilon, nodes=21):
    """The last round is a shift in closed form given what was drawn before."""
    z = np.linspace(-7, 7, nodes)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    worlds = [Plain(data) for data in (here, there)]
    total = 0.0
    for a, wa in zip(z, weight, strict=True):
        for b, wb in zip(z, weight, strict=True):
            pinned = _Pinned(worlds, (a, b))
            run(spent, pinned)
            left = epsilon - sum(pinned.losses)
            distance = abs(pinned.last)
            delta = max(1 - math.exp(left), 0.0) if distance == 0 else float(GaussianShift(distance).delta(left)[0])
            total += wa * wb * delta
    return total


class _Pinned(Watched):
    """Answers with given noise, keeps the loss so far, and the distance of the last round."""

    def __init__(self, worlds, noise):
        super().__init__(worlds, None)
        self.noise = list(noise)

    def answer(self, mine, theirs, scale):
        self.last = shift = float(((mine - theirs) / scale)[0])
        if not self.noise:
            return mine
        z = self.noise.pop(0)
        self.losses.append(((z + shift) ** 2 - z**2) / 2)
        return mine + scale * z


# --- whatever the rows hold


CELLS = st.one_of(st.floats(), st.sampled_from([None, "text", 10**400, True, pd.NA, [1], b"x"]))


@given(st.integers(0, 4), st.integers(1, 6), st.data())
@settings(max_examples=20)
def test_nothing_that_a_row_holds_is_refused_or_told(n, d, data):
    X = np.empty((n, d), dtype=object)
    for place in np.ndindex(X.shape):
        X[place] = data.draw(CELLS.filter(lambda cell: not isinstance(cell, list)))
    y = np.empty(n, dtype=object)
    for i in range(n):
        y[i] = data.draw(st.one_of(CELLS, st.sampled_from([0, 1, 0.0, np.int64(1), "1"])))
    quick = pi.PrivateLogisticRegression(x_bound=1.0, rounds=3, classes=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(quick).fit(X, y)
    ordinary = clone(quick).fit(np.linspace(-1, 1, 3 * d).reshape(3, d), [0, 1, 1])
    assert {name: np.shape(value) for name, value in vars(model).items() if name != "_path"} == {
        name: np.shape(value) for name, value in vars(ordinary).items() if name != "_path"
    }
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert model.classes_.tolist() == [0, 1] and model.privacy_ == ordinary.privacy_


@pytest.mark.parametrize("classes", [(1, 1), "ab", (0, 1, 2), (0, "a"), (float("nan"), 1)])
def test_classes_are_two_different_numbers_or_texts(classes):
    with pytest.raises(InvalidInput, match="classes"):
        clone(RELEASE).set_params(classes=classes).fit(np.ones((3, 2)), np.array([0, 1, 1]))


WORDS = ["no", "yes", "no"]
OF_ANOTHER_TYPE = {
    "words for numbers": (None, np.array(WORDS)),
    "a column of words": ((0, 1), pd.Series(WORDS, dtype="string")),
    "objects, nothing declared": (None, np.array(WORDS, dtype=object)),
    "numbers for words": (("no", "yes"), np.array([0, 1, 0])),
    "dates": (None, np.array(["2020-01-01"] * 3, dtype="datetime64[D]")),
    "bytes": (("no", "yes"), np.array([b"no", b"yes", b"no"])),
}


@pytest.mark.parametrize("case", OF_ANOTHER_TYPE)
def test_labels_whose_type_cannot_be_the_declared_classes_are_refused(case):
    """By the type alone, and the same with labels that nobody has: everybody would be missing without a word."""
    classes, y = OF_ANOTHER_TYPE[case]
    release = pi.PrivateLogisticRegression(x_bound=1.0, rounds=1, classes=classes)
    for labels in (y, y[:0]):
        for ask in (release.fit, release.clipped):
            with pytest.raises(InvalidInput, match="classes"):
                ask(np.ones((len(labels), 2)), labels)
    assert not hasattr(release, "coef_")


def test_a_list_without_declared_classes_is_warned_of_whatever_it_holds():
    release = clone(RELEASE).set_params(rounds=1)
    for y in ([0, 1, 0], WORDS, []):
        with pytest.warns(ClassesNotDeclared, match="declare classes"):
            release.fit(np.ones((len(y), 1)), y)


TWO, ILL = ("no", "yes"), pd.array([True, None, False], dtype="boolean")
#: Declared classes, labels, and how many of them are none of the classes.
MISSING = [
    (None, np.array([0, 7, 1]), 1),
    (None, np.array([2.0, np.nan, 1.0]), 2),
    (None, np.array([True, False, True]), 0),
    (None, pd.Series(ILL), 1),
    (None, pd.DataFrame({"ill": ILL}), 1),
    (None, pa.table({"ill": [True, None, False]}), 1),
    (TWO, WORDS, 0),
    (TWO, pa.array(WORDS), 0),
    (TWO, np.array(WORDS), 0),
    (TWO, pd.Series(WORDS, dtype="category"), 0),
    (TWO, np.array(["maybe", None, "no"], dtype=object), 2),
]


def test_labels_outside_the_declared_classes_are_missing():
    for classes, labels, missing in MISSING:
        counted = clone(RELEASE).set_params(classes=classes).clipped([[0.1], [0.2], [5.0]], labels)
        assert (counted.features, counted.labels, counted.missing) == (1, 0, missing), labels
    assert declared_classes(np.array([3, 5])) == (3, 5)


def test_an_audit_takes_other_labels_as_missing_as_fit_does(table, tmp_path):
    """They lost nothing, and everybody else what they would have lost without them."""
    X, y = table[0][:30], np.where(table[1][:30] == 1, "yes", "no").astype(object)
    y[3], y[5] = "perhaps", None
    release = pi.PrivateLogisticRegression(x_bound=1.0, classes=("no", "yes"), rounds=2)
    frame = pd.DataFrame(X, columns=list("abc")).assign(ill=y)
    frame.to_csv(tmp_path / "people.csv", index=False)
    there = np.array([one in ("no", "yes") for one in y])
    expected = np.zeros(30)
    expected[there] = pi.audit(release, X[there], y[there]).losses
    numbers = np.where(there, np.where(y == "yes", 1.0, 0.0), 2.0)
    found = (
        pi.audit(release, X, y),
        pi.audit(release, frame, target="ill"),
        pi.audit(release, pi.scan(tmp_path / "people.csv"), target="ill"),
        pi.audit(clone(release).set_params(classes=None), X, numbers),
    )
    for audit in found:
        np.testing.assert_allclose(audit.losses, expected, rtol=1e-12)
    assert clone(release).clipped(X, y).missing == 2
    with pytest.raises(InvalidTable, match="words"):
        pi.audit(release, X, numbers)


# --- the estimate


def test_a_clear_gram_matrix_leaves_no_doubt_and_noise_nothing_else():
    for d in (1, 5, 40):
        assert read_gram(np.zeros((d, d)), 100.0, 0.03).doubt == 1.0
        clear = read_gram(1e7 * np.eye(d), 100.0, 0.03)
        assert clear.doubt == 0.0
        np.testing.assert_allclose(clear.steps, 2.5e6)
        np.testing.assert_array_equal(clear.steps, clear.answer)
    doubts = [read_gram(size * np.eye(5), 100.0, 0.03).doubt for size in (0.0, 30.0, 100.0, 200.0, 1e3)]
    assert doubts == sorted(doubts, reverse=True) and 0 < doubts[2] < 1


def test_it_tends_to_logistic_regression_as_the_data_grow():
    """The two minimise different losses; with 300,000 people and little noise the coefficients agree."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(300_000, 2))
    y = (rng.uniform(size=len(X)) < expit(X @ [2.0, -1.0] - 1.0)).astype(int)
    model = pi.PrivateLogisticRegression(epsilon=5.0, delta=1e-5, x_bound=[1.0, 1.0]).fit(X, y)
    plain = LogisticRegression(C=1e6).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.06)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=0.06)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


# --- each person


def test_people_against_the_sums_without_them(table):
    """The pair's distance is above what the person moves every released number by, at any point asked about."""
    X, y = table
    release = pi.PrivateLogisticRegression(x_bound=0.6, rounds=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = pi.audit(release, X, y)
    plan, box = release._plan(release._box(3)), release._box(3)
    rows = box.rows(X, 2.0 * y - 1.0)
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=(4, 4)) * 3
    for i in range(0, 400, 40):
        moved = (rows.X[i] @ rows.X[i] / box.x_bound**2 * plan.gram_distance) ** 2
        for theta, distance in zip(thetas, plan.round_distances, strict=True):
            s = slopes(rows.X[i : i + 1] @ theta, rows.y[i : i + 1])[0]
            moved += (s * np.linalg.norm(rows.X[i]) / (0.5 * box.x_bound) * distance) ** 2
        assert math.sqrt(moved) <= audit.pairs.distance[i]
    assert audit.pairs.kind == "upper"
    assert audit.losses.max() <= 1.0 + 1e-9


def test_the_reading_along_the_path_is_an_estimate_below_the_bound(table):
    X, y = table
    model = pi.PrivateLogisticRegression(epsilon=2.0, delta=1e-6, x_bound=1.0).fit(X, y)
    for release in (model, clone(model)):
        reading, bound = pi.audit(release, X, y, method="estimate"), pi.audit(release, X, y)
        assert reading.pairs.kind == "estimate" and bound.pairs.kind == "upper"
        assert (reading.losses <= bound.losses).all() and reading.losses.mean() < bound.losses.mean()


def test_one_round_is_exact(table):
    """Asked at zero, where every slope is 1/2: two Gaussian shifts, from the scales that the window was asked with."""
    X, y = table
    scales = []

    class Asked(Window):
        def outer(self, of, scale):
            scales.append(scale)
            return super().outer(of, scale)

        def sums(self, of, asked):
            scales.append(asked[0])
            assert not of.keywords["theta"].any()
            return super().sums(of, asked)

    release = pi.PrivateLogisticRegression(x_bound=1.0, rounds=1)
    box = release._box(3)
    rows = box.rows(X, 2.0 * y - 1.0)
    run(release._plan(box), Asked(rows, simulated()))
    norms = np.linalg.norm(rows.X, axis=1)
    for method in ("auto", "estimate"):
        audit = pi.audit(release, X, y, method=method)
        assert audit.pairs.kind == "exact"
        np.testing.assert_allclose(audit.pairs.distance, np.hypot(norms**2 / scales[0], norms / 2 / scales[1]), 1e-12)
