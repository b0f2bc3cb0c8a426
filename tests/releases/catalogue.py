"""Every release, ready to be audited. A new release is added here, and gets every test of ``test_catalogue``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi

_RNG = np.random.default_rng(8)
X = _RNG.uniform(-0.5, 0.5, size=(60, 3))
Y = np.clip(X @ [0.5, -0.3, 0.2] + 0.2 * _RNG.normal(size=60), -1, 1)
CLASSES = (Y > 0).astype(float)


class Example(NamedTuple):
    """A release, and a table it can be fitted on."""

    release: Any
    X: NDArray = X
    y: NDArray | None = Y


CATALOGUE = {
    "output": Example(pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.3)),
    "logistic output": Example(pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.5), y=CLASSES),
    "posterior": Example(pi.PosteriorSample(alpha=1.0, gamma=2.0, fit_intercept=True)),
    "objective": Example(pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=2.0)),
    "laplace posterior": Example(pi.LaplacePosterior(LogisticRegression(C=1.0), gamma=0.5), y=CLASSES),
    "process": Example(
        pi.GaussianProcessSample(GaussianProcessRegressor(RBF(), alpha=0.5, optimizer=None), X[:2] + 0.1)
    ),
    "mean": Example(pi.NoisyMean(scale=0.2), y=None),
    "gaussian sum": Example(pi.NoisyMean(scale=2.0, noise="gaussian", statistic="sum"), y=None),
    "slow scaling sum": Example(pi.SlowScalingSum(scale=0.5), X=np.abs(X), y=None),
    "student": Example(pi.StudentPerturbation(Ridge(alpha=1.0), scale=0.3, degrees_of_freedom=5)),
    "logistic student": Example(pi.StudentPerturbation(LogisticRegression(C=1.0), degrees_of_freedom=3), y=CLASSES),
    "descent": Example(pi.NoisyDescent(Ridge(alpha=1.0), steps=8, noise=4.0)),
    # of fewer steps the noise is proved by finer sums: half a minute of calibration, in every process that asks
    "sampled logistic descent": Example(
        pi.NoisyDescent(LogisticRegression(C=1.0), steps=12, rate=0.5, publish="all", epsilon=2.0, delta=1e-6),
        y=CLASSES,
    ),
    "filtered descent": Example(pi.NoisyDescent(Ridge(alpha=1.0), steps=8, noise=2.0, filter=(4, 0.5), refresh=3)),
    "unclipped descent": Example(pi.NoisyDescent(Ridge(alpha=1.0), steps=8, clip=None, noise=4.0)),
    "unclipped path": Example(pi.NoisyDescent(Ridge(alpha=1.0), steps=8, clip=None, noise=4.0, publish="all")),
    "adaops": Example(pi.AdaOPS(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, n_public=60)),
    "adassp": Example(pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)),
    "private gram": Example(pi.PrivateGram(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)),
    "private logistic": Example(pi.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=1.0), y=CLASSES),
}
#: Those that promise: their noise is drawn anew in every audit, and the losses are a reading at what was drawn. Written
#: down, and compared when a test runs: whoever collects tests need not calibrate.
PROMISED = {
    "descent",
    "sampled logistic descent",
    "filtered descent",
    "adaops",
    "adassp",
    "private gram",
    "private logistic",
}

FINE = 2.0**-120
#: With noise this small, on so fine a grid, every check of scikit-learn must pass: only noise stands in their way.
QUIET = [
    pi.NoisyMean(),
    pi.OutputPerturbation(scale=1e-20, grid=FINE),
    pi.PosteriorSample(gamma=1e40, fit_intercept=True, grid=FINE),
    pi.ObjectivePerturbation(scale=1e-20, grid=FINE),
    pi.StudentPerturbation(scale=1e-20, degrees_of_freedom=30, grid=FINE),
]
