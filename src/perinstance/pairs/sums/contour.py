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
from perinstance.numerics.rounding import NODE_ROUNDING, TIGHT
from perinstance.pairs.sums.laplace_atoms import (
    TERMS,
    Atoms,
    cancellation,
    cuts,
    halves,
    leftmost,
    multiply_out,
    partial_sum,
)
from perinstance.pairs.sums.quadrature import (
    ABOVE,
    BELOW,
    PLAIN,
    SMOOTH,
    STEP,
    TURN,
    GaussianFactors,
    Integrand,
    decay_length,
    integral,
)
from perinstance.pairs.sums.saddlepoint import room, slopes

WAVES = 60.0  # a straight line serves for Laplace losses that turn less often than this before the Gaussian ones die


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
