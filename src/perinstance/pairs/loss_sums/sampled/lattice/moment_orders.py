"""Where a lattice should end and how its masses should be scaled, about: any choice gives a bound."""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import StepLaw
from perinstance.pairs.loss_sums.sampled.lattice.step_spread import above_least

CELLS = 512
STEEPEST = 3000.0  # times the width
LARGEST = 600.0  # the logarithm of a moment: it is formed
FAR_OUT = 45.0
LOWEST, HIGHEST, OCTAVES = -24.0, 48.0, 0.5


@kernel
def _lay(table, i, first, last, losses, logs):
    """Fill in the losses and the logarithms of the masses of one kind between two places of the noise."""
    step = StepLaw(math.exp(table[i, 0]), math.exp(table[i, 1]), table[i, 0], table[i, 1], table[i, 2], 1.0)
    width = max(last - first, 0.0) / CELLS
    for j in range(CELLS):
        x = first + width * (j + 0.5)
        losses[j] = above_least(x, step)
        logs[j] = math.log(max(width, NOT_ZERO)) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


@kernel
def _moment(losses, logs, order):
    """Return the logarithm of the moment, and the mean that goes with it."""
    top = -np.inf
    for j in range(CELLS):
        top = max(top, logs[j] + order * losses[j])
    mass, mean = 0.0, 0.0
    for j in range(CELLS):
        here = math.exp(logs[j] + order * losses[j] - top)
        mass += here
        mean += here * losses[j]
    return top + math.log(mass), mean / mass


@kernel
def find_order(table, starts, first, width):
    """Return the order at which the sum of the means, which grow with it, is the last point; rows are kinds."""
    n = starts.size
    losses, logs = np.empty((n, CELLS)), np.empty((n, CELLS))
    for i in range(n):
        _lay(table, i, first, FAR_OUT + table[i, 2], losses[i], logs[i])
        losses[i] -= starts[i]
    low, high = -STEEPEST / width, 2.0 + STEEPEST / width
    for _ in range(50):
        order = 0.5 * (low + high)
        total, largest = 0.0, 0.0
        for i in range(n):
            log, mean = _moment(losses[i], logs[i], order)
            total += table[i, 3] * mean
            largest = max(largest, log)
        if total < width and largest < LARGEST:
            low = order
        else:
            high = order
    return 0.5 * (low + high)


@kernel
def chernoff_epsilon(table, first, sign, log_delta):
    """Return about the least of Chernoff's bounds of epsilon; rows of the table are kinds."""
    n = len(table)
    losses, logs = np.empty((n, CELLS)), np.empty((n, CELLS))
    for i in range(n):
        _lay(table, i, first, FAR_OUT + table[i, 2] if sign > 0.0 else FAR_OUT, losses[i], logs[i])
    best = np.inf
    octave = LOWEST
    while octave <= HIGHEST:
        c = 2.0**octave
        order = 1.0 + c if sign > 0.0 else -c
        log = c * math.log(c) - (1.0 + c) * math.log1p(c)
        for i in range(n):
            log += table[i, 3] * (_moment(losses[i], logs[i], order)[0] + order * table[i, 1])
        best = min(best, (log - log_delta) / c)
        octave += OCTAVES
    return best
