"""Write ``data/own_truth.csv``: epsilons to 30 digits, by bisection of the definition in mpmath. Run it by hand.

    python -m tests.pairs.make_truth

Also the coefficients of the Mills ratio in ``perinstance.numerics.normal_tails``, which a test compares.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import mpmath as mp

FILE = Path(__file__).parent / "data" / "own_truth.csv"


def upper(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def delta_of(mu, rho, eps, with_over_without):
    """MATH 1b, letter by letter; ``mu = None`` is a shift by rho."""
    if mu is None:
        return upper(eps / rho - rho / 2) - mp.exp(eps) * upper(eps / rho + rho / 2)
    b = mp.log(1 + mu) + rho**2 / (1 + mu)
    s, sq, mq = mp.sqrt(mu), mp.sqrt(mu / (1 + mu)), rho / (1 + mu)
    if with_over_without:
        if b <= 2 * eps:
            return mp.mpf(0)
        c = mp.sqrt(b - 2 * eps)
        q_in = upper((mq - c) / sq) - upper((mq + c) / sq)
        return q_in - mp.exp(eps) * (upper((rho - c) / s) - upper((rho + c) / s))
    c = mp.sqrt(b + 2 * eps)
    q_out = upper((c - mq) / sq) + upper((c + mq) / sq)
    return upper((c - rho) / s) + upper((c + rho) / s) - mp.exp(eps) * q_out


def epsilon_of(mu, rho, delta, with_over_without):
    if delta_of(mu, rho, mp.mpf(0), with_over_without) <= delta:
        return mp.mpf(0)
    low, high = mp.mpf(0), mp.mpf(1)
    while delta_of(mu, rho, high, with_over_without) > delta:
        low, high = high, 2 * high
    for _ in range(120):
        middle = (low + high) / 2
        if delta_of(mu, rho, middle, with_over_without) > delta:
            low = middle
        else:
            high = middle
    return high


def mills_coefficients(degree: int = 27) -> list[float]:
    """Powers of y of the Chebyshev expansion of ``(x + 6) R(x)``, ``y = (x - 3)/(x + 6)``."""
    points = 80
    angles = [mp.pi * (2 * j + 1) / (2 * points) for j in range(points)]
    values = []
    for angle in angles:
        x = 9 / (1 - mp.cos(angle)) - 6
        values.append((x + 6) * mp.sqrt(mp.pi / 2) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2)))
    powers = [mp.mpf(0)] * (degree + 1)
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for k in range(degree + 1):
        c = (1 if k == 0 else 2) * mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angles, strict=True)) / points
        for j, value in enumerate(before):
            powers[j] += c * value
        after = [mp.mpf(0), *(2 * value for value in now)]
        for j, value in enumerate(before):
            after[j] -= value
        before, now = now, after
    return [float(power) for power in powers]


def main() -> None:
    mp.mp.dps = 120
    deltas = ["1e-300", "1e-30", "1e-6", "0.01", "0.3", "0.7", "0.999999"]
    with FILE.open("w", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["family", "leverage", "distance_or_residual", "delta", "epsilon"])
        for D, delta in itertools.product(["1e-9", "0.001", "0.5", "3", "60", "1e4"], deltas):
            value = epsilon_of(None, mp.mpf(float(D)), mp.mpf(float(delta)), False)
            rows.writerow(["shift", "", D, delta, mp.nstr(value, 30)])
        leverages, residuals = ["1e-12", "1e-4", "0.3", "20", "1e6"], ["0", "0.01", "1.5", "300", "1e6"]
        for mu, rho, delta, family in itertools.product(leverages, residuals, deltas, ["without", "with"]):
            value = epsilon_of(mp.mpf(float(mu)), mp.mpf(float(rho)), mp.mpf(float(delta)), family == "with")
            rows.writerow([family, mu, rho, delta, mp.nstr(value, 30)])


if __name__ == "__main__":
    main()
