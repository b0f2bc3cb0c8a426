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
from flint import arb_mat
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import UNIT
from perinstance.pairs import GeneralGaussian
from perinstance.releases.descent.enclosed_iterates import charged, identity, power_sum
from perinstance.sampling import ExactGram, NormalEquations
from perinstance.sampling.ball_arithmetic import Matrix, Undecided, exact, inverse_factor

BITS = (320, 640, 1280, 2560)  #: precisions that are tried
FEW = 16  #: coordinates that are diagonalised in balls
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
    """What was declared, public, and the moments of everyone, confidential."""

    steps: int
    learning_rate: float
    noise: float
    moments: RidgeMoments

    def pairs(self, X: NDArray, y: NDArray, inside: bool, every: bool) -> GeneralGaussian:
        """Return the pairs of the last iterate, or of all: exact for few steps and coefficients, else estimates."""
        if self._width(every) <= FEW:
            return self.enclosed(X, y, inside, every)
        return self.in_floats(X, y, inside, every)

    def enclosed(self, X: NDArray, y: NDArray, inside: bool, every: bool) -> GeneralGaussian:
        """Return the pairs from ball arithmetic (``enclosed_iterates``)."""
        targets, width = np.asarray(y, dtype=np.float64), self._width(every) + 1
        found = [self._one(X[[i]], targets[[i]], inside, every) for i in range(len(X))]
        return GeneralGaussian.concatenate([GeneralGaussian(np.zeros((0, width)), np.zeros((0, width))), *found])

    def _one(self, x: NDArray, y: Floats, inside: bool, every: bool) -> GeneralGaussian:
        own = ExactGram.of(x, y, self.moments.fit_intercept)
        if not own.entries[:-1].any():  # a row of zeros moves nothing
            return GeneralGaussian(*np.zeros((2, 1, self._width(every) + 1)))
        whole = self.moments.gram
        other = whole + (ExactGram(-own.entries, own.exponent, -own.n) if inside else own)
        P, Q = (sums.normal_equations(self.moments.penalty) for sums in ((other, whole) if inside else (whole, other)))
        for bits in BITS:
            with working_precision(bits):
                try:
                    return charged(*(self._enclosed_path(P, own) if every else self._enclosed_last(P, Q)))
                except (Undecided, ZeroDivisionError):
                    continue
        raise NumericalTrouble(
            "the iterates spread over too many magnitudes: the descent diverges; use a learning_rate below two over "
            "the largest eigenvalue of the Hessian"
        )

    def _enclosed_last(self, P: NormalEquations, Q: NormalEquations) -> tuple[Matrix, Matrix]:
        """Return N and v of the last iterate."""
        mean_p, cov_p = self.enclosed_law(P)
        mean_q, cov_q = self.enclosed_law(Q)
        W = inverse_factor(cov_q.tolist())
        return W * (cov_p - cov_q) * W.transpose(), W * (mean_p - mean_q)

    def enclosed_law(self, equations: NormalEquations) -> tuple[Matrix, Matrix]:
        """Return mean and covariance, ``eta sum_{k<T} M^k b`` and ``eta^2 sigma^2 sum_{k<T} M^{2k}``."""
        eta, sigma = exact(self.learning_rate), exact(self.noise)
        M = identity(equations.d) - arb_mat(equations.matrix()) * eta
        b = arb_mat(equations.d, 1, equations.right_side())
        return power_sum(M, self.steps) * b * eta, power_sum(M * M, self.steps) * (eta * sigma) ** 2

    def _enclosed_path(self, P: NormalEquations, own: ExactGram) -> tuple[Matrix, Matrix]:
        """Return N and v of all iterates, in the coordinates in which the path with the person is white noise."""
        T, p, eta, sigma = self.steps, P.d, exact(self.learning_rate), exact(self.noise)
        mine = own.normal_equations()
        outer, moment = arb_mat(mine.matrix()), arb_mat(p, 1, mine.right_side())
        H, b = arb_mat(P.matrix()), arb_mat(p, 1, P.right_side())
        M = identity(p) - H * eta
        F, mean = identity(T * p), arb_mat(T * p, 1)
        center, answer = arb_mat(p, 1), arb_mat(p, T * p)  # theta_t = center + answer . noise
        for t in range(T):
            shift, turned = (outer * center - moment) * (1 / sigma), outer * answer * (1 / sigma)
            for i in range(p):
                mean[t * p + i, 0] = shift[i, 0]
                for j in range(t * p):
                    F[t * p + i, j] = turned[i, j]
            center, answer = M * center + b * eta, M * answer
            for i in range(p):
                answer[i, t * p + i] += eta * sigma
        return F * F.transpose() - identity(T * p), mean

    def in_floats(self, X: NDArray, y: NDArray, inside: bool, every: bool) -> GeneralGaussian:
        """Return estimates of the pairs, from float64."""
        moments = self.moments
        H_p, b_p, H_q, b_q = moments.without(X, y, inside)
        if not every:
            laws = [*self._law(H_p, b_p), *self._law(H_q, b_q)]
            _check_spread(laws[1])
            _check_spread(laws[3])
            return GeneralGaussian.from_moments(*laws, "estimate")
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

    def _width(self, every: bool) -> int:
        return self.steps * len(self.moments.b) if every else len(self.moments.b)

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
