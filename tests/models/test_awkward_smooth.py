"""Tables that break careless code: one row, more columns than people, leverage near one, columns 1e8 apart."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor

import perinstance as pi
from perinstance.errors import NumericalTrouble
from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.smooth.movement_bounds import prepare, sensitivity
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.objective_folds import fit_smooth

from .dumb import problem, refit

everyone = pytest.mark.parametrize("name", CATALOGUE)


@pytest.mark.parametrize("far", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("poisson", "gamma")])
def test_an_outsider_who_outweighs_everybody(name, far):
    """Her curvature is up to 1e10 times the others': formulas of one rank cancel, and once said too little."""
    rng = np.random.default_rng(6)
    X, y = problem(name, rng, 40, 2, spread=0.0)
    objective = SmoothObjective(CATALOGUE[name], RidgePenalty(0.5))
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, objective)
    across = np.array([fit.theta[1], -fit.theta[0]]) / np.linalg.norm(fit.theta)
    Z, z = far * across[None] + 0.1, np.array([1.0])  # far out, and yet her prediction is an ordinary one
    D = refit(name, np.vstack([X, Z]), np.append(y, z), 0.5, start=fit.theta) - fit.theta
    truth = np.linalg.norm(D)
    assert truth > 0
    certified = sensitivity(prepare(sweep, fit), Z, z, inside=False)
    assert certified.distance[0] >= truth * (1 - 1e-7)
    exact = distances(leave_one_out(prepare(sweep, fit, kind="exact"), sweep, Z, z, inside=False), None).value
    assert exact[0] == pytest.approx(truth, rel=1e-5, abs=1e-10)


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_an_outsider_with_an_exponential_curvature(name):
    """Her curvature overflows all others; the certificate must not round it to no influence."""
    X, y = problem(name, np.random.default_rng(7), 60, 2, spread=0.0)
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE[name], RidgePenalty(0.5)))
    uphill = (1 if name == "poisson" else -1) * fit.theta / (fit.theta @ fit.theta)
    for eta in (5.0, 20.0, 40.0, 90.0):
        Z, z = eta * uphill[None], np.array([1.0])
        theta = refit(name, np.vstack([X, Z]), np.append(y, z), 0.5, start=np.zeros(2))
        truth = np.linalg.norm(theta - fit.theta)
        assert sensitivity(prepare(sweep, fit), Z, z, inside=False).distance[0] >= truth * (1 - 1e-9)
        exact = distances(leave_one_out(prepare(sweep, fit, kind="exact"), sweep, Z, z, inside=False), None).value
        assert exact[0] == pytest.approx(truth, rel=1e-6) or np.isinf(exact[0])


def test_whoever_leaves_and_would_be_far_off_without_herself():
    """Her slope at the neighbour's minimum is 1e8 times the sum: summed with the others and subtracted, it cancels."""
    X = np.array([[-7.93650257, -0.2785554, 0.69970702, 0.76927021, -0.42940783, 0.69985069, 0.15118963, 0.54975603]]).T
    y = np.array([0.09084925, 0.80590724, 20.90295388, 17.12820404, 0.43349286, 14.24364653, 1.51941723, 10.84729605])
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE["gamma"], RidgePenalty(1.0)))
    truth = [np.abs(refit("gamma", np.delete(X, i, 0), np.delete(y, i), 1.0) - fit.theta)[0] for i in (0, 1)]
    found = distances(leave_one_out(prepare(sweep, fit, kind="exact"), sweep, X[:2], y[:2]), None).value
    assert found == pytest.approx(truth, rel=1e-9)
    assert (sensitivity(prepare(sweep, fit), X[:2], y[:2]).distance >= np.array(truth) * (1 - 1e-9)).all()


def test_everything_far_out_is_an_error_that_says_so():
    X, y = problem("logistic", np.random.default_rng(5), 40, 2)
    X[0, 0] = 1e200
    with pytest.raises(NumericalTrouble):
        fit_smooth(ArraySweep(X, y), SmoothObjective(CATALOGUE["logistic"], RidgePenalty(1.0)))


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_first_step_too_far_says_nothing(loss):
    """The line search meets infinities, in the threads that fold: no warning (an error here) comes through."""
    X = np.arange(1.0, 200.0)[:, None]
    estimator, y = {
        "poisson": (PoissonRegressor(alpha=1.0, fit_intercept=False), 1e4 * X[:, 0]),
        "gamma": (GammaRegressor(alpha=1.0, fit_intercept=False), 1e-4 * X[:, 0]),
    }[loss]
    assert np.isfinite(pi.audit(pi.OutputPerturbation(estimator, 1.0), X, y, method="upper").losses).all()
