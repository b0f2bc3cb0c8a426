"""``fit`` publishes exactly the rounding of one ideal draw, and the ideal is the law that the audit describes."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.sweep import ArraySweep
from perinstance.sampling.grid_rounding import settle
from perinstance.sampling.known_answers import StreamBits
from tests.sampling import reference
from tests.sampling.simulated import simulated_draws

X, y = load_diabetes(return_X_y=True)
A = np.diag(np.arange(1.0, 12.0)) + 0.1
RELEASES = {
    "output": pi.OutputPerturbation(Ridge(alpha=0.3), scale=4.0),
    "no intercept": pi.OutputPerturbation(Ridge(alpha=0.3, fit_intercept=False), scale=4.0),
    "shaped": pi.OutputPerturbation(LinearRegression(), scale=4.0, precision=A),
    "posterior": pi.PosteriorSample(alpha=0.3, gamma=0.01, fit_intercept=True),
    "objective": pi.ObjectivePerturbation(Ridge(alpha=0.3), scale=5.0),
}


@pytest.mark.parametrize("name", list(RELEASES))
def test_the_ideal_is_the_law_of_the_audit(name):
    release = RELEASES[name]
    law = release.law(release.confidential_fit(ArraySweep(X, y)))
    simulated = simulated_draws(release.ideal(X, y), 40_000, np.random.default_rng(5)).simulated_values
    z = np.linalg.solve(np.linalg.cholesky(law.root @ law.root.T), (simulated - law.mean).T)
    assert np.abs(z.mean(axis=1)).max() < 6 / np.sqrt(40_000)
    assert np.abs(np.cov(z) - np.eye(len(z))).max() < 8 / np.sqrt(40_000)


@pytest.mark.parametrize("name", list(RELEASES))
def test_fit_publishes_on_the_grid(name):
    release = RELEASES[name].fit(X, y)
    scaled = np.append(release.coef_, release.intercept_) * 2.0**40
    assert (scaled == np.round(scaled)).all()
    assert release.coef_.shape == (10,)
    assert (release.intercept_ == 0.0) == (name == "no intercept")
    assert release.predict(X[:5]).shape == (5,)
    first, second = release.coef_, release.fit(X, y).coef_
    assert (first != second).all()


def test_rows_are_taken_as_the_exact_numbers_that_floats_hold():
    few, target = X[:15, :3] * [1e9, 1.0, 1e-7], y[:15]
    ones = np.column_stack([few, np.ones(15)])
    ideal = pi.PosteriorSample(alpha=0.3, gamma=0.7, fit_intercept=True).ideal(few, target)
    strings = [StreamBits(f"publishing {i}") for i in range(4)]
    with mpmath.workdps(reference.DIGITS):
        H, b = reference.equations(ones, target, 0.0)
        for i in range(3):
            H[i, i] += mpf(0.3)
        z = mpmath.matrix([reference.normal(f"publishing {i}") for i in range(4)])
        theta = mpmath.lu_solve(H, b) + mpmath.lu_solve(mpmath.cholesky(H).T, z) / mpmath.sqrt(mpf(0.7))
        assert settle(ideal, strings, -40) == reference.rounded(list(theta), -40)


def test_order_of_rows_and_memory_layout_do_not_matter():
    ideal = [
        pi.PosteriorSample(fit_intercept=True).ideal(table, target)
        for table, target in [(X, y), (X[::-1], y[::-1]), (np.asfortranarray(X), y)]
    ]
    points = {settle(one, [StreamBits(f"order {i}") for i in range(11)], -40) for one in ideal}
    assert len(points) == 1


@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_means_are_exact(statistic):
    table = np.column_stack([np.full(9, 0.1), [1e16, 1.0, -1e16, 0, 0, 0, 0, 0, 0]])
    center = pi.NoisyMean(scale=1.0, statistic=statistic).ideal(table).center
    parts = 9 if statistic == "mean" else 1
    assert center == [Fraction(0.1) * 9 / parts, Fraction(1, parts)]


@pytest.mark.usefixtures("fixed_noise")
def test_means_have_the_noise_they_should():
    rows = np.random.default_rng(0).standard_normal((100, 400))
    for noise, deviation in [("laplace", np.sqrt(2) * 3), ("gaussian", 3.0)]:
        z = pi.NoisyMean(scale=3.0, noise=noise).fit(rows).value_ - rows.mean(axis=0)
        assert 0.75 * deviation < z.std() < 1.3 * deviation
        assert abs(z.mean()) < 5 * deviation / 20


def test_a_coarse_grid_is_honoured():
    release = pi.PosteriorSample(gamma=1e-4, grid=0.25).fit(X, y)
    assert (release.coef_ % 0.25 == 0).all()
    with pytest.raises(InvalidInput, match="power of two"):
        pi.PosteriorSample(grid=0.3).fit(X, y)


def test_pipelines_and_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)])
    model = make_pipeline(StandardScaler(), pi.PosteriorSample(gamma=1.0, fit_intercept=True)).fit(frame, y)
    assert model.predict(frame).shape == (442,)
    assert list(pi.OutputPerturbation(Ridge(), scale=1.0).fit(frame, y).feature_names_in_) == list(frame.columns)


def test_other_losses_get_exact_noise_on_their_float_estimate():
    release = pi.OutputPerturbation(LogisticRegression(), scale=1e-9).fit(X, (y > 140).astype(int))
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y > 140)
    np.testing.assert_allclose(release.coef_, expected.coef_, atol=1e-5)


def test_refusals():
    twice = np.column_stack([X[:, 0], X[:, 0]])
    with pytest.raises(InvalidInput, match="linearly dependent"):
        pi.OutputPerturbation(LinearRegression(), scale=1.0).fit(twice, y)
    with pytest.raises(RefusedModel, match="sample_weight"):
        pi.PosteriorSample().fit(X, y, sample_weight=np.ones(442))
    with pytest.raises(InvalidInput, match="gamma"):
        pi.PosteriorSample(gamma=0.0).fit(X, y)
    with pytest.raises(InvalidInput, match="scale"):
        pi.OutputPerturbation(scale=-1.0).fit(X, y)
    with pytest.raises(InvalidInput, match="noise"):
        pi.NoisyMean(noise="cauchy").fit(X)
