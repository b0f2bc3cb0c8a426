r"""The profile of a sum of losses: its characteristic function inverted along a contour through the saddle point.

``delta = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))``. Around the saddle point ``t0`` of ``saddlepoint.py``, in
units ``w = phi''(t0)^{-1/2}``, ``t = t0 + w z``, the integrand over its value at ``t0`` is exactly

``exp(Psi z + sum_j (C_j z + F_j) z/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

with ``G = w nu/a``, ``p0 = t0/w``, ``p1 = (1 + t0)/w`` and, depending on the level the coordinate is split at,
``C = w^2 m^2 v/(2 a^3), F = 0`` or ``C = 0, F = w m^2 v/(2 nu a^2)``. Everything is of order one however deep the tail,
so the answer is accurate relative to itself. The contour is the hyperbola ``z = i sinh u + tan(b) (cosh u - 1)``, bent
to the side on which the integrand dies; the trapezoidal rule in u then converges geometrically, and halving its step
tells the error. Where one bend does not converge the next is taken. Laplace losses: see ``atoms.py``.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.double_double import two_product, two_sum
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.loss_sums.integrand import (
    ABOVE,
    BELOW,
    PLAIN,
    SMOOTH,
    Atoms,
    Bell,
    end_of_life,
    gaussian,
    inverse,
    laplaces,
)
from perinstance.pairs.loss_sums.laplace_atoms import crowd, cuts, exp, halves, leftmost, multiply_out
from perinstance.pairs.loss_sums.saddlepoint import room, slopes

NODES = 4096  # room for the nodes of one contour
SLIGHT, STRONG = math.tan(math.pi / 8), 1.0  # bends by 22.5 and 45 degrees
STEP = 0.2
TIGHT = 2e-12  # the halved step must change the integral by less than this
FINE = 3e-15  # or, where epsilon is next to nothing, by less than this
ROUNDING = 1.2e-16
WAVES = 60.0  # a straight line serves for Laplace losses that turn less often than this before the Gaussian ones die


@kernel
def _along(bend, first, levels, tight, start, kind, bell, atoms, where, weight):
    """Fill nodes and weights of the trapezoidal rule.

    Returns how many, the integral, its error, the integral of moduli and the step.
    """
    Psi, G, C, F, p0, p1, ph = bell  # unpacked here: inside the loop it would cost more than the arithmetic
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
            f = (
                exp(expo)
                if kind == PLAIN
                else laplaces(z, expo, kind, p0, p1, ph, t, w, lap, count, losses, one, two, cut, sums)
            )
            f *= inverse(divisor) * complex(ch, -bend * sh)
            size = abs(f)
            if not size < 1e3:
                return n, 0.0, np.inf, np.inf, step  # it grows on this side
            where[n], weight[n] = z, f
            n += 1
            biggest = max(biggest, size)
            quiet = quiet + 1 if size < 1e-18 * biggest else 0
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
    return n, total, error, mass, step


@kernel
def _integral(drift, first, tight, start, kind, bell, atoms, where, weight):
    """Lay the contour with the bend that suits ``drift``, the exponent's slope far out, or the next that converges.

    The straight line is best where the integrand has died before its oscillation outruns the steps. Laplace losses
    taken whole die along no other; their oscillation is what the first step was chosen for.
    """
    probe = math.asinh(min(max(8.0, 10.0 / max(abs(drift), 1e-300)), 1e8))
    side = -1.0 if drift > 0.0 else 1.0
    bends = np.array([0.0, 0.0, side * SLIGHT, side * STRONG, -side * SLIGHT, -side * STRONG, 0.0])
    least = np.inf
    n, total, error, mass, step = 0, 0.0, np.inf, 0.0, first
    for i in range(7):
        probing = i == 0 and kind != SMOOTH  # one node far out tells whether the integrand is alive there
        # the last is the best, and finer; a variable, because each literal would be compiled once more
        levels = 1 if probing else 6 if i == 6 else 4 if kind == SMOOTH or tight < TIGHT else 3
        if probing:
            weight[1] = np.inf  # stays where it grows
            _along(0.0, probe, levels, tight, start, kind, bell, atoms, where[:2], weight[:2])
            if abs(weight[1]) > 1e-14 * abs(start) * probe:
                bends[1], bends[2], bends[3] = bends[2], bends[3], 0.0
            continue
        n, total, error, mass, step = _along(bends[i], first, levels, tight, start, kind, bell, atoms, where, weight)
        if kind == SMOOTH or (error <= tight * abs(total) and mass < 1e3 * abs(total)):
            break
        if error < least:
            least, bends[6] = error, bends[i]
    return n, total, error, mass, bends[i], step


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
def reach(n, where, weight):
    """Return how far from the saddle point the integrand is still alive."""
    top, far = 0.0, 1.0
    for k in range(n):
        top = max(top, abs(weight[k]))
    for k in range(n):
        if abs(weight[k]) > 1e-13 * top:
            far = max(far, abs(where[k]))
    return far


@kernel
def contour(t, a_top, top, epsilon, tight, nu, v, m2, levels, lap, count, terms, where, weight):
    """Lay the contour through t, right of 0 or (without atoms to be multiplied out) between -1 and 0.

    Returns ``base``, ``w``, n, the relative error, ``total``, ``moved``, bend and step: ``delta = e^base (w/pi) total``
    (left of 0: 1 - delta) and ``-d log delta/d epsilon = t + w moved/total``. Unless atoms were multiplied out n nodes
    are kept, from which ``evaluate`` moves epsilon; they lie on the hyperbola of ``bend``, at multiples of ``step``.
    Among atoms the step is 0 and the bend is the slope of the first exponential far out: it says how to bend each.
    """
    k = nu.size
    G, C, F = np.zeros(k), np.zeros(k), np.zeros(k)
    _level, _lift, _fall, bend, bend_fall = slopes(t, a_top, top, epsilon, nu, v, m2, levels, lap, count)
    w = 1.0 / math.sqrt(bend + bend_fall + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    used, losses = 0, 0.0
    level, low = -epsilon, 0.0
    base, slope, far = 0.0, 0.0, 0.0
    size = 4.0  # roundings of the exponent: so many for each term, in units of its size
    for j in range(k):
        if nu[j] == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, nu[j], top, a_top)
        c = m2[j] * v[j] / (a * a)
        z = t * nu[j]
        log = math.log1p(-z) if abs(z) < 0.5 else math.log(a)
        G[used] = w * nu[j] / a
        curved = 0.5 * w * w * c / a
        flat = G[used] != 0.0 and curved < 60.0 * G[used] * G[used]  # else a shift for all that is alive
        if z > -1.0:
            level, rest = two_sum(level, levels[j, 0])
            low += rest + levels[j, 1]
            base += 0.5 * c * a * t * t - 0.5 * (log + z)
            slope += 0.5 * c * t * (1.0 + a) - 0.5 * nu[j]
            size += 1.0 + 1.5 * abs(z) + 4.0 * c * a * t * t
            C[used] = curved
            if flat:
                far -= curved / G[used]
        else:
            level, rest = two_sum(level, levels[j, 4])
            low += rest + levels[j, 5]
            base += 0.5 * t * c * a / nu[j] - 0.5 * log
            size += 2.0 + 0.5 * log + 4.0 * abs(t * c * a / nu[j])
            F[used] = 0.5 * w * c / nu[j]
            if not flat:
                far += F[used]
        used += 1
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
        size += 8.0 * count[g]  # here, and in the factors of the nodes
        losses += count[g]
    level += low
    base += t * level
    size += 3.0 * abs(t * level)
    slope += level
    poles = math.log(abs(t)) + math.log1p(t)
    base -= poles
    size += abs(poles)
    bell = Bell(w * slope, G[:used], C[:used], F[:used], t / w, (1.0 + t) / w, (0.5 + t) / w)
    none = np.empty((3, 0))
    cut, sums = np.empty(0, np.int64), np.empty(0, np.complex128)
    atoms = Atoms(t, w, lap, count, losses, none, none, cut, sums)
    kind, start, first, many = PLAIN, 1.0, STEP, False
    if losses > 0.0:
        turns = max(abs(bell.Psi), abs(bell.Psi - 2.0 * w * _sum(lap, count)), 1.0)
        second, first_size, second_size = halves(lap, count)
        many = max(first_size, second_size) > terms or t < leftmost(lap, count)
        end = end_of_life(bell, (20.0 * WAVES if many else WAVES) / turns)
        first = min(STEP, 2.0 / (turns * end))
        kind = SMOOTH if end < np.inf else BELOW
    drift = bell.Psi + far
    n, total, error, mass, moved = 0, 0.0, np.inf, 0.0, 0.0
    if kind != BELOW:
        n, total, error, mass, bend, step = _integral(drift, first, tight, start, kind, bell, atoms, where, weight)
        moved = evaluate(0.0, w, n, where, weight)[1]
        if kind == PLAIN or many or error <= tight * abs(total):
            return base, w, n, _relative(error, mass, total, size), total, moved, bend, step
    if many:
        return base, w, 0, np.inf, 0.0, 0.0, 0.0, 0.0
    one, two = np.empty((3, int(first_size))), np.empty((3, int(second_size)))
    multiply_out(t, lap, count, ~second, one)
    multiply_out(t, lap, count, second, two)
    cut, sums = np.empty(one.shape[1], np.int64), np.empty(two.shape[1], np.complex128)
    cuts(drift, w, one[0], two[0], cut)
    atoms = Atoms(t, w, lap, count, losses, one, two, cut, sums)
    error, mass, total, moved, tilted = 0.0, 0.0, 0.0, 0.0, drift
    for kind in (ABOVE, BELOW):
        if kind == BELOW:
            drift += w * (one[0, -1] + two[0, -1])
            if drift > 0.0 or used == 0:
                break  # atoms below epsilon alone: closing the contour on the right gives nothing
        elif drift <= 0.0:
            continue
        start = laplaces(
            0.0j, 0.0j, kind, bell.p0, bell.p1, bell.ph, t, w, lap, count, losses, one, two, cut, sums
        ).real
        n, part, err, moduli, _bend, _step = _integral(drift, STEP, tight, start, kind, bell, atoms, where, weight)
        total += part
        moved += evaluate(0.0, w, n, where, weight)[1]
        error += err
        mass += moduli
    mass *= crowd(t, lap, count)
    return base, w, 0, _relative(error, mass, total, size), total, moved, tilted, 0.0


@kernel
def _sum(lap, count):
    total = 0.0
    for g in range(lap.size):
        total += lap[g] * count[g]
    return total


@kernel
def _relative(error, mass, total, size):
    """Return the relative error: of the quadrature, of its sum, of the exponent."""
    if not total > 0.0:
        return np.inf
    return (error + 4.0 * ROUNDING * mass) / total + ROUNDING * size
