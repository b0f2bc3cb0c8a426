"""The expansion of an objective: against finite differences, and its remainder against the data's own gradient."""

import mpmath
import numpy as np
import pytest

from perinstance.analysis.within_bounds.by_expansion.fourth_order_expansion import (
    WIDEST,
    expansion,
    has_expansion,
)
from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothL1Penalty, SmoothObjective, design
from perinstance.models.losses.smooth import Logistic, PseudoHuber
from perinstance.models.smooth.fit.objective_folds import fit_smooth
from perinstance.models.smooth.fit.whitening import whiten

from .dumb import MP_VALUES

NAMES = {type(CATALOGUE[name]).__name__: name for name in MP_VALUES}
LOSSES = [CATALOGUE[name] for name in MP_VALUES]


def world(seed, loss, n=80, d=3, intercept=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * [1.0, 0.5, 2.0][:d]
    X[:, 0] = np.abs(X[:, 0])  # not symmetric: the third derivative does not vanish
    if loss.binary:
        y = (rng.random(n) < 0.4).astype(float)
    else:
        y = rng.poisson(2.0, n).astype(float) + (0.5 if loss.targets.open else 0.0)
    sweep = ArraySweep(X, y, rows=17)
    fit = fit_smooth(sweep, SmoothObjective(loss, RidgePenalty(0.5), fit_intercept=intercept))
    return rng, sweep, fit, whiten(fit.hessian)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_derivatives_of_the_losses(loss):
    formula = MP_VALUES[NAMES[type(loss).__name__]]
    for y in (0.0, 1.0):
        for eta in (-6.0, -1.3, 0.0, 0.4, 2.0, 7.0):
            third, fourth = (f(np.array([y]), np.array([eta])) for f in (loss.third, loss.fourth))
            with mpmath.workdps(40):
                wanted = [float(mpmath.diff(lambda e, y=y: formula(y, e), eta, k)) for k in (3, 4)]
            assert [third[0], fourth[0]] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
            for reach in (0.0, 0.5, 3.0):
                bound = loss.largest_fifth(np.array([y]), np.array([eta]), np.array([reach]))[0]
                with mpmath.workdps(40):
                    fifth = [
                        abs(mpmath.diff(lambda e, y=y: formula(y, e), eta + t, 5))
                        for t in np.linspace(-reach, reach, 9)
                    ]
                assert max(fifth) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_gradient_is_the_polynomial_within_the_remainder(loss, intercept):
    rng, sweep, fit, around = world(1, loss, intercept=intercept)
    near = expansion(sweep, fit, around, np.array([0.3, 1.0]))
    x = design(sweep.X, intercept)

    def gradient(w):
        theta = fit.theta + around.T.T @ w
        slope = loss.derivatives(sweep.y, x @ theta)[0] @ x + fit.objective.penalty_slope(theta)
        return around.T @ slope

    largest = 0.0
    for size in (0.05, 0.3, 1.0):
        kappa = near.fifth[0 if size <= 0.3 else 1]
        for _ in range(20):
            w = rng.standard_normal(len(fit.theta))
            w *= size / np.linalg.norm(w)
            third = np.einsum("abc,b,c->a", near.third, w, w)
            fourth = np.einsum("abcd,b,c,d->a", near.fourth, w, w, w)
            rest = np.linalg.norm(gradient(w) - gradient(0 * w) - w - third / 2 - fourth / 6)
            assert rest <= kappa * size**4 / 24 + 1e-12
            assert np.linalg.norm(third) <= near.size3 * size**2 and np.linalg.norm(fourth) <= near.size4 * size**3
            largest = max(largest, rest / (kappa * size**4 / 24))
    assert largest > 0.02  # it is a remainder, not a blanket


def test_the_mean_hessian_is_never_below_low():
    rng, sweep, fit, around = world(2, Logistic(), n=30)
    near = expansion(sweep, fit, around, np.array([0.5]))
    x = design(sweep.X, True) @ around.T.T
    eta = design(sweep.X, True) @ fit.theta
    nodes, weights = np.polynomial.legendre.leggauss(12)
    for _ in range(50):
        w = rng.standard_normal(4)
        w *= 0.5 * rng.random() / np.linalg.norm(w)
        mean = np.zeros((4, 4))
        for u, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            curvature = Logistic().curvature(sweep.y, eta + u * (x @ w))
            mean += weight * ((x * curvature[:, None]).T @ x)
        mean += around.T @ np.diag(fit.objective.penalty_curvature(fit.theta)) @ around.T.T
        assert np.linalg.eigvalsh(mean)[0] >= near.low(np.linalg.norm(w), near.fifth[0]) - 1e-12


def test_what_has_no_expansion():
    fit = world(3, Logistic())[2]
    assert has_expansion(fit)

    def changed(**what):
        return type(fit)(
            **{**{name: getattr(fit, name) for name in fit.__slots__}, **what},
        )

    assert not has_expansion(changed(objective=SmoothObjective(PseudoHuber(1.0), RidgePenalty(1.0))))
    assert not has_expansion(changed(objective=SmoothObjective(Logistic(), SmoothL1Penalty(1.0))))
    assert not has_expansion(changed(theta=np.zeros(WIDEST + 1)))
