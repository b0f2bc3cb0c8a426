r"""The line of ``prod A^k - prod B^k``, without cancellation, for ``A = B + D``: one pair of floats a node.

``A^k - B^k = D S_k`` with ``S_k = sum_{i < k} A^i B^{k - 1 - i}``, by repeated doubling: ``S_2n = S_n (A^n + B^n)`` and
``S_{n+1} = A S_n + B^n``. Kind by kind ``T <- T A^k + G D S_k`` and ``G <- G B^k``.

**Rounding.** All is relative to A at the first node, so that A, B and G are at most one in size and S_k at most k.
Let e be an error of A and of B, and u that of a product of pairs (sums lose less): ``A^n`` is off by at most
``n (e + u)`` and ``S_n`` by ``n^2 (e + 4 u)``, for ``2 n^2 (e + 4 u) + n (2 n (e + u) + u) + 2 n u`` is at most
``(2 n)^2 (e + 4 u)``, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.double_double import over
from perinstance.numerics.double_double_complex import product, scaled, total
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import CHERNOFF, LOGARITHM, PAIR_PRODUCT, POWER_LOST
from perinstance.pairs.loss_sums.sampled.large_losses.cut_moments import LOG_TWO
from perinstance.pairs.loss_sums.sampled.lines.line_integral import LARGEST
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import (
    PairLine,
    divide_by_poles,
    finished_line,
)
from perinstance.pairs.loss_sums.sampled.more_digits.pair_logs import log_of_pair
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import PairMoments

APART = 900  # powers of two between kinds


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line of one part of all losses, and the bound for the other: ``e^{other - order epsilon}``.

    ``outside`` is the logarithm of the probability that is charged for noise at which nobody looked.
    """

    line: PairLine
    other: float
    order: float
    outside: float

    @property
    def c(self) -> float:
        """Return the place of the line."""
        return self.line.c

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
        other = self.other - self.order * epsilon + CHERNOFF * (abs(self.other) + self.order * abs(epsilon))
        return _all_of([self.line.log_bound(epsilon), (other, self.order), (self.outside, 0.0)])

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the errors that were charged, and the other bounds, raise log delta, about."""
        others = float(np.logaddexp(self.other - self.order * epsilon, self.outside))
        return self.line.charged(epsilon, log_delta) + math.exp(min(others - log_delta, LARGEST))


@dataclass(frozen=True, slots=True)
class BothLines:
    """A line of all losses but those that are all small, and one of these; ``outside`` as above."""

    large: PairLine
    small: PairLine
    outside: float

    @property
    def c(self) -> float:
        """Return the smaller of both places: no delta falls slower."""
        return min(self.large.c, self.small.c)

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
        return _all_of([self.large.log_bound(epsilon), self.small.log_bound(epsilon), (self.outside, 0.0)])

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the errors that were charged raise log delta, about."""
        lines = sum(line.charged(epsilon, log_delta) for line in (self.large, self.small))
        return lines + math.exp(min(self.outside - log_delta, LARGEST))


def _all_of(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of bounds, each with minus its slope, in the same form."""
    logs, slopes = np.array(parts).T
    if not logs.max() < np.inf:
        return np.inf, parts[0][1]
    log = float(np.logaddexp.reduce(logs))
    return log + 2.0 * LOGARITHM * (1.0 + abs(log)), float(np.exp(logs - log) @ slopes)


@dataclass(frozen=True, slots=True)
class CutKind:
    """Moments B, and D times ``2^power``, of one kind of step, and how many of them are taken."""

    small: PairMoments
    large: PairMoments
    power: int
    steps: float


def large_line(kinds: list[CutKind], place: tuple[float, float], log_rests: list[float]) -> PairLine:
    """Return the line of all losses but those that are all small.

    ``log_rests`` are the logarithms of bounds of ``k sum |D c (1 + c)/(z (1 + z))|`` beyond the nodes: that much, over
    A(c), the product of all A may differ there from that of all B, both over those at the first node.
    """
    nodes = kinds[0].small.values.shape[1]
    most = min(kind.power for kind in kinds)
    rests, found = np.zeros((2, nodes), np.complex128), np.zeros((2, nodes), np.complex128)
    rests[0] = 1.0
    lost = np.zeros((2, nodes))
    logs, rest = [-most * LOG_TWO], 0.0
    for kind, log_rest in zip(kinds, log_rests, strict=True):
        if kind.power - most > APART:
            raise NotPreciseError("large losses of one kind only")
        first, low = _sum_of(kind)
        errors = np.stack([kind.small.errors, kind.large.errors])
        sizes = np.array([first, low, math.ldexp(1.0, -kind.power), math.ldexp(1.0, most - kind.power)])
        add_kind(kind.small.values, kind.large.values, errors, sizes, kind.steps, rests, found, lost)
        log = log_of_pair(first, low)
        logs.append(kind.steps * log)
        rest += math.exp(min(log_rest - log + most * LOG_TWO, LARGEST))
    if not np.isfinite(lost).all():
        raise NotPreciseError("powers have lost too much")
    divide_by_poles(*place, found)
    c = place[0]
    z = c + 1j * place[1] * np.arange(nodes)
    off = float((lost[1] * np.abs(c * (1.0 + c) / (z * (1.0 + z)))).sum()) * 1.01
    return finished_line(place, found, off + rest, math.fsum(logs), math.fsum(map(abs, logs)))


def _sum_of(kind: CutKind) -> tuple[float, float]:
    """Return A at the first node, ``B + D``."""
    small, large = kind.small.values[:, 0], kind.large.values[:, 0] * math.ldexp(1.0, -kind.power)
    high, low = total(complex(small[0].real), complex(small[1].real), complex(large[0].real), complex(large[1].real))
    return float(high.real), float(low.real)


@exact_kernel
def power_sums(a, a_low, b, b_low, steps):
    """Return ``a^k``, ``b^k`` and ``sum_{i < k} a^i b^{k - 1 - i}``, each a pair."""
    n, bits = int(steps), 0
    while (n >> bits) > 0:
        bits += 1
    x, x_low, y, y_low = 1.0 + 0.0j, 0.0j, 1.0 + 0.0j, 0.0j
    found, found_low = 0.0j, 0.0j
    for i in range(bits - 1, -1, -1):
        both, both_low = total(x, x_low, y, y_low)
        found, found_low = product(found, found_low, both, both_low)
        x, x_low = product(x, x_low, x, x_low)
        y, y_low = product(y, y_low, y, y_low)
        if (n >> i) & 1:
            found, found_low = product(found, found_low, a, a_low)
            found, found_low = total(found, found_low, y, y_low)
            x, x_low = product(x, x_low, a, a_low)
            y, y_low = product(y, y_low, b, b_low)
    return x, x_low, y, y_low, found, found_low


@exact_kernel
def add_kind(small, large, errors, sizes, steps, rests, found, lost):
    """Take k steps of one more kind: ``rests`` is G, ``found`` T, ``lost`` their errors, absolutely.

    ``sizes``: A at the first node, a pair; the unit of D, and that unit over the unit of T.
    """
    first, unit, share = sizes[0], sizes[2], sizes[3]
    one, one_low = over(1.0, 0.0, first, sizes[1])
    for k in range(small.shape[1]):
        b, b_low = scaled(small[0, k], small[1, k], one, one_low)
        d, d_low = scaled(large[0, k], large[1, k], one, one_low)
        off_b = 1.01 * errors[0, k] / first + 4.0 * PAIR_PRODUCT * abs(b)
        off_d = 1.01 * errors[1, k] / first + 4.0 * PAIR_PRODUCT * abs(d)
        a, a_low = total(b, b_low, d * unit, d_low * unit)
        off = off_b + off_d * unit + PAIR_PRODUCT
        a_k, a_k_low, b_k, b_k_low, sums, sums_low = power_sums(a, a_low, b, b_low, steps)
        off_power = 1.01 * steps * (off + PAIR_PRODUCT)
        off_sums = 1.01 * steps * steps * (off + 4.0 * PAIR_PRODUCT)
        if off_power > POWER_LOST:
            lost[1, k] = np.inf
        new, new_low = product(d, d_low, sums, sums_low)
        off_new = 1.01 * share * (off_d * (abs(sums) + off_sums) + abs(d) * off_sums + PAIR_PRODUCT * abs(new))
        new, new_low = product(rests[0, k], rests[1, k], new * share, new_low * share)
        old, old_low = product(found[0, k], found[1, k], a_k, a_k_low)
        size = abs(found[0, k]) + lost[1, k]
        lost[1, k] += 1.01 * (size * off_power + (lost[0, k] + 4.0 * PAIR_PRODUCT) * share * abs(d) * abs(sums))
        lost[1, k] += off_new + 4.0 * PAIR_PRODUCT * size
        lost[1, k] *= 1.0 + POWER_LOST
        lost[0, k] = 1.01 * (lost[0, k] + off_power + PAIR_PRODUCT)
        found[0, k], found[1, k] = total(old, old_low, new, new_low)
        rests[0, k], rests[1, k] = product(rests[0, k], rests[1, k], b_k, b_k_low)
