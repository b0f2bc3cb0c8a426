"""Gradients added to a smooth objective: the polynomial and every cell against minima that Newton's method finds."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from perinstance.analysis.bounds.trust_region_slices import ellipsoid
from perinstance.analysis.within_bounds.by_expansion.fourth_order_expansion import expansion
from perinstance.analysis.within_bounds.by_expansion.gradient_search import framed_domain, gradient_landscapes, radii
from perinstance.analysis.within_bounds.by_expansion.step_polynomial import step_polynomial_of
from perinstance.analysis.within_bounds.smooth_models import _targets
from perinstance.folds.class_labels import CodedSweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.neighbour_refits import leave_one_out
from perinstance.releases import OutputPerturbation
from tests.analysis.smooth_world import world

ESTIMATORS = [
    LogisticRegression(C=1.0),
    LogisticRegression(C=0.5, fit_intercept=False),
    PoissonRegressor(alpha=0.05),
    PoissonRegressor(alpha=0.5, fit_intercept=False),
    GammaRegressor(alpha=0.2),
]
Y_BOUND, X_BOUND = 4.0, 0.9


def prepared(seed, estimator, n=120, d=3, precision=None):
    rng, sweep = world(seed, estimator, n, d, spread=0.5, most=4, lift=0.1)
    release = OutputPerturbation(estimator, scale=1.0, precision=precision)
    fit = release.confidential_fit(sweep, "upper")
    return rng, release, fit, (sweep if fit.classes is None else CodedSweep(sweep, fit.classes))


def landscape(fit, sweep):
    side, objective = fit.model.outside, fit.model.fit.objective
    region = ellipsoid(np.full(sweep.n_features, X_BOUND), objective.fit_intercept)
    ys = _targets(objective.loss, Y_BOUND)
    rows = framed_domain(side.around, region, fit.theta)
    near = expansion(sweep, fit.model.fit, side.around, radii(rows, side.share, objective.loss, ys))
    return (
        gradient_landscapes(step_polynomial_of(side.around, near, side.share), rows, objective.loss, ys),
        region,
        rows,
    )


def people(rng, fit, sweep, size):
    """Rows of the ball and targets, their minima, and their slopes at these minima."""
    d, objective = sweep.n_features, fit.model.fit.objective
    x = rng.standard_normal((size, d))
    x[: size // 3] += 3 * rng.standard_normal((size // 3, 1)) * fit.theta[:d]
    x *= (X_BOUND * rng.choice([1.0, 1.0, 0.6], size) / np.linalg.norm(x, axis=1))[:, None]
    low, high = _targets(objective.loss, Y_BOUND)
    y = rng.choice([low, high], size)
    if not objective.loss.binary:
        y = np.where(rng.random(size) < 0.7, y, rng.uniform(low, high, size))
    D = leave_one_out(fit.model, sweep, x, y, inside=False).D
    slope = objective.loss.derivatives(y, design(x, objective.fit_intercept) @ fit.theta + _own(x, D, objective))[0]
    return x, slope, D


def _own(x, D, objective):
    return np.einsum("ij,ij->i", design(x, objective.fit_intercept), D)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("seed", range(3))
def test_the_polynomial_of_each_person_within_its_rest(estimator, seed):
    rng, _, fit, sweep = prepared(seed, estimator)
    (first, *_), _, _ = landscape(fit, sweep)
    poly, side = first.polynomial, fit.model.outside
    x, slope, D = people(rng, fit, sweep, 60)
    t = design(x, fit.model.fit.objective.fit_intercept) @ side.around.T.T
    v = -(slope[:, None] * t + side.share)
    w = np.linalg.solve(side.around.T.T, D.T).T
    radius, kappa5 = float(poly.expansion.radius[-1]), float(poly.expansion.fifth[-1])
    at = np.linalg.norm(w, axis=1) < radius
    step = poly.lengths(np.linalg.norm(v, axis=1), radius, kappa5)
    assert at.all() and (np.linalg.norm(w, axis=1) <= step.whole * (1 + 1e-9)).all()
    third = np.einsum("abc,ib,ic->ia", poly.expansion.third, v, v)
    assert (np.linalg.norm(v - w, axis=1) <= step.correction + 1e-9).all()
    assert (np.linalg.norm(v - w - third / 2, axis=1) <= step.second_correction + 1e-9).all()
    cubic = np.einsum("abc,ia,ib,ic->i", poly.S, v, v, v)
    quartic = np.einsum("abcd,ia,ib,ic,id->i", poly.Q, v, v, v, v, optimize=True)
    value = np.einsum("ij,j,ij->i", v, poly.nu, v) + cubic + quartic
    missing = np.abs(np.einsum("ij,j,ij->i", w, poly.nu, w) - value)
    assert (missing <= poly.rest(step, kappa5) + 1e-12).all()
    assert (quartic <= poly.highest_q * np.linalg.norm(v, axis=1) ** 4).all()
    # the second limit, as the docstring has it
    moved, g0 = v + side.share, side.share
    exact = -slope * np.einsum("ij,ij->i", t, w)
    third_of = np.einsum("abc,ia,ib,ic->i", poly.expansion.third, moved, v, v)
    without = np.einsum("ij,ij->i", moved, moved) - moved @ g0 - third_of / 2
    assert (np.abs(exact - without) <= np.linalg.norm(moved, axis=1) * step.second_correction + 1e-9).all()


@pytest.mark.parametrize("precision", [None, "skewed"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("seed", range(4))
def test_nobody_beats_their_own_cell(estimator, seed, precision):
    """Every person, in cells of every width around their own c and f."""
    n, d = [(60, 1), (120, 3), (400, 6), (120, 2)][seed]
    rng = np.random.default_rng(seed)
    p = d + int(estimator.fit_intercept)
    B = rng.standard_normal((p, p))
    A = None if precision is None else B @ B.T + 0.1 * np.eye(p)
    rng, release, fit, sweep = prepared(seed, estimator, n, d, A)
    landscapes, region, rows = landscape(fit, sweep)
    x, slope, D = people(rng, fit, sweep, 150)
    distance = np.sqrt(np.einsum("ij,jk,ik->i", D, np.eye(p) if A is None else A, D))
    u = (x / X_BOUND) @ rows.lengths.basis[:, 0]  # the part of x along theta
    seen = 0
    for one in landscapes:
        mine = np.sign(slope) == one.sign
        f = np.abs(slope[mine]) / one.steepest
        assert (f <= 1).all()
        for width in (1e-6, 0.01, 0.1, 0.5):
            f1, f2 = np.maximum(f - width * rng.random(len(f)), 0), np.minimum(f + width * rng.random(len(f)), 1)
            c = u[mine] * f / f2
            c1, c2 = np.maximum(c - width * rng.random(len(c)), -1), np.minimum(c + width * rng.random(len(c)), 1)
            bound = one.rough(np.array([c1, c2, f1, f2]))
            assert (distance[mine] <= bound).all(), (width, (distance[mine] / bound).max())
            seen += len(c)
            if width == 1e-6:  # somebody comes close to the best of their slice
                assert (distance[mine] / bound).max() > 0.8
    assert seen >= 500
    whole = np.array([[-1.0], [1.0], [0.0], [1.0]])
    assert max(t.rough(whole)[0] for t in landscapes) >= distance.max()


def test_an_expansion_that_is_not_valid_far_enough_says_so():
    """Five people, and somebody who moves everything."""
    rng, _, fit, sweep = prepared(1, PoissonRegressor(alpha=0.01), n=8, d=3)
    assert landscape(fit, sweep)[0] is None
