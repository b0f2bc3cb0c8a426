r"""Inversion along a straight line in pairs of floats: where delta is a tiny share of the terms that it is the sum of.

Seldom steps have losses with a heavy tail (that of a lognormal law, until the loss is some units): no place c has an
integrand as small as delta, and floats lose the digits by which it is larger. The sum, and why it is an upper bound, is
that of ``line_integral.py``:

``(h/pi) e^{K(c) - c epsilon} sum'_k Re (A(z_k)/A(c))^steps e^{-i k h epsilon}/(z_k (1 + z_k)) + (the rest)``.

Powers are exponentials of sums of logarithms, which people share (``pair_logs.py``); the poles take some products more.
Where a term is not known to a digit, or vanishes, it is zero and the most that it may be is added. Rotations begin
afresh as those of the moments do. What all of it loses is added, times the sizes of terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.numerics.double_double import two_product, two_sum
from perinstance.numerics.double_double_complex import product, reciprocals, scaled, total
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import (
    NODE_ROUNDING,
    PAIR_POLE,
    PAIR_PRODUCT,
    PAIR_ROUNDED,
    PAIR_SUM,
)
from perinstance.pairs.loss_sums.sampled.lines.line_integral import LARGEST
from perinstance.pairs.loss_sums.sampled.more_digits.many_distances import PointSteps
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_logs import add_logs, fill_powers
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import BITS, TURN, PairMoments, in_pairs


@dataclass(frozen=True, slots=True)
class PairLine:
    """One person's terms without epsilon, over the first, which is halved; what they have lost, with the rest.

    ``height`` is ``K(c) + log(h/(pi c (1 + c)))``, and ``rounding`` the size of what it is the sum of.
    """

    c: float
    spacing: float
    terms: Any
    lost: float
    height: float
    rounding: float

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
        found, slope = turned_sum(self.terms, _turns(self.spacing, epsilon))
        bound = found + NODE_ROUNDING * abs(found) + self.lost
        if not bound > 0.0:  # it would have to be a profile below zero: nothing is proved by it
            return np.inf, self.c
        rounding = 4.0 * NODE_ROUNDING * (self.rounding + self.c * abs(epsilon) + abs(self.height))
        log = self.height - self.c * epsilon + rounding + math.log(bound)
        return log, self.c - self.spacing * slope / bound

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the errors that were charged raise log delta, about."""
        return self.lost * math.exp(min(self.height - self.c * epsilon - log_delta, LARGEST))


def pair_line(
    kinds: Iterable[tuple[PairMoments, float]],
    place: tuple[float, float],
    nodes: int,
    rest: float,
    points: PointSteps | None = None,
) -> PairLine:
    """Return the terms of a person who takes so many steps of each kind; ``rest`` is what lies beyond the nodes.

    ``points`` are these steps where they are not whole: then they are pairs, and the sum of log moments is off.
    """
    c, spacing = place
    sums, lost, most = np.zeros((4, nodes)), np.zeros((2, nodes)), np.zeros((2, nodes))
    terms, errors, logs = np.empty((2, nodes), np.complex128), np.empty(nodes), []
    for j, (moments, steps) in enumerate(kinds):
        own, low = moments.logs, 0.0 if points is None else float(points.kinds[3, j])
        add_logs(own.values[:, :nodes], own.errors[:nodes], steps, low, sums, lost)
        logs.append((steps + low) * own.first)
        most += np.stack([steps * own.most[:nodes], np.abs(steps * own.most[:nodes])])
    off = np.zeros(nodes) if points is None or points.remainder is None else points.remainder
    lost[0] += 1.001 * (off + off[0])
    fill_powers(sums, lost, float(len(logs)), terms, errors)
    divide_by_poles(c, spacing, terms)
    vague = np.flatnonzero(errors == np.inf)
    errors[vague] = 0.0
    charged = 1.11 * float((np.abs(terms[0]) * errors).sum())
    if vague.size:
        if off[0] > 0.0:
            raise NotPreciseError("a sum over points is not known")
        log = most[0, vague] + NODE_ROUNDING * len(logs) * most[1, vague]
        z = c + 1j * spacing * vague
        with np.errstate(over="ignore"):  # then nothing is known of them
            charged += 1.01 * float((np.exp(log) * np.abs(c * (1.0 + c) / (z * (1.0 + z)))).sum())
    return finished_line(place, terms, charged + rest, math.fsum([*logs, off[0]]), math.fsum(map(abs, logs)))


def finished_line(place: tuple[float, float], terms: Any, lost: float, K: float, rounding: float) -> PairLine:
    """Return the line of some terms over the poles, with what poles, rotations and sums may lose added to the rest."""
    c, spacing = place
    nodes = terms.shape[1]
    turned = PAIR_POLE + (PAIR_PRODUCT + PAIR_ROUNDED) * (2.0 * TURN + nodes / TURN**2 + 2.0)
    size = 1.1 * float(np.abs(terms[0]).sum())
    lost += 1.1 * size * (turned + PAIR_SUM * (TURN + nodes / TURN + 4.0))
    log_unit = math.log(spacing / math.pi) - math.log(c) - math.log1p(c)
    rounding += 8.0 + abs(math.log(spacing)) + abs(math.log(c)) + math.log1p(c)
    return PairLine(c, spacing, terms, 1.001 * lost, K + log_unit, rounding)


@exact_kernel
def divide_by_poles(c, spacing, terms):
    """Multiply terms by ``c (1 + c)/(z_k (1 + z_k))``, the first one halved."""
    more, more_low = two_sum(1.0, c)
    top, top_low = two_product(c, more)
    top_low += c * more_low
    for k in range(terms.shape[1]):
        y, y_low = two_product(float(k), spacing)
        pole, pole_low = product(complex(c, y), complex(0.0, y_low), complex(more, y), complex(more_low, y_low))
        pole, pole_low, _, _ = reciprocals(pole, pole_low)
        pole, pole_low = scaled(pole, pole_low, top, top_low)
        terms[0, k], terms[1, k] = product(terms[0, k], terms[1, k], pole, pole_low)
    terms[0, 0], terms[1, 0] = 0.5 * terms[0, 0], 0.5 * terms[1, 0]


@exact_kernel
def turned_sum(terms, turns):
    """Return the sum of the real parts of ``terms[k] e^{-i k angle}``, and that of k times their imaginary parts.

    ``turns`` are the rotations by 1, 32 and 1,024 angles.
    """
    nodes = terms.shape[1]
    value, low, slope, slope_low = 0.0j, 0.0j, 0.0j, 0.0j
    here, here_low = 1.0 + 0.0j, 0.0j
    block, block_low, long, long_low = here, here_low, here, here_low
    part, part_low = 0.0j, 0.0j
    for k in range(nodes):
        if k > 0 and k % (TURN * TURN) == 0:
            long, long_low = product(long, long_low, turns[0, 2], turns[1, 2])
            block, block_low = long, long_low
            here, here_low = long, long_low
        elif k > 0 and k % TURN == 0:
            block, block_low = product(block, block_low, turns[0, 1], turns[1, 1])
            here, here_low = block, block_low
        elif k > 0:
            here, here_low = product(here, here_low, turns[0, 0], turns[1, 0])
        term, term_low = product(terms[0, k], terms[1, k], here, here_low)
        part, part_low = total(part, part_low, term, term_low)
        term, term_low = scaled(term, term_low, float(k), 0.0)
        slope, slope_low = total(slope, slope_low, term, term_low)
        if k % TURN == TURN - 1 or k == nodes - 1:
            value, low = total(value, low, part, part_low)
            part, part_low = 0.0j, 0.0j
    return value.real + low.real, slope.imag + slope_low.imag


def _turns(spacing: float, epsilon: float) -> Any:
    """Return rotations by ``-h epsilon``, by 32 and by 1,024 of them, in pairs."""
    from flint import acb, arb

    with working_precision(BITS):
        angle = acb(0, -arb(spacing) * arb(epsilon))
        return in_pairs([(angle * nodes).exp() for nodes in (1, TURN, TURN * TURN)])
