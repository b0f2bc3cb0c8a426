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

import operator
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True, slots=True, eq=False)
class RidgeDescent:
    """What was declared, public, and the sums of everyone without rounding, confidential."""

    steps: int
    learning_rate: float
    noise: float
    every: bool  #: whether all iterates are published, or the last one
    gram: ExactGram
    penalty: tuple[float, ...]  #: one per coefficient
    fit_intercept: bool

    @classmethod
    def of(
        cls, sweep: Sweep, declared: tuple[int, float, float, bool], alpha: float, fit_intercept: bool
    ) -> RidgeDescent:
        """Add up in one pass; ``declared`` are steps, learning rate, noise, and whether all iterates are published."""
        gram: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, block.y, fit_intercept))
        penalty = (alpha,) * (gram.d - fit_intercept) + (0.0,) * fit_intercept
        return cls(*declared, gram, penalty, fit_intercept)

    def pairs(self, X: NDArray, y: NDArray, inside: bool) -> GeneralGaussian:
        """Return the pairs of the last iterate, or of all: exact for few steps and coefficients, else estimates."""
        few = self._width() <= FEW
        return self.enclosed(X, y, inside) if few else self.in_floats(X, y, inside)

    def enclosed(self, X: NDArray, y: NDArray, inside: bool) -> GeneralGaussian:
        """Return the pairs from ball arithmetic."""
        targets, nobody = np.asarray(y, dtype=np.float64), np.zeros((0, self._width() + 1))
        rows = (ExactGram.of(X[[i]], targets[[i]], self.fit_intercept) for i in range(len(X)))
        return GeneralGaussian.concatenate([GeneralGaussian(nobody, nobody), *(self._one(own, inside) for own in rows)])

    def _one(self, own: ExactGram, inside: bool) -> GeneralGaussian:
        if not own.entries[:-1].any():  # a row of zeros moves nothing
            return GeneralGaussian(*np.zeros((2, 1, self._width() + 1)))
        other = self.gram + (ExactGram(-own.entries, own.exponent, -own.n) if inside else own)
        P, Q = (sums.normal_equations(self.penalty) for sums in ((other, self.gram) if inside else (self.gram, other)))
        for bits in BITS:
            with working_precision(bits), suppress(Undecided, ZeroDivisionError):
                if not self.every:
                    (mean_p, cov_p), (mean_q, cov_q) = self.law(P), self.law(Q)
                    W = inverse_factor(cov_q.tolist())
                    return charged(W * (cov_p - cov_q) * W.transpose(), W * (mean_p - mean_q))
                (H, b), (xx, xy) = (
                    (np.array(one.matrix(), dtype=object), np.array(one.right_side(), dtype=object))
                    for one in (P, own.normal_equations())
                )
                F, mean = self._path(H, b, xx, xy, exact(self.learning_rate), exact(self.noise))
                return charged(arb_mat((F @ F.T - np.eye(len(F))).tolist()), arb_mat(len(F), 1, mean.tolist()))
        raise NumericalTrouble(
            "the iterates spread over too many magnitudes: the descent diverges; use a learning_rate below two over "
            "the largest eigenvalue of the Hessian"
        )

    def law(self, equations: NormalEquations) -> tuple[Matrix, Matrix]:
        """Enclose mean and covariance of the last iterate."""
        eta, one = exact(self.learning_rate), identity(equations.d)
        M, b = one - arb_mat(equations.matrix()) * eta, arb_mat(equations.d, 1, equations.right_side())
        squares = power_sum(M * M, self.steps, one, operator.mul)
        return power_sum(M, self.steps, one, operator.mul) * b * eta, squares * (eta * exact(self.noise)) ** 2

    def _path(
        self, H: NDArray, b: NDArray, own: NDArray, moment: NDArray, eta: Any, sigma: Any
    ) -> tuple[NDArray, NDArray]:
        """Return F and m of ``u = F xi + m``, the path without a person: floats, or balls as objects.

        H and b are those without the person, ``own = xx'`` and ``moment = x y``.
        """
        T, p = self.steps, len(b)
        F, mean = np.eye(T * p) + 0 * eta, np.zeros(T * p) + 0 * eta
        M, center, answer = np.eye(p) - H * eta, b * 0, np.zeros((p, T * p)) + 0 * eta  # theta_t = center + answer xi
        for t in range(T):
            here = slice(t * p, (t + 1) * p)
            mean[here] = (own @ center - moment) / sigma
            F[here] += own @ answer / sigma
            center, answer = M @ center + b * eta, M @ answer
            answer[:, here] += np.eye(p) * (eta * sigma)
        return F, mean

    def in_floats(self, X: NDArray, y: NDArray, inside: bool) -> GeneralGaussian:
        """Return estimates of the pairs, from float64."""
        width, eta = self._width(), self.learning_rate
        if self.every and width > LARGEST_PATH:
            raise InvalidInput(
                f"the law of all iterates is exact for up to {LARGEST_PATH} steps times parameters, got {width}; "
                "publish the last iterate, or clip"
            )
        rows, whole = design(X, self.fit_intercept), self.gram.normal_equations(self.penalty)
        unit = Fraction(2) ** whole.exponent
        H, b = (np.vectorize(lambda v: float(v * unit), otypes=[float])(part) for part in (whole.H, whole.b))
        own, moment = rows[:, :, None] * rows[:, None, :], rows * np.asarray(y, dtype=np.float64)[:, None]
        here = np.broadcast_to(H, own.shape), np.broadcast_to(b, moment.shape)
        there = (H - own, b - moment) if inside else (H + own, b + moment)
        P, Q = (there, here) if inside else (here, there)
        with np.errstate(all="ignore"):
            if self.every:
                parts = zip(*P, own, moment, strict=True)
                laws = [self._path(H, b, xx, xy, eta, self.noise) for H, b, xx, xy in parts]
                roots = np.array([F for F, _ in laws]).reshape(len(rows), width, width)
                mean_p, mean_q = (
                    np.array([mean for _, mean in laws]).reshape(len(rows), width),
                    np.zeros((len(rows), width)),
                )
                cov_p, cov_q = roots @ np.swapaxes(roots, 1, 2), np.broadcast_to(np.eye(width), roots.shape)
            else:
                (mean_p, cov_p), (mean_q, cov_q) = (self._law_in_floats(*one) for one in (P, Q))
        _check_spread(cov_p)
        _check_spread(cov_q)
        return GeneralGaussian.from_moments(mean_p, cov_p, mean_q, cov_q, "estimate")

    def _law_in_floats(self, H: Floats, b: Floats) -> tuple[Floats, Floats]:
        one = np.eye(H.shape[-1])
        M = one - self.learning_rate * H
        sums, squares = (power_sum(A, self.steps, one, np.matmul) for A in (M, M @ M))
        return self.learning_rate * (sums @ b[:, :, None])[:, :, 0], (self.learning_rate * self.noise) ** 2 * squares

    def _width(self) -> int:
        return self.gram.d * (self.steps if self.every else 1)


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


def power_sum(M: Any, T: int, one: Any, times: Callable[[Any, Any], Any]) -> Any:
    """``I + M + ... + M^(T-1)``, by doubling; of balls or of floats, as they are multiplied."""
    total, power = one, M  # of one term, and M^1
    for bit in bin(T)[3:]:
        total, power = total + times(total, power), times(power, power)
        if bit == "1":
            total, power = times(total, M) + one, times(power, M)
    return total


def identity(n: int) -> Matrix:
    """``I``, exactly."""
    return arb_mat([[arb(int(i == j)) for j in range(n)] for i in range(n)])


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
    """Return eigenvalues, the vector along them, and what is left of the matrix and may be wrong in the vector.

    The eigenvectors of floats, made orthogonal to all digits, leave little beside the diagonal; planes are then rotated
    one by one (Jacobi) until nothing is left there, the vector along with them.
    """
    n = N.nrows()
    middle = np.array([[float(a.mid()) for a in row] for row in N.tolist()])
    if not np.isfinite(middle).all():
        raise Undecided
    V, one = (
        arb_mat([[exact(a) for a in row] for row in np.linalg.eigh(0.5 * (middle + middle.T))[1].tolist()]),
        identity(n),
    )
    for _ in range(4):
        V = (V * (one * 3 - V.transpose() * V) * arb(0.5)).mid()
    crooked = _norm(V.transpose() * V - one)
    turned, along = V.transpose() * N * V, V.transpose() * v
    lost = _norm(turned, radius=True) + (2 * crooked + ROTATIONS) * _norm(turned)
    off = _norm(along, radius=True) + (crooked + ROTATIONS) * _norm(along)
    A = np.array([[*row, a] for row, a in zip(turned.mid().tolist(), along.mid().entries(), strict=True)], dtype=object)
    least = max((abs(a) for a in turned.mid().entries()), key=float, default=arb(0)) * arb(ROTATIONS) / (8 * n)
    for _ in range(40):
        planes = [[i, j] for i in range(n) for j in range(i + 1, n) if abs(A[i, j]) > least]
        if not planes:
            values, m = ([float(a) for a in part] for part in (A[:, :-1].diagonal(), A[:, -1]))
            return np.array(values), np.array(m), lost, off
        for i, j in planes:
            if abs(A[i, j]) > least:
                t = (A[j, j] - A[i, i]) / (2 * A[i, j])  # cotangent of twice the angle
                tangent = (1 / (abs(t) + (1 + t * t).sqrt())).mid() * (-1 if t < 0 else 1)
                c = (1 + tangent * tangent).rsqrt().mid()
                turn = np.array([[c, -(tangent * c).mid()], [(tangent * c).mid(), c]], dtype=object)
                A[[i, j]] = _middles(turn @ A[[i, j]])
                A[:, [i, j]] = _middles(A[:, [i, j]] @ turn.T)
    raise Undecided


def _norm(M: Matrix, radius: bool = False) -> float:
    """Bound the norm of a matrix or vector, or that of the radii of its balls."""
    sizes = [float(a.rad() if radius else abs(a).upper()) for a in M.entries()]
    return float(np.sqrt(sum(size**2 for size in sizes))) * NORM_UP


_middles = np.frompyfunc(lambda ball: ball.mid(), 1, 1)
