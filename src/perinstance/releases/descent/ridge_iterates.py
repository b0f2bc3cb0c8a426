"""Ridge regression without clipping: the iterates are Gaussian, with and without each person (MATH 7).

    theta_{t+1} = theta_t - eta (H theta_t - b) + eta sigma xi_t,        theta_0 = 0

The last iterate has mean ``eta sum_{k<T} M^k b`` and covariance ``eta^2 sigma^2 sum_{k<T} M^{2k}``, ``M = I - eta H``.
All iterates together are one Gaussian vector too. In the coordinates in which the path *with* the person is white
noise, ``u_t = (theta_{t+1} - theta_t + eta (H theta_t - b)) / (eta sigma)``, the path without them is
``u_t = xi_t + x (x'theta_t - y) / sigma``.

Many coefficients are answered for in float64, without a bound of its rounding: an estimate. Of few the two Gaussians
are known to all digits: sums over people are exact integers, powers of M are balls. With ``W S_Q W' = I`` the pair is
``N(v, I + N)`` against ``N(0, I)``, and rotations make N diagonal but for a matrix E of norm e.

What E, and rounding to float64, may take is charged. Lemma: ``x -> A x + noise`` of covariance ``I - AA'`` keeps
``N(0, I)`` and takes ``(v, N)`` to ``(A v, A N A')``; a pair that is taken to another loses no less. With ``D`` the
diagonal, ``N = diag(D / (1 - t), G, -G)``, ``v = (m / sqrt(1 - t), 0, 0)`` and
``A = (sqrt(1 - t) I, sqrt(t) B, sqrt(t) C)``, ``BB', CC' = (I +- E / (t G)) / 2``, which exist for ``e <= t G``:
``AA' = I``, ``A v = m`` and ``A N A' = D + E``. The coordinates of excess ``+-G`` have a log ratio below ``1100 G`` but
for a probability below 1e-300, and a shift of three times that loses no less than whoever answers at random with that
log ratio: they are one more coordinate, of shift ``ENCLOSED_SHIFT``. Raising a ``|D_j|`` by a share and ``|m_j|`` by
half of it is the lemma once more, with A diagonal; a loss never falls with a ``|m_j|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import ENCLOSED_ERROR, ENCLOSED_SHIFT, EXACT_PARAMETER, NORM_UP, ROTATIONS, UNIT
from perinstance.pairs import GeneralGaussian
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
        """Return the pairs from ball arithmetic."""
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
            (mean_p, cov_p), (mean_q, cov_q) = self._law(H_p, b_p), self._law(H_q, b_q)
            _check_spread(cov_p)
            _check_spread(cov_q)
            return GeneralGaussian.from_moments(mean_p, cov_p, mean_q, cov_q, "estimate")
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


def charged(N: Matrix, v: Matrix) -> GeneralGaussian:
    """Return the pair ``N(v, I + N)`` against ``N(0, I)``: diagonalised, raised by what was lost, and labelled."""
    nu, m, e, off = _diagonal(N, v)
    if not e <= ENCLOSED_ERROR:
        raise Undecided
    wide, shift = nu * NORM_UP, (np.abs(m) + off) * NORM_UP
    wide, shift = np.append(wide, 0.0), np.append(shift, ENCLOSED_SHIFT)
    size = np.hypot(np.linalg.norm(nu), np.linalg.norm(m))
    lost = np.hypot(np.linalg.norm(wide[:-1] - nu), np.linalg.norm(shift[:-1] - np.abs(m))) + ENCLOSED_SHIFT
    code = EXACT if lost <= EXACT_PARAMETER * size else UPPER
    if not ((wide > -1.0).all() and np.isfinite(wide).all()):  # no ratio of variances that float64 can hold
        wide, shift, code = np.zeros_like(wide), np.full_like(shift, np.inf), UPPER
    return GeneralGaussian(wide[None, :], shift[None, :], np.array([code], dtype=np.uint8))


def _diagonal(N: Matrix, v: Matrix) -> tuple[Floats, Floats, float, float]:
    """Return eigenvalues, the vector along them, and what is left of the matrix and may be wrong in the vector."""
    n = N.nrows()
    middle = np.array([[float(a.mid()) for a in row] for row in N.tolist()])
    if not np.isfinite(middle).all():
        raise Undecided
    V = arb_mat([[exact(a) for a in row] for row in np.linalg.eigh(0.5 * (middle + middle.T))[1].tolist()])
    for _ in range(4):  # orthogonal to all digits
        V = (V * (identity(n) * 3 - V.transpose() * V) * arb(0.5)).mid()
    crooked = _size(V.transpose() * V - identity(n))
    turned, along = V.transpose() * N * V, V.transpose() * v
    size = _size(turned)
    lost = _radius(turned) + (2 * crooked + ROTATIONS) * size
    off = _radius(along) + (crooked + ROTATIONS) * _size(along)
    values, m = _jacobi(turned.mid().tolist(), along.mid().entries())
    return np.array([float(a) for a in values]), np.array([float(a) for a in m]), lost, off


def _jacobi(A: list[list[Any]], v: list[Any]) -> tuple[list[Any], list[Any]]:
    """Rotate plane by plane until nothing is left beside the diagonal, the vector along with it."""
    n = len(A)
    least = max((abs(a) for row in A for a in row), key=float, default=arb(0)) * arb(ROTATIONS) / (8 * n)
    for _ in range(40):
        planes = [(i, j) for i in range(n) for j in range(i + 1, n) if abs(A[i][j]) > least]
        if not planes:
            return [A[i][i] for i in range(n)], v
        for i, j in planes:
            if not abs(A[i][j]) > least:
                continue
            c, s = _rotation(A[i][i], A[i][j], A[j][j])
            for row in A:
                row[i], row[j] = (c * row[i] - s * row[j]).mid(), (s * row[i] + c * row[j]).mid()
            A[i], A[j] = (
                [(c * a - s * b).mid() for a, b in zip(A[i], A[j], strict=True)],
                [(s * a + c * b).mid() for a, b in zip(A[i], A[j], strict=True)],
            )
            v[i], v[j] = (c * v[i] - s * v[j]).mid(), (s * v[i] + c * v[j]).mid()
    raise Undecided


def _rotation(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Return cosine and sine of the rotation that makes ``[[a, b], [b, c]]`` diagonal."""
    t = (c - a) / (2 * b)
    tangent = (1 / (abs(t) + (1 + t * t).sqrt())).mid()
    tangent = -tangent if t < 0 else tangent
    cosine = (1 + tangent * tangent).rsqrt().mid()
    return cosine, (tangent * cosine).mid()


def power_sum(M: Matrix, T: int) -> Matrix:
    """``I + M + ... + M^(T-1)``, by doubling."""
    total, power = identity(M.nrows()), M  # of one term, and M^1
    for bit in bin(T)[3:]:
        total, power = total + total * power, power * power
        if bit == "1":
            total, power = total * M + identity(M.nrows()), power * M
    return total


def identity(n: int) -> Matrix:
    """``I``, exactly."""
    return arb_mat([[arb(int(i == j)) for j in range(n)] for i in range(n)])


def _size(M: Matrix) -> float:
    """Bound the norm of a matrix or vector."""
    return float(np.sqrt(sum(float(abs(a).upper()) ** 2 for a in M.entries()))) * NORM_UP


def _radius(M: Matrix) -> float:
    return float(np.sqrt(sum(float(a.rad()) ** 2 for a in M.entries()))) * NORM_UP
