"""Kernel ridge regression and Gaussian processes, seen at public points; everything about each person is exact.

With ``M = (K + alpha I)^-1`` over everyone, ``dual = M y``, T the points and ``B = K_T M`` (one column per person),

    r = dual_i / M_ii,   mu = 1/(alpha M_ii) - 1,   f_with(T) - f_without(T) = B_i r

are the residual, the out-of-sample leverage (posterior variance over noise) and how far the person moves the
predictions. For an outsider ``v = k(x,x) - k_x'Mk_x``, ``r = y - k_x'dual`` and the move is
``(k(T,x) - B k_x) r/(alpha + v)``. The Gram matrix is filled in blocks and factorised in place: one n x n matrix,
nothing else of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dtrtri

from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.gathered_rows import GatheredRows, gather
from perinstance.folds.sweep import Sweep
from perinstance.models.interface.fit_health import FitHealth
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import KERNEL_PIVOT

Kernel = Callable[[Floats, Floats], Floats]

ROWS = 1024


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The confidential state: everyone's rows, dual coefficients and inverse Gram diagonal."""

    X: Floats
    root: Floats  #: lower Cholesky factor of K + alpha I
    dual: Floats
    diagonal: Floats  #: M_ii
    B: Floats  #: K_T M, (points, people)
    theta: Floats  #: f(T)
    covariance: Floats  #: of f(T) in the posterior of the Gaussian process
    place: dict[bytes, int]
    precision: Floats | None

    @property
    def health(self) -> FitHealth:
        """How many people it was fitted with."""
        return FitHealth(len(self.X))

    @property
    def gram(self) -> None:
        """None: theta are the predictions."""
        return None

    def find(self, X: NDArray, y: NDArray) -> NDArray[np.intp]:
        """Return where these people are in the data."""
        try:
            return np.array([self.place[_key(x, t)] for x, t in zip(X, y, strict=True)], dtype=np.intp)
        except KeyError:
            raise InvalidInput("somebody asked about as a member of the data is not in it; use targets=") from None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the data says of each person at the points."""

    leverage: Floats  #: mu: posterior variance at x without the person, over the noise
    residual: Floats  #: r: the target less the prediction without the person
    covariance: Floats  #: (people, points): posterior covariance of f(T) and f(x), without the person, over (alpha + v)


@dataclass(frozen=True, slots=True)
class KernelProblem:
    """Predictions of a kernel model at public points, as a model that releases can publish.

    >>> from sklearn.kernel_ridge import KernelRidge
    >>> model = predictions(KernelRidge(alpha=0.5, kernel="rbf", gamma=1.0), points=[[0.0], [1.0]])
    >>> model.noise
    0.5
    """

    kernel: Kernel
    noise: float  #: alpha
    points: Floats
    published: str = field(default="values_", init=False)  #: the attribute of a release that holds the predictions

    @property
    def moved(self) -> MovedByPerson:
        """The predictions."""
        return "predictions"

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> KernelFit:
        """Gather the rows, factorise the Gram matrix; every method is exact here."""
        gathered: GatheredRows = sweep.fold(gather)
        X = np.concatenate([x for x, _ in gathered.parts])
        y = np.concatenate([t for _, t in gathered.parts])
        if X.shape[1] != self.points.shape[1]:
            raise InvalidInput(f"the points have {self.points.shape[1]} features, the data {X.shape[1]}")
        root = self._factor(X)
        dual = cho_solve((root, True), y, check_finite=False)
        KT = self.kernel(self.points, X)
        B = cho_solve((root, True), KT.T, check_finite=False).T
        inverse, info = dtrtri(root, lower=1)
        if info:
            raise NumericalTrouble("the Gram matrix is singular; use a larger alpha")
        diagonal = np.einsum("ij,ij->j", inverse, inverse)
        covariance = self.kernel(self.points, self.points) - B @ KT.T
        place = {_key(x, t): i for i, (x, t) in enumerate(zip(X, y, strict=True))}
        return KernelFit(X, root, dual, diagonal, B, KT @ dual, covariance, place, precision)

    def _factor(self, X: Floats) -> Floats:
        n = len(X)
        G = np.empty((n, n), order="F")
        for i in range(0, n, ROWS):
            for j in range(0, i + ROWS, ROWS):  # the lower triangle is enough
                G[i : i + ROWS, j : j + ROWS] = self.kernel(X[i : i + ROWS], X[j : j + ROWS])
        G[np.diag_indices(n)] += self.noise
        try:
            root = cholesky(G, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NumericalTrouble(
                "K + alpha I is not positive definite in double precision; use a larger alpha"
            ) from None
        # K comes rounded: beyond this, alpha drowns in it
        if np.diag(root).min() ** 2 < KERNEL_PIVOT * np.diag(root).max() ** 2:
            raise NumericalTrouble("alpha is too small next to the kernel for double precision; use a larger alpha")
        return root

    def seen(self, fit: KernelFit, X: NDArray, y: NDArray, inside: bool = True) -> Seen:
        """Return residual, leverage and covariances of each person."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if inside:
            at = fit.find(X, y)
            m = fit.diagonal[at]
            return Seen(np.maximum(1 / (self.noise * m) - 1, 0), fit.dual[at] / m, fit.B[:, at].T)
        k = self.kernel(fit.X, X)
        half = np.linalg.solve(fit.root, k) if len(fit.X) < 64 else _forward(fit.root, k)
        v = np.maximum(
            np.array([self.kernel(x[None], x[None])[0, 0] for x in X]) - np.einsum("ij,ij->j", half, half), 0
        )
        C = self.kernel(self.points, X) - fit.B @ k
        return Seen(v / self.noise, y - fit.dual @ k, (C / (self.noise + v)).T)

    def movement(self, fit: KernelFit, block: Block, inside: bool = True) -> Movement:
        """Map: how each person moves the predictions."""
        X, y = block.X, block.y
        s = self.seen(fit, X, y, inside)
        D = s.covariance * s.residual[:, None]
        if fit.precision is not None:
            D = D @ np.linalg.cholesky(fit.precision)
        return Movement(s.leverage, s.residual, np.linalg.norm(D, axis=1))

    def refine(self, fit: KernelFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Nobody is left open; the same answer."""
        return self.movement(fit, block, inside)


def _forward(root: Floats, k: Floats) -> Floats:
    from scipy.linalg import solve_triangular

    return solve_triangular(root, k, lower=True, check_finite=False)


def _key(x: NDArray, t: Any) -> bytes:
    return np.append(np.asarray(x, dtype=np.float64), np.float64(t)).tobytes()


def predictions(estimator: Any, points: ArrayLike) -> KernelProblem:
    """Return the model of an estimator's predictions at public points.

    ``estimator`` is scikit-learn's ``KernelRidge``, or a ``GaussianProcessRegressor`` with fixed hyperparameters.
    """
    at = np.asarray(points, dtype=np.float64)
    if at.ndim != 2 or not len(at) or not np.isfinite(at).all():
        raise InvalidInput(f"points must be a table of numbers with at least one row, got shape {at.shape}")
    name = type(estimator).__name__
    if name == "KernelRidge":
        return KernelProblem(_ridge_kernel(estimator), _noise(estimator.alpha), at)
    if name == "GaussianProcessRegressor":
        if estimator.optimizer is not None:
            raise RefusedModel(
                "GaussianProcessRegressor chooses its kernel by looking at the data, which is itself a release; "
                "pass optimizer=None and a fixed kernel"
            )
        if estimator.normalize_y:
            raise RefusedModel("GaussianProcessRegressor(normalize_y=True) is refused: the scaling depends on the data")
        kernel, white = _process_kernel(estimator.kernel, at)
        return KernelProblem(kernel, _noise(estimator.alpha) + white, at)
    raise RefusedModel(f"predictions at points are known for KernelRidge and GaussianProcessRegressor, not for {name}")


def _noise(alpha: Any) -> float:
    if np.ndim(alpha) != 0 or not (np.isfinite(alpha) and alpha > 0):
        raise RefusedModel("alpha must be one number > 0: weights per person or per target are refused")
    return float(alpha)


def _ridge_kernel(estimator: Any) -> Kernel:
    from sklearn.metrics.pairwise import pairwise_kernels

    name = estimator.kernel
    if name == "precomputed":
        raise RefusedModel("KernelRidge(kernel='precomputed') is refused: the rows must be known to audit people")
    parameters = dict(estimator.kernel_params or {})
    if not callable(name):
        parameters = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}

    def kernel(a: Floats, b: Floats) -> Floats:
        return pairwise_kernels(a, b, metric=name, filter_params=not callable(name), **parameters)

    return kernel


def _process_kernel(kernel: Any, at: Floats) -> tuple[Kernel, float]:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    k = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
    # a white part counts on the diagonal only: it is noise of the observations, like alpha
    white = float(k.diag(at[:1])[0] - k(at[:1], at[:1].copy())[0, 0])
    return (lambda a, b: np.asarray(k(a, b), dtype=np.float64)), white


def refuse_without_points(estimator: Any) -> KernelProblem:
    """Refuse a bare kernel estimator: its parameters are one number per person."""
    raise RefusedModel(
        f"{type(estimator).__name__} has one coefficient per person, which cannot be published; publish predictions at "
        "public points: perinstance.models.kernel_ridge.predictions(estimator, points)"
    )
