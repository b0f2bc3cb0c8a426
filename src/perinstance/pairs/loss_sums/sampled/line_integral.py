r"""Inversion along a straight line, never below the truth: the profile of one person from K at ``z_k = c + i k h``.

``delta(epsilon) = 1/(2 pi i) int e^{K(z) - z epsilon}/(z (1 + z)) dz`` along Re z = c, any c > 0. What is computed is

``(h/pi) sum'_{k < n} Re e^{K(z_k) - z_k epsilon}/(z_k (1 + z_k))``,  the first term halved.

* The step: summed over all k it is ``sum_j delta(epsilon + 2 pi j/h) e^{2 pi j c/h}`` (Poisson's summation formula).
  Every term is positive and j = 0 is delta, so a step of any size only adds. No proof rests on how large it is.
* The end: what is left out is at most ``sum_{k >= n} e^{K(c) - c epsilon - B}/y_k^2`` in units of h/pi, where B bounds
  ``K(c) - Re K(c + iy)`` from below for all y >= y_n (``line_decay.py``). It is added.
* K: each node's error (``log_moments.py``) and each rounding of the sum is added, times the size of its term; where the
  error is not small, the size of the term itself and of the largest that it may be.

An epsilon is returned only after this sum with all that is added was found to lie below delta *at that epsilon*. So no
answer depends on how the line was chosen, or whether Newton's iteration has converged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import LAST_RAISE, LAST_STEP, LOGARITHM, NODE_ROUNDING
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, VAGUE

ANCHOR = 32  # the rotation from node to node is started afresh so often
NEXT_TO_NOTHING = 1e-6  # an epsilon below this over c may be zero
RAISES = 40  # times that the last raise of an epsilon is doubled


class LineValues(NamedTuple):
    """K of one person on a line: real and imaginary parts, the error of each, and the sum of what is left out."""

    c: Any
    spacing: Any
    real: Any
    imag: Any
    error: Any
    rest: Any


class LineTerms(NamedTuple):
    """The terms without epsilon, over the first; the sum of their sizes, the same times k, the sum of their errors."""

    real: Any
    imag: Any
    size: Any
    turned: Any
    lost: Any


@kernel
def line_terms(line, scratch):
    """Return ``e^{K(z_k) - K(c)} c(1 + c)/(z_k(1 + z_k))`` for all nodes."""
    c, spacing = line.c, line.spacing
    real, imag = scratch[0], scratch[1]
    size, turned, lost = 0.0, 0.0, 0.0
    for k in range(line.real.size):
        y = k * spacing
        power = math.exp(line.real[k] - line.real[0])
        pole = c * (1.0 + c) / (complex(c, y) * complex(1.0 + c, y))
        a, b = power * math.cos(line.imag[k]), power * math.sin(line.imag[k])
        real[k] = a * pole.real - b * pole.imag
        imag[k] = a * pole.imag + b * pole.real
        if k == 0:
            real[k], imag[k] = 0.5 * real[k], 0.5 * imag[k]
        modulus = abs(real[k]) + abs(imag[k])
        size += modulus
        turned += k * modulus
        off = line.error[k] + NODE_ROUNDING * (12.0 + abs(line.imag[k]) + abs(line.real[k]) + abs(line.real[0]))
        # beyond, the phase is unknown: neither is larger than modulus e^off
        if not off < np.inf:
            return LineTerms(real, imag, size, turned, np.inf)
        lost += modulus * (1.1 * off if off < VAGUE else 1.0 + math.exp(min(off, 700.0)))
    return LineTerms(real, imag, size, turned, lost)


@kernel
def log_bound(epsilon, line, terms):
    """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
    turn = -line.spacing * epsilon
    step_real, step_imag = math.cos(turn), math.sin(turn)
    at_real, at_imag = 1.0, 0.0
    total, slope = 0.0, 0.0
    n = line.real.size
    for k in range(n):
        if k % ANCHOR == 0:
            at_real, at_imag = math.cos(k * turn), math.sin(k * turn)
        part = terms.real[k] * at_real - terms.imag[k] * at_imag
        rest = terms.real[k] * at_imag + terms.imag[k] * at_real
        total += part
        slope += k * line.spacing * rest
        at_real, at_imag = at_real * step_real - at_imag * step_imag, at_real * step_imag + at_imag * step_real
    total += terms.lost + line.rest
    total += NODE_ROUNDING * (terms.size * (4.0 * ANCHOR + 8.0 + n) + 3.0 * terms.turned * abs(turn))
    if not total > 0.0:  # it would have to be a profile below zero: nothing is proved by it
        return np.inf, line.c
    c = line.c
    log = (line.real[0] - c * epsilon) + math.log(line.spacing / math.pi) - math.log(c) - math.log1p(c)
    base = 8.0 + abs(line.real[0]) + c * abs(epsilon) + abs(math.log(c)) + math.log1p(c)
    log += 4.0 * NODE_ROUNDING * base + math.log(total)
    return log, c - slope / total


@kernel
def solve_on_line(target, start, edge, line, scratch):
    """Return an epsilon >= 0 whose delta is at most ``e^target``, the least that this line can prove; or infinity."""
    if not line.real[0] < BEYOND:
        return np.inf
    terms = line_terms(line, scratch)
    if not terms.lost < np.inf:
        return np.inf
    goal = target - LOGARITHM * (4.0 + abs(target))
    low, high = 0.0, edge
    epsilon = min(max(start, 0.0), edge)
    rate = line.c
    for _ in range(60):
        log, rate = log_bound(epsilon, line, terms)
        excess = log - goal
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
            if epsilon == 0.0:
                return 0.0
        if not rate > 0.1 * line.c:
            rate = line.c
        new = epsilon + min(max(excess / rate, -20.0 / line.c), 20.0 / line.c)
        if not low <= new <= high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * low + 1.0 / line.c
        if abs(excess) < LAST_STEP * (4.0 + abs(goal)) or new == epsilon:
            break
        epsilon = new
    if epsilon * line.c < NEXT_TO_NOTHING and log_bound(0.0, line, terms)[0] <= goal:
        return 0.0
    raised = LAST_RAISE * (epsilon + (1.0 + abs(goal)) / rate)
    for _ in range(RAISES):
        log, rate = log_bound(epsilon, line, terms)
        if log <= goal:
            return epsilon
        epsilon += raised
        raised *= 2.0
    return np.inf


@kernel
def solve_all(place, values, error, rest, goals, out):
    """Solve for everybody on one line: goals are log delta, a start, the largest loss; out is epsilon."""
    n = values.shape[1] // 2
    scratch = np.empty((2, n))
    for i in range(values.shape[0]):
        line = LineValues(place[0], place[1], values[i, :n], values[i, n:], error[i], rest[i])
        out[i, 0] = solve_on_line(goals[i, 0], goals[i, 1], goals[i, 2], line, scratch)
        out[i, 1] = line.c


@kernel
def profile_all(place, values, error, rest, goals, out):
    """Fill in the bound of log delta and minus its slope, for everybody on one line at their epsilon."""
    n = values.shape[1] // 2
    scratch = np.empty((2, n))
    for i in range(values.shape[0]):
        line = LineValues(place[0], place[1], values[i, :n], values[i, n:], error[i], rest[i])
        out[i, 0], out[i, 1] = np.inf, line.c
        if line.real[0] < BEYOND:
            terms = line_terms(line, scratch)
            if terms.lost < np.inf:
                out[i, 0], out[i, 1] = log_bound(goals[i, 1], line, terms)
