"""How far an added gradient moves the minimum of a smooth objective: a polynomial of it and a bound of the rest.

In the frame of the Hessian (``fourth_order_expansion``) the new minimum w solves ``grad Phi(w) = -s t``. With g0 the
gradient at the fit, ``v = -(s t + g0)`` is the first step and

    w = v - rho,     rho = Phi3[w,w]/2 + Phi4[w,w,w]/6 + ...  = Phi3[v,v]/2 + rho2.

Put into itself this says, N = diag(nu) the precision in the frame,

    |w|_N^2 = |v|_N^2 + S(v) + Q(v) + rest,     S(v) = -Phi3[Nv,v,v],
    Q(v) = Phi3[Nv,v,Phi3[v,v]] - Phi4[Nv,v,v,v]/3 + |Phi3[v,v]|_N^2 / 4,
    rest = 2 Phi3[Nv,v,rho2] - Phi3[Nv,rho,rho] - (Phi4[Nv,w,w,w] - Phi4[Nv,v,v,v])/3 - 2 v'N (fifth order)
           + Phi3[v,v]'N rho2 + |rho2|_N^2.

``-s t'w = |v + g0|^2 - (v + g0)'g0 - Phi3[v + g0,v,v]/2 - (v + g0)'rho2`` follows in the same manner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.within_bounds.by_expansion.fourth_order_expansion import Expansion
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.tensor_norms import cubic_top, quartic_size, quartic_top, symmetric


@dataclass(frozen=True, slots=True)
class StepLengths:
    """Bounds of lengths, one entry for each set of added gradients."""

    first: Floats  #: |v|
    whole: Floats  #: |w|
    correction: Floats  #: |rho|
    second_correction: Floats  #: |rho2|


@dataclass(frozen=True, slots=True)
class Quadratic:
    """``constant + 2 b'z + z'Mz``, many at once."""

    constant: Floats
    b: Floats
    M: Floats


@dataclass(frozen=True, slots=True)
class StepPolynomial:
    """The tensors of ``|w|_N^2`` and bounds of their size on the sphere."""

    expansion: Expansion
    nu: Floats
    g0: Floats
    S: Floats  #: (p, p, p) symmetric
    Q: Floats  #: (p, p, p, p) symmetric
    largest_s: float  #: sup |S|
    largest_q: float  #: sup |Q|
    highest_q: float  #: sup Q, at least 0
    largest_next: float  #: sup |Phi4[v,v,v]/6 - Phi3[v,Phi3[v,v]]/2|, the leading term of rho2

    @property
    def top(self) -> float:
        """The largest eigenvalue of N."""
        return float(self.nu[-1])

    @property
    def start(self) -> float:
        """``|g0|``."""
        return float(np.linalg.norm(self.g0))

    def lengths(self, first: Floats, radius: float, kappa5: float) -> StepLengths:
        """Bound all lengths where ``|v| <= first`` and ``|w| <= radius`` is known."""
        e = self.expansion
        r = np.minimum(first / e.low(np.asarray(radius), kappa5), radius)
        for _ in range(6):  # |w| lo(|w|) <= |v|, and lo falls
            r = np.minimum(r, first / e.low(r, kappa5))
        rho = r * (1 - e.low(r, kappa5))
        last = 0.5 * e.size3 * rho**2 + kappa5 * r**4 / 24
        rho2 = e.size3 * first * rho + e.size4 * r**3 / 6 + last
        slope = 0.5 * e.size4 * np.maximum(r, first) ** 2
        for _ in range(2):
            rho2 = np.minimum(rho2, self.largest_next * first**3 + e.size3 * first * rho2 + slope * rho + last)
        return StepLengths(first, r, np.minimum(rho, 0.5 * e.size3 * first**2 + rho2), rho2)

    def rest(self, step: StepLengths, kappa5: float) -> Floats:
        """Bound the rest of ``|w|_N^2``."""
        e = self.expansion
        farther = np.maximum(step.whole, step.first)
        return self.top * (
            3 * e.size3 * step.first**2 * step.second_correction
            + e.size3 * step.first * step.correction**2
            + e.size4 * step.first * farther**2 * step.correction
            + step.first * kappa5 * step.whole**4 / 12
            + step.second_correction**2
        )

    def around(self, v: Floats, quartic: NDArray[np.bool_]) -> Quadratic:
        """Expand ``|v + z|_N^2 + S(v + z)``, plus ``Q(v + z)`` where asked for, to second order in z."""
        Sv = np.einsum("ijk,cj->cik", self.S, v)
        Svv = np.einsum("cik,ck->ci", Sv, v)
        M, b = np.diag(self.nu) + 3 * Sv, v * self.nu + 1.5 * Svv
        constant = np.einsum("ci,ci->c", v * self.nu + Svv, v)
        at, p = np.flatnonzero(quartic), len(self.nu)
        if len(at):
            u = v[at]
            Quu = ((u[:, :, None] * u[:, None, :]).reshape(len(at), -1) @ self.Q.reshape(p * p, -1)).reshape(-1, p, p)
            Quuu = np.einsum("cik,ck->ci", Quu, u)
            M[at] += 6 * Quu
            b[at] += 2 * Quuu
            constant[at] += np.einsum("ci,ci->c", Quuu, u)
        return Quadratic(constant, b, M)

    def predictor_change(self, v: Floats) -> Quadratic:
        """Expand ``-s t'w`` but for g0 and rho2, ``|v + z + g0|^2 - Phi3[v+z,v+z,v+z]/2`` to second order in z."""
        Pv = np.einsum("ijk,cj->cik", self.expansion.third, v)
        Pvv = np.einsum("cik,ck->ci", Pv, v)
        moved = v + self.g0
        constant = np.einsum("ci,ci->c", moved, moved) - 0.5 * np.einsum("ci,ci->c", Pvv, v)
        return Quadratic(constant, moved - 0.75 * Pvv, np.eye(len(self.nu)) - 1.5 * Pv)


def step_polynomial_of(around: Whitening, expansion: Expansion, g0: Floats) -> StepPolynomial:
    """Contract the tensors of an expansion with the precision."""
    nu, p = around.nu, len(around.nu)
    U = expansion.third.reshape(p, p * p)
    twice = (U.T @ U).reshape(p, p, p, p)  # Phi3[a,b,Phi3[c,d]]
    quartic = nu[:, None, None, None] * (twice - expansion.fourth / 3)
    flat = quartic.reshape(p * p, p * p) + U.T @ (nu[:, None] * U) / 4
    S = -symmetric(nu[:, None, None] * expansion.third, (0, 1, 2))
    Q = symmetric(flat.reshape(p, p, p, p), (0, 1, 2, 3))
    following = expansion.fourth / 6 - symmetric(twice, (1, 2, 3)) / 2
    slack = 1 + 64 * around.error
    return StepPolynomial(
        expansion,
        nu,
        g0,
        S,
        Q,
        slack * cubic_top(S),
        slack * quartic_size(Q),
        slack * max(min(quartic_top(flat), quartic_top(Q.reshape(p * p, p * p))), 0.0),
        slack * float(np.linalg.norm(following.reshape(p, -1), 2)),
    )
