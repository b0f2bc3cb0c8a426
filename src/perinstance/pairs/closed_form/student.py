r"""Two multivariate Student distributions of one scale: where one density exceeds the other is a ball.

With b the distance over ``sqrt(nu)``, ``k = (nu + d)/2`` and ``c = e^(epsilon/k)``, ``p > e^epsilon q`` inside a
sphere, which exists while ``sqrt(c) - 1/sqrt(c) < b``: the largest loss is ``2 k arsinh(b/2)``. The line through the
means meets the sphere at ``tan f`` for f = f1, f2 (in units of ``sqrt(nu)``). Along it, ``s = sqrt(nu) tan f`` has
density ``~ cos^(nu-1) f``; across, ``|y|^2/(nu + s^2) = tan^2 g`` has density ``~ sin^(d-2) g cos^nu g`` up to
``tan^2 G = U = sin(f2 - f) sin(f - f1)/(cos f1 cos f2)``, and there

    L - epsilon = k log(1 + z),   z = (1 - 1/c) (U - tan^2 g) cos^2 g,

so that ``delta = E_P[1 - (1 + z)^-k]`` is an integral of positive terms in which nothing cancels. Both integrals are
taken by the double exponential rule (Takahasi and Mori), which does not mind the powers at the ends; halving its step
tells the error.
"""

import math

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.normal_tails import expm1px
from perinstance.numerics.rounding import (
    FEW_ROUNDINGS,
    HALVED_STEP,
    POWER_ROUNDING,
    PROMISED_LARGEST,
    PROMISED_TENTH,
    TINY,
    TWO_ROUNDINGS,
    UNDERFLOWN_PROFILE,
)
from perinstance.pairs.closed_form.profile import left_of_zero

#: A distance beyond this, in units of ``sqrt(nu)``, counts as infinite.
HUGE = 1e100
#: How often a step may be halved.
HALVINGS = 4


@kernel
def first_step(nu, d):
    """Return a step that sees the densities, which are ``1/sqrt(nu + d)`` wide at the least."""
    return min(0.125, 0.28 / math.sqrt(nu + d))


@kernel
def rule(step, nu):
    """Return the nodes of the double exponential rule on [0, 1]: their distances from both ends, and their weights.

    It ends where ``x^min(nu, 1)``, which is what an integrand does there, is below the last digit.
    """
    n = int(math.asinh(12.5 / min(nu, 1.0)) / step)
    out = np.empty((3, 2 * n + 1))
    for i in range(2 * n + 1):
        t = (i - n) * step
        out[0, i] = 1.0 / (1.0 + math.exp(-math.pi * math.sinh(t)))
        out[1, i] = 1.0 / (1.0 + math.exp(math.pi * math.sinh(t)))
        out[2, i] = step * math.pi * math.cosh(t) * out[0, i] * out[1, i]
    return out


@kernel
def _log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@kernel
def largest_loss(b, nu, d):
    """Return ``(nu + d) arsinh(b/2)``, rounded up: epsilon at delta = 0."""
    return (nu + d) * math.asinh(0.5 * b) * (1.0 + 2.0 * TWO_ROUNDINGS)


@kernel
def _across(g, rest, nu, d, nodes):
    """Return the integrals over the slice at one f of ``1 - (1 + z)^-k`` and of ``(1 + z)^-k``.

    ``g`` is ``(1 - 1/c) U`` and ``rest`` is ``1 - 1/c``.
    """
    k = 0.5 * (nu + d)
    if d == 1.0:
        power = k * math.log1p(g)
        return -math.expm1(-power), math.exp(-power)
    inside, outside = math.atan2(math.sqrt(g), math.sqrt(rest)), math.atan2(math.sqrt(rest), math.sqrt(g))
    log_scale = math.log(2.0 * inside) - _log_beta(0.5 * (d - 1.0), 0.5 * (nu + 1.0))
    gap, left = 0.0, 0.0
    for j in range(nodes.shape[1]):
        x, y = inside * nodes[0, j], inside * nodes[1, j]
        sine, cosine = math.sin(x), math.sin(outside + y)
        weight = nodes[2, j] * math.exp(log_scale + (d - 2.0) * math.log(sine) + nu * math.log(cosine))
        if weight > 0.0:
            power = k * math.log1p((g + rest) * math.sin(y) * math.sin(inside + x))
            gap -= weight * math.expm1(-power)
            left += weight * math.exp(-power)
    return gap, left


@kernel
def profile_by(epsilon, b, nu, d, nodes):
    """Return delta at ``epsilon >= 0`` and ``-d delta/d epsilon = e^epsilon Q(p > e^epsilon q)``, by one rule."""
    half = epsilon / (nu + d)
    sinh = math.sinh(half)
    if not 2.0 * sinh < b:
        return 0.0, 0.0
    e, c = math.expm1(2.0 * half), math.exp(2.0 * half)
    q = math.exp(half) * math.sqrt(b - 2.0 * sinh) * math.sqrt(b + 2.0 * sinh)
    s2 = (b * b - e) / (b + q)
    width, start = math.atan2(2.0 * q, 2.0 * e - b * b), math.atan2(e, b + q)  # f2 - f1 and f1 + pi/2
    scale = math.hypot(e, b + q) * math.sqrt(1.0 + s2 * s2) / c  # (1 - 1/c)/(cos f1 cos f2)
    log_scale = math.log(width) - _log_beta(0.5, 0.5 * nu)
    delta, rate = 0.0, 0.0
    for i in range(nodes.shape[1]):
        x, y = width * nodes[0, i], width * nodes[1, i]
        cosine = math.sin(start + x)
        if not cosine > 0.0:
            continue
        weight = nodes[2, i] * math.exp(log_scale + (nu - 1.0) * math.log(cosine))
        if not weight > 0.0:
            continue
        gap, left = _across(scale * math.sin(y) * math.sin(x), e / c, nu, d, nodes)
        delta += weight * gap
        rate += weight * left
    return delta, rate


@kernel
def student_delta(epsilon, b, nu, d, step):
    """Return delta at ``epsilon >= 0`` rounded up, minus its slope, its error, and the step that served.

    The step is halved until that moves delta by less than ``HALVED_STEP`` of itself.
    """
    if b == 0.0 or epsilon == np.inf:
        return 0.0, 0.0, 0.0, step
    if b > HUGE:
        return 1.0, 0.0, 0.0, step
    before, now, rate, moved = profile_by(epsilon, b, nu, d, rule(step, nu))[0], 0.0, 0.0, np.inf
    for _ in range(HALVINGS):
        now, rate = profile_by(epsilon, b, nu, d, rule(0.5 * step, nu))
        moved = abs(now - before)
        if moved <= HALVED_STEP * now:
            break
        before, step = now, 0.5 * step
    error = moved + POWER_ROUNDING * (10.0 + nu + d) * now
    error += UNDERFLOWN_PROFILE if now < TINY and epsilon < largest_loss(b, nu, d) else 0.0
    return min(now + error, 1.0), rate, error, step


@kernel
def student_epsilon(delta, b, nu, d):
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``, never below it.

    Newton on the logarithm, bracketed, in ``log(top - epsilon)``: next to the largest loss delta is a power of
    ``top - epsilon``. The answer is raised until its own delta, rounded up, passes.
    """
    if b == 0.0:
        return 0.0
    if b > HUGE:
        return np.inf
    top = largest_loss(b, nu, d)
    if delta == 0.0:
        return top
    value, rate, error, step = student_delta(0.0, b, nu, d, first_step(nu, d))
    if value <= delta:
        return 0.0
    nodes = rule(step, nu)
    low, high, epsilon = 0.0, top, 0.0
    for _ in range(200):
        # d log delta/d log(top - epsilon) is (top - epsilon) rate/delta
        fall = math.log(delta / value) * value / (rate * (top - epsilon)) if value > 0.0 and rate > 0.0 else -1.0
        new = top - (top - epsilon) * math.exp(max(fall, -20.0))
        if not low < new < high:
            new = 0.5 * (low + high)
        moved, epsilon = abs(new - epsilon), new
        if moved <= PROMISED_TENTH * epsilon + PROMISED_LARGEST * top or not low < epsilon < high:
            break
        value, rate = profile_by(epsilon, b, nu, d, nodes)
        if value > delta:
            low = epsilon
        else:
            high = epsilon
    slack = PROMISED_TENTH * epsilon + PROMISED_LARGEST * top
    for _ in range(60):
        if epsilon + slack >= top:
            break
        value, rate, error, step = student_delta(epsilon + slack, b, nu, d, step)
        if value <= delta:
            return epsilon + slack
        slack = 2.0 * slack + (2.0 * error / rate if rate > 0.0 else 0.0)
    return top


@kernel
def student_deltas(epsilon, b, nu, d, out):
    """Fill in delta of every person for any real epsilon; the two directions agree."""
    for i in range(out.size):
        size = abs(epsilon[i])
        value = student_delta(size, b[i], nu[i], d[i], first_step(nu[i], d[i]))[0]
        out[i] = value if epsilon[i] >= 0.0 else left_of_zero(-size, value)


@kernel
def student_epsilons(delta, b, nu, d, out):
    """Fill in epsilon of every person."""
    for i in range(out.size):
        out[i] = student_epsilon(delta[i], b[i], nu[i], d[i])


@kernel
def _term(loss, t, far):
    """Return ``e^(t loss) - 1 + t (e^-loss - 1)`` >= 0, of t = 0 ``loss + e^-loss - 1``.

    Under P the last bracket has mean zero, so the means are ``E_P[(p/q)^t] - 1`` and the KL divergence. With
    ``g(x) = e^-x - 1 + x`` it is ``g(-t loss) + t g(loss)``, in which nothing cancels. Far apart nothing does without
    that bracket either, which is a narrow peak there, at the other mean.
    """
    if far:
        return loss if t == 0.0 else math.expm1(t * loss)
    if t == 0.0:
        return _convex(loss)
    return _convex(-t * loss) + t * _convex(loss)


@kernel
def _convex(x):
    """``e^-x - 1 + x`` for any real x."""
    return expm1px(x) if x > -0.5 else math.expm1(-x) + x


@kernel
def _moment_by(t, b, nu, d, nodes):
    """Return the mean of ``_term`` under P, or where that might overflow ``E_P[(p/q)^t]`` over its largest value.

    ``p/q = (1 + cos^2 g b (b cos^2 f - 2 sin f cos f))^k``.
    """
    k, top = 0.5 * (nu + d), t * largest_loss(b, nu, d)
    log_along = math.log(math.pi) - _log_beta(0.5, 0.5 * nu)
    log_across = math.log(math.pi) - _log_beta(0.5 * (d - 1.0), 0.5 * (nu + 1.0)) if d > 1.0 else 0.0
    total = 0.0
    for i in range(nodes.shape[1]):
        left, right = math.pi * nodes[0, i], math.pi * nodes[1, i]  # from both ends of the half circle
        cosine, sine = math.sin(min(left, right)), math.cos(min(left, right)) * (-1.0 if left < right else 1.0)
        along = math.exp(log_along + (nu - 1.0) * math.log(cosine)) * nodes[2, i]
        if not along > 0.0:
            continue
        excess = b * cosine * (b * cosine - 2.0 * sine)
        for j in range(nodes.shape[1] if d > 1.0 else 1):
            weight, across = along, 1.0
            if d > 1.0:
                across = math.sin(0.5 * math.pi * nodes[1, j])
                power = (d - 2.0) * math.log(math.sin(0.5 * math.pi * nodes[0, j])) + nu * math.log(across)
                weight = along * nodes[2, j] * math.exp(log_across + power)
            if weight > 0.0:
                loss = k * math.log1p(across * across * excess)
                total += weight * (_term(loss, t, b > 1.0) if top < 300.0 else math.exp(t * loss - top))
    return total


@kernel
def student_renyi(alpha, b, nu, d, out):
    """Fill in the Renyi divergence of every person, raised by what halving the step moves."""
    for i in range(out.size):
        t = alpha[i] - 1.0
        most = 0.0 if b[i] == 0.0 else np.inf if b[i] > HUGE else largest_loss(b[i], nu[i], d[i])
        if t == np.inf or most == 0.0 or most == np.inf:
            out[i] = most
            continue
        step = first_step(nu[i], d[i])
        before, now, moved = _moment_by(t, b[i], nu[i], d[i], rule(step, nu[i])), 0.0, np.inf
        for _ in range(HALVINGS):
            now = _moment_by(t, b[i], nu[i], d[i], rule(0.5 * step, nu[i]))
            moved = abs(now - before)
            if moved <= HALVED_STEP * now:
                break
            before, step = now, 0.5 * step
        top = t * most
        now += moved + POWER_ROUNDING * (10.0 + nu[i] + d[i] + top) * now  # exponents up to t times the largest loss
        if t > 0.0:
            now = (math.log1p(now) if top < 300.0 else math.log(now) + top + POWER_ROUNDING * top) / t
        out[i] = min(now * (1.0 + FEW_ROUNDINGS), most)


@kernel
def student_powers(level, b, nu, d, out):
    """Fill in ``min_epsilon delta(epsilon) + e^epsilon level``: every epsilon gives a bound.

    The best is where ``-d delta/d epsilon = e^epsilon level``, which is found by halving ``[-top, top]``.
    """
    for i in range(out.size):
        if level[i] == 1.0 or level[i] == 0.0 or b[i] == 0.0 or b[i] > HUGE:
            out[i] = 1.0 if b[i] > HUGE else level[i]
            continue
        step, high = first_step(nu[i], d[i]), largest_loss(b[i], nu[i], d[i])
        nodes, low = rule(step, nu[i]), -high
        while high - low > 1e-7 * (1.0 + abs(high)):
            e = 0.5 * (low + high)
            value, rate = profile_by(abs(e), b[i], nu[i], d[i], nodes)
            if e < 0.0:
                rate = math.exp(e) * (1.0 - value - rate)  # of (1 - e^e) + e^e delta(-e)
            if rate > math.exp(e) * level[i]:
                low = e
            else:
                high = e
        value = student_delta(abs(high), b[i], nu[i], d[i], step)[0]
        if high < 0.0:
            value = left_of_zero(high, value)
        out[i] = max(min((value + math.exp(high) * level[i]) * (1.0 + FEW_ROUNDINGS), 1.0), level[i])
