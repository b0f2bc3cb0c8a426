"""Two sampled steps, proved: the mean over the first one's noise of the second's closed form, in ball arithmetic."""

from __future__ import annotations

import numpy as np
from flint import acb, arb, ctx

Step = tuple[float, float]  # rate, distance


def _upper(x: arb) -> arb:
    return (x / arb(2).sqrt()).erfc() / 2


def two_steps_delta(one: Step, two: Step, epsilon: float, direction: str, bits: int) -> arb:
    """``delta(epsilon) = E[delta_2(epsilon - L_1)]``, a ball that contains it (up to 1e-700, the noise beyond 60)."""
    ctx.prec = bits
    q1, m1, q2, m2 = arb(one[0]), arb(one[1]), arb(two[0]), arb(two[1])
    factor = arb(epsilon).exp()
    root, norm = arb(2).sqrt(), (2 * arb.pi()).sqrt()

    def ratio(x: acb) -> acb:
        return 1 - q1 + q1 * (m1 * x - m1 * m1 / 2).exp()

    def having(x: acb, analytic: bool) -> acb:
        w = ratio(x)
        t = factor / w
        edge = (((t - 1 + q2) / q2).log(analytic=analytic) + m2 * m2 / 2) / m2
        u, v = (edge / root).erfc() / 2, ((edge - m2) / root).erfc() / 2
        return (-x * x / 2).exp() / norm * w * ((1 - q2 - t) * u + q2 * v)

    def without(x: acb, analytic: bool) -> acb:
        t = factor * ratio(x)
        edge = (((1 / t - 1 + q2) / q2).log(analytic=analytic) + m2 * m2 / 2) / m2
        u, v = (-edge / root).erfc() / 2, ((m2 - edge) / root).erfc() / 2
        return (-x * x / 2).exp() / norm * ((1 - t * (1 - q2)) * u - t * q2 * v)

    low, high = arb(-60), arb(60 + one[1])
    # beyond this ratio of the first step the second one's profile is 1 - t, or zero
    kink = factor / (1 - q2) if direction == "with" else 1 / (factor * (1 - q2))
    turn = None
    if kink > 1 - q1:
        turn = ((((kink - 1 + q1) / q1).log() + m1 * m1 / 2) / m1 - arb(2) ** -90).mid()
    limits = {"eval_limit": 20000, "rel_tol": arb(2) ** -50, "abs_tol": arb(2) ** (40 - bits)}
    if direction == "without":
        if turn is None or turn < low:
            return arb(0)
        return acb.integral(without, acb(low), acb(high if turn > high else turn), **limits).real
    total, rest = acb(0), None
    if turn is None or not turn < high:
        total += acb.integral(having, acb(low), acb(high), **limits)
    elif turn < low:
        rest = low
    else:
        total += acb.integral(having, acb(low), acb(turn), **limits)
        rest = turn
    if rest is not None:
        total += (1 - q1 - factor) * _upper(rest) + q1 * _upper(rest - m1)
    return total.real


def bits_for(steps: list[Step], delta: float) -> int:
    """How many bits the ball needs so that it says on which side of delta it lies."""
    small = min(min(q, min(m, 1.0)) for q, m in steps)
    return int(-np.log2(delta) * 1.1 - 4 * np.log2(small)) + 200


def random_steps(random: np.random.Generator) -> tuple[list[Step], float]:
    """Two steps and a delta over the whole declared range."""
    steps = [(10 ** random.uniform(-6, -0.001), 10 ** random.uniform(-6 if random.random() < 0.3 else -1.5, 1.7))]
    other = (10 ** random.uniform(-6, -0.001), 10 ** random.uniform(-1.5, 1.7))
    steps.append(steps[0] if random.random() < 0.5 else other)
    return steps, float(10 ** (random.uniform(-300, -0.3) if random.random() < 0.4 else random.uniform(-14, -0.3)))
