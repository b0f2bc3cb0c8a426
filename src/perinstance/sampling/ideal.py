"""The distributions that releases draw from, as functions of exact data and bit strings.

==============  ================================================================
``Noisy``       ``center + scale z``, coordinates independent, Gaussian or Laplace
``Output``      ``N(theta_hat, scale^2 A^-1)``, A public; isotropic without A
``Posterior``   ``N(theta_hat, H^-1 / gamma)``
``Objective``   ``N(theta_hat, scale^2 H^-2)``
==============  ================================================================

``enclose(strings, n)`` returns balls that contain the ideal draw which the infinite strings stand for, knowing n bits
of each. The factors are fixed (L of the Cholesky factorisation ``L L'``), so equal strings mean the equal draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.sampling.bits import BitString
from perinstance.sampling.enclosure import Ball, Matrix, Undecided, cholesky, exact, solve_lower, solve_upper
from perinstance.sampling.gram import NormalEquations
from perinstance.sampling.variates import NOISES, Noise, variate

Center = Callable[[], Sequence[Ball]]  # enclosures of irrational centers at the working precision


class Ideal(Protocol):
    """A distribution that can be drawn from exactly."""

    @property
    def d(self) -> int:
        """Number of coordinates, and of bit strings."""

    def enclose(self, strings: Sequence[BitString], n: int) -> Sequence[Ball]:
        """Enclose the draw of these strings, at the working precision, knowing n bits of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """``center + scale z``. Numbers are exact: floats are dyadic; balls and ``Fraction`` are accepted.

    ``center`` may be a function that returns enclosures at the working precision, with ``count`` telling how many;
    ``scale`` is one number or one per coordinate. Laplace noise of scale s has density ``exp(-|z|/s)/(2 s)``.
    """

    center: Sequence[Any] | NDArray[Any] | Center
    scale: Any
    noise: Noise = "gaussian"
    count: int = 1

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise InvalidInput(f"noise must be one of {NOISES}, got {self.noise!r}")
        if any(not exact(s) > 0 for s in np.atleast_1d(np.asarray(self.scale, dtype=object))):
            raise InvalidInput("scale must be positive: a release without noise is not private")

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return self.count if callable(self.center) else len(self.center)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose each coordinate."""
        centers = self.center() if callable(self.center) else self.center
        scales = np.broadcast_to(np.asarray(self.scale, dtype=object), (self.d,))
        return [
            exact(c) + exact(s) * variate(self.noise, bits, n)
            for c, s, bits in zip(centers, scales, strings, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """``theta_hat + scale M^-T z`` with ``A = M M'`` public: covariance ``scale^2 A^-1``; isotropic without A."""

    equations: NormalEquations
    scale: float
    A: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        A = self.A
        if A is not None and (A.shape != (self.d, self.d) or not np.isfinite(A).all() or (A != A.T).any()):
            raise InvalidInput(f"precision must be a symmetric {self.d} x {self.d} matrix, got shape {A.shape}")

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.equations.d

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose ``theta_hat + scale M^-T z``."""
        z = _normals(strings, n)
        if self.A is not None:
            z = solve_upper(cholesky([[exact(v) for v in row] for row in self.A.tolist()]), z)
        theta_hat, s = estimate(self.equations), exact(self.scale)
        return [t + s * v for t, v in zip(theta_hat, z, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """``theta_hat + L^-T z / sqrt(gamma)`` with ``H = L L'``: one posterior sample."""

    equations: NormalEquations
    gamma: float

    def __post_init__(self) -> None:
        _positive("gamma", self.gamma)

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.equations.d

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose ``L^-T (L^-1 b + z / sqrt(gamma))``."""
        L = factor(self.equations)
        w, s = solve_lower(L, self.equations.right_side()), exact(self.gamma).rsqrt()
        return solve_upper(L, [a + s * v for a, v in zip(w, _normals(strings, n), strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """``H^-1 (b - scale z)``: the minimiser of the objective with the linear term ``scale z'theta``."""

    equations: NormalEquations
    scale: float

    def __post_init__(self) -> None:
        _positive("scale", self.scale)

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.equations.d

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose the minimiser."""
        L, s = factor(self.equations), exact(self.scale)
        b = [a - s * v for a, v in zip(self.equations.right_side(), _normals(strings, n), strict=True)]
        return solve_upper(L, solve_lower(L, b))


def estimate(equations: NormalEquations) -> list[Ball]:
    """``theta_hat = H^-1 b``, without noise: confidential."""
    L = factor(equations)
    return solve_upper(L, solve_lower(L, equations.right_side()))


def factor(equations: NormalEquations) -> Matrix:
    """L of ``H = L L'``. A singular H is told apart from a hard one by its exact rank."""
    try:
        return cholesky(equations.matrix())
    except Undecided:
        if fmpz_mat([[int(v) for v in row] for row in equations.H]).rank() < equations.d:
            raise InvalidInput(
                "the Hessian is singular: the columns are linearly dependent and nothing penalises it; "
                "use a positive alpha"
            ) from None
        raise


def _normals(strings: Sequence[BitString], n: int) -> list[Ball]:
    return [variate("gaussian", bits, n) for bits in strings]


def _positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be positive and finite, got {value!r}")
