"""Kernel ridge and Gaussian processes at public points, against posteriors computed again without each person."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels

import perinstance as pi
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.kernel_ridge import predictions
from perinstance.models.problem_registry import problem_of
from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.gaussian_process_sample import GaussianProcessSample

RNG = np.random.default_rng(12)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=60)
T = RNG.normal(size=(4, 2))
X[9], Y[9] = X[8], Y[8] + 0.5  # the same place, another target
RIDGE = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5)
PROCESS = GaussianProcessRegressor(
    ConstantKernel(1.5) * RBF(0.9) + WhiteKernel(0.1), alpha=0.2, optimizer=None, random_state=0
)


@pytest.mark.parametrize("direction", ["with", "without"])
def test_a_larger_leverage_tells_more_if_the_residual_is_larger_too(direction):
    """What charging a posterior pair rests on; a larger leverage alone can tell less."""
    rng = np.random.default_rng(3)
    mu, rho = 10.0 ** rng.uniform(-4, 4, 2000), 10.0 ** rng.uniform(-2, 2, 2000)
    larger = mu * (1 + 10.0 ** rng.uniform(-6, 2, 2000))
    charged = PosteriorSamplePair(larger, rho * np.sqrt((1 + larger) / (1 + mu)))
    for delta in (0.1, 1e-3, 1e-9):
        true = PosteriorSamplePair(mu, rho).epsilon(delta, direction)
        assert (charged.epsilon(delta, direction) >= true * (1 - 1e-8) - 1e-12).all()


def test_dependent_points_fall_back_to_the_whole_function():
    """Twice the same point: a draw of the whole function bounds it."""
    one, two = (GaussianProcessSample(PROCESS, points) for points in (T[:1], np.vstack([T[:1], T[:1]])))
    sweep = ArraySweep(X, Y)
    tight = one.people(one.confidential_fit(sweep), Block(X, Y)).pairs
    loose = two.people(two.confidential_fit(sweep), Block(X, Y)).pairs
    assert loose.kind == "upper"
    assert (loose.epsilon(1e-6) >= tight.epsilon(1e-6)).all()


def test_releases_audit_and_publish():
    output = pi.OutputPerturbation(predictions(RIDGE, T), scale=0.5).fit(X, Y)
    assert output.values_.shape == (4,)
    assert pi.audit(output, X, Y, delta=1e-6).epsilon.shape == (60,)
    with pytest.raises(InvalidInput, match="values_"):
        output.predict(X)
    draw = GaussianProcessSample(PROCESS, T).fit(X, Y)
    assert draw.values_.shape == (4,)
    audit = pi.audit(draw, X, Y, delta=1e-6)
    assert (audit.epsilon > 0).all()


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.5, 2.0]),
        Matern(0.7, nu=0.5),
        Matern([0.7, 3.0], nu=1.5),
        Matern(0.7, nu=2.5),
        RationalQuadratic(0.8, alpha=1.7),
        DotProduct(0.4) ** 2,
        ConstantKernel(2.0) * RBF(1.3) + DotProduct(0.3) * Matern(2.0, nu=1.5),
    ],
    ids=str,
)
def test_kernels_are_those_of_scikit_learn(kernel):
    model = predictions(GaussianProcessRegressor(kernel + WhiteKernel(0.25) * 2.0, alpha=0.5, optimizer=None), T)
    assert model.kernel.known
    assert model.noise == 1.0
    assert model.kernel.value(X, T) == pytest.approx(kernel(X, T), rel=1e-12)
    assert model.kernel.square(X) == pytest.approx(kernel.diag(X), rel=1e-12)


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian"])
def test_kernels_of_kernel_ridge_are_those_of_scikit_learn(name):
    model = predictions(KernelRidge(kernel=name, degree=2, coef0=0.5, gamma=0.3), T)
    parameters = {"gamma": 0.3, "degree": 2, "coef0": 0.5}
    assert model.kernel.known
    assert model.kernel.value(X, T) == pytest.approx(
        pairwise_kernels(X, T, metric=name, filter_params=True, **parameters), rel=1e-10, abs=1e-14
    )


@pytest.mark.parametrize(
    "kernel", ["cosine", lambda a, b: float(np.exp(-abs(a - b).sum()))], ids=["cosine", "callable"]
)
def test_a_kernel_that_nobody_has_bounded_gives_estimates(kernel):
    model = predictions(KernelRidge(alpha=0.5, kernel=kernel), T)
    found = model.movement(model.fit(ArraySweep(X, Y)), Block(X, Y))
    assert (found.kind == 2).all()
    release = pi.OutputPerturbation(model, scale=1.0)
    assert release.people(release.confidential_fit(ArraySweep(X, Y)), Block(X, Y)).pairs.kind == "estimate"


def test_refusals():
    with pytest.raises(RefusedModel, match="WhiteKernel"):
        predictions(GaussianProcessRegressor(WhiteKernel(1.0) * DotProduct(1.0), optimizer=None), T)
    for bare in (RIDGE, PROCESS):
        with pytest.raises(RefusedModel, match="points"):
            problem_of(bare)
    with pytest.raises(RefusedModel, match="looking at the data"):
        predictions(GaussianProcessRegressor(), T)
    with pytest.raises(RefusedModel, match="normalize_y"):
        predictions(GaussianProcessRegressor(optimizer=None, normalize_y=True), T)
    with pytest.raises(RefusedModel, match="alpha"):
        predictions(KernelRidge(alpha=np.ones(60)), T)
    with pytest.raises(RefusedModel, match="precomputed"):
        predictions(KernelRidge(kernel="precomputed"), T)
    with pytest.raises(InvalidInput, match="points"):
        predictions(RIDGE, [])
    with pytest.raises(InvalidInput, match="features"):
        predictions(RIDGE, [[0.0]]).fit(ArraySweep(X, Y))
    with pytest.raises(InvalidInput, match="not in it"):
        model = predictions(RIDGE, T)
        model.movement(model.fit(ArraySweep(X, Y)), Block(X + 1, Y))
    with pytest.raises(NumericalTrouble, match="alpha"):
        predictions(KernelRidge(alpha=1e-15, kernel="rbf", gamma=1e-3), T).fit(ArraySweep(X, Y))
