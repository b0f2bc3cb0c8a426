"""Second moments under a promise: what one row moves, and the intervals of other releases that they make possible."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import intervals as cells
from mpmath import mp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift
from perinstance.releases.promises.window import Window, simulated

RNG = np.random.default_rng(44)
N, D = 4000, 3
BETA = np.array([0.3, -0.2, 0.1])
BOX = [(-1.0, 2.0), 1.5, (-1.0, 1.5)]


def people(n=N, seed=0, intercept=0.1):
    rng = np.random.default_rng(seed)
    X = cells.rows(n, D, "well", rng)
    return X, np.clip(X @ BETA + intercept + 0.15 * rng.standard_normal(n), -1, 1)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("x_bound", [1.0, BOX], ids=["ball", "box"])
def test_what_one_row_moves_is_what_it_is_charged_with(x_bound, intercept):
    """The sum of outer products with and without the row, entry by entry; nobody beyond the promise."""
    X, y = people(40)
    X[0], y[0] = 9.0, -20.0  # beyond the bounds: clipped
    release = pi.PrivateGram(1.0, 1e-6, x_bound, (-1.0, 1.5), fit_intercept=intercept)
    audit = pi.audit(release, X, y)
    box = release._box(D)

    def center(keep):
        rows = box.rows(X[keep], y[keep])
        Z = np.column_stack([rows.X, rows.y] if intercept else [rows.X, rows.y, np.ones(keep.sum())])
        return Z.T @ Z

    everybody = np.ones(40, dtype=bool)
    scale = release._run(box, Window(box.rows(X, y), simulated())).noise
    assert audit.pairs.kind == "exact" and audit.losses.max() <= 1.0
    for i in range(0, 40, 9):
        moved = np.linalg.norm(center(everybody) - center(np.arange(40) != i)) / scale
        assert audit.losses[i] == pytest.approx(GaussianShift(moved).epsilon(1e-6)[0], rel=1e-6)
    farthest = np.linalg.norm([*[abs(box.radius)], box.weight or 1.0, 1.0]) ** 2 / scale
    assert GaussianShift(farthest).epsilon(1e-6)[0] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_every_draw_is_in_the_realised_loss(intercept):
    """Two worlds: the densities of all entries that were drawn, around the sums of each."""
    X, y = people(30)
    release = pi.PrivateGram(2.0, 1e-6, 1.0, 1.0, fit_intercept=intercept)
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    with pytest.raises(InvalidInput, match="pass the fitted release"):
        pi.audit(release, X, y).realised(model.coef_, X, y)
    box = release._box(D)
    rows = box.rows(X, y)
    Z = np.column_stack([rows.X, rows.y] if intercept else [rows.X, rows.y, np.ones(30)])
    noise = model._run_again().noise

    def log_of(keep):
        total = mp.mpf(0)
        for i in range(len(Z[0])):
            for j in range(i + 1):
                sd = noise if i == j else noise / np.sqrt(2)
                total -= ((mp.mpf(model.moments_[i, j]) - mp.mpf(Z[keep, i] @ Z[keep, j])) / sd) ** 2 / 2
        return total

    for i in range(0, 30, 7):
        truth = log_of(np.arange(30) >= 0) - log_of(np.arange(30) != i)
        assert found.kind == "exact" and float(truth) == pytest.approx(found.losses[i], abs=1e-9)


RELEASES = {
    "posterior": (pi.PosteriorSample(10.0, 100.0, fit_intercept=True), True, 10.0),
    "posterior without": (pi.PosteriorSample(10.0, 100.0), False, 10.0),
    "objective": (pi.ObjectivePerturbation(Ridge(alpha=20.0), 5.0), True, 20.0),
    "output": (pi.OutputPerturbation(Ridge(alpha=20.0), 0.01, precision=np.diag([1.0, 1.0, 4.0, 1.0])), True, 20.0),
}


@pytest.mark.parametrize("name", RELEASES)
def test_explained_releases_cover(name):
    """30 tables of 4,000 people: three standard deviations below what is promised."""
    release, intercept, alpha = RELEASES[name]
    held = {"population": [], "table": []}
    for seed in range(30):
        X, y = people(N, seed, 0.1 * intercept)
        gram = pi.private_gram(X, y, epsilon=2.0, delta=1e-6, x_bound=1.0, y_bound=1.0, fit_intercept=intercept)
        model = gram.explain(clone(release).fit(X, y))
        Z = np.column_stack([X] + [np.ones(N)] * intercept)
        ridge = np.linalg.solve(Z.T @ Z + alpha * np.diag([1.0] * D + [0.0] * intercept), Z.T @ y)
        for about, truth in (("population", np.append(BETA, [0.1] * intercept)), ("table", ridge)):
            ends = model.inference(about).conf_int()
            assert np.isfinite(ends).all()
            held[about].append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert all(0.89 <= np.mean(found) <= 1.0 for found in held.values())


def test_with_hardly_any_noise_they_are_the_ordinary_ones():
    """Least squares and maximum likelihood, and what the draw adds: ``s^2 H^-2`` and ``H^-1/gamma``."""
    X, y = people()
    y = 4.0 * y + 1.0  # another unit, off its middle
    declared = {"epsilon": 1e4, "delta": 1e-6, "x_bound": BOX, "y_bound": (-3.0, 6.0)}
    Z = np.column_stack([X, np.ones(N)])
    H = Z.T @ Z + np.diag([5.0] * D + [0.0])
    least = np.linalg.solve(Z.T @ Z, Z.T @ y)
    spread = np.mean((y - Z @ least) ** 2)
    gram = pi.private_gram(X, y, **declared)
    inverse, own = np.linalg.inv(H), np.linalg.inv(Z.T @ Z)
    assert gram.coef_ == pytest.approx(least[:D], rel=1e-2) and gram.intercept_ == pytest.approx(least[D], rel=1e-2)
    for release, noise in (
        (pi.PosteriorSample(5.0, 1e4, fit_intercept=True), H / 1e4),
        (pi.ObjectivePerturbation(Ridge(alpha=5.0), 2.0), 4.0 * np.eye(D + 1)),
        (pi.OutputPerturbation(Ridge(alpha=5.0), 1e-3), 1e-6 * H @ H),
    ):
        model = gram.explain(release.fit(X, y))
        draw = np.sqrt(np.diag(inverse @ noise @ inverse))
        assert model.inference("table").bse == pytest.approx(draw, rel=0.02)
        found = model.inference()
        assert found.bse == pytest.approx(np.sqrt(np.diag(own @ (noise + spread * Z.T @ Z) @ own)), rel=0.02)
        assert (np.abs(found.params - least) < 5 * np.sqrt(np.diag(own @ noise @ own)) + 1e-3).all()
    classes = (RNG.uniform(size=N) < 1 / (1 + np.exp(-(Z @ [1.0, -1.0, 0.5, 0.3])))).astype(int)
    gram = pi.private_gram(X, classes, **{**declared, "y_bound": (0, 1)})
    fit = LogisticRegression(C=1e3, tol=1e-8).fit(X, classes)
    p = fit.predict_proba(X)[:, 1]
    errors = np.sqrt(np.diag(np.linalg.inv((Z * (p * (1 - p))[:, None]).T @ Z)))
    model = gram.explain(pi.OutputPerturbation(LogisticRegression(C=1e3), 1e-4).fit(X, classes))
    assert model.inference().bse == pytest.approx(errors, rel=0.05)
    model = pi.ObjectivePerturbation(LogisticRegression(C=1e3, fit_intercept=False), 1.0).fit(X[:500], classes[:500])
    gram = pi.private_gram(
        X[:500], classes[:500], **{**declared, "y_bound": (0, 1), "x_bound": 1.0}, fit_intercept=False
    )
    free = np.linalg.inv((X[:500] * (expit_height(X[:500] @ model.coef_[0]))[:, None]).T @ X[:500] + np.eye(D) / 1e3)
    assert gram.explain(model).inference("table").bse == pytest.approx(np.sqrt(np.diag(free @ free)), rel=0.1)


def expit_height(score):
    p = 1 / (1 + np.exp(-score))
    return p * (1 - p)


def test_the_file_has_what_was_explained(tmp_path):
    X, y = people()
    gram = pi.private_gram(X, y, epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
    model = gram.explain(pi.PosteriorSample(10.0, 100.0, fit_intercept=True).fit(X, y))
    here, free = model.inference(), pi.PosteriorSample(10.0, 100.0, fit_intercept=True).fit(X, y)
    there = pi.load_model(model.save(tmp_path / "model.json")).inference()
    assert here.summary() == there.summary() and any("promise of their own (1, 1e-06)" in one for one in here.notes)
    again = pi.load_model(gram.save(tmp_path / "gram.json")).release().explain(clone(model).fit(X, y))
    assert again.inference("table").bse == pytest.approx(model.inference("table").bse)
    with pytest.raises(InvalidInput, match="publishes nothing"):
        free.inference()
    table = gram.inference("table")
    assert (table.params == table.published).all() and (gram.inference().bse > table.bse).all()


@pytest.mark.parametrize("n", [0, 1, 30])
@pytest.mark.parametrize("intercept", [True, False])
def test_few_people_are_hidden(n, intercept):
    X, y = people(max(n, 2))
    gram = pi.private_gram(X[:n], y[:n], epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, fit_intercept=intercept)
    model = gram.explain(pi.PosteriorSample(1.0, 10.0, fit_intercept=intercept).fit(X, y))
    for found in (model.inference(), gram.inference(), gram.inference("table")):
        assert not found.resolved.any() and np.isinf(found.conf_int()).all() and (found.pvalues == 1.0).all()


def test_the_ledger_charges_them_by_themselves(tmp_path):
    X, y = people(200)
    ids = np.arange(200).astype(str)
    book = pi.Ledger(tmp_path / "book")
    for key, release in (("moments", pi.PrivateGram(1.0, 1e-6, 1.0, 1.0)), ("sample", pi.PosteriorSample(1.0, 10.0))):
        book.charge(pi.audit(release, X, y, ids=ids), key=key)
    assert len(book.releases()) == 2 and book.totals(1e-6).losses.max() > 0.2


def test_what_cannot_be_explained_is_refused():
    X, y = people(300)
    gram = pi.private_gram(X, y, epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
    for release in (
        pi.AdaSSP(1.0, 1e-6, 1.0, 1.0).fit(X, y),
        pi.OutputPerturbation(PoissonRegressor()).fit(X, np.abs(y)),
        Ridge().fit(X, y),
    ):
        with pytest.raises(InvalidInput, match="PosteriorSample"):
            gram.explain(release)
    for release, rows in ((pi.PosteriorSample(), X), (pi.PosteriorSample(fit_intercept=True), X[:, :2])):
        with pytest.raises(InvalidInput, match="columns"):
            gram.explain(release.fit(rows, y))
