r"""Inversion along a straight line: the profile of one person from K at the nodes ``z_k = c + i k h``.

``delta(epsilon) = (h/pi) sum' Re e^{K(z_k) - z_k epsilon}/(z_k (1 + z_k))``, the first term halved. What the step h
adds is ``sum_{j != 0} delta(epsilon + 2 pi j/h) e^{2 pi j c/h}``, positive: the sum is never too small. The same sum
with twice the step says how much it is; a heavy tail of the loss to the right of epsilon makes it large, and then the
step is halved. Where K does not die (the person is seldom sampled, and then the loss is next to one number far from
epsilon) the terms are cut off smoothly, by ``erfc``; that changes a smooth profile by less than any power of the
length; the whole difference to the sum cut at half the length is charged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    ALIAS,
    CUT_OFF,
    LAST_STEP,
    LOGARITHM,
    NEGLIGIBLE,
    NODE_ROUNDING,
    NOT_ZERO,
)
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND

FOUND, LONGER, FINER, ELSEWHERE = 0, 1, 2, 3  # what became of an inversion: the line must be longer, finer, elsewhere
QUIET = 6  # nodes in a row that are negligible: the integrand has died
ANCHOR = 32  # the rotation from node to node is started afresh so often
SPREAD = 1e3  # the sum of the moduli may be so much larger than the sum


class LineValues(NamedTuple):
    """K of one person on a line: real and imaginary parts, and the error of each."""

    c: Any
    spacing: Any
    real: Any
    imag: Any
    error: Any


class LineTerms(NamedTuple):
    """The terms without epsilon, over the first; their errors; how many; whether they have died."""

    real: Any
    imag: Any
    error: Any
    n: Any
    dead: Any


class LineSums(NamedTuple):
    """The sum at an epsilon, minus its slope, the sums with double step and cut off earlier."""

    total: Any
    slope: Any
    coarse: Any
    short: Any


@kernel
def line_terms(line, scratch):
    """Return ``e^{K(z_k) - K(c)} c(1 + c)/(z_k(1 + z_k))`` for the nodes that matter."""
    c, spacing = line.c, line.spacing
    real, imag, error = scratch[0], scratch[1], scratch[2]
    quiet, n = 0, 0
    for k in range(line.real.size):
        y = k * spacing
        size = math.exp(line.real[k] - line.real[0])
        pole = c * (1.0 + c) / (complex(c, y) * complex(1.0 + c, y))
        a, b = size * math.cos(line.imag[k]), size * math.sin(line.imag[k])
        real[k] = a * pole.real - b * pole.imag
        imag[k] = a * pole.imag + b * pole.real
        modulus = abs(real[k]) + abs(imag[k])
        error[k] = modulus * (line.error[k] + NODE_ROUNDING * (8.0 + abs(line.imag[k])))
        n = k + 1
        quiet = quiet + 1 if modulus * (1.0 + k) < NEGLIGIBLE else 0
        if quiet == QUIET:
            break
    real[0] *= 0.5
    error[0] *= 0.5
    return LineTerms(real, imag, error, n, quiet == QUIET)


@kernel
def cut_off(k, n):
    """Return the share of term k of n that is kept: all up to half of them, then less and less."""
    return 0.5 * math.erfc((k / n - 0.6) * 15.0)


@kernel
def sums_at(epsilon, spacing, terms):
    """Return the sums at an epsilon; those for the errors with them."""
    turn = -spacing * epsilon
    step_real, step_imag = math.cos(turn), math.sin(turn)
    at_real, at_imag = 1.0, 0.0
    total, slope, coarse, short = 0.0, 0.0, 0.0, 0.0
    half = terms.n // 2
    for k in range(terms.n):
        if k % ANCHOR == 0:
            at_real, at_imag = math.cos(k * turn), math.sin(k * turn)
        part = terms.real[k] * at_real - terms.imag[k] * at_imag
        rest = terms.real[k] * at_imag + terms.imag[k] * at_real
        if not terms.dead:
            if k < half:
                short += part * cut_off(k, half)
            share = cut_off(k, terms.n)
            part *= share
            rest *= share
        total += part
        slope += k * spacing * rest
        if k % 2 == 0:
            coarse += 2.0 * part
        at_real, at_imag = at_real * step_real - at_imag * step_imag, at_real * step_imag + at_imag * step_real
    return LineSums(total, slope, coarse, total if terms.dead else short)


@kernel
def error_of(epsilon, line, terms, sums):
    """Return the relative error of the sum, and what became of the inversion."""
    lost, mass = 0.0, 0.0
    for k in range(terms.n):
        size = abs(terms.real[k]) + abs(terms.imag[k])
        mass += size
        lost += terms.error[k] + NODE_ROUNDING * size * (ANCHOR + 8.0 + 2.0 * k * line.spacing * abs(epsilon))
    if not sums.total * SPREAD > mass:
        return np.inf, ELSEWHERE if terms.dead else LONGER
    cut = abs(sums.total - sums.short) / sums.total
    if not cut < CUT_OFF:
        return np.inf, LONGER
    if not abs(sums.coarse - sums.total) < ALIAS * sums.total:
        return np.inf, FINER
    base = abs(line.real[0]) + line.c * abs(epsilon) + abs(math.log(line.c))
    return lost / sums.total + cut + 4.0 * NODE_ROUNDING * (4.0 + base), FOUND


@kernel
def log_scale(line, epsilon):
    """Return the logarithm of what the sum is multiplied by."""
    c = line.c
    return (line.real[0] - c * epsilon) + math.log(line.spacing / math.pi) - math.log(c) - math.log1p(c)


@kernel
def solve_on_line(target, start, edge, line, scratch):
    """Return the least epsilon >= 0 with ``log delta(epsilon) <= target``, its slack, and what became of it."""
    if not line.real[0] < BEYOND:
        return 0.0, np.inf, ELSEWHERE
    terms = line_terms(line, scratch)
    low, high = 0.0, edge
    epsilon = min(max(start, 0.0), edge)
    sums = sums_at(epsilon, line.spacing, terms)
    rate, excess = line.c, np.inf
    for _ in range(60):
        sums = sums_at(epsilon, line.spacing, terms)
        if sums.total > 0.0:
            excess = log_scale(line, epsilon) + math.log(sums.total) - target
            rate = line.c - sums.slope / sums.total
        else:
            excess = -1.0 / max(high - low, NOT_ZERO) if high < np.inf else -1.0
            rate = line.c
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
            if epsilon == 0.0:
                break
        step = excess / rate if rate > 0.0 else 0.5 * (high - low)
        new = epsilon + min(max(step, -20.0 / line.c), 20.0 / line.c)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(excess) < LAST_STEP or new == epsilon:
            break
        epsilon = new
    error, what = error_of(epsilon, line, terms, sums)
    if what != FOUND:
        return epsilon, np.inf, what
    error += LOGARITHM * (4.0 + abs(target))
    if epsilon == 0.0 and excess <= -error:
        return 0.0, 0.0, FOUND
    return epsilon, (error + abs(excess)) / rate, FOUND


@kernel
def profile_on_line(epsilon, line, scratch):
    """Return ``log delta`` at an epsilon, minus its slope, its error and what became of it."""
    if not line.real[0] < BEYOND:
        return 0.0, 0.0, np.inf, ELSEWHERE
    terms = line_terms(line, scratch)
    sums = sums_at(epsilon, line.spacing, terms)
    error, what = error_of(epsilon, line, terms, sums)
    if what != FOUND:
        return 0.0, 0.0, np.inf, what
    return log_scale(line, epsilon) + math.log(sums.total), line.c - sums.slope / sums.total, error, FOUND


@kernel
def solve_all(place, values, error, goals, out):
    """Solve for everybody on one line: goals are log delta, a start, the largest loss; out epsilon, slack, outcome."""
    n = values.shape[1] // 2
    scratch = np.empty((3, n))
    for i in range(values.shape[0]):
        line = LineValues(place[0], place[1], values[i, :n], values[i, n:], error[i])
        out[i, 0], out[i, 1], out[i, 2] = solve_on_line(goals[i, 0], goals[i, 1], goals[i, 2], line, scratch)


@kernel
def profile_all(place, values, error, goals, out):
    """Fill in log delta, minus its slope, its error and the outcome, for everybody on one line at their epsilon."""
    n = values.shape[1] // 2
    scratch = np.empty((3, n))
    for i in range(values.shape[0]):
        line = LineValues(place[0], place[1], values[i, :n], values[i, n:], error[i])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = profile_on_line(goals[i, 1], line, scratch)
