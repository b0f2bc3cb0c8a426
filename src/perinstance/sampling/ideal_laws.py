"""The distributions that releases draw from, as functions of exact data and bit strings.

==================  ================================================================
``Noisy``           ``center + scale z``, coordinates independent, Gaussian or Laplace
``ExactOutput``     ``N(theta_hat, scale^2 A^-1)``, A public; isotropic without A
``ExactPosterior``  ``N(theta_hat, H^-1 / gamma)``
``ExactObjective``  ``N(theta_hat, scale^2 H^-2)``
``ExactStudent``    ``theta_hat + scale t``, t of the multivariate Student law
``ExactDescent``    iterates of noisy gradient descent on ``theta'H theta/2 - b'theta``
==================  ================================================================

``enclose(strings, n)`` returns balls that contain the ideal draw which the infinite strings stand for, knowing n bits
of each. The factors are fixed (L of the Cholesky factorisation ``L L'``), so equal strings mean the equal draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import arb, arb_mat, fmpz_mat
from numpy.typing import NDArray

from perinstance.checked_numbers import positive, whole_number
from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Undecided, dyadic, exact, inverse_factor, product
from perinstance.sampling.exact_gram import NormalEquations
from perinstance.sampling.random_bits import NOISES, BitString, Noise, variate

#: of an estimate: its normal equations, or the estimate itself as exact numbers
Center = NormalEquations | Sequence[Any] | NDArray[np.float64]


class Ideal(Protocol):
    """A distribution that can be drawn from exactly."""

    @property
    def d(self) -> int:
        """Number of coordinates, and of bit strings."""

    @property
    def work(self) -> int:
        """Size of the factorisations, ``d^3`` each: what the time of a draw is padded to."""

    def enclose(self, strings: Sequence[BitString], n: int) -> Sequence[Ball]:
        """Enclose the draw of these strings, at the working precision, knowing n bits of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """``center + scale z``, coordinates independent. Floats are taken as the exact numbers they are.

    An entry of ``center`` is a float, an integer, a ``Fraction``, or for an irrational number a function without
    arguments that encloses it at the working precision. ``scale`` is one number or one per coordinate. Laplace noise of
    scale s has density ``exp(-|z|/s)/(2 s)``. ``work`` is what the functions cost (see ``Ideal``).
    """

    center: Sequence[Any] | NDArray[Any]
    scale: Any
    noise: Noise = "gaussian"
    work: int = 0

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise InvalidInput(f"noise must be one of {NOISES}, got {self.noise!r}")
        if any(not exact(s) > 0 for s in np.atleast_1d(np.asarray(self.scale, dtype=object))):
            raise InvalidInput("scale must be positive: a release without noise is not private")

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return len(self.center)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose each coordinate."""
        scales = np.broadcast_to(np.asarray(self.scale, dtype=object), (self.d,))
        return [
            exact(c) + exact(s) * variate(self.noise, bits, n)
            for c, s, bits in zip(self.center, scales, strings, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _AroundEstimate:
    center: Center

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.center.d if isinstance(self.center, NormalEquations) else len(self.center)

    def enclosed_center(self) -> list[Ball]:
        """Enclose theta_hat."""
        return estimate(self.center) if isinstance(self.center, NormalEquations) else [exact(v) for v in self.center]


@dataclass(frozen=True, slots=True, eq=False)
class ExactOutput(_AroundEstimate):
    """``theta_hat + scale M^-T z`` with ``A = M M'`` public: covariance ``scale^2 A^-1``; isotropic without A.

    ``center`` holds the normal equations of theta_hat, or theta_hat itself as exact numbers.
    """

    scale: float
    A: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        A = self.A
        if A is not None and (A.shape != (self.d, self.d) or not np.isfinite(A).all() or (A != A.T).any()):
            raise InvalidInput(f"precision must be a symmetric {self.d} x {self.d} matrix, got shape {A.shape}")

    @property
    def work(self) -> int:
        """One factorisation for the center, one for A."""
        return (isinstance(self.center, NormalEquations) + (self.A is not None)) * self.d**3

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose ``theta_hat + scale M^-T z``."""
        z = _normals(strings, n)
        if self.A is not None:
            z = product(inverse_factor([[exact(v) for v in row] for row in self.A.tolist()]).transpose(), z)
        s = exact(self.scale)
        return [t + s * v for t, v in zip(self.enclosed_center(), z, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _OneFactorisation:
    equations: NormalEquations

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.equations.d

    @property
    def work(self) -> int:
        """One factorisation."""
        return self.d**3


@dataclass(frozen=True, slots=True, eq=False)
class ExactPosterior(_OneFactorisation):
    """``theta_hat + L^-T z / sqrt(gamma)`` with ``H = L L'``: one posterior sample."""

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose ``L^-T (L^-1 b + z / sqrt(gamma))``."""
        W, s = factor(self.equations), exact(self.gamma).rsqrt()
        w = product(W, self.equations.right_side())
        return product(W.transpose(), [a + s * v for a, v in zip(w, _normals(strings, n), strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class ExactObjective(_OneFactorisation):
    """``H^-1 (b - scale z)``: the minimiser of the objective with the linear term ``scale z'theta``."""

    scale: float

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose the minimiser."""
        W, s = factor(self.equations), exact(self.scale)
        b = [a - s * v for a, v in zip(self.equations.right_side(), _normals(strings, n), strict=True)]
        return product(W.transpose(), product(W, b))


@dataclass(frozen=True, slots=True, eq=False)
class ExactDescent:
    """``theta_{t+1} = theta_t - rate (H theta_t - b) + rate scale z_t`` from 0: the last iterate, or all of them.

    One string per step and coefficient; everything between the strings and the answer is exact.
    """

    equations: NormalEquations
    learning_rate: float
    scale: float
    steps: int
    every: bool = False

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        positive("learning_rate", self.learning_rate)

    @property
    def d(self) -> int:
        """Number of strings."""
        return self.equations.d * self.steps

    @property
    def work(self) -> int:
        """A product with H for each step: fewer operations than so many factorisations."""
        return self.steps * self.equations.d**3

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose the last iterate, or all of them behind each other."""
        p, eta, s = self.equations.d, exact(self.learning_rate), exact(self.scale)
        H, b = arb_mat(self.equations.matrix()), self.equations.right_side()
        theta, path = [exact(0)] * p, []
        for t in range(self.steps):
            z, slope = _normals(strings[t * p : (t + 1) * p], n), product(H, theta)
            theta = [a + eta * (c + s * v - g) for a, c, v, g in zip(theta, b, z, slope, strict=True)]
            path += theta
        return path if self.every else theta


def estimate(equations: NormalEquations) -> list[Ball]:
    """``theta_hat = H^-1 b``, without noise: confidential."""
    W = factor(equations)
    return product(W.transpose(), product(W, equations.right_side()))


def factor(equations: NormalEquations) -> Matrix:
    """``L^-1`` of ``H = L L'``. A singular H is told apart from a hard one by its exact rank."""
    try:
        return inverse_factor(equations.matrix())
    except Undecided:
        if fmpz_mat([[int(v) for v in row] for row in equations.H]).rank() < equations.d:
            raise InvalidInput(
                "the Hessian is singular: the columns are linearly dependent and nothing penalises it; "
                "use a positive alpha"
            ) from None
        raise


def _normals(strings: Sequence[BitString], n: int) -> list[Ball]:
    return [variate("gaussian", bits, n) for bits in strings]


MOST_DEGREES = 1000  # beyond, Student noise is Gaussian noise to three digits


def check_degrees(degrees_of_freedom: Any) -> int:
    """Validate nu: whole, so that a chi-squared number is made of whole uniform and normal ones."""
    return whole_number("degrees_of_freedom", degrees_of_freedom, 1, MOST_DEGREES, 4)


@dataclass(frozen=True, slots=True)
class DealtBits:
    """Every ``of``-th bit of a string, from ``first`` on: strings dealt from one are independent of each other."""

    bits: BitString
    first: int
    of: int

    def prefix(self, n: int) -> int:
        """Return the first n bits of this share."""
        whole = format(self.bits.prefix(n * self.of), f"0{n * self.of}b")
        return int(whole[self.first :: self.of], 2)


@dataclass(frozen=True, slots=True, eq=False)
class ExactStudent(_AroundEstimate):
    """``theta_hat + scale z / sqrt(g/nu)``; ``center`` as in ``ExactOutput``.

    g is chi-squared with nu degrees of freedom, a whole number: ``-2 log V`` of nu/2 uniform numbers, and one squared
    normal number if nu is odd. Their bits come out of the first coordinate's string, dealt out in turn, so a draw is
    still a function of one string for each coordinate.
    """

    scale: float
    degrees_of_freedom: int

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        check_degrees(self.degrees_of_freedom)

    @property
    def work(self) -> int:
        """One factorisation for the center, and the uniform numbers of g."""
        return isinstance(self.center, NormalEquations) * self.d**3 + 100 * int(self.degrees_of_freedom)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose each coordinate."""
        nu = int(self.degrees_of_freedom)
        parts = 1 + nu // 2 + nu % 2
        shares = [DealtBits(strings[0], k, parts) for k in range(parts)]
        g = sum((2 * abs(variate("laplace", one, n)) for one in shares[1 : 1 + nu // 2]), exact(0))
        if nu % 2:
            g = g + variate("gaussian", shares[-1], n) ** 2
        length = exact(self.scale) * (exact(nu) / g).sqrt()
        own = _normals([shares[0], *strings[1:]], n)
        return [t + length * z for t, z in zip(self.enclosed_center(), own, strict=True)]


FIRST_PRECISION = 192  # bits of precision, and of each string, in the first attempt: hardly any draw needs more
LAST_PRECISION = 1 << 15


def settle(ideal: Ideal, strings: Sequence[BitString], exponent: int) -> tuple[int, ...]:
    """Return k such that ``k 2^exponent`` is the rounding of the draw that the strings stand for.

    When the ball of every coordinate lies between two rounding boundaries the grid point is known. When it does not,
    more bits are appended to the *same* strings and the precision is doubled: nothing is drawn again.
    """
    precision = FIRST_PRECISION
    while precision <= LAST_PRECISION:
        with working_precision(precision):
            try:
                unit, half = dyadic(1, -exponent), arb(0.5)
                cells = [(ball * unit + half).floor().unique_fmpz() for ball in ideal.enclose(strings, precision)]
            except Undecided:
                cells = [None]
        if None not in cells:
            return tuple(int(k) for k in cells)
        precision *= 2
    raise NumericalTrouble(
        f"a draw could not be enclosed tightly enough with {LAST_PRECISION} bits: the problem is conditioned beyond "
        "reason; use a larger alpha, or scale the columns"
    )
