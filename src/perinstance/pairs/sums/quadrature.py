r"""The trapezoidal rule along a hyperbola ``z = i sinh u + tan(b) (cosh u - 1)``, bent to the side where it converges.

The integrand, around its saddle point and over its value there, is

``exp(Psi z + sum_j (C_j z + F_j) z/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

times the Laplace factors of ``laplace_atoms.py``. ``contour.py`` says what the letters are, and why this converges.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import DEAD, NEGLIGIBLE, NOT_ZERO, TIGHT
from perinstance.pairs.sums.laplace_atoms import exp, partial_sum, smooth_factor

NODES = 4096  # room for the nodes of one contour
SLIGHT, STRONG = math.tan(math.pi / 8), 1.0  # bends by 22.5 and 45 degrees
STEP = 0.2
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


@kernel
def _along(bend, step, levels, most, integrand):
    """Return the integral by the trapezoidal rule, that with a further z, its error and the integral of moduli.

    The step is halved so many times at most, or until there are ``most`` nodes, which is an error.
    """
    kind, start, gauss, atoms = integrand
    Psi, G, C, F, p0, p1, ph = gauss  # unpacked here: inside the loop it would cost more than the arithmetic
    t, w, lap, count, losses, one, two, cut, sums = atoms
    n, error, total, moved, mass = 1, np.inf, 0.5 * start, 0.0, 0.5 * abs(start)  # of the sums, without the step
    for level in range(levels):
        u, stride, before = step, step, step * total
        if level > 0:
            u, step = 0.5 * step, 0.5 * step
        biggest, quiet = 0.5 * abs(start), 0
        while n < most and u < 45.0 and quiet < 2:
            sh, ch = math.sinh(u), math.cosh(u)
            z = complex(bend * (ch - 1.0), sh)
            expo, divisor = gaussian(z, Psi, G, C, F, p0, p1)
            if kind == PLAIN:
                f = exp(expo)
            elif kind == SMOOTH:
                f = exp(expo) * smooth_factor(z, t, w, lap, count)
            else:
                up, down = np.log(1.0 + z / p1), np.log(1.0 + z / p0)
                expo += losses * (up - np.log(1.0 + z / ph))
                ratio = down - up if t > 0.0 else down - up + TURN
                f = partial_sum(expo, w * z, ratio, kind == ABOVE, one, two, cut, sums)
            f *= inverse(divisor) * complex(ch, -bend * sh)
            size = abs(f)
            if not size < 1e3:
                return 0.0, 0.0, np.inf, np.inf  # it grows on this side
            total, moved, mass = total + f.real, moved + (f * z).real, mass + size
            n += 1
            biggest = max(biggest, size)
            quiet = quiet + 1 if size < NEGLIGIBLE * biggest else 0
            u += stride
        error = abs(step * total - before) if level > 0 and n < most else np.inf
        if error <= TIGHT * abs(step * total):
            break
    return step * total, step * moved, error, step * mass


@kernel
def integral(drift, first, integrand):
    """Lay the contour with the bend that suits ``drift``, the exponent's slope far out, or the next that converges.

    The straight line is best where the integrand has died before its oscillation outruns the steps. Laplace losses
    taken whole die along no other; their oscillation is what the first step was chosen for. Returns what ``_along``
    does.
    """
    if integrand.kind == SMOOTH:
        return _along(0.0, first, 4, NODES, integrand)
    side = -1.0 if drift > 0.0 else 1.0
    bends = np.array([0.0, side * SLIGHT, side * STRONG, -side * SLIGHT, -side * STRONG, 0.0])
    # one node far out tells whether the integrand is alive there
    probe = math.asinh(min(max(8.0, 10.0 / max(abs(drift), NOT_ZERO)), 1e8))
    far = _along(0.0, probe, 1, 2, integrand)[3] / probe - 0.5 * abs(integrand.start)
    if far > DEAD * abs(integrand.start) * probe:
        bends[0], bends[1], bends[2] = bends[1], bends[2], 0.0
    least, found = np.inf, (0.0, 0.0, np.inf, 0.0)
    for i in range(6):  # the last is the best, and finer
        found = _along(bends[i], first, 6 if i == 5 else 3, NODES, integrand)
        total, _moved, error, mass = found
        if error <= TIGHT * abs(total) and mass < 1e3 * abs(total):
            break
        if error < least:
            least, bends[5] = error, bends[i]
    return found
