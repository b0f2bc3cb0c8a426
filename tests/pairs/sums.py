"""The slow roads for sums of losses, in ball arithmetic of many digits.

* ``spectral_delta``: the characteristic function as printed (``saddlepoint.py`` has it in pieces that do not cancel),
  integrated by the trapezoidal rule in 60 digits and more until halving the step changes nothing.
* ``laplaces_delta``: sums of Laplace losses in closed form, by the residues of each of their 2^k exponentials.
* ``mixed_rest``: ``1 - delta`` of Gaussian coordinates and Laplace losses, one integral for each exponential.
* ``objective_coordinates``: the parameters of objective perturbation, straight from the covariances.
"""

from __future__ import annotations

import itertools

from flint import acb, arb, arb_series, ctx

from . import truth

Coordinates = list[tuple[arb, arb]]


def objective_coordinates(mu: float, r: float, xx: float, vv: float) -> Coordinates:
    """Excess variances and square shifts of ``P: N(r x, (I + x v')(I + v x'))`` against ``Q: N(0, I)``.

    In the basis (x/|x|, rest) with ``x = (|x|, 0)``, ``v = (mu/|x|, w/|x|)``: a symmetric 2 x 2 matrix.
    """
    mu, r, xx, vv = arb(mu), arb(r), arb(xx), arb(vv)
    w2 = xx * vv - mu * mu
    if xx == 0 or not w2 > mu * mu * arb("2e-14"):  # one dimension, up to the rounding of the caller
        return [(mu * (2 + mu), r * r * xx)]
    # (I + x v')(I + v x') = [[(1 + mu)^2 + w^2, w], [w, 1]]
    trace = (1 + mu) ** 2 + w2 - 1
    root = (trace * trace + 4 * w2).sqrt()
    found = []
    for nu in ((trace + root) / 2, (trace - root) / 2):
        # eigenvector (nu, w): the second row reads w a + b = (1 + nu) b
        found.append((nu, r * r * xx * nu * nu / (nu * nu + w2)))
    return found


def exchanged(coordinates: Coordinates) -> Coordinates:
    """The same pair with P and Q exchanged."""
    return [(-nu / (1 + nu), m2 / (1 + nu)) for nu, m2 in coordinates]


def spectral_delta(coordinates: Coordinates, epsilon: float | arb, accuracy: float = 1e-14) -> arb:
    """``(1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))`` right of the poles."""
    epsilon = arb(epsilon)

    def exponent(t):
        total = -t * epsilon - t.log() - (1 + t).log()
        for nu, m2 in coordinates:
            v, a = 1 + nu, 1 - t * nu
            total += t * m2 / 2 + t * t * v * m2 / (2 * a) - (a.log() + t * v.log()) / 2
        return total

    top = max((float(nu) for nu, _ in coordinates), default=0.0)
    place = (lambda x: arb(x).exp()) if top <= 0 else (lambda x: 1 / (1 + (-arb(x)).exp()) / _largest(coordinates))

    def size(x: float) -> float:
        value = exponent(place(x)).mid()
        return float(value) if value.is_finite() else float("inf")

    low, high = -340.0, 340.0
    while high - low > 1e-3:  # the exponent is convex
        one, two = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, two) if size(one) < size(two) else (one, high)
    t0 = place((low + high) / 2)
    curvature = 1 / t0**2 + 1 / (1 + t0) ** 2
    for nu, m2 in coordinates:
        a = 1 - t0 * nu
        curvature += m2 * (1 + nu) / a**3 + nu * nu / (2 * a * a)
    w, base = 1 / curvature.sqrt(), exponent(t0)
    for bend in ("0", "0.4", "-0.4", "1", "-1"):
        b, before, step = arb(bend), None, arb("0.1")
        for _ in range(6):
            total = _trapezoidal(lambda z: (exponent(acb(t0) + w * z) - base).exp(), b, step, accuracy)
            if total is None:
                break
            if before is not None and abs(total - before) < accuracy * abs(total):
                return total * w * base.exp() / arb.pi()
            before, step = total, step / 2
    raise AssertionError(f"no contour converges for {coordinates} at {epsilon}")


def _largest(coordinates: Coordinates) -> arb:
    return max((nu for nu, _ in coordinates), key=float)


def _trapezoidal(f, bend: arb, step: arb, accuracy: float, start: arb | int = 1) -> arb | None:
    total, u, quiet = start * step / 2, step, 0
    while quiet < 3:
        z = acb(bend * (u.cosh() - 1), u.sinh())
        value = f(z) * acb(u.cosh(), -bend * u.sinh())
        if not value.is_finite() or abs(value) > 1e3 or u > 60:
            return None
        total += step * value.real.mid()
        quiet = quiet + 1 if abs(value) < 1e-6 * accuracy else 0
        u += step
    return total.mid()


def laplaces_delta(distances: list[float], epsilon: float, count: int = 300) -> arb:
    """Residues at 0, -1 and -1/2 of ``e^{t x} prod [(1 + t) or t] / ((1 + 2t)^k t (1 + t))``, x > 0 above epsilon."""
    with truth.digits(count):
        k, total = len(distances), arb(0)
        ctx.cap = k
        for signs in itertools.product((1, -1), repeat=k):
            downs = [D for D, sign in zip(distances, signs, strict=True) if sign < 0]
            x = sum((sign * arb(D) for D, sign in zip(distances, signs, strict=True)), arb(0)) - arb(epsilon)
            if not x > 0:
                continue
            scale = (-sum((arb(D) for D in downs), arb(0))).exp()
            ups, down = k - len(downs), len(downs)
            part = arb(0)
            if down == 0:
                part += 1  # at 0: (1 + t)^{k - 1}/(1 + 2t)^k
            if ups == 0:
                part += (-x).exp() * (-1) ** (down - 1) / arb(-1) ** k
            s = arb_series([0, 1], k)  # t = -1/2 + s
            t = s - arb("0.5")
            g = (s * x).exp() * (1 + t) ** (ups - 1) * t ** (down - 1)
            part += (-x / 2).exp() * arb(g[k - 1]) / arb(2) ** k
            total += scale * part
        return total


def mixed_rest(coordinates: Coordinates, distances: tuple[float, ...], epsilon: float) -> arb:
    """``1 - delta = -(1/2 pi i) int e^{K(t) - t epsilon} dt/(t (1 + t))`` between the poles at -1 and 0.

    ``K(t) = sum_j t (1 + t) m^2/(2 a) - (log a + t log v)/2``; the product of the Laplace transforms
    ``[(1 + t) e^{tD} + t e^{-(1 + t) D}]/(1 + 2t)`` is multiplied out and each exponential takes a contour of its own.
    """
    k = len(distances)
    level = sum(((1 + nu).log() for nu, _ in coordinates), arb(0)) / 2 + arb(epsilon)
    t0 = arb("-0.05")
    total = arb(0)
    for signs in itertools.product((1, -1), repeat=k):
        downs = [arb(D) for D, sign in zip(distances, signs, strict=True) if sign < 0]
        x = sum((sign * arb(D) for D, sign in zip(distances, signs, strict=True)), arb(0)) - level

        down = len(downs)

        def f(z, x=x, down=down):
            t = t0 + z / 20
            value = (t * x).exp() * (1 + t) ** (k - down - 1) * t ** (down - 1) / (1 + 2 * t) ** k
            for nu, m2 in coordinates:
                a = 1 - t * nu
                value *= (t * (1 + t) * m2 / (2 * a)).exp() / a.sqrt()
            return value

        scale = (-sum(downs, arb(0))).exp() / 20 / arb.pi()
        total += scale * _bent(f)
    return -total


def _bent(f) -> arb:
    """The integral of f along a hyperbola bent to one side or the other, to 25 digits of its first value."""
    first = abs(f(acb(0)))
    for bend in ("0.4", "-0.4", "1", "-1"):
        b, before, step = arb(bend), None, arb("0.1")
        for _ in range(6):
            whole = _trapezoidal(lambda z: f(z) / first, b, step, 1e-20, (f(acb(0)) / first).real)
            if whole is None:
                break
            if before is not None and abs(whole - before) < 1e-20:
                return whole * first
            before, step = whole, step / 2
    raise AssertionError("no contour converges")
