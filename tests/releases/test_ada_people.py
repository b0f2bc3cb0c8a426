"""Each person's own loss under AdaOPS and AdaSSP, against data sets that are really made without the person."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import perinstance as pi
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.releases.adaops.estimator import smallest_eigenvalue_moves
from perinstance.releases.adaops.mechanism import plan
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.promises.window import Window, published_before, simulated

# Half of these rows are clipped, on purpose; audits warn the curator of that.
pytestmark = pytest.mark.filterwarnings("ignore::perinstance.errors.BeyondBounds")

rows = arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.floats(-1, 1, width=16))


@given(rows)
def test_eigenvalue_moves_against_refits(X):
    G = X.T @ X
    values, vectors = np.linalg.eigh(G)
    inside, outside = (smallest_eigenvalue_moves(values, vectors, X, where) for where in (True, False))
    for i, x in enumerate(X):
        one = np.outer(x, x)
        for fast, other in ((inside[i], G - one), (outside[i], G + one)):
            slow = abs(np.linalg.eigvalsh(other)[0] - values[0])
            assert fast == pytest.approx(slow, abs=1e-11)
            assert fast <= x @ x + 1e-12  # Weyl


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 0.5, 0.2]
    return X, np.clip(X @ [0.6, -0.5, 0.3] + rng.normal(size=60) / 5, -1.5, 1.5)


@pytest.mark.parametrize("n_public", [None, 60, 10**6])
@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_adaops_people_against_refits(table, n_public, fitted, inside):
    X, y = table
    release = pi.AdaOPS(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, n_public=n_public)
    if fitted:
        release.fit(X, y)
    new = np.array([[0.9, 0.1, 0.2], [0.0, 0.0, 3.0]]), np.array([-1.0, 5.0])
    audit = pi.audit(release, X, y, outsiders=None if inside else new)
    ridge, gamma, floor = audit.fit.linear.penalty[0], audit.fit.gamma, audit.fit.floor
    if fitted:
        assert (ridge, gamma) == (release.lambda_, release.gamma_)
    box = release._box(3)
    spent, at, units = plan(release._request(box)), audit.fit.at, seen_by(release, X, y)
    theirs = units if inside else seen_by(release, *new)
    everyone, asked = at.rows(units), at.rows(theirs)
    window = Recorded(theirs, published_before(answers(at.first)))
    adassp_mechanism.run(spent.first, window)
    first = window.squares
    for i in range(0, len(asked.y), 7 if inside else 1):
        keep = np.arange(60) != i if inside else np.ones(60, dtype=bool)
        A, b = everyone.X[keep], everyone.y[keep]
        A_with, b_with = np.vstack([A, asked.X[i]]), np.append(b, asked.y[i])
        eigen = [np.linalg.eigvalsh(M.T @ M)[0] for M in (A, A_with)]
        theta = [np.linalg.solve(M.T @ M + ridge * np.eye(4), M.T @ v) for M, v in ((A, b), (A_with, b_with))]
        squares = ((eigen[1] - eigen[0]) / spent.eigenvalue_at(at.x_bound).scale) ** 2
        squares += first[i]
        if n_public is None:
            squares += 1 / spent.count.scale**2
        if spent.size is not None:
            size = [np.log1p(at.x_bound * np.linalg.norm(t)) for t in theta]
            squares += ((size[1] - size[0]) / spent.size_at(floor).scale) ** 2
        mu = asked.X[i] @ np.linalg.solve(A.T @ A + ridge * np.eye(4), asked.X[i])
        rho = np.sqrt(gamma) * abs(asked.y[i] - asked.X[i] @ theta[0])
        slow = (GaussianShift(np.sqrt(squares)) + PosteriorSamplePair(mu, rho)).epsilon(1e-6)[0]
        assert audit.losses[i] == pytest.approx(slow, rel=1e-6, abs=1e-9)
    assert set(audit.pairs.kinds) == {"estimate"}
    assert audit.losses.max() < 1.0  # everybody lost less than promised


BOUNDS = [1.0, [(-2.0, 2.0), 1.5, (-1.0, 0.5)]]
both_stages = pytest.mark.parametrize("robust", [None, "robust"], ids=["free", "robust"])
both_bounds = pytest.mark.parametrize("x_bound", BOUNDS, ids=["ball", "box"])


@both_bounds
@pytest.mark.parametrize("n_public", [None, 60])
@pytest.mark.parametrize("intercept", [True, False])
def test_adassp_people_one_round_is_exact(table, x_bound, n_public, intercept):
    """What removing the person really moves: the whole Gram matrix but a known last entry, and the whole moment."""
    X, y = table
    release = pi.AdaSSP(1.0, 1e-6, x_bound, 1.0, rounds=1, fit_intercept=intercept, n_public=n_public)
    audit = pi.audit(release, X, y)
    box, seen = release._box(3), seen_by(release, X, y)
    spent = release._plan(box)
    assert audit.pairs.kind == "exact"
    full = np.ones(box.d)
    full[:3] = box.radius / np.sqrt(3)
    full[3:] = box.weight
    largest = frobenius(full, intercept and n_public is not None)
    for i in range(0, 60, 7):
        x, label = seen.X[i], seen.y[i]
        gram = frobenius(x, intercept and n_public is not None) / largest * spent.gram_distance
        moment = np.linalg.norm(x * label) / np.linalg.norm(full) * spent.round_distance
        assert audit.losses[i] == pytest.approx(GaussianShift(np.hypot(gram, moment)).epsilon(1e-6)[0], rel=1e-6)
    assert audit.losses.max() <= 1.0 + 1e-9


def frobenius(x, last_is_known):
    outer = np.outer(x, x)
    if last_is_known:
        outer[-1, -1] = 0.0
    return np.linalg.norm(outer)


@both_bounds
@pytest.mark.parametrize("n_public", [None, 60])
@pytest.mark.parametrize("intercept", [True, False])
@both_stages
def test_adassp_people_with_rounds_is_an_upper_bound_below_the_promise(table, x_bound, n_public, intercept, robust):
    X, y = table
    release = pi.AdaSSP(1.0, 1e-6, x_bound, 1.0, fit_intercept=intercept, n_public=n_public, intervals=robust)
    audit = pi.audit(release, X, y)
    assert audit.pairs.kind == "upper"
    assert audit.losses.max() <= 1.0 + 1e-9
    if x_bound == 1.0 and not intercept and not robust:  # a short row has little to lose, whatever residuals are
        short = np.linalg.norm(X, axis=1).argmin()
        assert audit.losses[short] == audit.losses.min() < 0.5
    # what a run really moves for each person, at the estimates and coordinates it really had, is no more
    seen = seen_by(release, X, y)
    for seed in range(20):
        window = Recorded(seen, simulated(np.random.default_rng(seed)))
        adassp_mechanism.run(release._plan(release._box(3)), window)
        assert (np.sqrt(window.squares) <= audit.pairs.distance).all()


@both_bounds
@pytest.mark.parametrize("fitted", [True, False])
@both_stages
def test_adassp_reading_at_the_estimates_that_were_drawn(table, x_bound, fitted, robust):
    X, y = table
    release = pi.AdaSSP(1.0, 1e-6, x_bound, 1.0, n_public=60, intervals=robust)
    if fitted:
        release.fit(X, y)
    reading, bound = pi.audit(release, X, y, method="estimate"), pi.audit(release, X, y)
    assert reading.pairs.kind == "estimate"
    assert (reading.losses <= bound.losses * (1 + 1e-9)).all()
    # the same by the window that records what everybody moves, at the same answers
    spent, seen = release._plan(release._box(3)), seen_by(release, X, y)
    window = Recorded(seen, published_before(answers(reading.fit.run)))
    again = adassp_mechanism.run(spent, window)
    np.testing.assert_allclose(reading.pairs.distance, np.sqrt(window.squares), rtol=1e-6)
    np.testing.assert_allclose(again.coef, reading.fit.run.coef, rtol=1e-9, atol=1e-12)
    if fitted:  # the estimates follow from what was published alone
        coef, intercept = release._box(3).in_user_units(reading.fit.run.coef)
        np.testing.assert_array_equal(coef, release.coef_)
        assert intercept == release.intercept_


class Recorded(Window):
    """Sums, for each person, the squared distance that they really moved each answer by."""

    def __init__(self, rows, draw):
        super().__init__(rows, draw)
        self.squares = np.zeros(len(rows.y))

    def sums(self, of, scales):
        self.squares += ((of(self._rows) / scales) ** 2).sum(axis=1)
        return super().sums(of, scales)

    def outer(self, of, scale, known=None, twice=False):
        self.squares += [(frobenius(one, known is not None) / scale) ** 2 for one in of(self._rows)]
        return super().outer(of, scale, known)


def answers(run):
    """What a run of AdaSSP released, in order."""
    sums = [run.totals, run.column_totals, run.gram[np.triu_indices(len(run.gram))], *run.moments]
    return [*(one for one in sums if len(one)), *([] if run.bought is None else run.bought.answers)]


def seen_by(release, X, y):
    """Rows as the release sees them: in units, clipped, the ones last."""
    return release._box(X.shape[1]).rows(X, y)


def test_audit_of_a_clipped_row_sees_the_clipped_row(table):
    X, y = (np.array(part) for part in table)
    X[3], y[3] = [100.0, 0.0, 0.0], 100.0
    clipped = np.array(X), np.array(y)
    clipped[0][3], clipped[1][3] = [1.0, 0.0, 0.0], 1.0
    for release in (
        pi.AdaSSP(x_bound=1.0, y_bound=1.0, rounds=1),
        pi.AdaOPS(x_bound=1.0, y_bound=1.0, n_public=60),
    ):
        np.testing.assert_allclose(pi.audit(release, X, y).losses, pi.audit(release, *clipped).losses, rtol=1e-9)
