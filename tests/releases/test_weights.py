"""Weights of rows: what scikit-learn fits with and without a person, repeated rows, and promises kept by exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel
from perinstance.releases.promises.window import Window, asked, simulated

N, D = 60, 3
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, D))
Y = X @ [1.0, -1.0, 0.5] + RNG.normal(size=N)
CLASSES, COUNTS = (Y > 0).astype(int), RNG.poisson(np.exp(X @ [0.3, -0.2, 0.1])).astype(float)
WEIGHTS = RNG.uniform(0.05, 5.0, N)
WEIGHTS[3] = 0.0  # is not there
TIMES = RNG.integers(1, 5, N)
AGAIN = np.repeat(np.arange(N), TIMES)

MODELS = {
    "ridge": (Ridge(alpha=2.0), Y),
    "ridge without an intercept": (Ridge(alpha=2.0, fit_intercept=False), Y),
    "least squares": (LinearRegression(), Y),
    "logistic": (LogisticRegression(C=2.0, tol=1e-12, max_iter=10**4), CLASSES),
    "poisson": (PoissonRegressor(alpha=0.1, tol=1e-12, max_iter=10**4), COUNTS),
    "gamma": (GammaRegressor(alpha=0.1, tol=1e-12, max_iter=10**4), np.exp(Y / 3)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("people", [1, 3], ids=["one row", "several rows"])
def test_refits_without_each_person(name, people):
    model, y = MODELS[name]
    ids = np.arange(N) // people

    def fitted(keep):
        found = model.fit(X[keep], y[keep], sample_weight=WEIGHTS[keep])
        return np.append(np.ravel(found.coef_), np.ravel(found.intercept_))

    whole = fitted(np.ones(N, dtype=bool))
    truth = np.array([np.linalg.norm(whole - fitted(ids != i)) / 0.5 for i in range(ids.max() + 1)])
    given = {"sample_weight": WEIGHTS} | ({} if people == 1 else {"ids": ids})
    for method in ("auto", "upper"):
        audit = pi.audit(pi.OutputPerturbation(model, 0.5), X, y, **given, method=method)
        assert len(audit) == len(truth)
        assert (audit.pairs.distance >= truth * (1 - 2e-5) - 1e-7).all()  # to which scikit-learn solves
        if method == "auto":
            assert audit.pairs.distance == pytest.approx(truth, rel=1e-4, abs=1e-6)
    if people == 1:
        assert audit.losses[3] < 1e-10


RELEASES = {
    "posterior": (pi.PosteriorSample(1.0, 2.0, fit_intercept=True), Y),
    "output": (pi.OutputPerturbation(Ridge(), 1.0, precision=np.diag([1.0, 2.0, 3.0, 4.0])), Y),
    "student": (pi.StudentPerturbation(Ridge(), 1.0), Y),
    "objective": (pi.ObjectivePerturbation(Ridge(), 3.0), Y),
    "sum": (pi.NoisyMean(statistic="sum"), None),
    "logistic": (pi.OutputPerturbation(LogisticRegression(), 0.3), CLASSES),
    "poisson": (pi.OutputPerturbation(PoissonRegressor(alpha=0.5), 0.3), COUNTS),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_whole_number_is_so_many_rows_of_one_person(name):
    release, y = RELEASES[name]
    tables = ((X,), (X[AGAIN],)) if y is None else ((X, y), (X[AGAIN], y[AGAIN]))
    weighted = pi.audit(release, *tables[0], sample_weight=TIMES)
    repeated = pi.audit(release, *tables[1], ids=AGAIN)
    assert weighted.losses == pytest.approx(repeated.losses, rel=1e-9)
    order = RNG.permutation(N)
    tables = [np.asarray(one)[order] for one in tables[0]]
    permuted = pi.audit(release, *tables, sample_weight=TIMES[order])
    assert permuted.losses == pytest.approx(weighted.losses[order], rel=1e-9)


def test_what_is_drawn_is_the_weighted_fit():
    for release, model, y in (
        (pi.PosteriorSample(1.0, 1e16, fit_intercept=True), Ridge(alpha=1.0), Y),
        (pi.OutputPerturbation(Ridge(alpha=1.0), 1e-9), Ridge(alpha=1.0), Y),
        (pi.ObjectivePerturbation(Ridge(alpha=1.0), 1e-9), Ridge(alpha=1.0), Y),
        (pi.OutputPerturbation(LogisticRegression(), 1e-9), LogisticRegression(tol=1e-10, max_iter=10**4), CLASSES),
    ):
        found, truth = release.fit(X, y, sample_weight=WEIGHTS), model.fit(X, y, sample_weight=WEIGHTS)
        assert found.coef_ == pytest.approx(truth.coef_, abs=1e-6)
        assert found.intercept_ == pytest.approx(truth.intercept_, abs=1e-6)
        with pytest.raises(InvalidInput, match="pass sample_weight="):
            pi.audit(found, X, y)
        with pytest.raises(InvalidInput, match="without weights"):
            pi.analysis.compare_accuracy(found, X, y)
        assert not release.fit(X, y).weighted_
    total = pi.NoisyMean(1e-9, statistic="sum").fit(X, sample_weight=WEIGHTS)
    assert total.value_ == pytest.approx(WEIGHTS @ X, abs=1e-6)


def test_containers_columns_and_files(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y, w=WEIGHTS, id=[f"p{i // 2}" for i in range(N)])
    frame.to_parquet(tmp_path / "t.parquet")
    release, named = pi.PosteriorSample(fit_intercept=True), {"target": "y", "ids": "id", "sample_weight": "w"}
    audit = pi.audit(release, frame, **named)
    assert audit.features == ("a", "b", "c") and len(audit) == N // 2
    assert repr(audit).startswith("Audit(30 people with 60 rows") and audit.health.n_features == 3
    for other in (frame[["w", "c", "y", "b", "a", "id"]], pi.scan(tmp_path / "t.parquet")):
        assert pi.audit(release, other, **named).losses == pytest.approx(audit.losses, rel=1e-9)
    plain = pi.audit(release, X, Y, ids=frame["id"], sample_weight=WEIGHTS)
    assert plain.losses == pytest.approx(audit.losses, rel=1e-9)
    matrix = np.column_stack([X, Y, WEIGHTS])
    for column in (4, -1):
        assert pi.audit(release, matrix, target=3, ids=frame["id"], sample_weight=column).losses == (
            pytest.approx(audit.losses, rel=1e-9)
        )
    for bad in (5, True, "w"):
        with pytest.raises(InvalidTable):
            pi.audit(release, matrix, target=3, sample_weight=bad)
    with pytest.raises(InvalidTable, match="two dimensions"):
        pi.audit(release, X[:, 0], Y, sample_weight=0)
    shuffled = frame["w"].sample(frac=1.0, random_state=1)  # matched by the index
    assert pi.audit(release, frame[list("abc")], frame["y"], ids=frame["id"], sample_weight=shuffled).losses == (
        pytest.approx(audit.losses, rel=1e-9)
    )
    held = pi.audit(release, frame, **named, weights="from the table")
    assert set(held.pairs.kinds) == {"estimate"} and held.losses == pytest.approx(audit.losses, rel=1e-12)
    with pytest.raises(InvalidTable, match="the weights are not among the 6 columns"):
        pi.audit(release, frame, **{**named, "sample_weight": "weight"})
    for ask in (audit.everyone, audit.worst_case_dp, lambda: audit.recheck(frame, target="y", ids="id")):
        with pytest.raises(RefusedModel, match="rows with weights"):
            ask()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_refused_without_showing_a_value(bad):
    weights = WEIGHTS.copy()
    weights[7] = bad * 1234.5
    with pytest.raises(InvalidTable, match="those of 1 rows are not") as refusal:
        pi.audit(pi.PosteriorSample(), X, Y, sample_weight=weights)
    assert "1234" not in str(refusal.value)
    with pytest.raises(InvalidTable, match="one number for each of 60 rows"):
        pi.audit(pi.PosteriorSample(), X, Y, sample_weight=weights[:5])
    with pytest.raises(InvalidTable, match="all weights are zero"):
        pi.audit(pi.PosteriorSample(), X, Y, sample_weight=np.zeros(N))
    for release in (
        pi.NoisyMean(),
        pi.NoisyDescent(noise=1.0, steps=3),
        pi.ObjectivePerturbation(LogisticRegression()),
    ):
        with pytest.raises(RefusedModel):
            pi.audit(release, X, *([] if isinstance(release, pi.NoisyMean) else [CLASSES]), sample_weight=WEIGHTS)
    with pytest.raises(RefusedModel, match="nothing is known of weights"):
        pi.NoisyDescent(noise=1.0, steps=3).fit(X, Y, sample_weight=WEIGHTS)


PROMISING = {
    "AdaSSP": pi.AdaSSP(1.0, 1e-6, 1.0, 1.0, weight_bound=2.0),
    "AdaSSP in a box": pi.AdaSSP(1.0, 1e-6, [1.0, (-1.0, 2.0), 0.5], (-1.0, 1.5), weight_bound=2.0, intervals="robust"),
    "PrivateGram": pi.PrivateGram(1.0, 1e-6, 1.0, 1.0, weight_bound=2.0),
    "PrivateLogisticRegression": pi.PrivateLogisticRegression(1.0, 1e-6, 1.0, rounds=4, weight_bound=2.0),
}


@pytest.mark.filterwarnings("ignore::perinstance.errors.BeyondBounds")
@pytest.mark.parametrize("name", PROMISING)
def test_nobody_moves_the_sums_further_than_promised(name):
    """Neighbours in exact sums: with one person of any weight, and without; weights beyond the bound, none, missing."""
    release = PROMISING[name]
    rows = RNG.normal(size=(40, D)) * 2.0
    y = RNG.normal(size=40) if "Logistic" not in name else RNG.choice([-1.0, 1.0], 40)
    weights = RNG.uniform(0.0, 3.0, 40)
    weights[:4] = np.inf, 0.0, np.nan, -1.0
    labels = y if "Logistic" not in name else (y > 0).astype(int)
    box = release._box(D)
    shares = np.clip(weights / 2.0, 0.0, 1.0)
    seen = box.rows(rows, y, shares)
    answers = []

    def note(ideal):
        answers.append(simulated()(ideal))
        return answers[-1]

    release._run(box, Window(seen, note))
    whole = asked(lambda window: release._run(box, window), seen, answers)
    audit = pi.audit(release, rows, labels, sample_weight=np.nan_to_num(weights, nan=0.0, posinf=9.0))
    limit = release.promise(D).distance
    for i in range(40):
        rest = box.rows(np.delete(rows, i, 0), np.delete(y, i), np.delete(shares, i))
        without = asked(lambda window: release._run(box, window), rest, answers)
        square = Fraction(0)
        for (_, here), (_, there) in zip(whole, without, strict=True):
            for a, b, scale in zip(here.center, there.center, np.ravel(here.scale), strict=True):
                square += ((Fraction(a) - Fraction(b)) / Fraction(float(scale))) ** 2
        moved = float(square) ** 0.5
        assert moved <= limit
        assert moved <= audit.pairs.distance[i] * (1 + 1e-12)
        assert moved == 0.0 or shares[i] > 0.0


def test_rows_that_adaops_samples_keep_their_bounds():
    """Exactly, whatever the weight: the promise of the sample leans on nothing else."""
    release = pi.AdaOPS(1.0, 1e-6, [1.0, (-1.0, 2.0), 0.5], (-1.0, 1.5), weight_bound=2.0)
    rows, y, shares = RNG.normal(size=(200, D)) * 2.0, RNG.normal(size=200), RNG.uniform(0.0, 1.0, 200)
    shares[:2] = 0.0, 1.0
    box = release._box(D)
    seen = box.rows(rows, y, shares)
    at = release._run(box, Window(seen, simulated())).at
    placed, plain = at.rows(seen), at.rows(box.rows(rows, y))
    assert placed.weights is None and (np.abs(placed.y) <= np.abs(plain.y)).all() and (np.abs(plain.y) <= 1.0).all()
    for row, share, whole in zip(placed.X, shares, plain.X, strict=True):
        square = sum(Fraction(v) ** 2 for v in row.tolist())
        assert square <= Fraction(at.x_bound) ** 2
        assert float(square) == pytest.approx(share * (whole @ whole), rel=1e-12)


def test_published_under_a_promise():
    n = 20_000
    rng = np.random.default_rng(5)
    rows = np.clip(0.3 * rng.standard_normal((n, D)), -1, 1)
    weights = rng.uniform(0.0, 4.0, n)
    group = weights > 2.0  # another relation in heavy rows, so that weights matter
    y = np.clip(rows @ [0.5, -0.3, 0.1] + group * rows[:, 0] * 0.4 + 0.1 * rng.standard_normal(n), -1, 1)
    truth = LinearRegression().fit(rows, y, sample_weight=np.minimum(weights, 3.0))
    assert np.linalg.norm(LinearRegression().fit(rows, y).coef_ - truth.coef_) > 0.05
    for kind in (pi.AdaSSP, pi.AdaOPS, pi.PrivateGram):
        release = kind(20.0, 1e-6, [1.0] * D, 1.0, weight_bound=3.0)
        model = release.fit(rows, y, sample_weight=weights)
        assert np.linalg.norm(model.coef_ - truth.coef_) < 0.02
        assert pi.audit(model, rows, y, sample_weight=weights).losses.max() <= 20.0
        with pytest.raises(InvalidInput, match="weights are needed"):
            release.fit(rows, y)
        if kind is not pi.PrivateGram:
            with pytest.raises(InvalidInput, match="leave n_public away"):
                clone(release).set_params(n_public=n).fit(rows, y, sample_weight=weights)
        with pytest.raises(InvalidInput, match="needs weight_bound="):
            kind(20.0, 1e-6, 1.0, 1.0).fit(rows, y, sample_weight=weights)
    assert "weighted up to 3" in model.to_json()
