"""scikit-learn's kernels, read as covariance functions whose rounding is bounded.

Kernels that are not read (callables, ``sigmoid``, ``cosine``, ``chi2``, Matern's of other smoothness, ...) are taken as
they come: nobody knows what they round, or that they are positive definite, so answers are estimates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.errors import RefusedModel
from perinstance.models.kernel_ridge import covariance_functions as functions
from perinstance.models.kernel_ridge.covariance_functions import CovarianceFunction
from perinstance.numerics.array_types import Floats

#: What a Gaussian process' kernel says: a covariance function (None: zero), and the variance of white noise.
FunctionAndNoise = tuple[CovarianceFunction | None, float]


def ridge_kernel(estimator: Any, d: int) -> CovarianceFunction:
    """Read the kernel of a ``KernelRidge`` for rows of d cells."""
    name = estimator.kernel
    if name == "precomputed":
        raise RefusedModel("KernelRidge(kernel='precomputed') is refused: the rows must be known to audit people")
    gamma = 1.0 / d if estimator.gamma is None else float(estimator.gamma)
    if name == "linear":
        return functions.polynomial(d)
    if name == "rbf" and gamma >= 0:
        return functions.squared_exponential(d, gamma)
    if name == "laplacian" and gamma >= 0:
        return functions.laplacian(d, gamma)
    if name in ("poly", "polynomial"):
        degree, coef0 = float(estimator.degree), float(estimator.coef0)
        if degree == int(degree) >= 1 and coef0 >= 0 and gamma >= 0:
            return functions.polynomial(d, gamma, coef0, int(degree))
    from sklearn.metrics.pairwise import pairwise_kernels

    known = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    parameters = dict(estimator.kernel_params or {}) if callable(name) else known
    return functions.foreign(
        lambda a, b: pairwise_kernels(a, b, metric=name, filter_params=not callable(name), **parameters)
    )


def process_kernel(kernel: Any, at: Floats) -> tuple[CovarianceFunction, float]:
    """Read the kernel of a ``GaussianProcessRegressor``, and its white noise, which adds to alpha."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    k = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
    found = _read(k, at.shape[1])
    if found is not None:
        return found[0] or functions.constant(0.0), found[1]
    white = float(k.diag(at[:1])[0] - k(at[:1], at[:1].copy())[0, 0])
    return functions.foreign(lambda a, b: np.asarray(k(a, b), dtype=np.float64)), white


def _read(k: Any, d: int) -> FunctionAndNoise | None:
    """Read a tree of kernels; None if a part of it is not known."""
    name = type(k).__name__
    if name == "WhiteKernel":
        return None, float(k.noise_level)
    if name in ("Sum", "Product"):
        a, b = _read(k.k1, d), _read(k.k2, d)
        if a is None or b is None:
            return None
        return _added(a, b) if name == "Sum" else _multiplied(a, b)
    if name == "Exponentiation":
        inner, exponent = _read(k.kernel, d), float(k.exponent)
        if inner is None or inner[0] is None or inner[1] or not exponent == int(exponent) >= 1:
            return None
        return functions.power(inner[0], int(exponent)), 0.0
    leaf = _read_leaf(name, k, d)
    return None if leaf is None else (leaf, 0.0)


def _read_leaf(name: str, k: Any, d: int) -> CovarianceFunction | None:
    if name == "ConstantKernel" and k.constant_value >= 0:
        return functions.constant(float(k.constant_value))
    if name == "RBF" or (name == "Matern" and np.isinf(k.nu)):
        return functions.squared_exponential(d, 0.5, k.length_scale)
    if name == "Matern" and k.nu in (0.5, 1.5, 2.5):
        return functions.matern(d, int(2 * k.nu), k.length_scale)
    if name == "RationalQuadratic":
        return functions.rational_quadratic(d, float(k.alpha), float(k.length_scale))
    if name == "DotProduct":
        return functions.added(functions.polynomial(d), functions.constant(float(k.sigma_0) ** 2))
    return None


def _added(a: FunctionAndNoise, b: FunctionAndNoise) -> FunctionAndNoise:
    both = a[0] and b[0] and functions.added(a[0], b[0])
    return both or a[0] or b[0], a[1] + b[1]


def _multiplied(a: FunctionAndNoise, b: FunctionAndNoise) -> FunctionAndNoise:
    """``(k_a + w_a I)(k_b + w_b I)``, entry by entry: white noise times k(x, x) must not depend on x."""
    white = a[1] * b[1]
    for (_, noise), (other, _) in ((a, b), (b, a)):
        if noise and other is not None:
            if other.diagonal is None:
                raise RefusedModel(
                    "a WhiteKernel times a kernel whose k(x, x) varies is refused: the noise must be the same for "
                    "everyone; add a WhiteKernel instead"
                )
            white += noise * other.diagonal
    return a[0] and b[0] and functions.multiplied(a[0], b[0]), white
