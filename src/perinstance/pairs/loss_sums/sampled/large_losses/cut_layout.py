"""Where to cut and along which line to integrate, and how long it is. Only how tight an answer is depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.sampled.large_losses.cut_decay import log_decay
from perinstance.pairs.loss_sums.sampled.large_losses.cut_estimates import NEARBY, ORDERS, CutEstimates, log_parts
from perinstance.pairs.loss_sums.sampled.large_losses.cut_window import CutNoise, cut_noise
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import END, LossCut
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import PairLine

#: Losses that are all small, and the rest of a line, may be e^-30 of delta; the step of a line may add e^-26.
NOTHING, EXTRA = 30.0, 26.0
#: The first term may be so many times e more than delta, or than the least if that is more; none may be more than that.
HIGH, HIGHER, HIGHEST = 24.0, 4.0, 40.0
#: Nor this, less the logarithm of how many steps there are: powers lose as many digits.
POWERS = 48.0
#: The cut lies at epsilon over this at most, and lower by so many octaves at most; it is sought in so many halvings.
BELOW, LOWEST, HALVED = 1.05, 8.0, 5
#: Cuts between lines of both parts may lie higher than epsilon, by so many octaves.
ABOVE = 2.0
#: How soft a cut is: sharper ones are tried where these do not serve, for small losses or deltas: others have lattices.
SOFT, SHARP = (0.5, 0.1, 0.02, 0.005), 10.0
#: No cut lies above the loss of noise so far from its mean, or further if delta is less, unless that is small.
FURTHEST, LEAST_LEVEL = 10.0, 1.0
#: Quarters of an octave that a line may lie left of the saddle point.
LEFT = 6
#: Orders around the best, over it: many large losses may be likely at the next, and none at this one.
BETWEEN = 2.0 ** (np.arange(-3, 4) / 16.0)
#: Heights of paths along which the rest of a line is bounded; the most nodes, and how exactly their number is sought.
RISES = (0.5, 1.0, 2.0, 4.0)
MOST_NODES, HALVINGS = 1 << 18, 10
#: Digits of moments, as an exponent.
DIGITS = 70.0
#: How far epsilon may lie below Chernoff's, and in how many halvings it is looked for, in how many orders.
FAR_BELOW, GUESSES, FEW_ORDERS = 256.0, 8, 4
#: It is looked for where Chernoff's bound of large losses is so many times e less than delta.
HEAVY = 4.0
#: The epsilon that is found may be so much of the one that was expected.
SMALLER = 0.5

Kinds = list[tuple[float, float, float]]


class Goal(NamedTuple):
    """An epsilon and the logarithm of its delta, one of them known about only."""

    epsilon: float
    log_delta: float


def _highest_cuts(kinds: Kinds, goal: Goal, soft: float) -> list[LossCut]:
    """Return the highest cuts that are tried."""
    largest = max(m * (_furthest(goal) + 0.5 * m) + math.log(q) for q, m, _ in kinds)
    above = goal.epsilon - sum(k * math.log1p(-q) for q, _, k in kinds)
    level = min(above / BELOW, max(largest, LEAST_LEVEL))
    return cuts_at(kinds, goal, level, soft)


def cuts_at(kinds: Kinds, goal: Goal, level: float, soft: float) -> list[LossCut]:
    """Return a cut of each kind, all at the same loss if their noise reaches it.

    Beyond its last noise next to nothing of delta happens.
    """
    cuts = []
    for q, m, k in kinds:
        depth = NOTHING - goal.log_delta + math.log(4.0 * k * len(kinds))
        last = max(math.sqrt(2.0 * depth), m + math.sqrt(2.0 * max(depth + math.log(q), 0.0)))
        cuts.append(LossCut(q, m, k, level, soft, last * math.hypot(1.0, END)))
    return cuts


def log_outside(cuts: list[LossCut]) -> float:
    """Return the logarithm of the probability of noise beyond that of all cuts."""
    return float(np.logaddexp.reduce([cut.log_outside for cut in cuts]))


def _furthest(goal: Goal) -> float:
    return max(FURTHEST, math.sqrt(-2.0 * goal.log_delta))


def softest_first(kinds: Kinds, goal: Goal, orders: Floats = ORDERS) -> Iterator[CutEstimates]:
    """Yield cuts below which losses do not reach epsilon, each as high as it may be.

    A softer one leaves more of a heavy tail to small losses, and has to lie lower: so much more is large then.
    """
    usual = max(m * (FURTHEST + 0.5 * m) + math.log(q) for q, m, _ in kinds)
    for soft in SOFT if usual < SHARP or _furthest(goal) > FURTHEST else SOFT[:1]:
        found = _highest_cut(_highest_cuts(kinds, goal, soft), goal, orders)
        if found is not None:
            yield found


def _highest_cut(cuts: list[LossCut], goal: Goal, orders: Floats) -> CutEstimates | None:
    """Return the highest cuts of some softness that serve, about: all lower by the same share."""

    def at(octave: float) -> CutEstimates | None:
        with suppress(NotPreciseError):
            found = lowered(cuts, goal, 2.0**-octave, orders)
            if found.other_heights(goal.epsilon).min() < goal.log_delta - NOTHING - 2.0:
                return found
        return None

    low, high, best = 0.0, 0.0, at(0.0)
    while best is None and high < LOWEST:
        low, high = high, max(2.0 * high, 1.0)
        best = at(high)
    for _ in range(HALVED if best is not None and high > 0.0 else 0):
        middle = 0.5 * (low + high)
        found = at(middle)
        best = found or best
        low, high = (middle, high) if found is None else (low, middle)
    return best


def best_cuts(kinds: Kinds, goal: Goal, soft: float, orders: Floats = ORDERS) -> CutEstimates | None:
    """Return the cuts of some softness at which the larger of both parts' bounds is least, about; none if too fine."""
    cuts, best = cuts_at(kinds, goal, goal.epsilon, soft), None
    low, high = -ABOVE, LOWEST
    for _ in range(HALVED + 2):
        middle = 0.5 * (low + high)
        try:
            found = lowered(cuts, goal, 2.0**-middle, orders)
        except NotPreciseError:
            low = middle  # higher cuts ask for more cells
            continue
        large, small = found.least(goal.epsilon)
        if best is None or max(large, small) < max(best.least(goal.epsilon)):
            best = found
        low, high = (middle, high) if small > large else (low, middle)
    return best


def lowered(cuts: list[LossCut], goal: Goal, share: float, orders: Floats = ORDERS, bulk: bool = False) -> CutEstimates:
    """Return estimates of the same cuts, lower by some share."""
    return CutEstimates.of([replace(cut, level=share * cut.level) for cut in cuts], _steep(goal), orders, bulk)


def _steep(goal: Goal) -> float:
    """Return the largest order, times the level of a cut, that may matter."""
    return 1.5 * (NOTHING - goal.log_delta)


def guess_epsilon(kinds: Kinds, goal: Goal) -> float:
    """Return an epsilon next to that of delta, by Chernoff's bounds of both parts: that of all losses is far above it.

    Where the loss has a heavy tail, that is.
    """

    def above(epsilon: float, log_delta: float) -> bool:
        """Return whether delta at an epsilon is less, by the bounds of some cut."""
        found = (best_cuts(kinds, Goal(epsilon, goal.log_delta), soft, ORDERS[::FEW_ORDERS]) for soft in SOFT[::-1])
        return any(cuts is not None and max(cuts.least(epsilon)) < log_delta for cuts in found)

    if not above(goal.epsilon, goal.log_delta - HEAVY):
        return goal.epsilon
    low, high = goal.epsilon / FAR_BELOW, goal.epsilon
    for _ in range(GUESSES):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if above(middle, goal.log_delta) else (middle, high)
    return high


def choose_place(found: CutEstimates, goal: Goal, left: int = 0) -> tuple[float, float]:
    """Return the place c and the step of a line: at the saddle point or left of it, where the step may be widest."""
    heights = found.heights(goal.epsilon) - goal.log_delta
    best = int(np.argmin(heights)) - left
    if not 0 < best < len(ORDERS) - 1 or not np.isfinite(heights[best]):
        raise NotPreciseError("no saddle point inside of the noise")
    between = CutEstimates.of(found.cuts, _steep(goal), ORDERS[best] * BETWEEN, found.bulk)
    inside = between.heights(goal.epsilon) - goal.log_delta
    least = min(float(inside.min()), float(heights[best]))
    if least > min(HIGHEST, POWERS - math.log(max(cut.steps for cut in found.cuts))):
        raise NotPreciseError("large losses have a heavy tail themselves")
    first = max(best - LEFT, 1)
    near = ORDERS[first : best + 1][heights[first : best + 1] < max(HIGH, least + HIGHER)].tolist()
    near.append(float(between.orders[inside.argmin()]))
    steps = [widest_step(found, goal, order) for order in near]
    widest = int(np.argmax(steps))
    if not steps[widest] > 0.0:
        raise NotPreciseError("nothing tells how wide a step may be")
    return near[widest], steps[widest]


def widest_step(found: CutEstimates, goal: Goal, c: float) -> float:
    """Return the step with which the terms that it adds are e^-EXTRA of delta, by Chernoff's bounds of them."""
    left, right = (EXTRA - goal.log_delta) / c, np.inf
    for one in (found, CutEstimates.of(found.cuts, _steep(goal), c * NEARBY, found.bulk)):
        heights = one.heights(goal.epsilon) - goal.log_delta + EXTRA
        below, above = one.orders < c, one.orders > c
        left = min(left, float((heights[below] / (c - one.orders[below])).min()))
        right = min(right, float((heights[above] / (one.orders[above] - c)).min()))
    return 2.0 * math.pi / max(left, right, 1.0 / c)


def log_added(found: CutEstimates, line: PairLine, goal: Goal) -> float:
    """Return the logarithm of what a line's step adds to delta, as a share of it, by the same bounds."""
    c, period = line.c, 2.0 * math.pi / line.spacing
    left, right = -goal.log_delta - c * period, np.inf
    for one in (found, CutEstimates.of(found.cuts, _steep(goal), c * NEARBY, found.bulk)):
        heights = one.heights(goal.epsilon) - goal.log_delta - np.abs(one.orders - c) * period
        left = min(left, float(heights[one.orders < c].min()))
        right = min(right, float(heights[one.orders > c].min()))
    return float(np.logaddexp(left, right))


def order_of_others(found: CutEstimates, goal: Goal) -> float:
    """Return an order at which Chernoff's bound of what is not inverted is least, also for a smaller epsilon."""
    now, smaller = (found.other_heights(share * goal.epsilon) for share in (1.0, SMALLER))
    enough = now < max(goal.log_delta - NOTHING, float(now.min()) + 1.0)
    return float(found.orders[np.where(enough, smaller, np.inf).argmin()])


@dataclass(frozen=True, slots=True)
class CutPlan:
    """A cut of each kind, the line, its nodes, the noise of small and large losses, and log D of each kind, about."""

    estimates: CutEstimates
    order: float
    place: tuple[float, float]
    nodes: int
    noise: list[tuple[CutNoise, CutNoise]]
    large: list[float]
    log_rests: list[float]

    @property
    def work(self) -> int:
        """Return how many terms of moments are summed."""
        return self.nodes * sum(part.nodes for pair in self.noise for part in pair)


def make_plan(found: CutEstimates, goal: Goal, left: int = 0) -> CutPlan:
    """Return the whole plan, with the proved rest of the line."""
    place = choose_place(found, goal, left)
    c = place[0]
    noise, parts = [], []
    for cut in found.cuts:
        log_small, log_large = (float(part[0]) for part in log_parts(cut, np.array([c]), 1.0))
        log = float(np.logaddexp(log_small, log_large))
        small = cut_noise(cut, c, log - math.log(cut.steps) - DIGITS, large=False)
        noise.append((small, cut_noise(cut, c, log_large - DIGITS, large=True)))
        parts.append((log, log_large))
    height = sum(cut.steps * log for cut, (log, _) in zip(found.cuts, parts, strict=True))
    allowed = goal.log_delta + c * goal.epsilon - height - math.log(place[1] / (math.pi * c * (1.0 + c))) - NOTHING

    def rests(nodes: int, rise: float, sure: bool) -> list[float]:
        poles = math.log(c * (1.0 + c) / (place[1] ** 2 * (nodes - 1.0)))
        return [
            poles + math.log(cut.steps) + log_decay(large, place[1] * nodes, rise, sure)
            for cut, (_, large) in zip(found.cuts, noise, strict=True)
        ]

    def dead(nodes: int, rise: float) -> bool:
        left = [one - log for one, (log, _) in zip(rests(nodes, rise, False), parts, strict=True)]
        return bool(np.logaddexp.reduce(left) <= allowed)

    nodes, rise = min((least_nodes(partial(dead, rise=rise)), rise) for rise in RISES)
    if nodes > MOST_NODES:
        raise NotPreciseError("large losses do not die")
    order = order_of_others(found, goal)
    log_rests = rests(nodes, rise, True)
    if not max(log_rests) < np.inf:
        raise NotPreciseError("the rest of the line takes too many cells to bound")
    return CutPlan(found, order, place, nodes, noise, [log for _, log in parts], log_rests)


def least_nodes(dead: Callable[[int], bool]) -> int:
    """Return the least number of nodes beyond which, about, next to nothing is left; more than the most if none is."""
    low, high = 3.0, math.log(MOST_NODES)
    if not dead(MOST_NODES):
        return 2 * MOST_NODES
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if dead(int(math.exp(middle))) else (middle, high)
    return int(math.exp(high)) + 1
