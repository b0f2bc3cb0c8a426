"""Newton's method with safeguards, for any convex objective that is summed by folds, and the proof of the minimum.

Whitened are coordinates in which the Hessian is the identity and the noise's precision is diagonal. With ``H = L L'``
(columns scaled first) and ``L^-1 A L^-T = V diag(nu) V'``, the rows ``t = V'L^-1 x`` give at once

    x'H^-1 x = sum t_k^2,   |H^-1 x|_A^2 = sum nu_k t_k^2,   |A H^-1 x|^2 in the H^-1 norm = sum nu_k^2 t_k^2,

so that every norm a certificate needs costs one d x d product per person. The Newton decrement ``lambda = |grad F|`` in
the H^-1 norm bounds how far the true minimum can be (Nesterov and Nemirovskii 1994); it enters every certificate that
is built on the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, MINIMUM_DECREMENT, OBJECTIVE_ROUNDING, TERM_ROUNDINGS, UNIT

#: above this condition number (columns scaled) no bound can be stated in double precision
CONDITION_LIMIT = 1e13

FLAT = (
    "the objective is flat in some direction, so it has no single minimum (columns that repeat each other, more "
    "coefficients than people, or classes that a plane separates); use a penalty: alpha > 0, or a finite C"
)


@dataclass(frozen=True, slots=True)
class Whitening:
    """``T H T' = I`` and ``T A^-1.. `` diagonal: ``H^-1 = T'T``, ``H^-1 A H^-1 = T' diag(nu) T``."""

    T: Floats  #: (d, d)
    nu: Floats  #: (d,) eigenvalues of A relative to H, from above: what rounding may have taken from them is added
    condition: float  #: of H, columns scaled to length one
    lost: float = 0.0  #: by how much ``T H T'`` may differ from the identity in any direction, H's own sums included

    @property
    def error(self) -> float:
        """What a certificate charges sixteen times for each length that it takes from products ``t = T x``.

        A product of p terms loses ``p u/2 |T||x|`` in any order, and ``||T||x|| <= sqrt(p condition) |t|`` (columns
        scaled), so a leverage loses ``p^1.5 sqrt(condition) u``, and what is left without a person twice as much again.
        T itself may be ``lost`` off.
        """
        p = len(self.nu)
        return UNIT * (p + p**1.5 * self.condition**0.5 / 8) + self.lost

    @property
    def unusable(self) -> bool:
        """Whether so much may be lost that nothing of second order in it is charged for: only a refit is trusted."""
        return not 1e3 * self.error < 1

    def solve(self, g: Floats) -> Floats:
        """``H^-1 g`` for rows g."""
        return (g @ self.T.T) @ self.T

    def norm(self, g: Floats) -> float:
        """``|g|`` in the H^-1 norm."""
        return float(np.linalg.norm(self.T @ g))

    def norm_bound(self, entries: Floats) -> float:
        """Bound ``|g|`` in the H^-1 norm when its entries are at most these."""
        return float(np.linalg.norm(np.abs(self.T) @ entries))


def whiten(H: Floats, precision: Floats | None = None, chain: float = 0.0) -> Whitening:
    """Return the whitening of H (positive definite) and of a precision A (None: the identity).

    ``chain`` is how many additions a term of H went through at most, where the sums state it. Then entry (i, j) is off
    by at most ``chain u/2 sqrt(H_ii H_jj)`` (Cauchy and Schwarz), the p x p matrix of these with columns scaled has a
    norm of at most ``p chain u/2``, and in the norm of H that is ``p chain u/2`` over the smallest eigenvalue of the
    scaled H. The same holds for any other sum of ``w z z'``, relative to its own largest eigenvalue in that norm: its
    diagonal is at most that eigenvalue times H's.
    """
    diagonal = np.diag(H)
    if not np.isfinite(H).all():
        raise NumericalTrouble("the Hessian overflows float64; divide the largest columns by a public constant")
    if not (diagonal > 0).all():
        raise NumericalTrouble(FLAT)
    scale = 1 / np.sqrt(diagonal)
    C = H * np.outer(scale, scale)
    values = np.linalg.eigvalsh(C)
    if not values[0] * CONDITION_LIMIT > values[-1]:
        raise NumericalTrouble(FLAT)
    root = np.linalg.cholesky(C)
    W = solve_triangular(root, np.diag(scale), lower=True)
    A = None if precision is None else np.asarray(precision, dtype=np.float64)
    if A is not None and A.shape != H.shape:
        raise InvalidInput(f"the precision must be {H.shape[0]} x {H.shape[0]}, got shape {A.shape}")
    inner = W @ W.T if A is None else W @ A @ W.T
    nu, V = np.linalg.eigh((inner + inner.T) / 2)
    if not nu[-1] < 1e150:  # its square is wanted too
        raise NumericalTrouble(
            "coefficients of columns as small as these overflow float64; "
            "multiply the smallest columns by a public constant"
        )
    T = V.T @ W
    # a step along the small eigenvalues of a precision must not be measured too short by the rounding of the large ones
    unsure = _off_diagonal(T, np.eye(len(nu)) if A is None else A, nu)
    in_sums = (chain + TERM_ROUNDINGS) * HALF_UNIT * len(nu) / float(values[0]) if chain else 0.0
    lost = _off_diagonal(T / scale, C, np.ones(len(nu))) + in_sums
    return Whitening(T, np.maximum(nu, 0.0) + unsure, float(values[-1] / values[0]), lost)


def _off_diagonal(T: Floats, M: Floats, diagonal: Floats) -> float:
    """Bound the norm of ``T M T' - diag``, whatever became of T on its way: formed, and what forming it may lose.

    Two products of p terms lose ``p u |T||M||T'|`` in any order, scaling and differences a few u more.
    """
    found = T @ M @ T.T
    found.flat[:: len(T) + 1] -= diagonal
    size = np.linalg.norm(np.abs(T) @ np.abs(M) @ np.abs(T).T)
    return float(np.linalg.norm(found) + UNIT * (len(T) + 4) * size)


MAX_STEPS = 100
#: the decrement below which a stall is blamed on rounding
STALL = 1e-6
#: at a minimum the next step changes no curvature by more than this share
ARRIVED = 1e-3
#: a step that changes curvatures by more than this share is not taken whole
FAR = 0.1
#: the steps that one fold tries when the full one does not descend
LENGTHS = 4.0 ** np.arange(5, -16, -1)
#: shares of the diagonal that are added for other directions to try, where the curvature has jumps
DAMPINGS = (1e-2, 1.0)


@dataclass(frozen=True, slots=True)
class Slopes:
    """Sums over some rows at one theta; adding two gives the sums over both sets of rows."""

    n: float
    value: float
    gradient: Floats
    hessian: Floats
    left_out: int = 0  #: rows equal to the person who is taken out; they are in n but in none of the sums
    #: additions that a term of the sums went through at most, where they are charged one by one (``whiten``)
    chain: float = 0.0

    #: the targets' fold has looked at every cell; a step that overflows is no fault of the table
    finite = True

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(
            self.n + other.n,
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.left_out + other.left_out,
            max(self.chain, other.chain) + 1 if self.chain or other.chain else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where Newton's method ended, and the proof."""

    theta: Floats
    slopes: Slopes
    decrement: float
    steps: int


def minimise(objective: Any, theta: Floats) -> Minimum:
    """Minimise a ``Folded`` objective by as many folds as it takes, usually six to ten."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _minimise(objective, theta)
        # where the infimum is at infinity gradient and Hessian vanish together, and a Newton step never gets short
        if objective.curvature_change(whiten(found.slopes.hessian).solve(found.slopes.gradient)) > ARRIVED:
            raise NumericalTrouble(_stuck(found.decrement))
    return found


def _minimise(objective: Any, theta: Floats) -> Minimum:
    now = objective.at(theta)
    decrement = np.inf
    for steps in range(1, MAX_STEPS + 1):
        around, damped = _safe_whitening(now.hessian)
        decrement = around.norm(now.gradient)
        if not damped and decrement <= MINIMUM_DECREMENT:
            return Minimum(theta, now, decrement, steps)
        step = -around.solve(now.gradient)
        new = objective.at(theta + step)
        if not damped and (decrement < STALL or decrement**2 < OBJECTIVE_ROUNDING * abs(now.value)):
            # values no longer tell two thetas apart; the gradient does, down to its own rounding
            after = around.norm(new.gradient)
            if not after <= decrement / 4:
                far = objective.curvature_change(step)
                if far > FAR:  # not rounding: curvature changes along the step, so a damped step (Bach 2010)
                    theta = theta + np.log1p(far) / far * step
                    now = objective.at(theta)
                    continue
                if decrement >= STALL:  # huge values; on while the gradient still falls
                    if not after < decrement:
                        raise NumericalTrouble(_stuck(decrement))
                    theta, now = theta + step, new
                    continue
                if after < decrement:
                    theta, now = theta + step, new
                return Minimum(theta, now, whiten(now.hessian).norm(now.gradient), steps)
            theta, now = theta + step, new
            continue
        if not new.value <= now.value - 1e-4 * decrement**2:
            other = _search(objective, theta, now, step)
            found = objective.at(theta + other)
            if found.value < now.value:
                step, new = other, found
            elif damped or not around.norm(new.gradient) <= decrement / 4:
                raise NumericalTrouble(_stuck(decrement))
            # else values are rounded by more than they change (predictions of large terms): the gradient tells
        theta, now = theta + step, new
    raise NumericalTrouble(_stuck(decrement))


def _search(objective: Any, theta: Floats, now: Slopes, step: Floats) -> Floats:
    """Return the best step along Newton's direction, and along others that trust a Hessian with holes less.

    Where a curvature jumps, the Hessian at hand may know nothing of the rows that the step leads to.
    """
    best, lowest = step, np.inf
    floor = _floor(now.hessian)
    others = [-whiten(now.hessian + share * np.diag(floor)).solve(now.gradient) for share in DAMPINGS]
    for direction in (step, *others):
        values = objective.along(theta, direction)
        k = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
        if values[k] < lowest:
            best, lowest = LENGTHS[k] * direction, float(values[k])
        if objective.curvature_change(step) > 0:  # a smooth loss: its Hessian has no holes
            break
    return best


def _stuck(decrement: float) -> str:
    return f"Newton's method found no minimum (decrement {decrement:.1e}): {FLAT}"


def _safe_whitening(H: Floats) -> tuple[Whitening, bool]:
    """Return the whitening of H, or of H with just enough added to its diagonal while the iterate is far out."""
    try:
        return whiten(H), False
    except NumericalTrouble:
        if not np.isfinite(H).all():
            raise
    return whiten(H + 1e-6 * np.diag(_floor(H))), True


def _floor(H: Floats) -> Floats:
    """Return the diagonal of H, with something > 0 in its empty places."""
    diagonal = np.diag(H)
    return np.where(diagonal > 0, diagonal, max(float(diagonal.max()), 1.0))
