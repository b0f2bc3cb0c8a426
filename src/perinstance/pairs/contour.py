r"""The profile of a sum of losses: its characteristic function inverted along a contour through the saddle point.

``delta = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))``. Around the saddle point ``t0`` of ``saddlepoint.py``, in
units ``w = phi''(t0)^{-1/2}``, ``t = t0 + w z``, the integrand over its value at ``t0`` is exactly

``exp(Psi z + sum_j C_j z^2/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

with ``G = w nu/a``, ``C = w^2 m^2 v/(2 a^3)``, ``p0 = t0/w``, ``p1 = (1 + t0)/w``. Everything is of order one however
deep the tail, so the answer is accurate relative to itself. The contour is the hyperbola
``z = i sinh u + tan(b) (cosh u - 1)``, bent to the side on which the integrand dies; the trapezoidal rule in u then
converges geometrically, and halving its step tells the error. Where one bend does not converge the next is taken.

Laplace losses have atoms, so their transforms do not die. Multiplied out,
``prod_i [(1 + t) e^{t D_i} + t e^{-(1 + t) D_i}]/(1 + 2t)`` is a sum of exponentials: those above epsilon are
integrated along a contour bent to the left, those below along one bent to the right.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.pairs.compiled import kernel
from perinstance.pairs.saddlepoint import room, slopes

NODES = 4096  # room for the nodes of one contour
SLIGHT, STRONG = math.tan(math.pi / 8), 1.0  # bends by 22.5 and 45 degrees
STEP = 0.2
TIGHT = 2e-12  # the halved step must change the integral by less than this
ROUNDING = 1.2e-16


@kernel
def _integrand(z, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus):
    """Return the integrand over its value at the saddle point."""
    expo = Psi * z
    root = 1.0 + 0.0j
    for j in range(used):
        f = 1.0 - G[j] * z
        if C[j] != 0.0:
            expo += C[j] * z * z / f
        if G[j] != 0.0:
            root *= np.sqrt(f)
    A, B = 1.0 + z / p1, 1.0 + z / p0
    if signed.size == 1 and plus[0] + minus[0] == 0:
        return np.exp(expo) / (A * B * root)
    H = np.log(1.0 + z / ph)
    up, down = np.log(A) - H, np.log(B) - H
    total = 0.0j
    for i in range(signed.size):
        total += share[i] * np.exp(expo + signed[i] * z + plus[i] * up + minus[i] * down)
    return total / (A * B * root)


@kernel
def _along(bend, levels, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus, where, weight):
    """Fill nodes and weights of the trapezoidal rule; return how many, the integral, its error and that of moduli."""
    step, n, error, total, mass = STEP, 1, np.inf, 0.0, 0.0
    where[0], weight[0] = 0.0, 0.5 * share.sum()
    for level in range(levels):
        u, stride = (step, step) if level == 0 else (0.5 * step, step)
        step = stride if level == 0 else 0.5 * stride
        biggest, quiet = weight[0].real, 0
        while n < where.size and u < 45.0 and quiet < 2:
            sh, ch = math.sinh(u), math.cosh(u)
            z = complex(bend * (ch - 1.0), sh)
            f = _integrand(z, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus) * complex(ch, -bend * sh)
            size = abs(f)
            if not size < 1e3:
                return n, 0.0, np.inf, np.inf  # it grows on this side
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
        if level > 0 and error <= TIGHT * abs(total):
            break
    for k in range(n):
        weight[k] *= step
    return n, total, error, mass


@kernel
def _integral(drift, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus, where, weight):
    """Lay the contour with the bend that suits ``drift``, the exponent's slope far out, or the next that converges.

    The straight line is best where the integrand has died before its oscillation outruns the steps.
    """
    z = complex(0.0, min(max(8.0, 10.0 / max(abs(drift), 1e-300)), 1e8))
    alive = abs(_integrand(z, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus) * z) > 1e-14 * share.sum()
    side = -1.0 if drift > 0.0 else 1.0
    bends = np.array([0.0, side * SLIGHT, side * STRONG, -side * SLIGHT, -side * STRONG, 0.0])
    if alive:
        bends[0], bends[1], bends[2] = bends[1], bends[2], 0.0
    least = np.inf
    n, total, error, mass = 0, 0.0, np.inf, 0.0
    for i in range(6):
        levels = 3 if i < 5 else 6  # the last time with the best of the five, and finer
        n, total, error, mass = _along(
            bends[i], levels, Psi, G, C, used, p0, p1, ph, share, signed, plus, minus, where, weight
        )
        if error <= TIGHT * abs(total) and mass < 1e3 * abs(total):
            break
        if error < least:
            least, bends[5] = error, bends[i]
    return n, total, error, mass


@kernel
def evaluate(d, w, n, where, weight):
    """Return ``sum Re(weight e^{-w d z})`` and the same sum with z as a further factor."""
    total, moved = 0.0, 0.0
    for k in range(n):
        f = weight[k] if d == 0.0 else weight[k] * np.exp(-w * d * where[k])
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
def _multiplied_out(t, lap, count, share, signed, plus, minus):
    """Multiply the Laplace transforms out: shares (at t), offsets and powers of the exponentials. Return how many."""
    n, q = 1, 0.0
    share[0], signed[0], plus[0] = 1.0, 0.0, 0.0
    for g in range(lap.size):
        D, c = lap[g], int(count[g])
        q += c
        E = math.exp(-(1.0 + 2.0 * t) * D)
        log_up = -math.log1p(t * E / (1.0 + t))  # of (1 + t) e^{tD} in the sum of the two
        log_down = math.log(t / (1.0 + t)) - (1.0 + 2.0 * t) * D + log_up
        for k in range(c, -1, -1):  # k up and c - k down; k = 0 comes last, it overwrites what the others are made from
            log_share = math.lgamma(c + 1.0) - math.lgamma(k + 1.0) - math.lgamma(c - k + 1.0)
            factor = math.exp(log_share + k * log_up + ((c - k) * log_down if k < c else 0.0))
            for i in range(n):
                share[k * n + i] = share[i] * factor
                signed[k * n + i] = signed[i] + (2 * k - c) * D
                plus[k * n + i] = plus[i] + k
        n *= c + 1
    for i in range(n):
        minus[i] = q - plus[i]
    return n


@kernel
def contour(t, a_top, top, epsilon, kl, nu, v, m2, lap, count, terms, where, weight):
    """Lay the contour through t (which lies right of 0 or, without Laplace losses, between -1 and 0).

    ``kl`` is the divergence of the Gaussian coordinates. Returns ``base``, ``w``, n, the relative error, ``total`` and
    ``moved``: ``delta(epsilon) = e^base (w/pi) total`` (left of 0: 1 - delta) and ``-d log delta/d epsilon =
    t + w moved/total``. Without Laplace losses n nodes are kept, from which ``evaluate`` moves epsilon.
    """
    k = nu.size
    G, C = np.empty(k), np.empty(k)
    _rise, bend, _gap = slopes(t, a_top, top, nu, v, m2, lap, count)
    w = 1.0 / math.sqrt(bend + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    used = 0
    slope = kl - epsilon  # of the exponential factor alone: K' less the square roots and the Laplace losses
    base, size = t * slope, abs(t) * (kl + abs(epsilon))
    far = 0.0
    for j in range(k):
        if nu[j] == 0.0 and m2[j] == 0.0:
            continue
        a = room(t, nu[j], top, a_top)
        c = m2[j] * v[j] / (a * a)
        z = t * nu[j]
        base += 0.5 * c * a * t * t - 0.5 * ((math.log1p(-z) if abs(z) < 0.5 else math.log(a)) + z)
        slope += 0.5 * c * t * (1.0 + a) - 0.5 * nu[j]
        size += abs(z) + 0.5 * c * a * t * t
        G[used], C[used] = w * nu[j] / a, 0.5 * w * w * c / a
        if G[used] != 0.0 and C[used] < 60.0 * G[used] * G[used]:  # else a shift for all that is alive
            far -= C[used] / G[used]
        used += 1
    base -= math.log(abs(t)) + math.log1p(t)
    p0, p1, ph = t / w, (1.0 + t) / w, (0.5 + t) / w
    share, signed, plus, minus = np.empty(terms), np.empty(terms), np.empty(terms), np.empty(terms)
    some_share, some_signed, some_plus, some_minus = share.copy(), share.copy(), share.copy(), share.copy()
    Psi = w * slope
    n, error, mass, total, moved = 0, 0.0, 0.0, 0.0, 0.0
    for g in range(lap.size):
        D = lap[g]
        base += count[g] * (t * D + math.log1p(t * math.expm1(-(1.0 + 2.0 * t) * D) / (1.0 + 2.0 * t)))
        size += count[g] * t * D
    found = _multiplied_out(t, lap, count, share, signed, plus, minus)
    for above in range(2):
        mine, drift = 0, 0.0
        for i in range(found):
            slope_i = Psi + far + w * signed[i]
            if share[i] > 0.0 and (slope_i > 0.0) == (above == 1):
                some_share[mine], some_signed[mine] = share[i], w * signed[i]
                some_plus[mine], some_minus[mine] = plus[i], minus[i]
                drift = slope_i if abs(slope_i) > abs(drift) else drift
                mine += 1
        if mine == 0 or (used == 0 and above == 0):
            continue  # atoms at or below epsilon: closing the contour on the right gives nothing
        n, part, err, moduli = _integral(
            drift, Psi, G, C, used, p0, p1, ph,
            some_share[:mine], some_signed[:mine], some_plus[:mine], some_minus[:mine], where, weight,
        )  # fmt: skip
        total += part
        moved += evaluate(0.0, w, n, where, weight)[1]
        error += err
        mass += moduli
    if not total > 0.0:
        return base, w, n, np.inf, total, moved
    relative = (error + 4.0 * ROUNDING * mass) / total + ROUNDING * (8.0 + 4.0 * size + abs(base))
    return base, w, n, relative, total, moved
