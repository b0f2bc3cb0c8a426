r"""The trapezoidal rule along a hyperbola ``z = i sinh u + tan(b) (cosh u - 1)``, bent to the side where it converges.

The integrand, around its saddle point and over its value there, is

``exp(Psi z + sum_j (C_j z + F_j) z/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

times the Laplace factors of ``laplace_atoms.py``. ``contour.py`` says what the letters are, and why this converges.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import ALIVE, DEAD, NEGLIGIBLE, NOT_ZERO, TIGHT
from perinstance.pairs.loss_sums.laplace_atoms import exp, partial_sum, smooth_factor

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
def _along(bend, first, levels, tight, integrand, where, weight):
    """Fill nodes and weights of the trapezoidal rule.

    Returns how many, the integral, its error and the integral of moduli.
    """
    kind, start, gauss, atoms = integrand
    Psi, G, C, F, p0, p1, ph = gauss  # unpacked here: inside the loop it would cost more than the arithmetic
    t, w, lap, count, losses, one, two, cut, sums = atoms
    step, n, error, total, mass = first, 1, np.inf, 0.0, 0.0
    where[0], weight[0] = 0.0, 0.5 * start
    for level in range(levels):
        u, stride = (step, step) if level == 0 else (0.5 * step, step)
        step = stride if level == 0 else 0.5 * stride
        biggest, quiet = abs(weight[0]), 0
        while n < where.size and u < 45.0 and quiet < 2:
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
                return n, 0.0, np.inf, np.inf  # it grows on this side
            where[n], weight[n] = z, f
            n += 1
            biggest = max(biggest, size)
            quiet = quiet + 1 if size < NEGLIGIBLE * biggest else 0
            u += stride
        before, total, mass = total, 0.0, 0.0
        for k in range(n):
            total += step * weight[k].real
            mass += step * abs(weight[k])
        error = abs(total - before)
        if level > 0 and error <= tight * abs(total):
            break
        if n == where.size:
            error = np.inf  # the last level is not complete
    for k in range(n):
        weight[k] *= step
    return n, total, error, mass


@kernel
def integral(drift, first, tight, integrand, where, weight):
    """Lay the contour with the bend that suits ``drift``, the exponent's slope far out, or the next that converges.

    The straight line is best where the integrand has died before its oscillation outruns the steps. Laplace losses
    taken whole die along no other; their oscillation is what the first step was chosen for.
    """
    kind = integrand.kind
    probe = math.asinh(min(max(8.0, 10.0 / max(abs(drift), NOT_ZERO)), 1e8))
    side = -1.0 if drift > 0.0 else 1.0
    bends = np.zeros(7)  # and no list, which would take a while to compile
    bends[2], bends[3], bends[4], bends[5] = side * SLIGHT, side * STRONG, -side * SLIGHT, -side * STRONG
    least = np.inf
    n, total, error, mass = 0, 0.0, np.inf, 0.0
    for i in range(7):
        probing = i == 0 and kind != SMOOTH  # one node far out tells whether the integrand is alive there
        # the last is the best, and finer; a variable, because each literal would be compiled once more
        levels = 1 if probing else 6 if i == 6 else 4 if kind == SMOOTH or tight < TIGHT else 3
        if probing:
            weight[1] = np.inf  # stays where it grows
            _along(0.0, probe, levels, tight, integrand, where[:2], weight[:2])
            if abs(weight[1]) > DEAD * abs(integrand.start) * probe:
                bends[1], bends[2], bends[3] = bends[2], bends[3], 0.0
            continue
        n, total, error, mass = _along(bends[i], first, levels, tight, integrand, where, weight)
        if kind == SMOOTH or (error <= tight * abs(total) and mass < 1e3 * abs(total)):
            break
        if error < least:
            least, bends[6] = error, bends[i]
    return n, total, error, mass


@kernel
def evaluate(d, w, n, where, weight):
    """Return ``sum Re(weight e^{-w d z})`` and the same sum with z as a further factor."""
    total, moved = 0.0, 0.0
    for k in range(n):
        f = weight[k] if d == 0.0 else weight[k] * exp(-w * d * where[k])
        total += f.real
        moved += (f * where[k]).real
    return total, moved


@kernel
def extent(n, where, weight):
    """Return how far from the saddle point the integrand is still alive."""
    top, far = 0.0, 1.0
    for k in range(n):
        top = max(top, abs(weight[k]))
    for k in range(n):
        if abs(weight[k]) > ALIVE * top:
            far = max(far, abs(where[k]))
    return far
