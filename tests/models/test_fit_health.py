"""Every confidential fit offers the same small record to the floors above."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.folds.sweep import ArraySweep
from perinstance.models.interface import FitHealth
from perinstance.models.kernel_ridge import predictions
from perinstance.report.words import accuracy_cost

N = 40
KERNEL = predictions(GaussianProcessRegressor(RBF(1.0), alpha=0.5, optimizer=None), [[0.0, 0.0]])
RELEASES = {
    "linear": (pi.OutputPerturbation(Ridge(), scale=1.0), "y"),
    "smooth": (pi.OutputPerturbation(PoissonRegressor(), scale=1.0), "count"),
    "softmax": (pi.OutputPerturbation(LogisticRegression(), scale=1.0), "three"),
    "huber": (pi.OutputPerturbation(HuberRegressor(), scale=1.0), "y"),
    "kernel": (pi.OutputPerturbation(KERNEL, scale=1.0), "y"),
    "mean": (pi.NoisyMean(scale=1.0), "y"),
    "adaops": (pi.AdaOPS(epsilon=1.0, delta=1e-5, x_bound=4.0, y_bound=4.0), "y"),
    "adassp": (pi.AdaSSP(epsilon=1.0, delta=1e-5, x_bound=4.0, y_bound=4.0), "y"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_health_of_every_fit(name):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, 2)), rng.standard_normal(N)
    release, kind = RELEASES[name]
    target = {"y": y, "count": np.floor(np.abs(y)), "three": np.arange(N) % 3.0}[kind]
    fit = release.confidential_fit(ArraySweep(X, target), "auto")
    health = fit.health
    assert isinstance(health, FitHealth) and health.n_people == N
    assert (health.condition is not None) == (name in ("linear", "adaops", "adassp"))
    if name == "linear":
        x = np.column_stack([X, np.ones(N)])
        assert health.rank == 3 and health.factorisation == "cholesky" and health.error < 1e-12
        assert fit.gram == pytest.approx(x.T @ x, rel=1e-12, abs=1e-12)
    else:
        assert fit.gram is None and health.rank is None


def test_the_card_counts_the_people_of_the_fit_also_for_outsiders():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((N, 2)), np.floor(np.abs(rng.standard_normal(N)))
    release = pi.OutputPerturbation(PoissonRegressor(), scale=1.0)
    audit = pi.audit(release, X, y, delta=1e-5, outsiders=(X[:3], y[:3]))
    assert len(audit) == 3 and audit.health.n_people == N
    assert accuracy_cost(audit) is None
    linear = pi.audit(pi.OutputPerturbation(Ridge(), scale=1.0), X, y, delta=1e-5)
    x = np.column_stack([X, np.ones(N)])
    assert accuracy_cost(linear) == pytest.approx(np.sqrt(np.trace(x.T @ x) / N), rel=1e-12)
