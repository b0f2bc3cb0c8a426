"""Kernel ridge regression and Gaussian processes, seen at public points; every number is charged for its rounding.

With ``M = (K + alpha I)^-1`` over everyone, ``dual = M y``, T the points and ``B = K_T M`` (one column per person),

    r = dual_i / M_ii,   mu = 1/(alpha M_ii) - 1,   f_with(T) - f_without(T) = B_i r

are the residual, the out-of-sample leverage (posterior variance over noise) and how far the person moves the
predictions. For an outsider ``v = k(x,x) - k_x'Mk_x``, ``r = y - k_x'dual`` and the move is
``(k(T,x) - B k_x) r/(alpha + v)``.

The truth is that of the exact kernel at the rows, points and parameters as they are (floats): the predictions are
``K_T M y`` without any rounding. What the evaluation of the kernel, the factorisation, solutions and sums may have lost
is bounded for each person (``kernel_functions``, ``gram_inverse``) and charged; a kernel that nobody has bounded
gives estimates. With alpha next to the rounding of K the answers are upper bounds, and large. How far the float64
predictions that a release publishes are from the exact ones is not part of a person's distance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block, GatheredRows, gather
from perinstance.folds.sweep import Sweep
from perinstance.models.gram_inverse import GramInverse, column_lengths, invert_gram
from perinstance.models.interface import ConfidentialFit, MovedByPerson, Movement
from perinstance.models.kernel_functions import CovarianceFunction, process_kernel, ridge_kernel
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE, charge
from perinstance.numerics.rounding import SMALLEST, UNIT

#: why all rows are held at once, and what to do instead
HELD = "a kernel model holds an n x n matrix; use a linear model"


@dataclass(frozen=True, slots=True)
class Solutions:
    """Columns x with ``A x = b``, ``A = K + alpha I``: the targets' (the first) and one for each point."""

    value: Floats  #: (people, 1 + points)
    lost: Floats  #: what each entry may be off by
    residual: Floats  #: bounds |b - A x|, entry by entry
    size: Floats  #: and the length of each of its columns


@dataclass(frozen=True, slots=True, repr=False)
class KernelFit(ConfidentialFit):
    """The confidential state: everyone's rows, dual coefficients and inverse Gram diagonal."""

    inverse: GramInverse
    solutions: Solutions
    theta: Floats  #: f(T)
    covariance: Floats  #: of f(T) in the posterior of the Gaussian process
    covariance_lost: Floats
    place: dict[bytes, int]
    precision: Floats | None

    @property
    def n_people(self) -> int:  # type: ignore[override]
        """With how many people it was fitted."""
        return len(self.inverse.X)

    def find(self, X: NDArray, y: NDArray) -> NDArray[np.intp]:
        """Return where these people are in the data."""
        try:
            return np.array([self.place[_key(x, t)] for x, t in zip(X, y, strict=True)], dtype=np.intp)
        except KeyError:
            raise InvalidInput("somebody asked about as a member of the data is not in it; use outsiders=") from None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the data says of each person at the points, and what each number may have lost by rounding."""

    leverage: Floats  #: mu: posterior variance at x without the person, over the noise
    leverage_lost: Floats
    whole_low: Floats  #: alpha + v = alpha (1 + mu), from below
    whole: Floats
    residual: Floats  #: r: the target less the prediction without the person
    residual_lost: Floats
    covariance: Floats  #: (people, points): posterior covariance of f(T) and f(x), without the person, over (alpha + v)
    covariance_lost: Floats


@dataclass(frozen=True, slots=True)
class KernelProblem:
    """Predictions of a kernel model at public points, as a model that releases can publish.

    >>> from sklearn.kernel_ridge import KernelRidge
    >>> model = predictions(KernelRidge(alpha=0.5, kernel="rbf", gamma=1.0), points=[[0.0], [1.0]])
    >>> model.noise
    0.5
    """

    moved: ClassVar[MovedByPerson] = "predictions"
    kernel: CovarianceFunction
    noise: float  #: alpha
    points: Floats
    published: str = field(default="values_", init=False)  #: the attribute of a release that holds the predictions

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> KernelFit:
        """Gather the rows, factorise the Gram matrix; every method is the same here."""
        gathered: GatheredRows = sweep.fold(partial(gather, why=HELD))
        X, y = gathered.table()
        if X.shape[1] != self.points.shape[1]:
            raise InvalidInput(f"the points have {self.points.shape[1]} features, the data {X.shape[1]}")
        inverse = invert_gram(self.kernel, self.noise, X)
        KT, s = self.kernel.value(self.points, X), np.sqrt(self.kernel.square(self.points))
        b = np.column_stack([y, KT.T])
        x = inverse.solve(b)
        residual = inverse.residual(b, x)
        residual[:, 1:] += self.kernel.units * UNIT * np.outer(inverse.lengths, s)
        solutions = Solutions(x, inverse.lost(residual), residual, column_lengths(residual))
        B = x[:, 1:]
        covariance = self.kernel.value(self.points, self.points) - KT @ B
        # k_s'M k_t = k_s'b_t + b_s'rho_t + rho_s'M rho_t
        lost = np.abs(B).T @ residual[:, 1:] + np.outer(solutions.size[1:], solutions.size[1:]) / self.noise
        units = (len(X) + self.kernel.units + 2.0) * UNIT  # k_x'a is off by at most this times s(x) l'|a|
        lost += np.outer(s, units * (inverse.lengths @ np.abs(B)))
        lost += (self.kernel.units + 2.0) * UNIT * np.outer(s, s)
        slim = replace(inverse, columns=np.empty((0, 0)))  # |M| is not needed any more
        place = {_key(row, t): i for i, (row, t) in enumerate(zip(X, y, strict=True))}
        return KernelFit(slim, solutions, KT @ x[:, 0], covariance, lost, place, precision)

    def seen(self, fit: KernelFit, X: NDArray, y: NDArray, inside: bool = True) -> Seen:
        """Return residual, leverage and covariances of each person."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        return self._inside(fit, fit.find(X, y)) if inside else self._outside(fit, X, y)

    def _inside(self, fit: KernelFit, at: NDArray[np.intp]) -> Seen:
        inverse, x, lost = fit.inverse, fit.solutions.value[at], fit.solutions.lost[at]
        m, low, high = inverse.diagonal[at], inverse.diagonal_low[at], inverse.diagonal_high[at]
        mu = np.maximum(1 / (self.noise * m) - 1, 0)
        r, r_high = x[:, 0] / m, (np.abs(x[:, 0]) + lost[:, 0]) / low
        return Seen(
            leverage=mu,
            leverage_lost=np.maximum(1 / (self.noise * low) - 1 - mu, 0) + 4 * UNIT * (1 + mu),
            whole_low=(1 - UNIT) / high,
            whole=1 / m,
            residual=r,
            residual_lost=np.maximum(r_high - np.abs(r), 0) + 2 * UNIT * np.abs(r),
            covariance=x[:, 1:],
            covariance_lost=lost[:, 1:],
        )

    def _outside(self, fit: KernelFit, X: Floats, y: Floats) -> Seen:
        inverse, solved, alpha = fit.inverse, fit.solutions, self.noise
        s, k = np.sqrt(self.kernel.square(X)), self.kernel.value(inverse.X, X)
        h = inverse.solve(k)
        at = inverse.lengths @ np.abs(h)
        # |k_x - A h| is at most this times l, as solutions lose 3n + 1 roundings, and the kernel and k_x their own
        left = (3.0 * len(inverse.X) + self.kernel.units + 8.0) * UNIT * at + self.kernel.units * UNIT * s
        left_size = left * column_lengths(inverse.lengths[:, None])
        units = (len(inverse.X) + self.kernel.units + 2.0) * UNIT  # k_x'a is off by at most this times s(x) l'|a|
        variance = np.array([self.kernel.value(x[None], x[None])[0, 0] for x in X])
        v = np.maximum(variance - np.einsum("ij,ij->j", k, h), 0)
        # k'M k = k'h + h'rho + rho'M rho, and likewise with the solutions for the targets and the points
        v_lost = (self.kernel.units + 2) * UNIT * s**2 + at * (left + units * s) + left_size**2 / alpha
        lost = np.abs(h).T @ solved.residual + np.outer(left_size, solved.size) / alpha
        lost += units * np.outer(s, inverse.lengths @ np.abs(solved.value))
        sums = k.T @ solved.value
        at_points = self.kernel.value(X, self.points)
        C = at_points - sums[:, 1:]
        C_lost = lost[:, 1:] + (self.kernel.units + 2) * UNIT * np.outer(s, np.sqrt(self.kernel.square(self.points)))
        whole, low = alpha + v, alpha + np.maximum(v - v_lost, 0)
        share = C / whole[:, None]
        share_high = (np.abs(C) + C_lost) / low[:, None]
        return Seen(
            leverage=v / alpha,
            leverage_lost=v_lost / alpha + 2 * UNIT * v / alpha + SMALLEST,
            whole_low=low * (1 - 2 * UNIT),
            whole=whole,
            residual=y - sums[:, 0],
            residual_lost=lost[:, 0] + UNIT * (np.abs(y) + np.abs(sums[:, 0])),
            covariance=share,
            covariance_lost=np.maximum(share_high - np.abs(share), 0) + 4 * UNIT * np.abs(share),
        )

    def movement(self, fit: KernelFit, block: Block, inside: bool = True) -> Movement:
        """Map: how each person moves the predictions."""
        s = self.seen(fit, block.X, block.y, inside)
        r, r_lost = np.abs(s.residual)[:, None], s.residual_lost[:, None]
        D = s.covariance * r
        lost = np.abs(s.covariance) * r_lost + s.covariance_lost * (r + r_lost)
        lost += np.where(r + r_lost > 0, SMALLEST, 0.0)  # products that underflow are not zero
        distance, distance_lost = _lengths_in(D, lost, fit.precision)
        found = charge(distance, distance_lost)
        return Movement(
            charge(s.leverage, s.leverage_lost).value,
            charge(s.residual, s.residual_lost).value,
            found.value,
            self.kinds(found.kind_code),
        )

    def kinds(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the labels of answers that were charged, as far as the kernel allows."""
        return codes if self.kernel.known else np.full_like(codes, ESTIMATE)

    def refine(self, fit: KernelFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Nobody is left open; the same answer."""
        return self.movement(fit, block, inside)


def _lengths_in(D: Floats, lost: Floats, precision: Floats | None) -> tuple[Floats, Floats]:
    """Return ``||D||_A`` of each row, and how much longer the exact one may be."""
    T = D.shape[1]
    more: Any = 0.0
    if precision is not None:
        C = np.linalg.cholesky(precision)  # C C' is A up to (T + 1) roundings of the lengths of its rows
        more = np.sqrt((T + 2) * UNIT) * (np.abs(D) + lost) @ np.sqrt(np.einsum("ij,ij->i", C, C))
        lost = lost @ np.abs(C) + (T + 1) * UNIT * np.abs(D) @ np.abs(C)
        D = D @ C
    length = column_lengths(D.T)
    added = column_lengths(lost.T) * (1 + (T + 4) * UNIT) + (T + 4) * UNIT * length
    high = length + added
    with np.errstate(invalid="ignore", divide="ignore"):
        added = added + np.where(more > 0, more * (more / (high + np.hypot(high, more))), 0.0)
    return length, added


def _key(x: NDArray, t: Any) -> bytes:
    return np.append(np.asarray(x, dtype=np.float64), np.float64(t)).tobytes()


def predictions(estimator: Any, points: ArrayLike) -> KernelProblem:
    """Return the model of an estimator's predictions at public points.

    ``estimator`` is scikit-learn's ``KernelRidge``, or a ``GaussianProcessRegressor`` with fixed hyperparameters.
    Answers are exact or upper for the kernels linear, polynomial, rbf and laplacian of the one, and for constant,
    white, RBF, Matern (nu = 0.5, 1.5, 2.5), rational quadratic and dot product kernels, their sums, products and
    powers of the other; estimates for every other kernel.
    """
    at = real_values("points", points)
    if at.ndim != 2 or not len(at) or not np.isfinite(at).all():
        raise InvalidInput(f"points must be a table of numbers with at least one row, got shape {at.shape}")
    name = type(estimator).__name__
    if name == "KernelRidge":
        return KernelProblem(ridge_kernel(estimator, at.shape[1]), _noise(estimator.alpha), at)
    if name == "GaussianProcessRegressor":
        if estimator.optimizer is not None:
            raise RefusedModel(
                "GaussianProcessRegressor chooses its kernel by looking at the data, which is itself a release; "
                "pass optimizer=None and a fixed kernel"
            )
        if estimator.normalize_y:
            raise RefusedModel("GaussianProcessRegressor(normalize_y=True) is refused: the scaling depends on the data")
        kernel, white = process_kernel(estimator.kernel, at)
        return KernelProblem(kernel, _noise(estimator.alpha) + white, at)
    raise RefusedModel(f"predictions at points are known for KernelRidge and GaussianProcessRegressor, not for {name}")


def _noise(alpha: Any) -> float:
    if np.ndim(alpha) != 0 or not (np.isfinite(alpha) and alpha > 0):
        raise RefusedModel("alpha must be one number > 0: weights per person or per target are refused")
    return float(alpha)


def refuse_without_points(estimator: Any) -> KernelProblem:
    """Refuse a bare kernel estimator: its parameters are one number per person."""
    raise RefusedModel(
        f"{type(estimator).__name__} has one coefficient per person, which cannot be published; publish predictions at "
        "public points: perinstance.models.predictions(estimator, points)"
    )
