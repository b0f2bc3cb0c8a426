r"""The profile of a sum of losses: its characteristic function inverted along a contour through the saddle point.

``delta = (1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))``. Around the saddle point ``t0`` of ``saddlepoint.py``, in
units ``w = phi''(t0)^{-1/2}``, ``t = t0 + w z``, the integrand over its value at ``t0`` is exactly

``exp(Psi z + sum_j C_j z^2/(1 - G_j z)) prod_j (1 - G_j z)^{-1/2} p0 p1/((p0 + z)(p1 + z))``

with ``G = w nu/a``, ``C = w^2 m^2 v/(2 a^3)``, ``p0 = t0/w``, ``p1 = (1 + t0)/w``: everything is of order one however deep
the tail, and the answer is accurate relative to itself. The contour is the hyperbola
``z = i sinh u + tan(b) (cosh u - 1)``, bent towards the side on which the integrand dies; the trapezoidal rule in u
then converges geometrically. Of five angles the one with the smallest integral of absolute values is taken.

Laplace losses have atoms, so their transforms do not die. Multiplied out, ``prod_i [(1+t) e^{t D_i} + t e^{-(1+t) D_i}]/(1+2t)``
is a sum of exponentials, and each gets its own bend: left when it lies above epsilon, right when it lies below.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.pairs.compiled import kernel
from perinstance.pairs.saddlepoint import room, slopes

NODES = 1024  # room for the nodes of one contour
BENDS = np.tan(np.array([0.0, 0.125, -0.125, 0.25, -0.25]) * np.pi)
STEP = 0.2
TIGHT = 2e-12  # the halved step must change the integral by less than this
ROUNDING = 1.2e-16


@kernel
def _integrand(z, Psi, G, C, used, p0, p1, ph, plus, minus):
    """Return the integrand over its value at the saddle point."""
    expo = Psi * z
    root = 1.0 + 0.0j
    for j in range(used):
        f = 1.0 - G[j] * z
        if C[j] != 0.0:
            expo += C[j] * z * z / f
        if G[j] != 0.0:
            root *= np.sqrt(f)
    if plus + minus == 0:
        return np.exp(expo) * (p0 / (p0 + z)) * (p1 / (p1 + z)) / root
    expo += (plus - 1) * np.log(1.0 + z / p1) + (minus - 1) * np.log(1.0 + z / p0)
    return np.exp(expo - (plus + minus) * np.log(1.0 + z / ph)) / root


@kernel
def _bend(Psi, G, C, used, p0, p1, ph, plus, minus):
    """Return the bend whose contour has the smallest integral of absolute values.

    Far out the exponent is ``C z^2`` of the pure shifts, else linear. Bends on which it grows are left out, and so is
    the straight line where the integrand still lives when its oscillation outruns the steps.
    """
    drift, shifted = Psi, False
    for j in range(used):
        if G[j] != 0.0:
            drift -= C[j] / G[j]
        elif C[j] != 0.0:
            shifted = True
    z = complex(0.0, min(max(8.0, 10.0 / max(abs(drift), 1e-300)), 1e8))
    alive = abs(_integrand(z, Psi, G, C, used, p0, p1, ph, plus, minus) * z) > 1e-14
    best, chosen = np.inf, 0.0
    for bend in BENDS:
        if (shifted and abs(bend) > 0.9) or (not shifted and drift * bend > 0.0) or (alive and bend == 0.0):
            continue
        total, u = 0.5, 0.0
        for _ in range(24):
            u += 0.3
            sh, ch = math.sinh(u), math.cosh(u)
            z = complex(bend * (ch - 1.0), sh)
            size = abs(_integrand(z, Psi, G, C, used, p0, p1, ph, plus, minus)) * abs(complex(bend * sh, ch))
            total += size
            if not total < best or size < 1e-6 * total:
                break
        if total < best:
            best, chosen = total, bend
    return chosen


@kernel
def _along(bend, Psi, G, C, used, p0, p1, ph, plus, minus, where, weight):
    """Fill nodes and weights of the trapezoidal rule; return how many, the error and the sum of absolute values."""
    step, n, error, before, mass = STEP, 0, np.inf, 0.0, 0.0
    for level in range(5):
        fresh = level == 0
        if fresh:
            where[0] = 0.0
            weight[0] = 0.5
            n = 1
        u = step if fresh else 0.5 * step
        if not fresh:
            step *= 0.5
        stride = step if fresh else 2.0 * step
        biggest, quiet = 0.0, 0
        while n < where.size:
            sh, ch = math.sinh(u), math.cosh(u)
            z = complex(bend * (ch - 1.0), sh)
            f = _integrand(z, Psi, G, C, used, p0, p1, ph, plus, minus) * complex(ch, -bend * sh)
            where[n] = z
            weight[n] = f
            n += 1
            size = abs(f)
            biggest = max(biggest, size, 0.5)
            quiet = quiet + 1 if size < 1e-18 * biggest else 0
            if quiet == 2 or u > 45.0:
                break
            u += stride
        total, mass = 0.0, 0.0
        for k in range(n):
            total += weight[k].real
            mass += abs(weight[k])
        total *= step
        mass *= step
        error = abs(total - before)
        before = total
        if level > 0 and error <= TIGHT * abs(total):
            break
    for k in range(n):
        weight[k] *= step
    return n, error, mass


@kernel
def _laplace_terms(t, lap, count, plus, signed, share):
    """Multiply the Laplace transforms out: powers, offsets and shares (at t) of the exponentials. Return how many."""
    n, q = 1, 0
    plus[0], signed[0], share[0] = 0, 0.0, 1.0
    for g in range(lap.size):
        D, c = lap[g], int(count[g])
        if D == 0.0 or c == 0:
            continue
        q += c
        E = math.exp(-(1.0 + 2.0 * t) * D)
        log_up = -math.log1p(t * E / (1.0 + t))  # the share of (1 + t) e^{tD}
        log_down = math.log(t / (1.0 + t)) - (1.0 + 2.0 * t) * D + log_up
        for k in range(c, -1, -1):  # k ups and c - k downs; k = 0 last, it overwrites the terms it is made from
            log_share = math.lgamma(c + 1.0) - math.lgamma(k + 1.0) - math.lgamma(c - k + 1.0)
            log_share += k * log_up + (c - k) * log_down
            for i in range(n):
                plus[k * n + i] = plus[i] + k
                signed[k * n + i] = signed[i] + (2 * k - c) * D
                share[k * n + i] = share[i] * math.exp(log_share)
        n *= c + 1
    return n, q


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
def contour(t, a_top, top, epsilon, kl, nu, v, m2, lap, count, terms, where, weight):
    """Lay the contour through t (which lies right of 0 or, without Laplace losses, between -1 and 0).

    ``kl`` is the divergence of the Gaussian coordinates. Returns ``base``, ``w``, n, the relative error, ``total`` and
    ``moved``: ``delta(epsilon) = e^base (w/pi) total`` (left of 0: 1 - delta) and ``-d log delta/d epsilon =
    t + w moved/total``. Without Laplace losses n nodes are kept, from which ``evaluate`` moves epsilon.
    """
    k = nu.size
    G, C = np.empty(k), np.empty(k)
    _rise, bend2, _gap = slopes(t, a_top, top, nu, v, m2, lap, count)
    w = 1.0 / math.sqrt(bend2 + 1.0 / (t * t) + 1.0 / ((1.0 + t) * (1.0 + t)))
    used = 0
    slope = kl - epsilon  # of the exponential factor alone: K' less the square roots and the Laplace losses
    base, size = t * slope, abs(t) * (kl + abs(epsilon))
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
        used += 1
    base -= math.log(abs(t)) + math.log1p(t)
    p0, p1, ph = t / w, (1.0 + t) / w, (0.5 + t) / w
    if lap.size == 0:
        Psi = w * slope
        bend = _bend(Psi, G, C, used, p0, p1, ph, 0, 0)
        n, error, mass = _along(bend, Psi, G, C, used, p0, p1, ph, 0, 0, where, weight)
        total, moved = evaluate(0.0, w, n, where, weight)
    else:
        n, error, mass, total, moved = 0, 0.0, 0.0, 0.0, 0.0
        plus, signed, share = np.empty(terms, np.int64), np.empty(terms), np.empty(terms)
        found, q = _laplace_terms(t, lap, count, plus, signed, share)
        for g in range(lap.size):
            D = lap[g]
            base += count[g] * (t * D + math.log1p(t * math.expm1(-(1.0 + 2.0 * t) * D) / (1.0 + 2.0 * t)))
            size += count[g] * t * D
        for i in range(found):
            above = slope + signed[i]
            if (used == 0 and above <= 0.0) or share[i] == 0.0:
                continue  # an atom at or below epsilon: closing the contour on the right gives nothing
            minus = q - plus[i]
            bend = _bend(w * above, G, C, used, p0, p1, ph, plus[i], minus)
            n, err, part = _along(bend, w * above, G, C, used, p0, p1, ph, plus[i], minus, where, weight)
            here, there = evaluate(0.0, w, n, where, weight)
            total += here * share[i]
            moved += there * share[i]
            error += err * share[i]
            mass += part * share[i]
    if not total > 0.0:
        return base, w, n, np.inf, total, moved
    relative = (error + 4.0 * ROUNDING * mass) / total + ROUNDING * (8.0 + 4.0 * size + abs(base))
    return base, w, n, relative, total, moved
