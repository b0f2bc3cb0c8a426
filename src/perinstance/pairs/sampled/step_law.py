r"""A finite law that stands for the noise of one step, above it for every rate, both directions, any composition.

With ``u = e^{m x - m^2/2}``, ``x ~ N(0, 1)``, a step of rate q has the likelihood ratio ``w = 1 - q + q u``. Delta of
any number of steps is ``E (prod w - e^epsilon)_+`` (the person over without) or ``E (1 - e^epsilon prod w)_+`` (without
over with): convex in every u. So u may be moved to the two ends of a cell of x if its mean stays; delta only grows.

The mass that moves to an end of a cell is an integral of a smooth function over it, by Gauss's rule of six nodes. Its
error is ``d^13 (6!)^4/(13 (12!)^3) f^(12)``, and by Cauchy's formula on a circle of radius 8d, d the width of the cell,
``|f^(12)| <= 12! max|f|/(8d)^12``; there ``|f|`` is at most ``e^{10 d |x| + 100 d^2} (e^{10 m d} - 1)`` times the least
density of the cell. Over the integral itself, at least that density times ``m d^2/2``, this is ``_rule_error``.

``StepLosses`` is what the law makes of the loss of one kind of step in one direction, and its moments along a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, SIX_NODES, UNIT, VANISHED

#: Points of the law (changes the width: the variance of a step grows by a twelfth of the squared width of a cell).
POINTS = 8192
#: The same for tables that only choose a line: changes nothing but that.
FEW_POINTS = 384
#: Beyond this distance cells would be too wide for the rule: there are more of them in proportion.
WIDEST = 20.0
#: Cells end so many standard deviations from 0 and from m: noise beyond (1e-40) is charged.
SIDE = 13.3
#: Terms of the exponential of at most pi/8, the next 1e-19 (changes the width).
TERMS = 14
#: The variance of what spreads a loss over a lattice, and to how many points on each side (change the width).
SPREAD, WIDE = 2.55, 14
#: Beyond this ``log u`` there is no 1 - q left in a ratio.
LARGE = 600.0

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Points x of the noise at distance m; the first stands for minus infinity, u = 0.

    ``mass`` has the probabilities under N(0, 1) and ``moved`` those under N(m, 1), that is mass times u;
    ``mass_error`` and ``moved_error`` by what share of themselves these may be wrong.
    """

    distance: float
    x: Floats
    mass: Floats
    moved: Floats
    mass_error: Floats
    moved_error: Floats

    @classmethod
    def of(cls, m: float, points: int = POINTS) -> NoiseLaw:
        """Return the law at distance m > 0."""
        x = _cells(m, points * max(math.ceil(m / WIDEST), 1))
        d = np.diff(x)[:, None]
        t = 0.5 * d * (1.0 + _NODES)
        part, place = 0.5 * d * _WEIGHTS / math.sqrt(2.0 * math.pi), x[:-1, None] + t
        plain, far = part * np.exp(-0.5 * place**2), part * np.exp(-0.5 * (place - m) ** 2)
        up, down = np.expm1(m * t) / np.expm1(m * d), np.expm1(m * (d - t)) / np.expm1(m * d)
        mass, moved = np.zeros((2, x.size + 1))
        mass[2:] += (plain * up).sum(axis=1)
        mass[1:-1] += (plain * down * np.exp(m * t)).sum(axis=1)
        moved[2:] += (far * up * np.exp(m * (d - t))).sum(axis=1)
        moved[1:-1] += (far * down).sum(axis=1)
        # left of the first cell: to u = 0 and to its beginning, no less than there is
        mass[0] = ndtr(x[0])
        mass[1] += math.exp(min(log_ndtr(x[0] - m) + 0.5 * m * m - m * x[0], log_ndtr(x[0])))
        moved[1] += ndtr(x[0] - m)
        rule = np.zeros(x.size + 1)
        rule[1:-1] = _rule_error(m, x, d[:, 0])
        rule[2:] = np.maximum(rule[2:], rule[1:-1])
        x = np.concatenate([[-np.inf], x])
        each = [rule + UNIT * (12.0 + np.where(x > -np.inf, x - at, 0.0) ** 2 + m * d.max()) for at in (0.0, m)]
        return cls(m, x, mass, moved, *each)

    def right(self, at: float) -> float:
        """Return the probability of noise beyond all cells, whose mean is 0 or m."""
        return float(ndtr(at - self.x[-1]))


def _cells(m: float, points: int) -> Floats:
    """Return the ends of cells: fine around 0 and m, where a step's variance is, and everywhere else."""
    low, high = -SIDE, m + SIDE
    x = np.linspace(low, high, 4 * points)
    wide = math.sqrt(3.0)
    F = 0.25 * ndtr(x / wide) + 0.15 * ndtr((x - m) / wide) + 0.6 * (x - low) / (high - low)
    return np.interp(np.linspace(F[0], F[-1], points), F, x)


def _rule_error(m: float, x: Floats, d: Floats) -> Floats:
    """Return what the rule may miss of the masses of each cell, as a share of them."""
    size = np.maximum(np.abs(x[:-1]), np.abs(x[:-1] - m)) + d
    return SIX_NODES * np.expm1(10.0 * m * d) / (0.5 * m * d) * np.exp(10.0 * d * size + 100.0 * d * d) * np.exp(m * d)


class StepLosses:
    """Masses p under the law in the numerator, losses, and what noise beyond all cells adds to delta.

    Every loss is rounded up (delta grows with each). Mass that is missing from one counts as at the median ``shift``.
    """

    __slots__ = ("p", "error", "loss", "tail", "total_variation", "shift")

    def __init__(self, law: NoiseLaw, q: float, over: bool) -> None:
        plain, far = (1.0 - q) * law.mass, q * law.moved
        E = law.distance * law.x - 0.5 * law.distance**2  # log u, minus infinity at the first point
        with np.errstate(over="ignore"):
            v = q * np.expm1(np.minimum(E, LARGE))
            w = np.where(E < LARGE, np.log1p(v), math.log(q) + E)
        share = np.exp(np.minimum(E + math.log(q) - w, 0.0))  # d w/d E, by whose rounding the loss is raised too
        slack = np.where(share > 0.0, share, 0.0) * np.where(np.isfinite(E), np.abs(E) + law.distance**2, 0.0)
        if over:
            self.p, self.error = plain + far, plain * law.mass_error + far * law.moved_error
            self.tail = (1.0 - q) * law.right(0.0) + q * law.right(law.distance)
        else:
            # at u = 0 the loss -log(1 - q) would be all of a large moment: that noise is charged
            self.p = law.mass.copy()
            self.p[0], self.p[-1] = 0.0, self.p[-1] + law.right(0.0)
            self.error, self.tail = self.p * law.mass_error, float(law.mass[0])
            w = -w
        self.loss = w + 4.0 * UNIT * (np.abs(w) + slack)
        self.total_variation = q * (2.0 * float(ndtr(0.5 * law.distance)) - 1.0) * (1.0 + FEW_ROUNDINGS)
        order = np.cumsum(self.p if over else self.p[::-1])
        k = int(np.searchsorted(order, 0.5 * order[-1]))
        self.shift = float((self.loss if over else self.loss[::-1])[k])

    def real(self, c: Floats) -> Floats:
        """Return ``log E e^{c loss}`` at real places, about; infinite where it overflows."""
        with np.errstate(over="ignore"):
            total = np.expm1(np.minimum(np.multiply.outer(c, self.loss), 690.0)) @ self.p
        return np.where(np.max(self.loss) * c < 690.0, np.log1p(np.maximum(total, -0.99)), np.inf)

    def variance(self, c: float) -> float:
        """Return the variance of the loss under the law of density ``e^{c loss}``, rounded up."""
        W = self.p * np.exp(c * (self.loss - self.shift))
        W /= W.sum()
        return float(W @ (self.loss - W @ self.loss) ** 2) * 1.001

    def moments(self, c: float, h: float, n: int) -> tuple[NDArray[np.complex128], float]:
        """Return ``log E e^{z loss}`` at ``c + i h j``, j < n, and what E may be wrong by, as a share of the first.

        Losses mu (less the shift) are ``(k + r) B``, ``|r| <= 1/2``, ``B = 2 pi/(h F)``, ``F >= 8n``. Where k is 0 the
        exponential less one is a polynomial of at most pi/8. Others are spread over the lattice by a normal density of
        variance ``SPREAD``, whose transform is divided by afterwards: by Poisson's formula the error is what it is at
        ``7/8`` over what it is at ``1/8``, 4e-17, and what lies beyond ``WIDE`` points, 2e-17.
        """
        mu = self.loss - self.shift
        mu = mu + 4.0 * UNIT * np.abs(mu)
        F = 1 << max(math.ceil(math.log2(8 * n)), 5)
        place = mu * (h * F / (2.0 * math.pi))
        k = np.rint(place)
        near, r = k == 0.0, place - k
        W, grown = self.p * np.exp(c * mu), np.expm1(c * mu)
        out = ~near & (W > VANISHED)
        bins, row, counts = np.unique(np.mod(k[out], F).astype(np.int64), return_inverse=True, return_counts=True)
        table, far = np.zeros(F), W[out]
        part, rise = far * np.exp((r[out] + WIDE) ** 2 / (-2.0 * SPREAD)), np.exp(r[out] / SPREAD)
        for j in range(-WIDE, WIDE + 1):
            table[(bins + j) % F] += np.bincount(row, part, bins.size)
            part *= rise * math.exp(-(j + 0.5) / SPREAD)
        y = 2.0 * math.pi / F * np.arange(n)
        d = np.conj(np.fft.rfft(table)[:n]) * (np.exp(0.5 * SPREAD * y * y) / math.sqrt(2.0 * math.pi * SPREAD))
        first, term, square = math.fsum(self.p * grown), W[near], -y * y
        moment = []
        for power in range(1, TERMS + 1):
            term = term * r[near] / power
            moment.append(float(term.sum()))
        odd, even = np.zeros(n), np.zeros(n)
        for power in range(TERMS, 0, -2):
            even = (even + moment[power - 1]) * square
            odd = odd * square + moment[power - 2]
        d += (first - math.fsum(far)) + even + 1j * (y * odd)
        d[0] = first
        # what each mass and exponential may be wrong by, |e^{iy mu} - 1| <= turns; then sums in bins (of parts that are
        # good to 16 units, weighed), transforms, and the division, by no less than 1/2.2 of the first
        turns, alike = np.expm1(1.6 * np.abs(r)) * W, np.full(mu.size, 0.0)
        turns[out], alike[out] = 2.2 * far, counts[row] + 2.0 * WIDE
        share = self.error + self.p * (UNIT * (8.0 + np.abs(c * mu)))
        wrong = float(share @ np.abs(grown)) + float(share @ ((1.0 + grown) * np.minimum(1.6 * np.abs(place), 2.0)))
        wrong += 0.5 * UNIT * float(alike @ turns) + UNIT * (2.0 * math.log2(F) + 24.0) * float(turns.sum())
        wrong += 2.0 * VANISHED * mu.size
        with np.errstate(divide="ignore", over="ignore"):
            size = d.real * (2.0 + d.real) + d.imag**2
            real = np.where(np.abs(size) < 0.5, 0.5 * np.log1p(np.maximum(size, -0.9)), np.log(np.abs(1.0 + d)))
        log = np.maximum(real, -700.0) + 1j * np.arctan2(d.imag, 1.0 + d.real)
        return log + self.shift * (c + 1j * h * np.arange(n)), wrong / (1.0 + first)
