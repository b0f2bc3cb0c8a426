"""Answers along hyperbolas, one person at a time: seldom sampled people, whose straight lines do not die."""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PROMISED
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola import ANGLE, lay_hyperbola
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola_line import HyperbolaTables, line_along
from perinstance.pairs.loss_sums.sampled.hyperbolas.oblique_noise import SLOPE, slope_of
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer, better, read_line
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError

#: Hyperbolas that are laid at most, each for what was found along the one before.
ROUNDS = 4
#: How far behind that the strip of a hyperbola may reach.
BEFORE, FURTHEST = 1.6, 32.0
#: Without: the first epsilon that is tried, where none is known below the largest loss, as a share of that; and where a
#: strip ends at most, over how far epsilon lies below it.
INSIDE, NEAREST = 0.95, 30.0
#: Where an epsilon is mostly what was added, the next one is looked for at this share of it.
SHORTER = 0.1
#: An answer is good enough where so much was added to epsilon; deltas below e^SMALLEST are not asked.
ENOUGH, SMALLEST = 0.1 * PROMISED, -250.0


def angle_of(largest: float) -> float:
    """Return the angle with the person, given the largest distance: as much steeper as the noise is flatter.

    Moments are ``e^{m^2 z (1 + z)/2}`` times a power of the rate, about: large next to zero at any angle, up to
    ``e^{m^2/8/(tan^2 - 1)}`` along an edge.
    """
    return math.atan(math.tan(ANGLE) * SLOPE / slope_of(largest))


def answer_along_hyperbola(
    kinds: Floats, chernoff: tuple[float, float], goal: Floats, solving: bool, tables: HyperbolaTables
) -> LineAnswer:
    """Return epsilon, or log delta, for a person with so many steps of each kind (rates, distances, steps).

    ``chernoff``: where that bound is best, and the sum of log moments there; the goal is log delta, epsilon (to
    start from, or to be asked) and the largest loss.
    """
    (c, K), over, angle = chernoff, tables.over, ANGLE
    if over:  # what a moment of real order sees is next to m (1 + c): not far behind where paths rise, nor far out
        q, m = kinds[:2]
        rises = np.maximum(np.log1p(-q) - np.log(q), 0.0) / m**2 + 0.5 + 3.0 / m
        nearer = min(c, float(np.min(np.minimum(BEFORE * rises, FURTHEST / m))))
        c, K = nearer, K * nearer / c  # at most: it is convex
        angle = angle_of(float(np.max(m)))
    log_delta, epsilon, _ = goal.tolist()
    edge = np.inf if over else -float(np.dot(kinds[2], np.log1p(-kinds[0])))
    if solving and not epsilon < edge:
        epsilon = INSIDE * edge
    found, digits = NONE, 0.0
    for _ in range(ROUNDS):
        dies = epsilon if over else edge - epsilon
        if not (dies > 0.0 and log_delta > SMALLEST):
            break
        if over:
            place, size = c, max(K, 0.0) - c * epsilon
            high = size, max(K, 0.0)
        else:
            place = min(c, NEAREST / dies)
            size = (K - c * epsilon) * place / c  # at most: it is convex, and zero at the pole
            high = size, max(size, 0.0)
        larger = high[0] + 1.0 + digits, high[1] + 1.0 + digits
        shape = lay_hyperbola(over, place, dies, larger, log_delta - digits, angle)
        if shape is None:
            break
        try:
            line = line_along(kinds, place, shape, tables)
        except NotPreciseError:
            break
        answer = read_line(line, goal, epsilon, solving)
        found = better(found, answer)
        worth = answer.value if solving else 1.0
        if answer.cost * (1.0 if solving else answer.slope) <= ENOUGH * worth:
            break
        if not solving:
            near, log_delta = abs(answer.value - log_delta) < 0.1, min(answer.value, 0.0)
        elif answer.cost < answer.value:
            near, epsilon = abs(answer.value / epsilon - 1.0) < 0.1, answer.value
        else:  # it was far too short
            near, epsilon = False, SHORTER * min(epsilon, answer.value)
        digits += 10.0 if near else 0.0
    return found
