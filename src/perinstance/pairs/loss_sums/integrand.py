r"""The integrand of an inversion around its saddle point, over its value there.

``exp(Psi z + sum_j (C_j z + F_j) z/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))`` times the Laplace
factors of ``laplace_atoms.py``; ``contour_integral.py`` says what the letters are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel

#: Which Laplace factors: none, whole, the exponentials below epsilon, those above.
PLAIN, SMOOTH, BELOW, ABOVE = 0, 1, 2, 3
TURN = math.pi * 1j  # left of 0 every negative loss changes the sign


class GaussianFactors(NamedTuple):
    """The Gaussian factors of the integrand, and where the poles are."""

    Psi: Any
    G: Any
    C: Any
    F: Any
    p0: Any
    p1: Any
    ph: Any


class Integrand(NamedTuple):
    """Which Laplace factors, the value at the saddle point, the Gaussian factors and the Laplace ones."""

    kind: Any
    start: Any
    gauss: Any
    atoms: Any


@kernel
def inverse(f):
    """Return 1/f; numpy's division guards against overflows that cannot happen here."""
    size = f.real * f.real + f.imag * f.imag
    return complex(f.real / size, -f.imag / size)


@kernel
def _root(f):
    """Return the square root of f, which is not zero."""
    s = math.sqrt(0.5 * (math.sqrt(f.real * f.real + f.imag * f.imag) + abs(f.real)))
    if f.real >= 0.0:
        return complex(s, 0.5 * f.imag / s)
    return complex(0.5 * abs(f.imag) / s, math.copysign(s, f.imag))


@kernel
def gaussian(z, Psi, G, C, F, p0, p1):
    """Return the exponent and the divisor of the Gaussian factors and the poles."""
    expo = Psi * z
    divisor = (1.0 + z * (1.0 / p1)) * (1.0 + z * (1.0 / p0))
    for j in range(G.size):
        f = 1.0 - G[j] * z
        if C[j] != 0.0:
            expo += C[j] * z * z * inverse(f)
        elif F[j] != 0.0:
            expo += F[j] * z * inverse(f)
        if G[j] != 0.0:
            divisor *= _root(f)
    return expo, divisor


@kernel
def decay_length(gauss, furthest):
    """Return how far along the straight line the Gaussian factors are alive, or infinity beyond ``furthest``."""
    y = 1.0
    while y < furthest:
        decay = math.log1p(y * y / (gauss.p0 * gauss.p0)) + math.log1p(y * y / (gauss.p1 * gauss.p1))
        for j in range(gauss.G.size):
            g2 = (gauss.G[j] * y) ** 2
            quadratic = gauss.C[j] + gauss.F[j] * gauss.G[j]
            decay += 2.0 * quadratic * y * y / (1.0 + g2) + 0.5 * math.log1p(g2)
        if decay > 82.0:
            return y
        y *= 1.2
    return np.inf
