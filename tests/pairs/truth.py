"""The slow and dumb road: profiles straight from their definition, in ball arithmetic of 120 digits and more.

Every answer is an enclosure (Arb): the true value lies inside, so a comparison that comes out true is proved.
Nothing here shares a formula with the package: plain normal tails, plain exponentials, as MATH 1a and 1b print them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from flint import arb, ctx

from perinstance.numerics.rounding import PROMISED_ABSOLUTE

Number = float | str | arb


@contextlib.contextmanager
def digits(count: int = 120) -> Iterator[None]:
    before = ctx.dps
    ctx.dps = count
    try:
        yield
    finally:
        ctx.dps = before


def tail(x: arb) -> arb:
    """``1 - Phi(x)``."""
    return (x / arb(2).sqrt()).erfc() / 2


def scaled_tail(x: arb, log_scale: arb) -> arb:
    """``e^log_scale (1 - Phi(x))``; far out by the asymptotic series, of which two sums in a row enclose the value."""
    if not x > 1000:
        return log_scale.exp() * tail(x)
    term, total, sums = arb(1), arb(1), []
    for k in range(1, 30):
        term = -term * (2 * k - 1) / (x * x)
        total += term
        sums.append(total)
    density = (log_scale - x * x / 2).exp() / (2 * arb.pi()).sqrt()
    return density / x * sums[-1].union(sums[-2])


def shift_delta(distance: Number, epsilon: Number) -> arb:
    """``Phi(D/2 - eps/D) - e^eps Phi(-D/2 - eps/D)``."""
    D, eps = arb(distance), arb(epsilon)
    if D == 0:
        return (1 - eps.exp()).max(arb(0))
    return tail(eps / D - D / 2) - scaled_tail(eps / D + D / 2, eps)


def posterior_delta(mu: Number, rho: Number, epsilon: Number, with_over_without: bool = False) -> arb:
    """P over Q: ``P(|w| > c) - e^eps Q(|w| > c)``; Q over P: ``Q(|w| < c) - e^eps P(|w| < c)``."""
    mu, rho, eps = arb(mu), arb(rho), arb(epsilon)
    if mu == 0:
        return (1 - eps.exp()).max(arb(0))
    b = (1 + mu).log() + rho**2 / (1 + mu)
    c2 = b - 2 * eps if with_over_without else b + 2 * eps
    if c2 <= 0:  # everything, or nothing
        return arb(0) if with_over_without else 1 - eps.exp()
    c = c2.sqrt()
    s, sq, mq = mu.sqrt(), (mu / (1 + mu)).sqrt(), rho / (1 + mu)
    if with_over_without:
        p_in = tail((rho - c) / s) - tail((rho + c) / s)
        q_in = tail((mq - c) / sq) - tail((mq + c) / sq)
        if eps > 1000:
            return q_in - scaled_tail((rho - c) / s, eps) + scaled_tail((rho + c) / s, eps)
        return q_in - eps.exp() * p_in
    p_out = scaled_tail((c - rho) / s, arb(0)) + scaled_tail((c + rho) / s, arb(0))
    return p_out - scaled_tail((c - mq) / sq, eps) - scaled_tail((c + mq) / sq, eps)


def enclosed(function, *arguments, accuracy: float = 1e-14) -> arb:
    """Evaluate with more and more digits until the enclosure is narrow, relative to itself (or is below 1e-320)."""
    for count in (120, 240, 480, 960, 1920):
        with digits(count):
            value = function(*arguments)
            if value.is_finite() and (value.rad() <= accuracy * abs(value.mid()) or abs(value).upper() < 1e-320):
                return value
    raise AssertionError(f"no enclosure for {arguments}")


def posterior_masses(mu: Number, rho: Number, c: Number) -> tuple[arb, arb]:
    """``P(|w| < c)`` and ``Q(|w| < c)``."""
    mu, rho, c = arb(mu), arb(rho), arb(c)
    s, sq, mq = mu.sqrt(), (mu / (1 + mu)).sqrt(), rho / (1 + mu)
    return tail((rho - c) / s) - tail((rho + c) / s), tail((mq - c) / sq) - tail((mq + c) / sq)


def lowest(epsilon: float, share: float = 1e-9) -> float:
    """Return what the true value must be at least: epsilon less a share of it, next to zero less 1e-11."""
    return epsilon - max(share * epsilon, PROMISED_ABSOLUTE)


def epsilon_is_right(profile, arguments: tuple, epsilon: float, delta: float) -> bool:
    """Prove that epsilon is not below the true value, and at most 1e-9 of it (next to zero 1e-11) above."""
    head, rest = arguments[:-1], arguments[-1:]

    # next to one it is 1 - delta that must be told apart
    accuracy = 1e-14 * min(1.0, 1.0 - delta)

    def at(value: float) -> arb:
        return enclosed(profile, *head, value, *rest, accuracy=accuracy)

    if not at(epsilon) <= arb(delta):
        return False
    lower = lowest(epsilon)
    return lower <= 0 or bool(at(lower) >= arb(delta))
