"""Many sampled steps of a few kinds, proved: a plain trapezoidal sum in balls, every error charged in closed form.

With the moments ``A_i(z)`` of the kinds (``sampled_strip.py``), of which there are ``k_i`` steps,

    delta(epsilon) = (1/2 pi i) int_{c - i oo}^{c + i oo} e^{-z epsilon} prod A_i(z)^{k_i} dz/(z (1 + z)),  c > 0.

Nothing is bounded by the integral of an absolute value to the power k, which says nothing where k is large: a sum over
``z = c + i j h`` is, by Poisson's formula with ``P = 2 pi/h``, the sum over all integers n of
``e^{c n P} delta(epsilon + n P)``. All of them are positive, those with n < 0 at most ``e^{c n P}``, those with n > 0
at most ``e^{c n P - d (epsilon + n P)} prod A_i(d)^{k_i}`` with any d > c. Nodes above the last one are bounded by the
decay of one kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from flint import acb, acb_mat, arb, ctx

from .sampled_contours import Step
from .sampled_noise import TooHardError
from .sampled_strip import Decay, KindOfSteps, Moments

GOAL = 33.0  # each error is at most e^-GOAL of delta
ROUGHLY = 5.0  # the same for a first look
MOST_WORK = 1e8  # nodes of the line times nodes of the noise: some ten seconds


@dataclass(frozen=True)
class Plan:
    """The line c, the place d that bounds what is aliased from above, the spacing, the nodes, who decays and how."""

    c: float
    d: float
    spacing: float
    nodes: int
    decaying: int
    decay: Decay
    cost: float
    above: float  # log of the integrand's size over delta


class ManySteps:
    """Steps (rate, distance, how many) in one direction, at one epsilon."""

    def __init__(self, steps: list[Step], epsilon: float, direction: str, most_work: float = MOST_WORK) -> None:
        self.kinds = [KindOfSteps(*step, direction) for step in steps]
        self.epsilon, self.having, self.most_work = epsilon, direction == "with", most_work
        self.count = sum(kind.k for kind in self.kinds)
        c = 2.0 ** np.arange(-10.0, 36.0, 0.25)
        K = np.array([sum(kind.k * kind.log_moment(x) for kind in self.kinds) for x in c])
        self.c, self.K = c[np.isfinite(K)], K[np.isfinite(K)]

    def most(self) -> arb:
        """More than this cannot be lost by who is not there."""
        return -sum((kind.k * (-arb(kind.q)).log1p() for kind in self.kinds), arb(0))

    def digits(self, above: float, goal: float) -> float:
        """How small errors of the moments must be."""
        return above + goal + math.log(self.count) + 8

    def plan(self, log_delta: float, goal: float) -> Plan:
        """The cheapest of some places for the line."""
        best: Plan | None = None
        for c, K in zip(self.c.tolist(), self.K.tolist(), strict=True):
            above = K - c * self.epsilon - log_delta - math.log(c * (1 + c))
            if not -5 < above < 400:
                continue
            d, period = c, (goal - log_delta) / c
            if self.having or self.epsilon + period < float(self.most()):
                right = self.c > 1.05 * c
                if not right.any():
                    continue
                need = (self.K[right] - self.c[right] * self.epsilon - log_delta + goal) / (self.c[right] - c)
                i = int(need.argmin())
                period, d = max(period, float(need[i])), float(self.c[right][i])
            decays = [(kind.decay(c, above + math.log(1 + c) + goal), i) for i, kind in enumerate(self.kinds)]
            decay, i = min(decays, key=lambda pair: pair[0].height if pair[0] else math.inf)
            if decay is None:
                continue
            nodes = int(decay.height * period / (2 * math.pi)) + 2
            try:
                noise = [kind.noise(c, self.digits(above, goal)) for kind in self.kinds]
            except TooHardError:
                continue
            bits = 1.44 * (above + goal) + 100
            cost = (nodes + 100) * sum((high - low) / g for g, _, low, high in noise) * max(bits / 200, 1)
            if best is None or cost < best.cost:
                best = Plan(c, d, 2 * math.pi / period, nodes, i, decay, cost, above)
        if best is None:
            raise TooHardError("no place for the line")
        if best.cost > self.most_work:
            raise TooHardError(f"too much work: {best.cost:.1e}")
        return best

    def tail(self, plan: Plan, moments: list[Moments]) -> arb:
        """A bound of all nodes above the last one, over pi: each is at most ``|integrand|/y^2``."""
        height, kind = arb(plan.nodes) * arb(plan.spacing), self.kinds[plan.decaying]
        size = kind.k * kind.lost(plan.c, plan.decay, height, moments[plan.decaying])
        size += sum((k.k * own.largest.log() for k, own in zip(self.kinds, moments, strict=True)), arb(0))
        return (size - arb(plan.c) * arb(self.epsilon)).exp() / height / arb.pi()

    def aliased(self, plan: Plan) -> arb:
        """A bound of what the sum contains besides delta."""
        c, d, period = arb(plan.c), arb(plan.d), 2 * arb.pi() / arb(plan.spacing)
        total = 1 / (c * period).expm1()
        if not self.having and self.epsilon + period > self.most():
            return total
        if not d > c:
            raise TooHardError("no place to the right")
        digits = math.log(self.count) + 8
        K = sum((kind.k * kind.moments(plan.d, digits).largest.log() for kind in self.kinds), arb(0))
        share = (K - d * self.epsilon - (d - c) * period).exp()
        return total + share / (1 - (-(d - c) * period).exp())

    def attempt(self, log_delta: float, goal: float) -> arb:
        """A ball that contains delta, small if delta is about what is thought."""
        plan = self.plan(log_delta, goal)
        digits = self.digits(plan.above, goal)
        ctx.prec = int(1.4427 * digits) + 60 + int(math.log2(plan.nodes + 2))
        moments = [kind.moments(plan.c, digits) for kind in self.kinds]
        tail = self.tail(plan, moments)
        for _ in range(12):
            if tail < arb(log_delta - goal).exp():
                break
            plan = replace(plan, nodes=int(1.15 * plan.nodes) + 1)
            tail = self.tail(plan, moments)
        extra = self.aliased(plan)
        total = self.line_sum(plan, moments)
        return total + arb(0, tail.upper()) - extra / 2 + arb(0, (extra / 2).upper())

    def line_sum(self, plan: Plan, moments: list[Moments]) -> arb:
        """The trapezoidal sum over the line, some rows of moments at once."""
        h, epsilon, c = arb(plan.spacing), arb(self.epsilon), arb(plan.c)
        wide = int(math.sqrt(plan.nodes)) + 1
        tables = [Table(own, h, wide) for own in moments]
        total, j = arb(0), 0
        while j <= plan.nodes:
            rows = min(40, (plan.nodes - j) // wide + 1)
            found = [table.more(rows) for table in tables]
            for i in range(rows):
                for n in range(min(wide, plan.nodes - j + 1)):
                    z = acb(c, j * h)
                    value = (-z * epsilon).exp() / (z * (1 + z))
                    for kind, table, product in zip(self.kinds, tables, found, strict=True):
                        value *= (product[i, n] + table.ball) ** kind.k
                    total += value.real if j else value.real / 2
                    j += 1
        return total * h / arb.pi()

    def delta(self, log_delta: float) -> arb:
        """A ball that contains delta; ``log_delta`` is where it is thought to be."""
        for _ in range(6):
            rough = self.attempt(log_delta, ROUGHLY)
            if rough.is_finite() and rough > 0 and rough.rad() < 0.3 * rough.mid():
                return self.attempt(float(rough.log().mid()), GOAL)
            log_delta -= 8
        raise TooHardError("delta is smaller than thought")


class Table:
    """Moments at c, c + i h, c + 2 i h, ..., ``wide`` of them a row, as products of matrices."""

    def __init__(self, moments: Moments, h: arb, wide: int) -> None:
        turns = [(acb(0, h) * loss).exp() for loss in moments.losses]
        row = [acb(1)] * len(turns)
        rows = []
        for _ in range(wide):
            rows.append(row)
            row = [x * y for x, y in zip(row, turns, strict=True)]
        self.right, self.jump, self.row = acb_mat(rows).transpose(), row, moments.weights
        error = arb(0, moments.error.upper())
        self.ball = acb(error, error)

    def more(self, count: int) -> acb_mat:
        """The next rows."""
        lefts = []
        for _ in range(count):
            lefts.append(self.row)
            self.row = [x * y for x, y in zip(self.row, self.jump, strict=True)]
        return acb_mat(lefts) * self.right
