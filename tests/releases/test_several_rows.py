"""People with several rows: every loss against refits without all of a person's rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.errors import InvalidTable, RefusedModel
from perinstance.pairs import GaussianShift, GeneralGaussian

SIZES = [1, 2, 1, 5, 3, 40, 1, 2, 7, 1]
RELEASES = [
    pi.PosteriorSample(alpha=0.7, gamma=0.3),
    pi.PosteriorSample(alpha=0.7, gamma=0.3, fit_intercept=True),
    pi.OutputPerturbation(Ridge(alpha=0.7, fit_intercept=False), scale=0.1),
    pi.OutputPerturbation(Ridge(alpha=0.7), scale=0.1, precision=np.diag([1.0, 2.0, 5.0, 1.0])),
    pi.ObjectivePerturbation(Ridge(alpha=0.7, fit_intercept=False), scale=2.0),
]


def registry(d=3, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.normal(size=(n, d))
    y = X @ np.arange(1.0, d + 1) + rng.normal(size=n)
    ids = np.repeat([f"p{k}" for k in range(len(sizes))], sizes)
    order = rng.permutation(n)
    return X[order], y[order], ids[order]


def gaussian(release, X, y):
    """The published law's mean and covariance, by the textbook."""
    mechanism = release.mechanism()
    Z = np.column_stack([X, np.ones((len(X), int(mechanism.fit_intercept)))])
    penalty = np.append(np.full(X.shape[1], mechanism.alpha), np.zeros(int(mechanism.fit_intercept)))
    H = Z.T @ Z + np.diag(penalty)
    inverse = np.linalg.inv(H)
    A = np.eye(len(H)) if mechanism.precision is None else np.asarray(mechanism.precision)
    shape = {"posterior": inverse, "output": np.linalg.inv(A), "objective": inverse @ inverse}[mechanism.family]
    return inverse @ (Z.T @ y), mechanism.scale**2 * shape


def refitted(release, X, y, ids, person, delta):
    """The loss by two refits."""
    stay = ids != person
    (p, P), (q, Q) = gaussian(release, X[stay], y[stay]), gaussian(release, X, y)
    if release.mechanism().family == "output":
        distance = np.sqrt((q - p) @ np.linalg.solve(Q, q - p))
        return GaussianShift([distance]).epsilon(delta)[0]
    return GeneralGaussian.from_moments(p[None], P[None], q[None], Q[None]).epsilon(delta)[0]


@pytest.mark.parametrize("release", RELEASES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("d", [3, 12])
def test_a_refit_without_all_rows_of_a_person(release, d):
    if d != 3 and release.mechanism().precision is not None:
        pytest.skip("the precision is that of three columns")
    X, y, ids = registry(d)
    found = pi.audit(release, X, y, ids=ids, delta=1e-5)
    assert len(found) == len(SIZES) and found.n_rows == len(y)
    people = found.ids.to_pylist()
    assert people == list(dict.fromkeys(ids.tolist()))  # in the order of their first rows
    for at, person in enumerate(people):
        truth = refitted(release, X, y, ids, person, 1e-5)
        assert found.losses[at] >= truth * (1 - 1e-9) - 1e-12, person
        assert found.losses[at] <= truth * (1 + 1e-6) + 1e-12, person
    assert found.pairs.kind == "exact"


@pytest.mark.parametrize("release", RELEASES[:3] + RELEASES[4:], ids=lambda one: type(one).__name__)
def test_people_outside_who_would_join_with_all_their_rows(release):
    X, y, ids = registry()
    outside = np.isin(ids, ["p3", "p4", "p5", "p0"])
    asked = (X[outside], y[outside], ids[outside])
    found = pi.audit(release, X[~outside], y[~outside], delta=1e-5, outsiders=asked)
    for at, person in enumerate(found.ids.to_pylist()):
        here = ~outside | (ids == person)
        truth = refitted(release, X[here], y[here], ids[here], person, 1e-5)
        assert truth * (1 - 1e-9) <= found.losses[at] <= truth * (1 + 1e-6)


@pytest.mark.parametrize("release", RELEASES[1:4:2] + RELEASES[4:], ids=lambda one: type(one).__name__)
def test_fewer_rows_than_columns_and_a_table_of_one_person(release):
    if release.mechanism().precision is not None:
        release = pi.OutputPerturbation(Ridge(alpha=0.7), scale=0.1)
    X, y, ids = registry(50, [1, 2, 3, 1, 4])
    found = pi.audit(release, X, y, ids=ids, delta=1e-5)
    for at, person in enumerate(found.ids.to_pylist()):
        truth = refitted(release, X, y, ids, person, 1e-5)
        assert truth * (1 - 1e-7) <= found.losses[at] <= truth * (1 + 1e-6)
    alone = pi.audit(release, X[:, :3], y, ids=["one"] * len(y), delta=1e-5)
    if release.mechanism().fit_intercept:
        assert np.isinf(alone.losses[0])  # there is no intercept of nobody
    else:
        truth = refitted(release, X[:, :3], y, np.array(["one"] * len(y)), "one", 1e-5)
        assert truth * (1 - 1e-7) <= alone.losses[0] <= truth * (1 + 1e-6)


def test_equal_rows_and_rows_of_zeros():
    X, y, ids = registry()
    X[ids == "p4"] = X[ids == "p4"][0]
    X[ids == "p1"] = 0.0
    for release in RELEASES:
        found = pi.audit(release, X, y, ids=ids, delta=1e-5)
        for at, person in enumerate(found.ids.to_pylist()):
            truth = refitted(release, X, y, ids, person, 1e-5)
            assert truth * (1 - 1e-7) - 1e-9 <= found.losses[at] <= truth * (1 + 1e-6) + 1e-9


def test_the_order_of_rows_changes_no_answer_and_single_rows_are_as_ever():
    X, y, ids = registry()
    release = RELEASES[1]
    found = pi.audit(release, X, y, ids=ids).to_frame().set_index("id")
    order = np.random.default_rng(5).permutation(len(y))
    again = pi.audit(release, X[order], y[order], ids=ids[order]).to_frame().set_index("id")
    np.testing.assert_allclose(again.loc[found.index, "epsilon"], found["epsilon"], rtol=1e-9)
    rows = pi.audit(release, X, y)
    single = pi.audit(release, X, y, ids=[str(k) for k in range(len(y))])
    assert rows.n_rows is None and single.n_rows is None
    np.testing.assert_array_equal(rows.losses, single.losses)
    one = ids == "p0"
    assert found.loc["p0", "epsilon"] == pytest.approx(rows.losses[one][0], rel=1e-9)


def test_what_an_audit_of_people_offers():
    X, y, ids = registry()
    release = RELEASES[1]
    found = pi.audit(release, X, y, ids=ids)
    assert "10 people with 63 rows" in repr(found)
    assert all(one.difference < 1e-6 for one in found.recheck(X, y, ids=ids))
    assert found.most_exposed(3)["person"].iloc[0] == found.ids.to_pylist()[int(found.losses.argmax())]
    assert found.by(["a", "b"] * 5)["people"].tolist() == [5, 5]
    names = found.rare_features(X, y, ids=ids, count=2)
    assert len(names) == 2
    two = found.deletions_together(["p3", "p4"], 50.0, X, y, ids=ids)
    stay = ~np.isin(ids, ["p3", "p4"])
    (p, P), (q, Q) = gaussian(release, X[stay], y[stay]), gaussian(release, X, y)
    truth = GeneralGaussian.from_moments(p[None], P[None], q[None], Q[None]).epsilon(found.delta)[0]
    assert two.loss == pytest.approx(truth, rel=1e-6)
    after = found.republished(["p5"], X, y, ids=ids)
    assert len(after.after) == len(SIZES) - 1 and (after.after >= after.before).all()
    told = found.realised(pi.PosteriorSample(0.7, 0.3, True).fit(X, y), X, y, ids=ids)
    assert len(told.losses) == len(SIZES)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("ordered", [True, False])
def test_files_sorted_or_not(tmp_path, suffix, ordered):
    import pandas as pd

    X, y, ids = registry()
    order = np.argsort(ids, kind="stable") if ordered else np.arange(len(y))
    frame = pd.DataFrame(X[order], columns=["a", "b", "c"]).assign(y=y[order], who=ids[order])
    path = tmp_path / f"people.{suffix}"
    getattr(frame, f"to_{suffix}")(path, index=False)
    memory = pi.audit(RELEASES[0], frame, target="y", ids="who")
    file = pi.audit(RELEASES[0], pi.scan(path), target="y", ids="who", out=tmp_path / "losses.csv")
    assert file.ids.to_pylist() == memory.ids.to_pylist() and file.n_rows == len(y)
    np.testing.assert_array_equal(file.losses, memory.losses)
    written = pd.read_csv(tmp_path / "losses.csv")
    assert written["id"].tolist() == memory.ids.to_pylist()
    np.testing.assert_allclose(written["epsilon"], memory.losses, rtol=1e-12)
    assert all(one.difference < 1e-6 for one in file.recheck(pi.scan(path), target="y", ids="who"))


def test_a_data_frame_of_a_cluster(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    X, y, ids = registry()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, who=ids)
    memory = pi.audit(RELEASES[0], frame, target="y", ids="who").to_frame().set_index("id")["epsilon"]
    parts = dd.from_pandas(frame, npartitions=3)
    found = pi.audit(RELEASES[0], parts, target="y", ids="who")
    assert found.n_rows == len(y)
    np.testing.assert_allclose(found.to_frame().set_index("id")["epsilon"].loc[memory.index], memory, rtol=1e-9)
    scattered = pi.audit(RELEASES[0], parts, target="y", ids="who", out=tmp_path / "losses")
    assert len(scattered) == len(SIZES)
    beside = pi.audit(RELEASES[0], parts.drop(columns="y"), parts["y"], ids="who")
    np.testing.assert_allclose(beside.to_frame().set_index("id")["epsilon"].loc[memory.index], memory, rtol=1e-9)


def test_bad_tables_of_several_rows():
    X, y, ids = registry()
    X[17, 1] = np.nan
    with pytest.raises(InvalidTable, match="column 1, row 17: a missing value"):
        pi.audit(RELEASES[0], X, y, ids=ids)
    with pytest.raises(RefusedModel, match="several rows is not known"):
        pi.audit(pi.LaplacePosterior(), *registry()[:2], ids=ids)


def smooth_cases():
    from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor

    return [
        (LogisticRegression(C=0.5), lambda eta, rng: (eta + rng.logistic(size=len(eta)) > 0).astype(float)),
        (PoissonRegressor(alpha=0.3), lambda eta, rng: rng.poisson(np.exp(0.3 * eta)).astype(float)),
        (HuberRegressor(alpha=0.4), lambda eta, rng: eta + rng.standard_t(3, size=len(eta))),
    ]


@pytest.mark.parametrize("case", [0, 1, 2], ids=["logistic", "poisson", "huber"])
@pytest.mark.parametrize("method", ["exact", "upper"])
def test_a_smooth_model_refitted_without_all_rows_of_a_person(case, method):
    from sklearn.base import clone

    estimator, draw = smooth_cases()[case]
    rng = np.random.default_rng(3)
    X, _, ids = registry(3, [1, 2, 5, 1, 3, 40, 20, 30, 6, 2])
    y = draw(X @ [1.0, -1.0, 0.5], rng)
    if hasattr(estimator, "tol"):
        estimator.set_params(tol=1e-10, max_iter=10_000)
    found = pi.audit(pi.OutputPerturbation(estimator, scale=0.1), X, y, ids=ids, method=method)
    coefficients = []
    for stay in [np.ones(len(y), bool), *(ids != person for person in found.ids.to_pylist())]:
        fitted = clone(estimator).fit(X[stay], y[stay])
        coefficients.append(np.append(np.ravel(fitted.coef_), fitted.intercept_))
    moved = np.linalg.norm(np.array(coefficients[1:]) - coefficients[0], axis=1) / 0.1
    distance = found.pairs.distance
    assert (distance >= moved * (1 - (1e-3 if case == 2 else 1e-4))).all()  # scikit-learn's Huber stops early
    if method == "exact":
        np.testing.assert_allclose(distance, moved, rtol=1e-3)
        assert found.pairs.kind in ("exact", "upper")
    else:
        assert np.median(distance / moved) < 1.5


def test_a_person_who_is_a_class_alone():
    from sklearn.linear_model import LogisticRegression

    X, _, ids = registry()
    y = (ids == "p4").astype(float)
    found = pi.audit(pi.OutputPerturbation(LogisticRegression(), scale=0.1), X, y, ids=ids)
    losses = dict(zip(found.ids.to_pylist(), found.losses, strict=True))
    assert np.isinf(losses.pop("p4")) and np.isfinite(list(losses.values())).all()


@pytest.mark.parametrize(
    "release",
    [
        pi.NoisyDescent(noise=5.0, steps=5),
        pi.AdaOPS(epsilon=2.0, delta=1e-6, x_bound=8.0, y_bound=30.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_clips_rows_does_not_answer_for_people(release):
    X, y, ids = registry()
    with pytest.raises(RefusedModel, match="declare rows_per_person"):
        pi.audit(release, X, y, ids=ids)
    alone = pi.audit(release.set_params(rows_per_person=40), X, y, ids=ids)
    assert alone.n_rows == len(y)


def test_declared_sums_of_several_rows_are_at_least_what_one_row_costs():
    X, y, ids = registry()
    release = pi.AdaSSP(epsilon=2.0, delta=1e-6, x_bound=8.0, y_bound=30.0)
    rows = pi.audit(release, X, y)
    people = pi.audit(release, X, y, ids=ids)
    for person, loss in zip(people.ids.to_pylist(), people.losses, strict=True):
        assert loss >= rows.losses[ids == person].max()
