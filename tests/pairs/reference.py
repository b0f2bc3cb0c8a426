"""The slow and dumb road for sums of losses: probabilities of half-lines and intervals, and plain quadrature.

Integrands are evaluated in mpmath, so that the difference ``P(S) - e^epsilon Q(S)`` keeps its digits in deep tails.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

Profile = Callable[[mp.mpf], mp.mpf]


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(14)


def _integrate(f: Callable[[mp.mpf], mp.mpf], ends: list[mp.mpf]) -> mp.mpf:
    """Integrate over the intervals between the ends: Gauss-Legendre in each, skipping those where nothing lives."""
    rough = [(b - a) * f((a + b) / 2) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    top = max(abs(value) for value in rough)
    live = [abs(value) > top * mp.mpf(10) ** -22 for value in rough]
    total = mp.mpf(0)
    for i, (a, b) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        if any(live[max(i - 1, 0) : i + 2]):
            half, middle = (b - a) / 2, (a + b) / 2
            total += half * sum(
                w * f(middle + half * x) for x, w in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True)
            )
    return total


def _upper(x: mp.mpf, mean: mp.mpf, variance: mp.mpf) -> mp.mpf:
    return mp.erfc((x - mean) / mp.sqrt(2 * variance)) / 2


def objective_delta(mu: float, r: float, xx: float, vv: float, epsilon: float, over: str) -> mp.mpf:
    """MATH 1c literally: given the residual e the event is a half-line in ``t = x'b``; one integral over e."""
    mu, r, xx, vv, epsilon = (mp.mpf(z) for z in (mu, r, xx, vv, epsilon))
    sign = 1 if over == "without" else -1  # of the loss

    def event(e: mp.mpf, mean: mp.mpf, spread: mp.mpf, quadratic: mp.mpf) -> mp.mpf:
        """Probability that ``sign (e t + quadratic e^2/2 - log(1 + mu)) > epsilon`` for t ~ N(mean, spread)."""
        edge = (sign * epsilon + mp.log(1 + mu) - quadratic * e * e / 2) / e
        upward = (e > 0) == (sign > 0)
        return _upper(edge, mean, spread) if upward else _upper(-edge, -mean, spread)

    spread = xx - mu * mu / vv

    def without(e: mp.mpf) -> mp.mpf:  # e = r + v'b, t given e, L = e t + e^2 xx/2 - log(1 + mu)
        return mp.npdf(e, r, mp.sqrt(vv)) * event(e, mu / vv * (e - r), spread, xx)

    def having(e: mp.mpf) -> mp.mpf:  # e = (r + v'b')/(1 + mu), t = x'b' given e, L = e t - e^2 xx/2 - log(1 + mu)
        return mp.npdf(e, r / (1 + mu), mp.sqrt(vv) / (1 + mu)) * event(e, mu / vv * (e * (1 + mu) - r), spread, -xx)

    numerator, denominator = (without, having) if over == "without" else (having, without)

    def f(e: mp.mpf) -> mp.mpf:
        return numerator(e) - mp.exp(epsilon) * denominator(e)

    s = mp.sqrt(vv)
    step = min(s / 2, 1 / mp.sqrt(xx), mp.sqrt(spread / xx))
    reach = int(mp.ceil(14 * s / step))
    return _integrate(f, sorted({mp.mpf(0), *(r + step * k for k in range(-reach, reach + 1))}))


def simulated(loss_p: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Return the mean of ``(1 - e^(epsilon - L))_+`` over draws of L under P, and its standard error."""
    gain = -np.expm1(np.minimum(epsilon - loss_p, 0.0))
    return float(gain.mean()), float(gain.std() / np.sqrt(gain.size))
