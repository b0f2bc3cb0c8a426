"""Answers for one person whose large losses are taken apart."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.sampled.large_losses.cut_integral import CutKind, CutLine, large_line
from perinstance.pairs.loss_sums.sampled.large_losses.cut_layout import (
    CutPlan,
    Goal,
    Kinds,
    choose_cut,
    guess_epsilon,
    lowered,
    make_plan,
    widest_step,
)
from perinstance.pairs.loss_sums.sampled.large_losses.cut_moments import LOG_TWO, moments_of
from perinstance.pairs.loss_sums.sampled.large_losses.small_losses import log_small_losses
from perinstance.pairs.loss_sums.sampled.lines.line_answer import NONE, LineAnswer, read_line
from perinstance.pairs.loss_sums.sampled.lines.noise_balls import NotPreciseError

MOST_KINDS = 8
ROUNDS = 5
#: Cuts that are tried: shares of the highest that serves.
LOWERED = (0.7, 0.3)
#: Of the step for which a line was laid; the answer may need one that is finer by this.
NEARLY = 0.98
#: An answer is next to the one that its line was laid for.
NEAR = 1e-6


class CutAnswers:
    """Answers of one person, and how many terms may still be summed."""

    def __init__(self, kinds: Kinds, terms: int) -> None:
        self._kinds = kinds
        self.left = terms

    def answer(self, goal: Floats, known: LineAnswer, solving: bool) -> LineAnswer:
        """Return epsilon, or the bound of log delta, for the goals log delta, epsilon and the largest loss.

        ``known`` is an answer along another line, or none.
        """
        if len(self._kinds) > MOST_KINDS:
            return NONE
        found = NONE
        try:
            here = self._start(goal, known, solving)
            for _ in range(ROUNDS):
                plan, line = self._line(here)
                answer = read_line(line, goal, here.epsilon, solving)
                found = min(found, answer)
                expected = here.epsilon if solving else here.log_delta
                if not 0.0 < abs(found.value) < np.inf or abs(answer.value - expected) < NEAR * abs(expected):
                    return found
                here = Goal(found.value, here.log_delta) if solving else Goal(here.epsilon, found.value)
                if self._fine(plan, here):
                    return found
        except NotPreciseError:
            pass
        return found._replace(cost=np.inf)

    def _start(self, goal: Floats, known: LineAnswer, solving: bool) -> Goal:
        """Return the goal that the first line is laid for."""
        log_delta, epsilon, edge = goal.tolist()
        if not solving:
            return Goal(epsilon, min(known.value, log_delta, -LOG_TWO))
        return Goal(guess_epsilon(self._kinds, Goal(min(epsilon, known.value, edge), log_delta)), log_delta)

    def _line(self, goal: Goal) -> tuple[CutPlan, CutLine]:
        """Return the line that is laid for a goal."""
        highest, plans = choose_cut(self._kinds, goal), []
        for share in LOWERED:
            with suppress(NotPreciseError):
                plans.append(make_plan(lowered(highest, goal, share), goal))
        if not plans:
            raise NotPreciseError("no line serves")
        plan = min(plans, key=lambda one: one.work)
        if plan.work > self.left:
            raise NotPreciseError(f"{plan.work} terms")
        self.left -= plan.work
        kinds = []
        for cut, (small, large), log in zip(plan.cuts, plan.noise, plan.large, strict=True):
            power = -round(log / LOG_TWO)
            spacing = plan.place[1]
            kinds.append(
                CutKind(
                    moments_of(small, spacing, plan.nodes, 0),
                    moments_of(large, spacing, plan.nodes, power),
                    power,
                    cut.steps,
                )
            )
        line = large_line(kinds, plan.place, plan.log_rests)
        return plan, CutLine(line, log_small_losses(plan.cuts, plan.order), plan.order)

    def _fine(self, plan: CutPlan, goal: Goal) -> bool:
        """Return whether a line was laid finely enough for what was found along it."""
        found = choose_cut(self._kinds, goal)
        return widest_step(found, goal, plan.place[0]) >= NEARLY * plan.place[1]
