r"""A finite law that stands for the noise of one step, above it for every rate, both directions, any composition.

With ``u = e^{m x - m^2/2}``, ``x ~ N(0, 1)``, a step of rate q has the likelihood ratio ``w = 1 - q + q u``. Delta of
any number of steps is ``E (prod w - e^epsilon)_+`` (the person over without) or ``E (1 - e^epsilon prod w)_+`` (without
over with): convex in every u. So u may be moved to the two ends of a cell of x if its mean stays; delta only grows.

The mass that moves to an end of a cell is an integral of a smooth function over it, by Gauss's rule of six nodes. Its
error is ``d^13 (6!)^4/(13 (12!)^3) f^(12)``, and by Cauchy's formula on a circle of radius 8d, d the width of the cell,
``|f^(12)| <= 12! max|f|/(8d)^12``; there ``|f|`` is at most ``e^{10 d |x| + 100 d^2} (e^{10 m d} - 1)`` times the least
density of the cell. Over the integral itself, at least that density times ``m d^2/2``, this is ``_rule_error``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import SIX_NODES, UNIT

#: Points of the law (changes the width: the variance of a step grows by a twelfth of the squared width of a cell).
POINTS = 8192
#: The same for tables that only choose a line: changes nothing but that.
FEW_POINTS = 384
#: Beyond this distance cells would be too wide for the rule: there are more of them in proportion.
WIDE = 20.0
#: Cells end so many standard deviations from 0 and from m: noise beyond (1e-40) is charged.
SIDE = 13.3

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
        x = _cells(m, points * max(math.ceil(m / WIDE), 1))
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

    @property
    def exponent(self) -> Floats:
        """``log u``: minus infinity at the first point."""
        return self.distance * self.x - 0.5 * self.distance**2

    @property
    def left(self) -> float:
        """The probability of noise before all cells, without the person."""
        return float(self.mass[0])

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
