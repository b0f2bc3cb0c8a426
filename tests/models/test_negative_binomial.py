"""The negative binomial loss: statsmodels' fit, its limits, and an audit of each kind."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import perinstance as pi
from perinstance.errors import InvalidInput

from .dumb import problem

A = 0.6  # the catalogue's dispersion


def table(n=150, d=3):
    return problem("negative-binomial", np.random.default_rng(7), n, d, spread=0.3)


def model(dispersion=A, alpha=0.5):
    objective = pi.models.SmoothObjective(
        pi.models.NegativeBinomial(dispersion), pi.models.RidgePenalty(alpha), fit_intercept=True
    )
    return pi.models.SmoothProblem(objective)


def test_the_minimum_is_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    X, y = table()
    found = model(alpha=0.0).fit(pi.models.ArraySweep(X, y), method="estimate")
    family = sm.families.NegativeBinomial(alpha=A)
    theirs = sm.GLM(y, sm.add_constant(X, prepend=False), family=family)
    assert found.theta == pytest.approx(theirs.fit(tol=1e-12, maxiter=200).params, rel=1e-6)
    assert found.model.fit.hessian == pytest.approx(-theirs.hessian(found.theta, scale=1.0, observed=True), rel=1e-9)


def test_the_value_is_the_negative_log_likelihood_up_to_a_constant():
    stats = pytest.importorskip("scipy.stats")
    y, eta = np.array([3.0, 3.0, 3.0]), np.array([-1.0, 0.5, 2.0])
    p = 1 / (1 + A * np.exp(eta))
    difference = pi.models.NegativeBinomial(A).value(y, eta) + stats.nbinom.logpmf(y, 1 / A, p)
    assert difference == pytest.approx(np.full(3, difference[0]), abs=1e-12)


@pytest.mark.parametrize("dispersion", [1e-6, 0.6, 50.0])
@pytest.mark.parametrize("eta", [-745.0, -40.0, -1e-8, 0.0, 1e-8, 36.8, 300.0, 800.0])
def test_extremes(dispersion, eta):
    loss = pi.models.NegativeBinomial(dispersion)
    for y in (0.0, 1.0, 7.0):
        with mpmath.workdps(800):
            mu, a = mpmath.exp(mpmath.mpf(eta)), mpmath.mpf(dispersion)
            slope, curvature = (mu - y) / (1 + a * mu), mu * (1 + a * y) / (1 + a * mu) ** 2
        l1, l2 = loss.derivatives(np.array([y]), np.array([eta]))
        assert l1[0] == pytest.approx(float(slope), rel=1e-14, abs=1e-15 * y)
        assert l2[0] == pytest.approx(float(curvature), rel=1e-13, abs=1e-310)


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="dispersion"):
        pi.models.NegativeBinomial(0.0)
    with pytest.raises(InvalidInput, match="counts must be >= 0"):
        model().fit(pi.models.ArraySweep(np.ones((2, 1)), np.array([1.0, -1.0])))
