"""Covariance functions k(x, z) with a bound of the rounding in their evaluation.

k is the exact function at the rows and parameters as they are (floats), and what is computed differs from it by

    |computed - k(x, z)| <= units UNIT s(x) s(z),    s(x)^2 >= k(x, x),

which sums and products keep (Cauchy-Schwarz). Distances are sums of differences, never ``|x|^2 + |z|^2 - 2x'z``: that
would cancel for rows far from zero, and 1/alpha multiplies what it lost. An operation costs half a UNIT, at most one is
counted for it, and the errors of higher order fit into the other half.

scikit-learn's kernels are read as such functions. Kernels that are not read (callables, ``sigmoid``, ``cosine``,
``chi2``, Matern's of other smoothness, ...) are taken as they come: nobody knows what they round, or that they are
positive definite, so answers are estimates.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from perinstance.errors import RefusedModel
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LARGEST, TINY

#: exp(-x) is zero in floats from here on
FAR = 800.0


@dataclass(frozen=True, slots=True)
class CovarianceFunction:
    """A positive definite function of two rows, and how well it is computed."""

    value: Callable[[Floats, Floats], Floats]  #: k of every row of one table and every row of another
    square: Callable[[Floats], Floats]  #: s^2 of every row
    units: float
    diagonal: float | None = None  #: k(x, x) where it is the same for every x
    known: bool = True  #: False: somebody else's function, whose rounding nobody has bounded


def constant(value: float) -> CovarianceFunction:
    """``k = value >= 0``."""
    return CovarianceFunction(
        lambda a, b: np.full((len(a), len(b)), value), lambda a: np.full(len(a), value), 0.0, value
    )


def polynomial(d: int, gamma: float = 1.0, coef0: float = 0.0, degree: int = 1) -> CovarianceFunction:
    """``k = (gamma x'z + coef0)^degree`` with gamma, coef0 >= 0; d products, d + 1 sums, and a power of them."""

    def value(a: Floats, b: Floats) -> Floats:
        return (gamma * (a @ b.T) + coef0) ** degree

    def square(a: Floats) -> Floats:
        # TINY: a unit of it is what an underflow costs, of the products or of the power
        return (gamma * (np.einsum("ij,ij->i", a, a) + TINY) + coef0) ** degree + TINY

    return CovarianceFunction(value, square, degree * (d + 3.0) + 2.0)


def squared_exponential(d: int, factor: float, scales: ArrayLike = 1.0) -> CovarianceFunction:
    """``k = exp(-factor |(x - z)/scales|^2)``; the error of the exponent counts at most 1/e of itself."""
    return _of_distance(lambda q: np.exp(-np.minimum(factor * q, FAR)), scales, "sqeuclidean", d / 4 + 4)


def matern(d: int, twice_nu: int, scales: ArrayLike) -> CovarianceFunction:
    """Matern's function of smoothness 1/2, 3/2 or 5/2; an error of the distance counts at most as itself."""

    def of(q: Floats) -> Floats:
        K = np.minimum(np.sqrt(twice_nu * q), FAR)
        return (1.0 + (0.0 if twice_nu == 1 else K) + (K * K / 3.0 if twice_nu == 5 else 0.0)) * np.exp(-K)

    return _of_distance(of, scales, "sqeuclidean", d / 2 + 8)


def _of_distance(of: Callable[[Floats], Floats], scales: ArrayLike, metric: str, units: float) -> CovarianceFunction:
    """``k = of(distance)``, one at distance zero."""
    scales = np.asarray(scales, dtype=np.float64)
    # rows are divided by powers of two, which rounds nothing, their differences (or squares) by the rest of the scale
    fraction, exponent = np.frexp(scales)
    weights = fraction ** (-2.0 if metric == "sqeuclidean" else -1.0)

    def value(a: Floats, b: Floats) -> Floats:
        a, b = np.ldexp(a, -exponent), np.ldexp(b, -exponent)
        if weights.ndim:
            q = cdist(a, b, metric, w=np.broadcast_to(weights, a.shape[1:]))
        else:
            q = cdist(a, b, metric)
            q *= weights
        return of(np.minimum(q, LARGEST))

    return CovarianceFunction(value, lambda a: np.ones(len(a)), units, 1.0)


def added(a: CovarianceFunction, b: CovarianceFunction) -> CovarianceFunction:
    """``k = k_a + k_b``."""
    return _combined(a, b, operator.add, max(a.units, b.units) + 1.0, 0.0)


def _combined(a: CovarianceFunction, b: CovarianceFunction, of: Any, units: float, lost: float) -> CovarianceFunction:
    def square(x: Floats) -> Floats:
        return of(a.square(x), b.square(x)) + lost

    diagonal = None if a.diagonal is None or b.diagonal is None else of(a.diagonal, b.diagonal)
    return CovarianceFunction(lambda x, z: of(a.value(x, z), b.value(x, z)), square, units, diagonal)


def power(a: CovarianceFunction, exponent: int) -> CovarianceFunction:
    """``k = k_a^exponent``."""
    return CovarianceFunction(
        lambda x, z: a.value(x, z) ** exponent,
        lambda x: a.square(x) ** exponent + TINY,
        exponent * (a.units + 1.0) + 2.0,
        None if a.diagonal is None else a.diagonal**exponent,
    )


def foreign(function: Callable[[Floats, Floats], Floats]) -> CovarianceFunction:
    """Take anybody's function; a few roundings are assumed, and answers are estimates."""
    return CovarianceFunction(
        function, lambda a: np.array([abs(float(function(x[None], x[None])[0, 0])) for x in a]), 8.0, known=False
    )


#: What a Gaussian process' kernel says: a covariance function (None: zero), and the variance of white noise.
FunctionAndNoise = tuple[CovarianceFunction | None, float]


def ridge_kernel(estimator: Any, d: int) -> CovarianceFunction:
    """Read the kernel of a ``KernelRidge`` for rows of d cells."""
    name = estimator.kernel
    if name == "precomputed":
        raise RefusedModel("KernelRidge(kernel='precomputed') is refused: the rows must be known to audit people")
    gamma = 1.0 / d if estimator.gamma is None else float(estimator.gamma)
    if name == "linear":
        return polynomial(d)
    if name == "rbf" and gamma >= 0:
        return squared_exponential(d, gamma)
    if name == "laplacian" and gamma >= 0:
        return _of_distance(lambda q: np.exp(-np.minimum(gamma * q, FAR)), 1.0, "cityblock", d / 4 + 4)
    if name in ("poly", "polynomial"):
        degree, coef0 = float(estimator.degree), float(estimator.coef0)
        if degree == int(degree) >= 1 and coef0 >= 0 and gamma >= 0:
            return polynomial(d, gamma, coef0, int(degree))
    from sklearn.metrics.pairwise import pairwise_kernels

    known = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    parameters = dict(estimator.kernel_params or {}) if callable(name) else known
    return foreign(lambda a, b: pairwise_kernels(a, b, metric=name, filter_params=not callable(name), **parameters))


def process_kernel(kernel: Any, at: Floats) -> tuple[CovarianceFunction, float]:
    """Read the kernel of a ``GaussianProcessRegressor``, and its white noise, which adds to alpha."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    k = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
    found = _read(k, at.shape[1])
    if found is not None:
        return found[0] or constant(0.0), found[1]
    white = float(k.diag(at[:1])[0] - k(at[:1], at[:1].copy())[0, 0])
    return foreign(lambda a, b: np.asarray(k(a, b), dtype=np.float64)), white


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
        return power(inner[0], int(exponent)), 0.0
    if name == "ConstantKernel" and k.constant_value >= 0:
        return constant(float(k.constant_value)), 0.0
    if name == "RBF" or (name == "Matern" and np.isinf(k.nu)):
        return squared_exponential(d, 0.5, k.length_scale), 0.0
    if name == "Matern" and k.nu in (0.5, 1.5, 2.5):
        return matern(d, int(2 * k.nu), k.length_scale), 0.0
    if name == "RationalQuadratic":
        alpha = float(k.alpha)
        return _of_distance(
            lambda q: (1.0 + q / (2.0 * alpha)) ** -alpha, float(k.length_scale), "sqeuclidean", d / 2 + alpha + 6
        ), 0.0
    if name == "DotProduct":
        return added(polynomial(d), constant(float(k.sigma_0) ** 2)), 0.0
    return None


def _added(a: FunctionAndNoise, b: FunctionAndNoise) -> FunctionAndNoise:
    both = a[0] and b[0] and added(a[0], b[0])
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
    x, z = a[0], b[0]
    return x and z and _combined(x, z, operator.mul, x.units + z.units + 1.0, TINY), white
