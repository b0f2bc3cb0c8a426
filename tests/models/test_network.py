"""Smooth networks: estimates against warm-started retraining without the person."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.neural_network import NetworkProblem, _Torch

torch = pytest.importorskip("torch", reason="torch is not installed; it is an optional extra: perinstance[torch]")

RNG = np.random.default_rng(31)
X = RNG.normal(size=(80, 2))
Y = 2 * np.tanh(2 * X[:, 0]) - 1.5 * np.tanh(X[:, 1] - X[:, 0]) + 0.1 * RNG.normal(size=80)


def _network(activation, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, 2), activation, torch.nn.Linear(2, 1))


def _retrained(problem, theta, rows, targets):
    """Train again from the minimum with everyone."""
    module = _network(torch.nn.Tanh() if problem.loss == "squared" else torch.nn.Sigmoid())
    torch.nn.utils.vector_to_parameters(torch.from_numpy(theta).float(), module.parameters())
    again = _Torch(NetworkProblem(module, problem.loss, problem.alpha), rows, targets)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), again.module.parameters())
    return again.train(300)


@pytest.mark.parametrize(("loss", "activation"), [("squared", torch.nn.Tanh()), ("logistic", torch.nn.Sigmoid())])
def test_estimates_against_retraining(loss, activation):
    y = Y if loss == "squared" else (Y > 0).astype(float)
    problem = NetworkProblem(_network(activation), loss, alpha=0.3)
    fit = problem.fit(ArraySweep(X, y))
    assert fit.gradient_norm < 1e-7
    found = problem.movement(fit, Block(X, y))
    assert found.kind == "estimate"
    people = np.arange(0, 80, 16)
    truth = np.array(
        [
            np.linalg.norm(_retrained(problem, fit.theta, np.delete(X, i, 0), np.delete(y, i)) - fit.theta)
            for i in people
        ]
    )
    error = np.abs(found.distance[people] / truth - 1)
    assert np.median(error) < 0.05
    assert error.max() < 0.5
    outside = problem.movement(fit, Block(X[:2] * 1.1, y[:2]), False)
    for i in range(2):
        more = _retrained(problem, fit.theta, np.vstack([X, X[i] * 1.1]), np.append(y, y[i]))
        assert outside.distance[i] == pytest.approx(np.linalg.norm(more - fit.theta), rel=0.3)


def test_a_linear_network_is_ridge_regression():
    """One linear layer: the only network whose answer is known exactly."""
    problem = NetworkProblem(torch.nn.Linear(2, 1, bias=False), "squared", alpha=1.5)
    fit = problem.fit(ArraySweep(X, Y))
    assert fit.theta == pytest.approx(np.linalg.solve(X.T @ X + 1.5 * np.eye(2), X.T @ Y), rel=1e-8)
    found = problem.movement(fit, Block(X[:4], Y[:4])).distance
    for i in range(4):
        rows, targets = np.delete(X, i, 0), np.delete(Y, i)
        other = np.linalg.solve(rows.T @ rows + 1.5 * np.eye(2), rows.T @ targets)
        assert found[i] == pytest.approx(np.linalg.norm(other - fit.theta), rel=1e-5)


def test_releases_and_audits():
    problem = NetworkProblem(_network(torch.nn.Tanh()), alpha=0.3)
    release = pi.OutputPerturbation(problem, scale=0.5)
    audit = pi.audit(release, X, Y, delta=1e-6)
    assert set(np.atleast_1d(audit.kind)) == {"estimate"}
    assert release.fit(X, Y).parameters_.shape == (9,)


@pytest.mark.parametrize("layer", [torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.BatchNorm1d(2), torch.nn.ELU()])
def test_layers_that_are_not_smooth_are_refused(layer):
    with pytest.raises(RefusedModel, match=type(layer).__name__):
        NetworkProblem(_network(layer))


def test_refusals():
    problem = NetworkProblem(_network(torch.nn.Tanh()), alpha=0.3)
    for method in ("exact", "upper"):
        with pytest.raises(InvalidInput, match="estimate"):
            problem.fit(ArraySweep(X, Y), None, method)
    with pytest.raises(InvalidInput, match="loss"):
        NetworkProblem(_network(torch.nn.Tanh()), "absolute")
    with pytest.raises(NumericalTrouble, match="local minimum"):  # two columns that are one: a flat direction
        flat = NetworkProblem(torch.nn.Linear(2, 1), alpha=0.0)
        flat.fit(ArraySweep(X[:, [0, 0]], Y))
    with pytest.raises(RefusedModel, match="parameters"):
        NetworkProblem(torch.nn.Linear(4000, 1))
