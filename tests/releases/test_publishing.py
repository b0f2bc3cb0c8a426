"""``fit`` publishes exactly the rounding of one ideal draw, and the ideal is the law that the audit describes."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import ArraySweep
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.known_answers import StreamBits
from perinstance.sampling.random_bits import variate
from tests.sampling import reference

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
    """Draws of known strings are affine in their normal numbers: mean and covariance are those of the law."""
    release = RELEASES[name]
    law, ideal = release.law(release.confidential_fit(ArraySweep(X, y))), release.ideal(X, y)
    strings = [[StreamBits(f"law {k} {i}") for i in range(ideal.d)] for k in range(ideal.d + 1)]
    points = np.array([settle(ideal, bits, -60) for bits in strings], dtype=float) * 2.0**-60
    with working_precision(128):
        z = np.array([[float(variate("gaussian", one, 128).mid()) for one in bits] for bits in strings])
    found = np.linalg.solve(np.column_stack([z, np.ones(len(z))]), points)
    covariance = law.root @ law.root.T
    scale = np.sqrt(np.diag(covariance))
    assert (np.abs(found[-1] - law.mean) <= 1e-7 * scale).all()
    assert (np.abs(found[:-1].T @ found[:-1] - covariance) <= 1e-7 * np.outer(scale, scale)).all()


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


def test_other_losses_get_exact_noise_on_their_float_estimate():
    release = pi.OutputPerturbation(LogisticRegression(), scale=1e-9).fit(X, (y > 140).astype(int))
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y > 140)
    np.testing.assert_allclose(release.coef_, expected.coef_, atol=1e-5)


def test_dependent_columns_are_refused():
    twice = np.column_stack([X[:, 0], X[:, 0]])
    with pytest.raises(InvalidInput, match="linearly dependent"):
        pi.OutputPerturbation(LinearRegression(), scale=1.0).fit(twice, y)
