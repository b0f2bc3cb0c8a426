"""scikit-learn's kernels, read as covariance functions whose rounding is bounded.

Kernels that are not read (callables, ``sigmoid``, ``cosine``, ``chi2``, Matern's of other smoothness, ...) are taken as
they come: nobody knows what they round, or that they are positive definite, so answers are estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.errors import RefusedModel
from perinstance.models.kernel_ridge import covariance_functions as functions
from perinstance.models.kernel_ridge.covariance_functions import CovarianceFunction
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class CovarianceAndNoise:
    """What a Gaussian process' kernel says: a covariance function (None: zero), and the variance of white noise."""

    function: CovarianceFunction | None
    white: float


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
    return _foreign_ridge(estimator)


def _foreign_ridge(estimator: Any) -> CovarianceFunction:
    from sklearn.metrics.pairwise import pairwise_kernels

    name = estimator.kernel
    parameters = dict(estimator.kernel_params or {})
    if not callable(name):
        parameters = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    return functions.foreign(
        lambda a, b: pairwise_kernels(a, b, metric=name, filter_params=not callable(name), **parameters)
    )


def process_kernel(kernel: Any, at: Floats) -> tuple[CovarianceFunction, float]:
    """Read the kernel of a ``GaussianProcessRegressor``, and its white noise, which adds to alpha."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    k = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
    found = _read(k, at.shape[1])
    if found is not None:
        return found.function or functions.constant(0.0), found.white
    white = float(k.diag(at[:1])[0] - k(at[:1], at[:1].copy())[0, 0])
    return functions.foreign(lambda a, b: np.asarray(k(a, b), dtype=np.float64)), white


def _read(k: Any, d: int) -> CovarianceAndNoise | None:
    """Read a tree of kernels; None if a part of it is not known."""
    name = type(k).__name__
    if name == "WhiteKernel":
        return CovarianceAndNoise(None, float(k.noise_level))
    if name == "Sum":
        return _read_sum(_read(k.k1, d), _read(k.k2, d))
    if name == "Product":
        return _read_product(_read(k.k1, d), _read(k.k2, d))
    if name == "Exponentiation":
        inner, exponent = _read(k.kernel, d), float(k.exponent)
        if inner is None or inner.function is None or inner.white or not exponent == int(exponent) >= 1:
            return None
        return CovarianceAndNoise(functions.power(inner.function, int(exponent)), 0.0)
    leaf = _read_leaf(name, k, d)
    return None if leaf is None else CovarianceAndNoise(leaf, 0.0)


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
        square = functions.constant(float(k.sigma_0) ** 2)
        return functions.added(functions.polynomial(d), square)
    return None


def _read_sum(a: CovarianceAndNoise | None, b: CovarianceAndNoise | None) -> CovarianceAndNoise | None:
    if a is None or b is None:
        return None
    both = a.function and b.function and functions.added(a.function, b.function)
    return CovarianceAndNoise(both or a.function or b.function, a.white + b.white)


def _read_product(a: CovarianceAndNoise | None, b: CovarianceAndNoise | None) -> CovarianceAndNoise | None:
    """``(k_a + w_a I)(k_b + w_b I)``, entry by entry: white noise times k(x, x) must not depend on x."""
    if a is None or b is None:
        return None
    white = a.white * b.white
    for one, other in ((a, b), (b, a)):
        if one.white and other.function is not None:
            if other.function.diagonal is None:
                raise RefusedModel(
                    "a WhiteKernel times a kernel whose k(x, x) varies is refused: the noise must be the same for "
                    "everyone; add a WhiteKernel instead"
                )
            white += one.white * other.function.diagonal
    return CovarianceAndNoise(a.function and b.function and functions.multiplied(a.function, b.function), white)
