"""The slow road for sampled Gaussian steps: ball arithmetic on the printed definitions.

* ``one_step_delta``: probabilities of half-lines under both laws.
* ``steps_delta``: ``(1/2 pi i) int A(z)^T e^{-z epsilon} dz/(z (1 + z))`` along a straight line far from optimal, both
  integrals by plain trapezoidal sums whose steps are halved until nothing changes; for steps that die along a line.
"""

from __future__ import annotations

from flint import acb, arb, ctx

Step = tuple[float, float, int]  # rate, distance, how many


def _upper(x: arb) -> arb:
    return (x / arb(2).sqrt()).erfc() / 2


def one_step_delta(rate: float, distance: float, epsilon: float, direction: str) -> arb:
    """``P(S) - e^epsilon Q(S)`` on the half-line where the log ratio exceeds epsilon >= 0."""
    q, m, e = arb(rate), arb(distance), arb(epsilon)
    if direction == "with":
        edge = ((1 + e.expm1() / q).log() + m * m / 2) / m
        return (1 - q) * _upper(edge) + q * _upper(edge - m) - e.exp() * _upper(edge)
    left = (-e).expm1() + q
    if not left > 0:
        return arb(0)
    edge = ((left / q).log() + m * m / 2) / m
    return _upper(-edge) - e.exp() * ((1 - q) * _upper(-edge) + q * _upper(m - edge))


def _moment(step: Step, power: acb, nodes: int) -> acb:
    """``E[w^power]`` under N(0, 1), on the interval where anything lives."""
    q, m = arb(step[0]), arb(step[1])
    low, high = -16.0, 16.0 + 2.0 * step[1] + abs(float(power.real.mid())) * step[1]
    h = arb(high - low) / nodes
    total = acb(0)
    for i in range(nodes + 1):
        x = low + i * h
        total += ((1 - q + q * (m * x - m * m / 2).exp()).log() * power - x * x / 2).exp()
    return total * h / (2 * arb.pi()).sqrt()


def steps_delta(steps: list[Step], epsilon: float, direction: str, place: float, spacing: float) -> arb:
    """Delta by plain sums through ``place``; the caller says how fine."""
    ctx.prec = 160
    total, k, quiet = arb(0), 0, 0
    first = None
    while quiet < 4:
        z = acb(place, k * spacing)
        product = (-z * arb(epsilon)).exp() / (z * (1 + z))
        for step in steps:
            product *= _moment(step, 1 + z if direction == "with" else -z, 300) ** step[2]
        value = product.real.mid() * (0.5 if k == 0 else 1)
        first = abs(product).mid() if first is None else first
        quiet = quiet + 1 if abs(product).mid() < first * arb("1e-25") else 0
        total += value
        k += 1
        if k > 4000:
            raise ArithmeticError("it does not die along this line")
    return total * arb(spacing) / arb.pi()
