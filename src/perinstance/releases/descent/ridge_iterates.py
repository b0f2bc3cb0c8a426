"""Ridge regression without clipping: the iterates are Gaussian, with and without each person (MATH 7).

    theta_{t+1} = theta_t - eta (H theta_t - b) + eta sigma xi_t,        theta_0 = 0

The last iterate has mean ``eta sum_{k<T} M^k b`` and covariance ``eta^2 sigma^2 sum_{k<T} M^{2k}``, ``M = I - eta H``.
All iterates together are one Gaussian vector too. In the coordinates in which the path *with* the person is white
noise, ``u_t = (theta_{t+1} - theta_t + eta (H theta_t - b)) / (eta sigma)``, the path without them is
``u_t = xi_t + x (x'theta_t - y) / sigma``.

Few coefficients are answered for in ball arithmetic (``enclosed_iterates``), exactly. What is computed here in float64
has no bound of its rounding, and is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT
from perinstance.pairs import GeneralGaussian
from perinstance.releases.descent.enclosed_iterates import FEW, EnclosedDescent
from perinstance.sampling import ExactGram

#: Steps times parameters up to which the law of the whole path is written down: a matrix of that size per person.
LARGEST_PATH = 400


@dataclass(frozen=True, slots=True)
class RidgeMoments:
    """``H = X'X + penalty`` and ``b = X'y`` in floats, and the same without rounding, with everyone. Confidential."""

    H: Floats
    b: Floats
    gram: ExactGram
    penalty: tuple[float, ...]  #: one per coefficient
    fit_intercept: bool

    def without(self, X: NDArray, y: NDArray, inside: bool) -> tuple[Floats, Floats, Floats, Floats]:
        """Return H and b without each of these people, then with each of them."""
        rows = design(X, self.fit_intercept)
        own, mine = rows[:, :, None] * rows[:, None, :], rows * np.asarray(y, dtype=np.float64)[:, None]
        here = (np.broadcast_to(self.H, own.shape), np.broadcast_to(self.b, mine.shape))
        other = (self.H - own, self.b - mine) if inside else (self.H + own, self.b + mine)
        return (*other, *here) if inside else (*here, *other)


def fold_moments(sweep: Sweep, alpha: float, fit_intercept: bool) -> RidgeMoments:
    """Add up, in one pass and without rounding."""
    gram: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, block.y, fit_intercept))
    penalty = (alpha,) * (gram.d - fit_intercept) + (0.0,) * fit_intercept
    sums = [[float(gram.fraction(i, j)) for j in range(gram.d + 1)] for i in range(gram.d)]
    total = np.reshape(sums, (gram.d, gram.d + 1))
    return RidgeMoments(total[:, :-1] + np.diag(penalty), total[:, -1], gram, penalty, fit_intercept)


@dataclass(frozen=True, slots=True)
class RidgeDescent:
    """What was declared. All of it is public."""

    steps: int
    learning_rate: float
    noise: float

    def last(self, moments: RidgeMoments, X: NDArray, y: NDArray, inside: bool) -> GeneralGaussian:
        """Return the pairs of the last iterate: exact for few coefficients, else estimates in float64."""
        if len(moments.b) <= FEW:
            return self._enclosed(moments).pairs(X, y, inside, every=False)
        H_p, b_p, H_q, b_q = moments.without(X, y, inside)
        mean_p, cov_p = self._law(H_p, b_p)
        mean_q, cov_q = self._law(H_q, b_q)
        _check_spread(cov_p)
        _check_spread(cov_q)
        return GeneralGaussian.from_moments(mean_p, cov_p, mean_q, cov_q, "estimate")

    def all(self, moments: RidgeMoments, X: NDArray, y: NDArray, inside: bool) -> GeneralGaussian:
        """Return the pairs of all iterates together: exact for few steps and coefficients, else estimates."""
        if self.steps * len(moments.b) <= FEW:
            return self._enclosed(moments).pairs(X, y, inside, every=True)
        H_p, b_p, *_ = moments.without(X, y, inside)
        rows, T, eta = design(X, moments.fit_intercept), self.steps, self.learning_rate
        n, p = rows.shape
        if T * p > LARGEST_PATH:
            raise InvalidInput(
                f"the law of all iterates is exact for up to {LARGEST_PATH} steps times parameters, got {T * p}; "
                "publish the last iterate, or clip"
            )
        M = np.eye(p) - eta * H_p
        mean, F = np.zeros((n, T, p)), np.zeros((n, T, p, T, p))
        center, answer = np.zeros((n, p)), np.zeros((n, p, T, p))  # theta_t = center + answer . xi
        for t in range(T):
            e = np.einsum("ni,ni->n", rows, center) - np.asarray(y, dtype=np.float64)
            mean[:, t] = rows * (e / self.noise)[:, None]
            F[:, t] = rows[:, :, None, None] * (np.einsum("ni,nitj->ntj", rows, answer) / self.noise)[:, None]
            F[:, t, :, t] += np.eye(p)
            center = np.einsum("nij,nj->ni", M, center) + eta * b_p
            answer = np.einsum("nij,njtk->nitk", M, answer)
            answer[:, :, t] += eta * self.noise * np.eye(p)
        root, center = F.reshape(n, T * p, T * p), mean.reshape(n, T * p)
        white = np.broadcast_to(np.eye(T * p), root.shape)
        cov = root @ np.swapaxes(root, 1, 2)
        _check_spread(cov)
        return GeneralGaussian.from_moments(center, cov, np.zeros_like(center), white, "estimate")

    def _enclosed(self, moments: RidgeMoments) -> EnclosedDescent:
        declared = (self.steps, self.learning_rate, self.noise)
        return EnclosedDescent(*declared, moments.gram, moments.penalty, moments.fit_intercept)

    def _law(self, H: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the covariance of the last iterate, by the eigenvalues of H."""
        h, V = np.linalg.eigh(H)
        z = self.learning_rate * h
        first, second = _powers(z, self.steps), _even_powers(z, self.steps)
        mean = self.learning_rate * np.einsum("nij,nj->ni", V, first * np.einsum("nij,ni->nj", V, b))
        cov = (self.learning_rate * self.noise) ** 2 * np.einsum("nij,nj,nkj->nik", V, second, V)
        return mean, cov


def _check_spread(covariance: Floats) -> None:
    """Refuse eigenvalues that float64 cannot tell apart."""
    if np.isfinite(covariance).all():
        values = np.linalg.eigvalsh(covariance)
        if (values[:, 0] > len(values[0]) * UNIT * values[:, -1]).all():
            return
    raise NumericalTrouble(
        "the iterates spread over more magnitudes than float64 has digits: the descent diverges, or has far too many "
        "steps in some direction; use a learning_rate below two over the largest eigenvalue of the Hessian"
    )


def _powers(z: Floats, T: int) -> Floats:
    """``sum_{k<T} (1 - z)^k``."""
    with np.errstate(all="ignore"):
        direct = (1.0 - (1.0 - z) ** T) / z
        small = -np.expm1(T * np.log1p(-z)) / z
    return np.where(z == 0.0, float(T), np.where(np.abs(z) < 0.5, small, direct))


def _even_powers(z: Floats, T: int) -> Floats:
    """``sum_{k<T} (1 - z)^(2k)``; ``1 - (1 - z)^2 = z (2 - z)``, whose zeros are told apart from their neighbours."""
    with np.errstate(all="ignore"):
        gap = z * (2.0 - z)
        near = np.where(np.abs(z) < 1.0, z, 2.0 - z)  # |1 - z| = 1 - near
        sums = -np.expm1(2 * T * np.log1p(-near)) / gap
    return np.where(gap == 0.0, float(T), np.where(near == 1.0, 1.0, sums))
