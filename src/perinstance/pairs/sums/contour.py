r"""The profile of a sum of losses: its characteristic function inverted along a contour through the saddle point.

``delta = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))``. Around the saddle point ``t0`` of ``saddlepoint.py``, in
units ``w = phi''(t0)^{-1/2}``, ``t = t0 + w z``, the integrand over its value at ``t0`` is exactly

``exp(Psi z + sum_j (C_j z + F_j) z/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

with ``G = w nu/a``, ``p0 = t0/w``, ``p1 = (1 + t0)/w`` and, depending on the level the coordinate is split at,
``C = w^2 m^2 v/(2 a^3), F = 0`` or ``C = 0, F = w m^2 v/(2 nu a^2)``. Everything is of order one however deep the tail,
so the answer is accurate relative to itself. The contour is the hyperbola ``z = i sinh u + tan(b) (cosh u - 1)``, bent
to the side on which the integrand dies; the trapezoidal rule in u then converges geometrically, and halving its step
tells the error. Where one bend does not converge the next is taken. Laplace losses: see ``laplace_atoms.py``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import two_product, two_sum
from perinstance.numerics.rounding import DEAD, NEGLIGIBLE, NODE_ROUNDING, NOT_ZERO, TIGHT
from perinstance.pairs.sums.laplace_atoms import (
    TERMS,
    Atoms,
    cancellation,
    cuts,
    exp,
    halves,
    leftmost,
    multiply_out,
    partial_sum,
    smooth_factor,
)
from perinstance.pairs.sums.saddlepoint import room, slopes

NODES = 4096  # room for the nodes of one contour
SLIGHT, STRONG = math.tan(math.pi / 8), 1.0  # bends by 22.5 and 45 degrees
STEP = 0.2
#: Which Laplace factors: none, whole, the exponentials below epsilon, those above.
PLAIN, SMOOTH, BELOW, ABOVE = 0, 1, 2, 3
TURN = math.pi * 1j  # left of 0 every negative loss changes the sign
WAVES = 60.0  # a straight line serves for Laplace losses that turn less often than this before the Gaussian ones die


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


class Inverted(NamedTuple):
    """An inversion: ``delta = e^base (w/pi) total`` (left of 0: 1 - delta), and its relative error.

    ``-d log delta/d epsilon = t + w moved/total``.
    """

    base: Any
    w: Any
    error: Any
    total: Any
    moved: Any


class Exponent(NamedTuple):
    """The exponent at the saddle point: its value, its slope and its slope far out, and the size of its roundings.

    Each rounding is counted in units of the term's size. ``used`` Gaussian coordinates are not empty, and there are
    ``some`` Laplace losses.
    """

    base: Any
    slope: Any
    far: Any
    size: Any
    used: Any
    some: Any


@kernel
def _exponent(here, epsilon, w, losses, factors):
    """Return the exponent at the saddle point and fill in G, C and F of the coordinates that are not empty."""
    t, a_top, top = here
    nu, v, m2, levels, lap, count = losses
    used = 0
    level, low = -epsilon, 0.0
    base, slope, far = 0.0, 0.0, 0.0
    size = 4.0
    for j in range(nu.size):
        if nu[j] == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, nu[j], top, a_top)
        c = m2[j] * v[j] / (a * a)
        z = t * nu[j]
        log = math.log1p(-z) if abs(z) < 0.5 else math.log(a)
        G = w * nu[j] / a
        curved = 0.5 * w * w * c / a
        flat = G != 0.0 and curved < 60.0 * G * G  # else a shift for all that is alive
        factors[0, used] = G
        if z > -1.0:
            level, rest = two_sum(level, levels[j, 0])
            low += rest + levels[j, 1]
            base += 0.5 * c * a * t * t - 0.5 * (log + z)
            slope += 0.5 * c * t * (1.0 + a) - 0.5 * nu[j]
            size += 1.0 + 1.5 * abs(z) + 4.0 * c * a * t * t
            factors[1, used] = curved
            if flat:
                far -= curved / G
        else:
            level, rest = two_sum(level, levels[j, 4])
            low += rest + levels[j, 5]
            base += 0.5 * t * c * a / nu[j] - 0.5 * log
            size += 2.0 + 0.5 * log + 4.0 * abs(t * c * a / nu[j])
            factors[2, used] = 0.5 * w * c / nu[j]
            if not flat:
                far += factors[2, used]
        used += 1
    some = 0.0
    for g in range(lap.size):
        D = lap[g]
        if D == 0.0:
            continue
        high, rest = two_product(count[g], D)
        level, more = two_sum(level, high)
        low += more + rest
        y = (1.0 + 2.0 * t) * D
        ratio = -math.expm1(-y) / y if abs(y) > 1e-8 else 1.0 - 0.5 * y
        base += count[g] * math.log1p(-t * D * ratio)
        some += count[g]
    level += low
    poles = math.log(abs(t)) + math.log1p(t)
    size += 8.0 * some + 3.0 * abs(t * level) + abs(poles)  # of a Laplace loss here, and in the factors of the nodes
    return Exponent(base + t * level - poles, slope + level, far, size, used, some)


@kernel
def integrate_along(here, epsilon, losses):
    """Lay the contour through t, right of 0 or (without atoms to be multiplied out) between -1 and 0, and integrate."""
    t = here.t
    lap, count = losses.lap, losses.count
    factors = np.zeros((3, losses.nu.size))
    _level, _lift, _fall, bend, bend_fall = slopes(here, epsilon, losses)
    w = 1.0 / math.sqrt(bend + bend_fall + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    exponent = _exponent(here, epsilon, w, losses, factors)
    G, C, F = factors[0, : exponent.used], factors[1, : exponent.used], factors[2, : exponent.used]
    gauss = GaussianFactors(w * exponent.slope, G, C, F, t / w, (1.0 + t) / w, (0.5 + t) / w)
    none, some = np.empty((3, 0)), exponent.some
    atoms = Atoms(t, w, lap, count, some, none, none, np.empty(0, np.int64), np.empty(0, np.complex128))
    kind, first, many = PLAIN, STEP, False
    if some > 0.0:
        turns = max(abs(gauss.Psi), abs(gauss.Psi - 2.0 * w * np.sum(lap * count)), 1.0)
        _second, first_size, second_size = halves(lap, count)
        many = (max(first_size, second_size) > TERMS and second_size > 1.0) or t < leftmost(lap, count)
        end = decay_length(gauss, (20.0 * WAVES if many else WAVES) / turns)
        first = min(STEP, 2.0 / (turns * end))
        kind = SMOOTH if end < np.inf else BELOW
    drift = gauss.Psi + exponent.far
    total, moved, error, mass = 0.0, 0.0, np.inf, 0.0
    if kind != BELOW:
        total, moved, error, mass = integral(drift, first, Integrand(kind, 1.0, gauss, atoms))
    if kind != PLAIN and not many and not error <= TIGHT * abs(total):
        total, moved, error, mass = _among_atoms(drift, gauss, atoms)
        mass *= cancellation(t, lap, count)
    if not total > 0.0:
        return Inverted(exponent.base, w, np.inf, 0.0, 0.0)
    # of the quadrature, of its sum, of the exponent
    error = (error + 4.0 * NODE_ROUNDING * mass) / total + NODE_ROUNDING * exponent.size
    return Inverted(exponent.base, w, error, total, moved)


@kernel
def _among_atoms(drift, gauss, atoms):
    """Integrate the exponentials above epsilon and those below, each along a contour bent to its side.

    Returns the integral, that with a further z, the error, and the integral of moduli.
    """
    t, w, lap, count, some, _one, _two, _cut, _sums = atoms
    second, first_size, second_size = halves(lap, count)
    one, two = np.empty((3, int(first_size))), np.empty((3, int(second_size)))
    for half in range(2):
        multiply_out(t, lap, count, second, half == 1, two if half == 1 else one)
    cut, sums = np.empty(one.shape[1], np.int64), np.empty(two.shape[1], np.complex128)
    cuts(drift, w, one[0], two[0], cut)
    atoms = Atoms(t, w, lap, count, some, one, two, cut, sums)
    total, moved, error, mass = 0.0, 0.0, 0.0, 0.0
    for kind in (ABOVE, BELOW):
        if kind == BELOW:
            drift += w * (one[0, -1] + two[0, -1])
            if drift > 0.0 or gauss.G.size == 0:
                break  # atoms below epsilon alone: closing the contour on the right gives nothing
        elif drift <= 0.0:
            continue
        start = partial_sum(0.0j, 0.0j, 0.0j if t > 0.0 else TURN, kind == ABOVE, one, two, cut, sums).real
        part, part_moved, part_error, part_mass = integral(drift, STEP, Integrand(kind, start, gauss, atoms))
        total, moved, error, mass = total + part, moved + part_moved, error + part_error, mass + part_mass
    return total, moved, error, mass
