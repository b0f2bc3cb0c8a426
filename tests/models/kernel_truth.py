"""The slow road for kernel models: refits with and without a person at 300 digits, with the exact kernel (flint)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

BITS = 1000


@contextmanager
def many_digits() -> Iterator[None]:
    """Compute with ``BITS`` bits inside."""
    before = ctx.prec
    ctx.prec = BITS
    try:
        yield
    finally:
        ctx.prec = before


def numbers(table: Any) -> list:
    """Floats as exact numbers; nested as they came."""
    return [numbers(row) for row in table] if np.ndim(table) else arb(float(table))


def _differences(x, z, scales):
    return [(a - b) / s for a, b, s in zip(x, z, scales, strict=True)]


def _dot(x, z):
    return sum((a * b for a, b in zip(x, z, strict=True)), arb(0))


def kernel_of(estimator: Any, x: list, z: list) -> arb:
    """k(x, z) without white noise, from the formulas in scikit-learn's documentation."""
    if type(estimator).__name__ == "KernelRidge":
        gamma = arb(1.0 / len(x) if estimator.gamma is None else float(estimator.gamma))
        difference = _differences(x, z, numbers(np.ones(len(x))))
        if estimator.kernel == "rbf":
            return (-gamma * _dot(difference, difference)).exp()
        if estimator.kernel == "laplacian":
            return (-gamma * sum((abs(v) for v in difference), arb(0))).exp()
        if estimator.kernel == "linear":
            return _dot(x, z)
        return (gamma * _dot(x, z) + arb(float(estimator.coef0))) ** int(estimator.degree)
    return _process(estimator.kernel, x, z)


def _process(k: Any, x: list, z: list) -> arb:
    name = type(k).__name__
    if name in ("Sum", "Product"):
        a, b = _process(k.k1, x, z), _process(k.k2, x, z)
        return a + b if name == "Sum" else a * b
    if name == "Exponentiation":
        return _process(k.kernel, x, z) ** int(k.exponent)
    if name == "WhiteKernel":
        return arb(0)
    if name == "ConstantKernel":
        return arb(float(k.constant_value))
    if name == "DotProduct":
        return arb(float(k.sigma_0)) ** 2 + _dot(x, z)
    difference = _differences(x, z, numbers(np.broadcast_to(k.length_scale, len(x))))
    square = _dot(difference, difference)
    if name == "RBF":
        return (-square / 2).exp()
    if name == "RationalQuadratic":
        alpha = arb(float(k.alpha))
        return (1 + square / (2 * alpha)) ** -alpha
    assert name == "Matern"
    far = (square * int(2 * k.nu)).sqrt()
    return (1 + far * (k.nu > 1) + far**2 / 3 * (k.nu > 2)) * (-far).exp()


@dataclass(frozen=True)
class PosteriorSamplePair:
    """Mean and covariance (times gamma) at the points, and at one more row."""

    mean: list
    covariance: arb_mat
    at_mean: arb
    at_variance: arb


@dataclass(frozen=True)
class World:
    """The kernel of every two rows, people and points alike; people and points are positions in it."""

    K: list
    noise: arb

    @classmethod
    def of(cls, estimator: Any, noise: float, rows: list) -> World:
        """Evaluate the kernel once for every two rows."""
        half = [[kernel_of(estimator, p, q) for q in rows[: i + 1]] for i, p in enumerate(rows)]
        return cls([[half[max(i, j)][min(i, j)] for j in range(len(rows))] for i in range(len(rows))], arb(noise))

    def posterior(self, people: list, targets: list, points: list, row: int) -> PosteriorSamplePair:
        """Predictions of a fit with these people at the points and at another row."""
        asked, K = [*points, row], self.K
        prior = arb_mat([[K[p][q] for q in asked] for p in asked])
        if not people:
            mean, covariance = [arb(0)] * len(asked), prior
        else:
            A = arb_mat([[K[p][q] + self.noise if p == q else K[p][q] for q in people] for p in people])
            k = arb_mat([[K[p][q] for q in asked] for p in people])
            h = A.solve(k)
            found = h.transpose() * arb_mat([[t] for t in targets])
            mean = [found[j, 0] for j in range(len(asked))]
            covariance = prior - k.transpose() * h
        T = len(points)
        small = arb_mat([[covariance[i, j] for j in range(T)] for i in range(T)])
        return PosteriorSamplePair(mean[:T], small, mean[T], covariance[T, T])


@dataclass(frozen=True)
class Truth:
    """What a person changes."""

    leverage: arb
    residual: arb
    distance: arb
    mu: arb | None  #: the pair of a draw at the points; None where they determine each other
    rho: arb | None  #: for gamma = 1


def truth(
    without: PosteriorSamplePair, within: PosteriorSamplePair, noise: arb, target: arb, precision: list | None
) -> Truth:
    """Compare two refits: moments of the draws, nothing of the formulas of the library."""
    D = [a - b for a, b in zip(within.mean, without.mean, strict=True)]
    T = len(D)
    A = precision or [[arb(int(i == j)) for j in range(T)] for i in range(T)]
    square = sum((D[i] * A[i][j] * D[j] for i in range(T) for j in range(T)), arb(0))
    distance = arb(0) if square.contains(0) else square.sqrt()
    mu = rho = None
    p, q = without.covariance.det(), within.covariance.det()
    if p > 0 and q > 0:
        mu = p / q - 1
        if mu > 0:
            shift = arb_mat([[v] for v in D])
            size = (shift.transpose() * without.covariance.solve(shift))[0, 0]
            rho = (abs(size) / mu).sqrt() * (1 + mu)
        else:  # nothing is learnt of the person
            mu, rho = arb(0), arb(0)
    return Truth(without.at_variance / noise, target - without.at_mean, distance, mu, rho)
