r"""Delta along a hyperbola, never below the truth: the sum over its nodes in pairs of floats, and all that it may miss.

``(h/pi) sum'_n Re G_n e^{-z_n epsilon}`` with ``G = (e^K - 1)/(z(z+1)) dz/(i ds)`` with the person (n = 0 halved), and
``e^K``, ``e^{(1+z) (epsilon - B)}`` without, where A is that of ``w/(1 - q)`` and B the largest loss. K is the sum over
kinds of steps of so many times ``log A(z)``, whatever its branch. What moments, logarithms, exponentials, poles and
sums lose is followed along; where ``e^K`` is not known to a digit it is taken to be zero, and the most that it may be
is added. What the hyperbola itself misses (``hyperbola.py``) is a sum over cells, in which moments are bounded for each
kind; it depends on epsilon as ``e^{-x epsilon}`` does.

Corners of cells are known to some 1e-15 of themselves and exponents are below 600, so that cells may be 1e-12 off: they
count a thousandth more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import plus
from perinstance.numerics.double_double_complex import product, reciprocals, scaled, total
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import (
    CELL_MORE,
    NODE_ROUNDING,
    PAIR_EXPONENTIAL,
    PAIR_POLE,
    PAIR_PRODUCT,
    PAIR_SUM,
    VANISHED,
)
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola import Hyperbola
from perinstance.pairs.loss_sums.sampled.hyperbolas.moment_bounds import MomentBounds, bounds_of, fill_log_bounds
from perinstance.pairs.loss_sums.sampled.hyperbolas.oblique_noise import noise_along
from perinstance.pairs.loss_sums.sampled.hyperbolas.power_sums import LANES, fill_power_sums, octave_part, scales_of
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import (
    exp_complex,
    expm1_complex,
    expm1_lost,
    log1p_complex,
    log1p_lost,
)
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import BITS, in_pairs

#: Kinds whose bounds are kept: a hundred kilobytes each, or a megabyte beyond distances of six.
MOST_KEPT = 128
#: Of a power: an error beyond which its phase counts as unknown; of delta, beyond which its slope is.
SURE = 0.1
#: Exponents of e that are numbers.
LARGEST = 300.0


@dataclass(frozen=True, slots=True)
class HyperbolaLine:
    """One person's terms at the nodes z, pairs of complex floats, and what terms and nodes have lost; the cells.

    ``logs`` are the logarithms of what each cell may add, less epsilon - B times a number between ``slopes``; ``edge``
    is the pair B, zero with the person.
    """

    over: bool
    c: float
    edge: tuple[float, float]
    spacing: float
    z: Any
    terms: Any
    lost: Floats
    slopes: Floats
    logs: Floats

    def _sum(self, epsilon: float) -> tuple[float, float, float]:
        """Return the sum, minus its derivative, and what has to be added."""
        value, slope, lost = turned_terms(self.over, self.z, self.terms, self.lost, epsilon, self.edge)
        unit = self.spacing / math.pi
        above = np.min(self.slopes * (epsilon - self.edge[0]), axis=0)
        cells = float(np.exp(np.minimum(self.logs - above, LARGEST)).sum()) * CELL_MORE
        more = unit * lost + cells
        return unit * value, unit * slope, more if more < math.exp(0.5 * LARGEST) else np.inf

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
        value, slope, lost = self._sum(epsilon)
        bound = (value + lost) * (1.0 + 8.0 * NODE_ROUNDING) if value > 0.0 else value + 1.001 * lost
        if not 0.0 < bound < np.inf:
            return np.inf, self.c
        return math.log(bound) + 4.0 * NODE_ROUNDING * (1.0 + abs(math.log(bound))), max(slope / bound, VANISHED)

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the errors that were charged raise log delta, about; infinite where that is not known."""
        value, slope, lost = self._sum(epsilon)
        return 2.0 * lost / value if slope > 0.0 and lost < SURE * value else np.inf


@dataclass(slots=True)
class HyperbolaTables:
    """The bounds of moments of the kinds of steps that were asked for so far, with or without the person."""

    over: bool
    bounds: dict[tuple[float, float], MomentBounds] = field(default_factory=dict)

    def of(self, q: float, m: float) -> MomentBounds:
        """Return the bounds of one kind."""
        if (q, m) not in self.bounds:
            if len(self.bounds) == MOST_KEPT:
                self.bounds.clear()
            self.bounds[q, m] = bounds_of(q, m, self.over)
        return self.bounds[q, m]


def line_along(kinds: Floats, c: float, shape: Hyperbola, tables: HyperbolaTables) -> HyperbolaLine:
    """Return the terms of a person who takes so many steps of each kind (columns of rates, distances, steps)."""
    nodes, over = shape.nodes, tables.over
    sums, lost, most = np.zeros((4, nodes)), np.zeros((2, nodes)), np.zeros(nodes)
    cells = [np.zeros(len(some.log)) for some in shape.cells]
    for q, m, steps in kinds.T.tolist():
        bounds = tables.of(q, m)
        for some, log in zip(shape.cells, cells, strict=True):
            out = np.empty(len(log))
            fill_log_bounds(bounds, some.x, some.y, out)
            log += steps * (out + 4.0 * NODE_ROUNDING)
        moments, off = moments_along(q, m, shape)
        add_log_moments(moments, off, steps, sums, lost, most)
    points, terms = np.empty((2, nodes), np.complex128), np.empty((2, nodes), np.complex128)
    errors = np.empty((2, nodes))
    count = float(kinds.shape[1])
    fill_terms(over, shape, count, (sums, lost, most), points, terms, errors)
    logs, slopes = [], []
    for some, log in zip(shape.cells, cells, strict=True):
        with np.errstate(over="ignore"):
            log += NODE_ROUNDING * count * np.abs(log)
            logs.append(some.log + (np.logaddexp(log, 0.0) if over else log))
        ends = np.stack([some.x[1:], some.x[:-1]])
        slopes.append(ends if over else -1.0 - ends)
    edge = (0.0, 0.0) if over else largest_loss(kinds)
    return HyperbolaLine(over, c, edge, shape.spacing, points, terms, errors, np.hstack(slopes), np.concatenate(logs))


def largest_loss(kinds: Floats) -> tuple[float, float]:
    """Return the largest loss without the person as a pair."""
    from flint import acb, arb

    with working_precision(BITS):
        total_ = sum((-int(steps) * (1 - arb(q)).log() for q, _, steps in kinds.T.tolist()), arb(0))
        high, low = in_pairs([acb(total_)])[:, 0].real.tolist()
    return high, low


def moments_along(q: float, m: float, shape: Hyperbola) -> tuple[Floats, Floats]:
    """Return ``A - 1`` of one kind of step at the nodes, four rows of pairs, and how far off it may be."""
    noise = noise_along(q, m, shape)
    count = noise.weights.shape[1]
    weights, losses, off = (
        np.pad(part, ((0, 0), (0, -count % LANES))) for part in (noise.weights, noise.losses, noise.lost)
    )
    largest = float(np.hypot(noise.losses[0], noise.losses[1]).max())
    if not largest < np.inf:  # exponents of the noise are no numbers
        raise NotPreciseError(f"a step of rate {q} and distance {m} along a hyperbola")
    scales = scales_of(shape.zeta, shape.an_octave, shape.nodes, largest)
    moments, lost = np.empty((4, shape.nodes)), np.empty(shape.nodes)
    fill_power_sums(weights, losses, off, scales, moments, lost)
    lost += noise.missed[:-1] + noise.missed[-1]
    if shape.p != 0.0:  # the moment at p, which is 1 with the person
        first, first_low, rounding = sum_of_weights(weights)
        more = 1.01 * (off[0].sum() + rounding)
        add_constant(moments, first, first_low)
        lost += more + 2.0 * PAIR_SUM * (2.0 + abs(first))
    return moments, lost


@exact_kernel
def sum_of_weights(weights):
    """Return the real part of the sum of the weights less 1, a pair, and what it has lost."""
    high, low, size = -1.0, 0.0, 1.0
    for j in range(weights.shape[1]):
        high, low = plus(high, low, weights[0, j], weights[2, j])
        size += abs(weights[0, j])
    return high, low, PAIR_SUM * weights.shape[1] * size


@exact_kernel
def add_constant(moments, first, first_low):
    """Add a real pair to all moments."""
    for n in range(moments.shape[1]):
        moments[0, n], moments[2, n] = plus(moments[0, n], moments[2, n], first, first_low)


@exact_kernel
def add_log_moments(moments, off, steps, sums, lost, most):
    """Add so many times ``log(1 + (A - 1))`` to sums of pairs.

    ``lost``: errors, then sizes; ``most``: logarithms of the most that ``|A|`` may be.
    """
    for n in range(off.size):
        a, a_low = complex(moments[0, n], moments[1, n]), complex(moments[2, n], moments[3, n])
        whole, _ = total(a, a_low, 1.0 + 0.0j, 0.0j)  # next to nothing the second floats are all of it
        size = abs(whole)
        if off[n] < SURE * size and size > 0.5:
            more = 0.5 * math.log1p(a.real * (2.0 + a.real) + a.imag * a.imag) + 1.01 * off[n] / size
        else:
            more = math.log(size + 1.01 * off[n] + VANISHED)
        most[n] += steps * (more + 8.0 * NODE_ROUNDING * (1.0 + abs(more)))
        if not off[n] < SURE * size:
            lost[0, n] = np.inf
            continue
        log, log_low = log1p_complex(a, a_low)
        log, log_low = scaled(log, log_low, steps, 0.0)
        sum_, low = total(complex(sums[0, n], sums[1, n]), complex(sums[2, n], sums[3, n]), log, log_low)
        sums[0, n], sums[1, n], sums[2, n], sums[3, n] = sum_.real, sum_.imag, low.real, low.imag
        lost[0, n] += steps * (1.06 * off[n] / size + 1.01 * log1p_lost(a, log / steps))
        lost[1, n] += abs(log)


@exact_kernel
def fill_terms(over, shape, kinds, found, points, terms, errors):
    """Fill in the nodes, the terms without epsilon, and errors of both; ``found``: sums, what is lost, the most."""
    sums, lost, most = found
    p, zeta, an_octave = shape.p, shape.zeta, shape.an_octave
    for n in range(errors.shape[1]):
        one = complex_pair(octave_part(zeta, n, an_octave))
        other = complex_pair(octave_part(complex(zeta.real, -zeta.imag), n, -an_octave))
        z, z_low = total(one[0], one[1], other[0], other[1])
        z, z_low = total(z, z_low, complex(p, 0.0), 0.0j)
        after, after_low = total(z, z_low, 1.0 + 0.0j, 0.0j)
        points[0, n], points[1, n] = z, z_low
        K, K_low = complex(sums[0, n], sums[1, n]), complex(sums[2, n], sums[3, n])
        off = 1.01 * (lost[0, n] + 2.0 * (kinds + 1.0) * PAIR_SUM * lost[1, n])
        if off < SURE and abs(K.real) < LARGEST:
            power, rounding = math.exp(K.real), PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(K))
            if over:
                e, e_low = expm1_complex(K, K_low)
                own = expm1_lost(K, e) if abs(K) < 1.0 else power * rounding + PAIR_SUM * (1.0 + power)
            else:
                e, e_low = exp_complex(K, K_low)
                own = power * rounding
            missed = 1.1 * power * off + 1.01 * own
        else:
            e, e_low = complex(-1.0 if over else 0.0, 0.0), 0.0j
            missed = math.exp(min(most[n], 2.0 * LARGEST)) * 1.01
        slope, slope_low = total(one[0], one[1], -other[0], -other[1])
        slope, slope_low = complex(slope.imag, -slope.real), complex(slope_low.imag, -slope_low.real)
        pole, pole_low = product(z, z_low, after, after_low)
        errors[1, n] = 16.0 * PAIR_PRODUCT * (2.0 * abs(zeta) + abs(one[0]) + abs(other[0]) + abs(p) + 1.0)
        near = errors[1, n] * (1.0 / abs(z) + 1.0 / abs(after) + 1.0 / abs(slope))
        pole, pole_low, _, _ = reciprocals(pole, pole_low)
        pole, pole_low = product(pole, pole_low, slope, slope_low)
        if n == 0:
            pole, pole_low = 0.5 * pole, 0.5 * pole_low
        terms[0, n], terms[1, n] = product(e, e_low, pole, pole_low)
        errors[0, n] = 1.01 * abs(pole) * (missed + abs(e) * (near + PAIR_POLE + 4.0 * PAIR_PRODUCT)) + VANISHED


@exact_kernel
def complex_pair(parts):
    """Return four floats as a complex pair."""
    return complex(parts[0], parts[1]), complex(parts[2], parts[3])


@exact_kernel
def turned_terms(over, z, terms, lost, epsilon, edge):
    """Return the sum at an epsilon, minus its derivative, and what the sum loses; ``lost`` by terms, and by z."""
    value, low, slope, missed, size = 0.0, 0.0, 0.0, 0.0, 0.0
    e, e_low = plus(epsilon, 0.0, -edge[0], -edge[1])
    for n in range(lost.shape[1]):
        a, a_low = z[0, n], z[1, n]
        if over:
            a, a_low = -a, -a_low
        else:
            a, a_low = total(a, a_low, 1.0 + 0.0j, 0.0j)
        rate, rate_low = a, a_low
        a, a_low = scaled(rate, rate_low, e, e_low)
        if a.real < -LARGEST:
            missed += (abs(terms[0, n]) + lost[0, n]) * 1.01 * math.exp(-LARGEST)
            continue
        turn, turn_low = exp_complex(a, a_low)
        term, term_low = product(terms[0, n], terms[1, n], turn, turn_low)
        value, low = plus(value, low, term.real, term_low.real)
        slope -= (term * rate).real
        missed += abs(turn) * lost[0, n]
        off = 2.0 * PAIR_EXPONENTIAL * (1.0 + abs(a) + abs(rate) * edge[0]) + 1.01 * lost[1, n] * abs(e)
        size += abs(term) * (off + 2.0 * PAIR_PRODUCT + PAIR_SUM * lost.shape[1])
    return value + low, slope, 1.01 * (missed + size)
