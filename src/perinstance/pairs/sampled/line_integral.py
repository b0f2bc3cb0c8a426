r"""Delta of sums of losses by one sum along a vertical line, every error of which is positive or charged.

With ``K(z)`` the log moments of all losses, for any c > 0 and h > 0, ``z_j = c + i j h``,

``(h/2 pi) sum_j e^{K(z_j) - z_j epsilon}/(z_j (z_j + 1)) = sum_j delta(epsilon + 2 pi j/h) e^{2 pi j c/h}``:

all terms on the right are positive and one of them is delta (Poisson's summation formula). The sum on the left is
ended by a Gaussian release of a small variance ``s^2`` that nobody made, which only raises delta: K grows by
``s^2 (z^2 + z)/2``. What lies beyond the last node is charged, and so is rounding, in units of
``e^{K(c) - c epsilon}``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import LARGEST, SOLVED_STEP, UNIT

#: Aliases of delta may be e^-ALIAS of it, and so may what lies beyond the last node (changes the width).
ALIAS = 22.0
#: Spacings are powers of this, so that people share lines (changes only speed).
STEP = 2.0**0.25
#: The variance of the additional release, about, over epsilon and its unit (changes the width).
SMOOTH = 4e-6
#: How much larger than the least of Chernoff's bounds the first term of a line may be: digits lost, as an exponent.
LOST = 6.0


class Asked(NamedTuple):
    """What is known of each person.

    Log delta, epsilon, ``-d log delta/d epsilon``, the variance of other Gaussian shifts, and the number in units of
    which epsilon may move.
    """

    log_delta: Any
    epsilon: Any
    slope: Any
    shift: Any
    unit: Any


class Laid(NamedTuple):
    """Each person's line.

    Its place, an index of RUNGS (-1: none), its spacing ``2 pi/STEP^width``, the variance s^2, how many nodes it takes,
    and by how much the first term exceeds delta, as an exponent.
    """

    rung: Any
    width: Any
    variance: Any
    nodes: Any
    height: Any


class SharedLine(NamedTuple):
    """Asked on one line.

    c and h; K at the nodes; the variance of all Gaussian shifts; what lies beyond the last node and what moments may be
    wrong by, over the first term; how many units of rounding K may be wrong by, over ``|z|``.
    """

    place: Any
    values: Any
    variance: Any
    rest: Any
    wrong: Any
    steep: Any


@kernel
def lay(rungs, bound, people, stride, laid):
    """Choose everybody's line: the widest spacing at which no alias counts, by Chernoff's ``bound`` of log delta.

    ``bound[i, j]`` belongs to ``c = rungs[j]``, less ``c epsilon``.
    """
    n = rungs.size
    for i in range(people.epsilon.size):
        e, goal, row = people.epsilon[i], people.log_delta[i], bound[i]
        least = np.inf
        for j in range(n):
            least = min(least, row[j] - rungs[j] * e)
        best, laid.rung[i] = np.inf, -1
        for j in range(0, n, stride):
            c = rungs[j]
            if not row[j] - c * e < max(least, goal) + LOST:
                continue
            left, right = (ALIAS - goal) / c, np.inf
            for k in range(max(j - 24, 0), min(j + 24, n)):
                if k != j and row[k] < LARGEST:
                    u = (row[k] - goal - rungs[k] * e + ALIAS) / abs(rungs[k] - c)
                    if k < j:
                        left = min(left, u)
                    else:
                        right = min(right, u)
            u = max(left, right, 1.0 / c)
            if u < best:
                best, laid.rung[i] = u, j
        if laid.rung[i] < 0:
            continue
        c = rungs[laid.rung[i]]
        laid.width[i] = stride * math.ceil(math.log(best) / math.log(STEP) / stride)
        laid.height[i] = max(row[laid.rung[i]] - goal - c * e, 0.0) + 2.0
        laid.variance[i] = SMOOTH * people.unit[i] / (0.5 + max(people.slope[i], c))
        spread = math.sqrt(2.0 * (ALIAS + laid.height[i]) / (laid.variance[i] + people.shift[i]))
        laid.nodes[i] = spread * STEP ** laid.width[i] / (2.0 * math.pi) + 2.0


@kernel
def _fill_terms(line, i, terms):
    """Fill in the terms over the first exponential, without epsilon; return K(c), its charge, that for each epsilon."""
    c, h = line.place
    L, s2, n = line.values[i], 0.5 * line.variance[i], line.values.shape[1]
    K = L[0].real + s2 * (c * c + c)
    size, turned, moved = 0.0, 0.0, 0.0
    for j in range(n):
        y = j * h
        z = complex(c, y)
        t = complex(L[j].real - L[0].real - s2 * y * y, L[j].imag + s2 * (2.0 * c + 1.0) * y)
        length = abs(z)
        weight = (0.5 if j == 0 else 1.0) * h / math.pi / (length * abs(z + 1.0))
        size += weight
        terms[j] = 0.0
        if t.real > -100.0:
            terms[j] = np.exp(t) / (z * (z + 1.0)) * ((0.5 if j == 0 else 1.0) * h / math.pi)
            a = abs(terms[j])
            moved += a * length
            turned += a * (64.0 + (line.steep[i] + s2 * (2.0 * length + 4.0)) * length)
    charge = line.rest[i] + size * math.expm1(line.wrong[i]) + UNIT * (turned + size) + size * math.exp(-90.0)
    return K + UNIT * line.steep[i] * c, charge, 4.0 * UNIT * moved


@kernel
def _log_delta(line, terms, first, epsilon):
    """Return a bound of log delta and minus its slope."""
    c, h = line.place
    K, charge, each = first
    total, slope = charge + each * epsilon, c * (charge + each * epsilon)
    turn, phase = complex(math.cos(h * epsilon), -math.sin(h * epsilon)), complex(1.0, 0.0)
    for j in range(terms.size):
        if j % 32 == 0:  # before products have lost more than is charged
            phase = complex(math.cos(j * h * epsilon), -math.sin(j * h * epsilon))
        t = terms[j] * phase
        total += t.real
        slope += c * t.real - j * h * t.imag
        phase *= turn
    least = charge + each * epsilon
    rounding = 8.0 * UNIT * (1.0 + abs(K) + c * epsilon)
    return K - c * epsilon + math.log(max(total, least)) + rounding, slope / max(total, least)


@kernel
def profiles(line, people, out):
    """Fill in a bound of log delta at everybody's epsilon and minus its slope."""
    terms = np.empty(line.values.shape[1], np.complex128)
    for i in range(line.values.shape[0]):
        first = _fill_terms(line, i, terms)
        out[i, 0], out[i, 1] = _log_delta(line, terms, first, people.epsilon[i])


@kernel
def epsilons(line, people, out):
    """Fill in an epsilon, next to the least, at which the bound of log delta is seen to be kept, and the slope."""
    terms = np.empty(line.values.shape[1], np.complex128)
    c = line.place[0]
    for i in range(line.values.shape[0]):
        first = _fill_terms(line, i, terms)
        low, high, e = 0.0, np.inf, people.epsilon[i]
        out[i, 0], out[i, 1] = np.inf, 0.0
        for turn in range(60):
            log, slope = _log_delta(line, terms, first, e)
            excess = log - people.log_delta[i]
            slope = slope if slope > 0.0 else c
            scale = max(slope * e, 1e-3)
            if excess <= 0.0:
                high = min(high, e)
                if e < out[i, 0]:
                    out[i, 0], out[i, 1] = e, slope
                if excess > -4.0 * SOLVED_STEP * scale or e == 0.0:
                    break
            else:
                low = max(low, e)
            new = e + (excess + SOLVED_STEP * scale) / slope
            if not low < new < high:
                new = 0.5 * (low + high) if high < np.inf else 2.0 * e + 1.0 / c
                if high < np.inf and low == 0.0 and turn < 3:
                    new = 0.0
            e = new
