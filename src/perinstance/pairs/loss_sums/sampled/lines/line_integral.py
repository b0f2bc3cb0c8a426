r"""Inversion along a straight line, never below the truth: the profile of one person from K at ``z_k = c + i k h``.

``delta(epsilon) = 1/(2 pi i) int e^{K(z) - z epsilon}/(z (1 + z)) dz`` along Re z = c, any c > 0. What is computed is

``(h/pi) sum'_{k < n} Re e^{K(z_k) - z_k epsilon}/(z_k (1 + z_k))``,  the first term halved.

* The step: summed over all k it is ``sum_j delta(epsilon + 2 pi j/h) e^{2 pi j c/h}`` (Poisson's summation formula).
  Every term is positive and j = 0 is delta, so a step of any size only adds. No proof rests on how large it is.
* The end: what is left out is at most ``sum_{k >= n} e^{K(c) - c epsilon - B}/y_k^2`` in units of h/pi, where B bounds
  ``K(c) - Re K(c + iy)`` from below for all y >= y_n (``line_decay.py``). It is added.
* K: each node's error (``log_moments.py``) and each rounding of the sum is added, times the size of its term; where the
  error is not small, the size of the term itself and of the largest that it may be.
* The rounding of a term, in half units in the last place: the exponent ``|K(z_k)| + |K(c)|``, the exponential 4, cosine
  and sine 6 and ``1.5 |Im K|``, the pole 16, products 4: together 30 and these. Of the rotation ``e^{-i k h epsilon}``,
  which is started afresh every 32 nodes and turned by two nodes at a time: 66 at most, and three times the angle.

An epsilon is returned only after this sum with all that is added was found to lie below delta *at that epsilon*. So no
answer depends on how the line was chosen, or whether the iteration for it has converged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.inline_exp_log import fast_exp, fast_sin_cos
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.rounding import LAST_RAISE, LAST_STEP, LOGARITHM, NODE_ROUNDING
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, VAGUE

ANCHOR = 32  # the rotation from node to node is started afresh so often
FEWEST, LARGEST = -700.0, 700.0  # exponents; a term below e^-700 of the first counts as that large
NEXT_TO_NOTHING = 1e-6  # an epsilon below this over c may be zero
FLAT = 1e-4  # times c: the least slope of log delta that is believed
RAISES = 40  # times that the last raise of an epsilon is doubled


class LineValues(NamedTuple):
    """K of one person on a line: real and imaginary parts, the error of each, and the sum of what is left out.

    The error of node k is ``first share[k] + more[k]``, or without ``more`` where that is empty.
    """

    real: Any
    imag: Any
    first: Any
    share: Any
    more: Any
    rest: Any


class LinePoles(NamedTuple):
    """What people on a line share: its place, ``c(1 + c)/(z_k(1 + z_k))`` (the first halved), ``log(h/(pi c(1 + c)))``.

    ``rounding`` is that of the last one, in half units.
    """

    c: Any
    spacing: Any
    real: Any
    imag: Any
    log_unit: Any
    rounding: Any


class LineTerms(NamedTuple):
    """The terms without epsilon, over the first; the sum of their sizes, the same times k, the sum of their errors."""

    real: Any
    imag: Any
    size: Any
    turned: Any
    lost: Any


@kernel
def line_poles(place, nodes):
    """Return what everybody on a line shares."""
    c, spacing = place[0], place[1]
    real, imag = np.empty(nodes), np.empty(nodes)
    for k in range(nodes):
        y = k * spacing
        pole = c * (1.0 + c) / (complex(c, y) * complex(1.0 + c, y))
        real[k], imag[k] = pole.real, pole.imag
    real[0], imag[0] = 0.5 * real[0], 0.5 * imag[0]
    log_unit = math.log(spacing / math.pi) - math.log(c) - math.log1p(c)
    return LinePoles(c, spacing, real, imag, log_unit, abs(math.log(spacing)) + abs(math.log(c)) + math.log1p(c))


@kernel
def _vague_loss(line, poles, scratch):
    """Return the sum of the errors where some are not small: there the phase is unknown, the largest size counts."""
    lost = 0.0
    for k in range(line.real.size):
        off = scratch[2, k]
        if not off < np.inf:
            return np.inf
        modulus = abs(scratch[0, k]) + abs(scratch[1, k])
        if off < VAGUE:
            lost += 1.1 * off * modulus
        else:
            size = 1.1 * (abs(poles.real[k]) + abs(poles.imag[k]))
            lost += modulus + size * math.exp(min(line.real[k] - line.real[0] + off, LARGEST))
    return lost


@piece
def line_terms(line, poles, scratch):
    """Return ``e^{K(z_k) - K(c)} c(1 + c)/(z_k(1 + z_k))`` for all nodes, and one of zero behind them."""
    real, imag, errors = scratch[0], scratch[1], scratch[2]
    n, K = line.real.size, line.real[0]
    for k in range(n):
        power = fast_exp(min(max(line.real[k] - K, FEWEST), LARGEST))
        sine, cosine = fast_sin_cos(line.imag[k])
        real[k] = power * (cosine * poles.real[k] - sine * poles.imag[k])
        imag[k] = power * (cosine * poles.imag[k] + sine * poles.real[k])
        errors[k] = line.first * line.share[k] + NODE_ROUNDING * (
            32.0 + 2.0 * abs(line.imag[k]) + abs(line.real[k]) + abs(K)
        )
    real[n], imag[n] = 0.0, 0.0
    for k in range(line.more.size):
        errors[k] += line.more[k]
    size, turned, lost, vague = 0.0, 0.0, 0.0, False
    for k in range(n):
        modulus = abs(real[k]) + abs(imag[k])
        size += modulus
        turned += k * modulus
        lost += modulus * errors[k]
        vague |= not errors[k] < VAGUE
    return LineTerms(real, imag, size, turned, _vague_loss(line, poles, scratch) if vague else 1.1 * lost)


@kernel
def log_bound(epsilon, line, poles, terms):
    """Return the logarithm of an upper bound of delta at an epsilon, minus its slope, and its second derivative."""
    turn = -poles.spacing * epsilon
    step_imag, step_real = fast_sin_cos(2.0 * turn)
    total, slope, bend = 0.0, 0.0, 0.0
    n = line.real.size
    for start in range(0, n, ANCHOR):
        a_imag, a_real = fast_sin_cos(start * turn)
        b_imag, b_real = fast_sin_cos((start + 1) * turn)
        block = 0.0
        for k in range(start, min(start + ANCHOR, n), 2):
            part = terms.real[k] * a_real - terms.imag[k] * a_imag
            rest = terms.real[k] * a_imag + terms.imag[k] * a_real
            next_part = terms.real[k + 1] * b_real - terms.imag[k + 1] * b_imag
            next_rest = terms.real[k + 1] * b_imag + terms.imag[k + 1] * b_real
            block += part + next_part
            slope += k * rest + (k + 1) * next_rest
            bend += k * k * part + (k + 1) * (k + 1) * next_part
            a_real, a_imag = a_real * step_real - a_imag * step_imag, a_real * step_imag + a_imag * step_real
            b_real, b_imag = b_real * step_real - b_imag * step_imag, b_real * step_imag + b_imag * step_real
        total += block
    total += terms.lost + line.rest
    total += NODE_ROUNDING * (terms.size * (5.0 * ANCHOR + 8.0 + n / ANCHOR) + 3.0 * terms.turned * abs(turn))
    c = poles.c
    if not total > 0.0:  # it would have to be a profile below zero: nothing is proved by it
        return np.inf, c, 0.0
    base = 8.0 + abs(line.real[0]) + c * abs(epsilon) + poles.rounding
    log = (line.real[0] - c * epsilon) + poles.log_unit + 4.0 * NODE_ROUNDING * base + math.log(total)
    slope *= poles.spacing / total
    return log, c - slope, -(poles.spacing * poles.spacing) * bend / total - slope * slope


@piece
def _start(goal, epsilon, line, poles):
    """Return an epsilon to start from: one step towards where a normal loss of the same K, K' and K'' would have it."""
    h, c = poles.spacing, poles.c
    K2 = 2.0 * (line.real[0] - line.real[1]) / (h * h)
    ahead = epsilon - line.imag[1] / h
    s = c + ahead / K2  # the saddle point of epsilon
    if not (K2 > 0.0 and s > 0.25 * c):
        return epsilon
    log = line.real[0] - c * epsilon - 0.5 * ahead * ahead / K2 - 0.5 * math.log(2.0 * math.pi * K2) - math.log(s)
    return epsilon + min(max((log - math.log1p(s) - goal) / s, -20.0 / c), 1.0 / c)


@piece
def next_epsilon(epsilon, excess, slopes, between, c):
    """Return Halley's next epsilon, inside a bracket; ``slopes``: minus the first derivative, and the second.

    Slopes far below c are believed where the bracket has an upper end: between large losses delta hardly falls.
    """
    low, high = between
    rate = slopes[0] if slopes[0] > (FLAT if high < np.inf else 0.1) * c else c
    step = excess / rate
    less = 1.0 - 0.5 * step * slopes[1] / rate
    step = min(max(step / less if 0.5 < less < 2.0 else step, -20.0 / c), 20.0 / c)
    new = epsilon + step
    if low < 0.0 and new <= 0.0:
        return 0.0
    if low < new < high:
        return new
    low = max(low, 0.0)
    return min(0.5 * (low + high), low + 20.0 / c) if high < np.inf else 2.0 * low + 1.0 / c


@piece
def _charged(epsilon, log_delta, line, poles, terms, rate):
    """Return by how much the errors that were charged raise an epsilon, about; ``rate``: minus the slope there."""
    share = terms.lost + line.rest + NODE_ROUNDING * terms.size * (5.0 * ANCHOR + 8.0 + line.real.size / ANCHOR)
    return share * math.exp(min(line.real[0] - poles.c * epsilon + poles.log_unit - log_delta, LARGEST)) / rate


@piece
def solve_on_line(goal, start, edge, line, poles, scratch):
    """Return an epsilon >= 0 whose delta is at most ``e^goal``, the least that this line can prove; or infinity.

    And by how much the errors that were charged have raised it, about, and what Newton's method left: where the sum is
    below zero next to the least one, it ends anywhere above.
    """
    if not line.real[0] < BEYOND:
        return np.inf, np.inf
    terms = line_terms(line, poles, scratch)
    if not terms.lost < np.inf:
        return np.inf, np.inf
    low, high = -1.0, edge  # below zero: zero was not tried
    epsilon = min(max(_start(goal, start, line, poles), 0.0), edge)
    near = LAST_STEP * max(4.0 + abs(goal), poles.c * epsilon)  # of large numbers the last digits come and go
    rate, checked = poles.c, -1.0
    for _ in range(60):
        log, rate, bend = log_bound(epsilon, line, poles, terms)
        checked = epsilon
        excess = log - goal
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        if abs(excess) < near or (epsilon == 0.0 and excess <= 0.0):
            break
        new = next_epsilon(epsilon, excess + 0.5 * near, (rate, bend), (low, high), poles.c)
        if new == epsilon:
            break
        epsilon = new
    if epsilon != checked:
        log = log_bound(epsilon, line, poles, terms)[0]
    if 0.0 < epsilon * poles.c < NEXT_TO_NOTHING and log_bound(0.0, line, poles, terms)[0] <= goal:
        return 0.0, 0.0
    rate = max(rate, FLAT * poles.c)
    charged = _charged(epsilon, goal, line, poles, terms, rate)
    raised = LAST_RAISE * (epsilon + (1.0 + abs(goal)) / rate)
    for _ in range(RAISES):
        if log <= goal:
            return epsilon, charged + (goal - log) / rate if epsilon > 0.0 else charged
        epsilon += raised
        raised *= 2.0
        log = log_bound(epsilon, line, poles, terms)[0]
    return np.inf, np.inf


@kernel
def solve_all(place, values, first, share, more, rest, goals, out):
    """Solve for everybody on one line: goals are log delta, a start, the largest loss; out is epsilon, c, the charge.

    The error of node k is ``first share[k] + more[k]``; ``more`` is empty where nobody has any.
    """
    n = values.shape[1] // 2
    scratch = np.empty((3, n + 1))
    poles = line_poles(place, n)
    nothing = np.empty(0)
    for i in range(values.shape[0]):
        own = more[i] if more.shape[0] else nothing
        line = LineValues(values[i, :n], values[i, n:], first[i], share, own, rest[i])
        goal = goals[i, 0] - LOGARITHM * (4.0 + abs(goals[i, 0]))
        out[i, 0], out[i, 2] = solve_on_line(goal, goals[i, 1], goals[i, 2], line, poles, scratch)
        out[i, 1] = poles.c


@kernel
def profile_all(place, values, first, share, more, rest, goals, out):
    """Fill in the bound of log delta, minus its slope and the charge in epsilon, for everybody on one line."""
    n = values.shape[1] // 2
    scratch = np.empty((3, n + 1))
    poles = line_poles(place, n)
    nothing = np.empty(0)
    for i in range(values.shape[0]):
        own = more[i] if more.shape[0] else nothing
        line = LineValues(values[i, :n], values[i, n:], first[i], share, own, rest[i])
        out[i, 0], out[i, 1], out[i, 2] = np.inf, poles.c, np.inf
        if line.real[0] < BEYOND:
            terms = line_terms(line, poles, scratch)
            if terms.lost < np.inf:
                out[i, 0], out[i, 1], _ = log_bound(goals[i, 1], line, poles, terms)
                out[i, 2] = _charged(goals[i, 1], out[i, 0], line, poles, terms, max(out[i, 1], FLAT * poles.c))
