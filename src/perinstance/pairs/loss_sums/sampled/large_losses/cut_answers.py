"""Answers for one person whose large losses are taken apart."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PROMISED
from perinstance.pairs.loss_sums.sampled.large_losses.cut_estimates import CutEstimates
from perinstance.pairs.loss_sums.sampled.large_losses.cut_integral import BothLines, CutKind, CutLine, large_line
from perinstance.pairs.loss_sums.sampled.large_losses.cut_layout import (
    SOFT,
    CutPlan,
    Goal,
    Kinds,
    best_cuts,
    guess_epsilon,
    log_added,
    log_outside,
    lowered,
    make_plan,
    softest_first,
)
from perinstance.pairs.loss_sums.sampled.large_losses.cut_moments import LOG_TWO, moments_of
from perinstance.pairs.loss_sums.sampled.large_losses.small_loss_line import bulk_cuts, bulk_line, small_line
from perinstance.pairs.loss_sums.sampled.large_losses.small_losses import log_small_losses
from perinstance.pairs.loss_sums.sampled.lines.line_integral import LARGEST
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer, PreciseLine, better, read_line
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import PairLine

MOST_KINDS = 64
ROUNDS = 5
#: Cuts that are tried: shares of the highest that serves, where the tail is heavy, and else.
HEAVY, LIGHT = (1.0, 0.8), (0.7, 0.3)
#: A heavy tail: Chernoff's bound of large losses is so many times e more than delta.
MUCH = 8.0
#: Quarters of an octave to the left of the saddle point where lines are tried.
LEFT = (0, 2)
#: What was added may be so much of epsilon: no other line is laid then.
ENOUGH = 0.1 * PROMISED
#: An answer is next to the one that its line was laid for.
NEAR = 1e-6
#: Terms of a plan that are not worth another one, or the line of small losses instead.
LITTLE_WORK = 1 << 25

LaidLine = tuple[CutEstimates, PairLine]


class CutAnswers:
    """Answers of one person, and how many terms may still be summed."""

    def __init__(self, kinds: Kinds, terms: int) -> None:
        self._kinds = kinds
        self.left = terms

    def answer(self, goal: Floats, known: LineAnswer, solving: bool) -> LineAnswer:
        """Return epsilon, or the bound of log delta, for the goals log delta, epsilon and the largest loss.

        ``known`` is an answer along another line, or none.
        """
        found = NONE
        try:
            here = self._start(goal, known, solving)
            for _ in range(ROUNDS):
                line, laid = self._line(here)
                answer = read_line(line, goal, here.epsilon, solving)
                expected = here.epsilon if solving else here.log_delta
                if not 0.0 < abs(answer.value) < np.inf:
                    return better(found, answer)
                new = (answer.value, here.log_delta) if solving else (here.epsilon, min(answer.value, -LOG_TWO))
                here = Goal(*new)
                added = sum(math.exp(min(log_added(*one, here), LARGEST)) for one in laid) / line.c
                found = better(found, answer._replace(cost=answer.cost + added))
                enough = found.cost * found.slope <= ENOUGH * (found.value if solving else 1.0)
                if enough or abs(answer.value - expected) < NEAR * abs(expected):
                    break
        except NotPreciseError:
            pass
        return found

    def _start(self, goal: Floats, known: LineAnswer, solving: bool) -> Goal:
        """Return the goal that the first line is laid for."""
        log_delta, epsilon, edge = goal.tolist()
        if not solving:
            return Goal(epsilon, min(known.value, log_delta, -LOG_TWO))
        return Goal(guess_epsilon(self._kinds, Goal(min(epsilon, known.value, edge), log_delta)), log_delta)

    def _line(self, goal: Goal) -> tuple[PreciseLine, list[LaidLine]]:
        """Return the line, or lines, laid for a goal, with their estimates."""
        plan = self._plan(goal)
        if plan is None or plan.work > LITTLE_WORK:
            terms = self.left if plan is None else plan.work // 2
            for found in bulk_cuts(self._kinds, goal):
                with suppress(NotPreciseError):
                    bulk, spent = bulk_line(found, goal, terms)
                    self.left -= spent
                    return bulk, [(found, bulk.line)]
        if plan is not None:
            small = log_small_losses(plan.estimates.cuts, plan.order)
            line = self._large_line(plan)
            return CutLine(line, small, plan.order, log_outside(plan.estimates.cuts)), [(plan.estimates, line)]
        for soft in SOFT:
            with suppress(NotPreciseError):
                return self._both_lines(goal, soft)
        raise NotPreciseError("no line serves")

    def _large_line(self, plan: CutPlan) -> PairLine:
        """Return the line of large losses."""
        if plan.work > self.left:
            raise NotPreciseError(f"{plan.work} terms")
        self.left -= plan.work
        kinds, cuts, spacing = [], plan.estimates.cuts, plan.place[1]
        for cut, (small, large), log in zip(cuts, plan.noise, plan.large, strict=True):
            power = -round(log / LOG_TWO)
            parts = moments_of(small, spacing, plan.nodes, 0), moments_of(large, spacing, plan.nodes, power)
            kinds.append(CutKind(*parts, power, cut.steps))
        return large_line(kinds, plan.place, plan.log_rests)

    def _both_lines(self, goal: Goal, soft: float) -> tuple[PreciseLine, list[LaidLine]]:
        """Return a line of each part: neither is next to nothing."""
        cuts = best_cuts(self._kinds, goal, soft)
        if cuts is None:
            raise NotPreciseError("the cut is too sharp")
        others = replace(cuts, bulk=True)
        plan = make_plan(cuts, goal)
        small, terms = small_line(others, goal, self.left)
        self.left -= terms
        large = self._large_line(plan)
        return BothLines(large, small, log_outside(cuts.cuts)), [(cuts, large), (others, small)]

    def _plan(self, goal: Goal) -> CutPlan | None:
        """Return the plan that takes least, of the softest cuts that have one, or of sharper ones if that is much."""
        plans: list[CutPlan] = []
        for found in softest_first(self._kinds, goal):
            heavy = found.heights(goal.epsilon).min() > goal.log_delta + MUCH
            for share in HEAVY if heavy else LIGHT:
                lower = lowered(found.cuts, goal, share)
                for left in LEFT:  # of the saddle point: there the end of the noise is further off
                    with suppress(NotPreciseError):
                        plans.append(make_plan(lower, goal, left))
                        break
            if plans and min(plan.work for plan in plans) < LITTLE_WORK:
                break
        return min((plan for plan in plans if plan.work <= self.left), key=lambda plan: plan.work, default=None)
