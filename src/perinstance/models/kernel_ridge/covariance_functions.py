"""Covariance functions k(x, z) with a bound of the rounding in their evaluation.

k is the exact function at the rows and parameters as they are (floats), and what is computed differs from it by

    |computed - k(x, z)| <= units UNIT s(x) s(z),    s(x)^2 >= k(x, x),

which sums and products keep (Cauchy-Schwarz). Distances are sums of differences, never ``|x|^2 + |z|^2 - 2x'z``: that
would cancel for rows far from zero, and 1/alpha multiplies what it lost. An operation costs half a UNIT, at most one
is counted for it, and the errors of higher order fit into the other half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

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


def laplacian(d: int, gamma: float) -> CovarianceFunction:
    """``k = exp(-gamma |x - z|_1)``."""
    return _of_distance(lambda q: np.exp(-np.minimum(gamma * q, FAR)), 1.0, "cityblock", d / 4 + 4)


def matern(d: int, twice_nu: int, scales: ArrayLike) -> CovarianceFunction:
    """Matern's function of smoothness 1/2, 3/2 or 5/2; an error of the distance counts at most as itself."""

    def of(q: Floats) -> Floats:
        K = np.minimum(np.sqrt(twice_nu * q), FAR)
        return (1.0 + (0.0 if twice_nu == 1 else K) + (K * K / 3.0 if twice_nu == 5 else 0.0)) * np.exp(-K)

    return _of_distance(of, scales, "sqeuclidean", d / 2 + 8)


def rational_quadratic(d: int, alpha: float, scale: float) -> CovarianceFunction:
    """``k = (1 + |x - z|^2/(2 alpha scale^2))^-alpha``."""
    return _of_distance(lambda q: (1.0 + q / (2.0 * alpha)) ** -alpha, scale, "sqeuclidean", d / 2 + alpha + 6)


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
    diagonal = None if a.diagonal is None or b.diagonal is None else a.diagonal + b.diagonal
    return CovarianceFunction(
        lambda x, z: a.value(x, z) + b.value(x, z),
        lambda x: a.square(x) + b.square(x),
        max(a.units, b.units) + 1.0,
        diagonal,
    )


def multiplied(a: CovarianceFunction, b: CovarianceFunction) -> CovarianceFunction:
    """``k = k_a k_b``."""
    diagonal = None if a.diagonal is None or b.diagonal is None else a.diagonal * b.diagonal
    return CovarianceFunction(
        lambda x, z: a.value(x, z) * b.value(x, z),
        lambda x: a.square(x) * b.square(x) + TINY,
        a.units + b.units + 1.0,
        diagonal,
    )


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
        function,
        lambda a: np.array([abs(float(function(x[None], x[None])[0, 0])) for x in a]),
        8.0,
        known=False,
    )
