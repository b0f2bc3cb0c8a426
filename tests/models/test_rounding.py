"""Where rounding once made a distance too short, against fifty digits: none may be below the truth."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression

from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.movement_bounds import prepare, sensitivity
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.objective_folds import fit_smooth

from .dumb import problem, refit

SLOPES = {
    "squared": lambda y, eta: (eta - y, mpmath.mpf(1)),
    "poisson": lambda y, eta: (mpmath.exp(eta) - y, mpmath.exp(eta)),
    "gamma": lambda y, eta: (1 - y * mpmath.exp(-eta), y * mpmath.exp(-eta)),
}


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def _sharp(name, X, y, weight, start):
    """A Newton fit in fifty digits from a start that is right to a few."""
    A, theta = mpmath.matrix(X.tolist()), mpmath.matrix(np.asarray(start).tolist())
    for _ in range(9):
        slopes = [SLOPES[name](mpmath.mpf(t), e) for t, e in zip(y.tolist(), A * theta, strict=True)]
        gradient = A.T * mpmath.matrix([s[0] for s in slopes]) + weight * theta
        hessian = A.T * mpmath.diag([s[1] for s in slopes]) * A + weight * mpmath.eye(len(theta))
        theta = theta - mpmath.lu_solve(hessian, gradient)
    return theta


def _both(name, X, y, weight, precision, i):
    """Certified and exact distance of one person."""
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE[name], RidgePenalty(weight)))
    model = prepare(sweep, fit, precision)
    one = slice(i, i + 1)
    certified = sensitivity(model, X[one], y[one]).distance[0]
    return certified, distances(leave_one_out(model, sweep, X[one], y[one]), precision).value[0], fit


@pytest.mark.parametrize("seed", range(8))
def test_way_along_a_small_eigenvalue_of_the_precision(seed):
    """The large eigenvalue's rounding is all that is left of it there: 8e-7 of the distance was missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    X[:, 1] = X[:, 0] + 10.0 ** -rng.integers(0, 4) * X[:, 1]
    y = X @ [0.5, -0.5] + rng.normal(size=30)
    base = _sharp("squared", X, y, 0.1, np.zeros(2))
    D = _sharp("squared", X[1:], y[1:], 0.1, np.zeros(2)) - base
    v = np.array([float(-D[1]), float(D[0])]) / float(mpmath.norm(D))
    for small in (1e-6, 1e-8, 1e-10, 1e-11):
        A = np.outer(v, v) + small * np.eye(2)
        truth = mpmath.sqrt((D.T * mpmath.matrix(A.tolist()) * D)[0])
        certified, exact, _ = _both("squared", X, y, 0.1, A, 0)
        assert certified >= truth
        assert exact >= truth
        assert certified <= 2 * truth


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_slopes_that_are_differences_of_terms_near_one(name):
    """All targets are one but for a billionth: every slope has lost nine digits, and the fit's rounding is in them."""
    rng = np.random.default_rng(9)
    for _ in range(12):
        X = rng.normal(size=(14, 1))
        y = 1 + 1e-10 * rng.normal(size=14)
        certified, exact, fit = _both(name, X, y, 1e-3, None, 0)
        way = _sharp(name, X[1:], y[1:], 1e-3, fit.theta) - _sharp(name, X, y, 1e-3, fit.theta)
        truth = mpmath.norm(way)
        assert certified >= truth
        assert exact >= truth


def test_the_only_one_who_holds_a_category_leaves():
    """Without her the penalty alone speaks, a hundred millionth of her slope there, which the sums hold twice."""
    X, y = np.zeros((7, 1)), np.array([0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    X[4] = 1.0
    for weight in np.geomspace(1e-10, 1e-6, 40):
        certified, exact, fit = _both("logistic", X, y, float(weight), None, 4)
        truth = mpmath.findroot(lambda v, w=weight: mpmath.mpf(w) * v - 1 / (1 + mpmath.exp(v)), fit.theta[0])
        assert certified >= truth
        assert exact >= truth
        assert exact == pytest.approx(float(truth), rel=1e-6)


@pytest.mark.parametrize("eta", [25.0, 40.0, 60.0])
def test_an_outsider_whom_the_fit_was_sure_of_and_wrong_about(eta):
    """She draws her own prediction back from far out, where e^eta is lost beside 1."""
    X, y = problem("logistic", np.random.default_rng(2), 60, 2, spread=0.0)
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE["logistic"], RidgePenalty(0.5)))
    Z, z = (eta * fit.theta / (fit.theta @ fit.theta))[None], np.zeros(1)
    truth = np.linalg.norm(refit("logistic", np.vstack([X, Z]), np.append(y, z), 0.5, start=fit.theta) - fit.theta)
    model = prepare(sweep, fit)
    assert sensitivity(model, Z, z, inside=False).distance[0] >= truth * (1 - 1e-12)
    assert distances(leave_one_out(model, sweep, Z, z, inside=False), None).value[0] == pytest.approx(truth, rel=1e-9)


def test_a_knot_that_rounding_decides_leaves_her_open():
    """The terms of her prediction are a million times its size, so that it is known to 1e-10 and not to 1e-16."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 1)) + 1e6
    y = X[:, 0] - 1e6 + rng.normal(size=40)
    y[3] += 50.0  # an outlier, whose slope stays the same wherever beyond her knot she is
    objective = SmoothObjective(CATALOGUE["huber"], RidgePenalty(1e-3), fit_intercept=True)
    for _ in range(3):
        fit = fit_smooth(ArraySweep(X, y), objective)
        y[3] = X[3] @ fit.theta[:1] + fit.theta[1] + 1.35 + 1e-11
    sweep = ArraySweep(X, y)
    found = sensitivity(prepare(sweep, fit_smooth(sweep, objective)), X, y)
    assert found.open[3]


def _softmax_gradient(X, y, theta, alpha):
    K, total = len(theta), mpmath.matrix(*theta.shape)
    for x, t in zip(X, y, strict=True):
        score = [mpmath.exp(mpmath.fdot(zip(row.tolist(), x.tolist(), strict=True))) for row in theta]
        for k in range(K):
            slope = score[k] / mpmath.fsum(score) - int(t == k)
            for j in range(len(x)):
                total[k, j] += slope * mpmath.mpf(x[j])
    return [total[k, j] + alpha * mpmath.mpf(theta[k, j]) for k in range(K) for j in range(theta.shape[1])]


def _huber_gradient(X, y, theta, epsilon, alpha):
    sigma, total = mpmath.mpf(theta[-1]), [mpmath.mpf(0)] * len(theta)
    for x, t in zip(X, y, strict=True):
        r = (mpmath.mpf(t) - mpmath.fdot(zip(x.tolist(), theta[:-1].tolist(), strict=True))) / sigma
        z = min(max(r, -mpmath.mpf(epsilon)), mpmath.mpf(epsilon))
        for j in range(len(x)):
            total[j] -= z * mpmath.mpf(x[j])
        total[-1] += (1 - z * z) / 2
    return [g + alpha * mpmath.mpf(v) for g, v in zip(total[:-1], theta[:-1].tolist(), strict=True)] + total[-1:]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("model", ["multinomial", "huber"])
def test_the_rounding_of_a_gradient_is_part_of_the_certificate(model, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2)) + [0.0, 10.0 ** (seed / 2)]
    if model == "multinomial":
        y = np.arange(40) % 3.0
        fit = problem_of(LogisticRegression(C=2.0, fit_intercept=False)).fit(ArraySweep(X, y), None, "upper")
        true = _softmax_gradient(X, y, fit.theta.reshape(3, 2), mpmath.mpf(0.5))
    else:
        y = 1e3 + X[:, 0] + rng.standard_t(2, size=40)
        fit = problem_of(HuberRegressor(alpha=0.5, fit_intercept=False)).fit(ArraySweep(X, y), None, "upper")
        true = _huber_gradient(X, y, fit.model.fit.theta, 1.35, mpmath.mpf(0.5))
    off = np.array([float(a - mpmath.mpf(b)) for a, b in zip(true, fit.model.fit.gradient.tolist(), strict=True)])
    around = fit.model.inside.around
    assert 0 < around.norm(off) <= around.norm_bound(fit.model.fit.rounding) <= 1e-9
