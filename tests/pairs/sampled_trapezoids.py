"""Many sampled steps of one kind, proved: plain trapezoidal sums in balls, every error charged in closed form.

With ``w(x) = 1 - q + q e^{m x - m m/2}``, x standard normal, and ``p = 1 + z`` (``with``) or ``p = -z`` (``without``),

    delta(epsilon) = (1/2 pi i) int_{c - i oo}^{c + i oo} A(z)^k e^{-z epsilon} dz/(z (1 + z)),  A(z) = E[w^p],  c > 0.

Nothing is bounded by the integral of an absolute value to the power k, which says nothing where k is large:

* A sum over ``z = c + i j h`` is, by Poisson's formula with ``P = 2 pi/h``, the sum over all integers n of
  ``e^{c n P} delta(epsilon + n P)``. All of them are positive, those with n < 0 at most ``e^{c n P}``, those with n > 0
  at most ``e^{c n P - d (epsilon + n P)} A(d)^k`` with any d > c.
* The noise runs along ``s + i t``, ``t = a`` (``with``) or ``-a`` (``without``). Between the real axis and ``2 t`` is no
  zero of w if ``2 a m < pi``, and ``|w^p|`` is at most ``w(s)^{1 + c}``, or ``(Re w)^{-c}`` if ``2 a m <= pi/2``, at
  every height of z. So a trapezoidal sum of spacing g is off by ``(1 + e^{2 a a}) N/(e^{2 pi a/g} - 1)`` at most,
  N being A(c), or the mean of ``(Re w)^{-c}`` at the far side. Nodes left out: ``log w`` is convex, and ``-s s/2``
  differs from its chord by an eighth of the square of its length.
* Above Y: with ``v = phi w^p`` at z = c, on an interval where ``v/(log w)'`` has a single maximum H, integration by
  parts gives ``|int v e^{i y log w}| <= 2 H/y``. So ``|A(c + i y)| <= A(c) - int v + 2 H/y`` for large y; and
  ``1 - cos(n t) <= n n (1 - cos t)`` brings that down: ``1 - |A(y)|^2 >= (1 - |A(n y)|^2)/(n n)`` for the law with
  A(c) = 1, for every integer n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from flint import acb, acb_mat, arb, ctx

from .sampled_noise import TooHardError

GOAL = 33.0  # each error is at most e^-GOAL of delta
ROUGHLY = 5.0  # the same for a first look
MOST_WORK = 1e8  # nodes of the line times nodes of the noise: some ten seconds
PIECES = 300


@dataclass(frozen=True)
class Decay:
    """Where the noise is taken by parts, how often ``1 - cos`` is divided, and the height from which this is used."""

    low: float
    high: float
    times: int
    height: float


@dataclass(frozen=True)
class Plan:
    """The line c, the place d that bounds what is aliased from above, the spacing, the nodes, and the decay."""

    c: float
    d: float
    spacing: float
    nodes: int
    decay: Decay
    cost: float
    above: float  # log of the integrand's size over delta


class ManySteps:
    """k steps of one rate and distance in one direction, at one epsilon."""

    def __init__(
        self, rate: float, distance: float, steps: int, epsilon: float, direction: str, most_work: float = MOST_WORK
    ) -> None:
        self.most_work = most_work
        self.q, self.m, self.k, self.epsilon = rate, distance, steps, epsilon
        self.having = direction == "with"
        self.s = np.arange(-14.0, 60.0, 0.02)
        m, q = distance, rate
        far = m * self.s - m * m / 2
        self.loss = np.where(
            far < 20, np.log1p(q * np.expm1(np.minimum(far, 20))), np.logaddexp(math.log1p(-q), math.log(q) + far)
        )
        self.log_phi = -self.s * self.s / 2 - 0.5 * math.log(2 * math.pi)
        self.c = 2.0 ** np.arange(-4.0, 36.0, 0.25)
        self.K = np.array([self.cumulant(c) for c in self.c])
        self.c, self.K = self.c[np.isfinite(self.K)], self.K[np.isfinite(self.K)]

    def power(self, c):
        """p at the real place c, a float or a ball."""
        return 1 + c if self.having else -c

    def cumulant(self, c: float) -> float:
        """``k log A(c)``, roughly."""
        with np.errstate(over="ignore", invalid="ignore"):
            excess = float((np.exp(self.log_phi) * np.expm1(self.power(c) * self.loss)).sum()) * 0.02
        top = (1 + c) * self.m
        if self.having and top > 30:  # the part far out
            log = top * top / 2 - (1 + c) * (self.m**2 / 2 - math.log(self.q))
            excess += math.exp(min(log, 700.0))
        return self.k * math.log1p(excess) if math.isfinite(excess) and excess < 1e9 else math.inf

    def plan(self, log_delta: float, goal: float) -> Plan:
        """The cheapest of some places for the line."""
        best: Plan | None = None
        for c, K in zip(self.c, self.K, strict=True):
            above = K - c * self.epsilon - log_delta - math.log(c * (1 + c))
            if not -5 < above < 400:
                continue
            other = self.c > 1.05 * c
            period = (goal - log_delta) / c
            d = float(c)
            beyond = self.having or self.epsilon + period < -self.k * math.log1p(-self.q)
            if beyond:
                if not other.any():
                    continue
                need = (self.K[other] - self.c[other] * self.epsilon - log_delta + goal) / (self.c[other] - c)
                i = int(need.argmin())
                period, d = max(period, float(need[i])), float(self.c[other][i])
            decay = self.decay(float(c), above + math.log(1 + c) + goal)
            if decay is None:
                continue
            nodes = int(decay.height * period / (2 * math.pi)) + 2
            g, _, low, high = self.noise(float(c), above + goal + math.log(self.k) + 8)
            bits = 1.44 * (above + goal) + 100
            cost = (nodes + 100) * (high - low) / g * (bits / 200 if bits > 200 else 1)
            if best is None or cost < best.cost:
                best = Plan(float(c), d, 2 * math.pi / period, nodes, decay, cost, above)
        if best is None:
            raise TooHardError("no place for the line")
        if best.cost > self.most_work:
            raise TooHardError(f"too much work: {best.cost:.1e}, distance {self.m}")
        return best

    def decay(self, c: float, drop: float) -> Decay | None:
        """The lowest height, roughly, above which the integrand is below ``e^-drop`` of its value on the real axis."""
        p, m = self.power(c), self.m
        log_slope = math.log(m) + math.log(self.q) + m * self.s - m * m / 2 - self.loss
        fit = self.s < 30
        if (p + 1) * m * m > 3.99:  # log-concave, so that there is one maximum
            fit &= math.log((p + 1) * m / (1 - self.q)) + log_slope + self.loss < -0.01
        s = self.s[fit][::5]
        if s.size < 50:
            return None
        log_v = (self.log_phi + p * self.loss)[fit][::5] - self.cumulant(c) / self.k
        v = np.exp(np.minimum(log_v, 300.0))
        H = np.maximum.accumulate(np.exp(np.minimum(log_v - log_slope[fit][::5], 600.0))[::-1])[::-1]
        mass = np.cumsum(v[::-1])[::-1] * 0.1
        most = math.sqrt(self.k / (2 * drop))
        times = np.unique(np.floor(np.geomspace(1, max(most, 1.0), 60)))
        gap = times**2 * (2 * drop / self.k)
        lost = 1 - np.sqrt(np.clip(1 - gap, 0, 1))
        room = 0.98 * mass[:, None] - 1.01 * lost[None, :]
        with np.errstate(over="ignore"):
            height = np.where(room > 0, 2.1 * H[:, None] / np.maximum(room, 1e-300) / times[None, :], np.inf)
        i, j = np.unravel_index(int(height.argmin()), height.shape)
        if not height[i, j] < math.inf:
            return None
        low = max(i, int(np.flatnonzero(mass < mass[i] * (1 - 1e-4)).min(initial=s.size - 1)) - 1)
        high = int(np.flatnonzero(mass < 1e-3 * mass[i]).min(initial=s.size - 1))
        return Decay(float(s[low]), float(s[high]), int(times[j]), float(height[i, j]))

    def noise(self, c: float, digits: float) -> tuple[float, float, float, float]:
        """The spacing of the noise, how high it runs, and from where to where."""
        most = (0.47 if self.having else 0.245) * math.pi / self.m
        a = min(most, math.sqrt(digits / 2))
        if not self.having:
            a = min(a, 2 / (self.m * math.sqrt(c * self.q)))
        g = 2 * math.pi * a / (digits + 2 * a * a + 6)
        wide = math.sqrt(2 * digits + a * a) + 1
        if not self.having:  # as in ``outside``
            share = self.q * math.cos(2 * a * self.m) * math.exp(-(self.m**2) / 2)
            b = c * self.m * share / (1 - self.q + share)
            tangent = max(2 * digits + b * b - 2 * c * math.log1p(share - self.q), 0.0)
            wide = min(math.sqrt(2 * (digits - c * math.log1p(-self.q)) + a * a), b + math.sqrt(tangent + a * a)) + 1
        high = wide
        if self.having:
            size = self.log_phi + self.power(c) * self.loss + a * a / 2
            high = max(float(self.s[size > -digits - 2].max(initial=0.0)) + 0.5, 2.0)
            top = (1 + c) * self.m
            if top > 30 and top * top / 2 - (1 + c) * (self.m**2 / 2 - math.log(self.q)) > -digits - 2:
                raise TooHardError("noise far out counts")
        return g, a, -wide, high

    def upper(self, x: arb) -> arb:
        """The normal law above x."""
        return (x / arb(2).sqrt()).erfc() / 2

    def log_w(self, x: acb | arb) -> acb | arb:
        """The loss of noise x."""
        q, m = arb(self.q), arb(self.m)
        return (1 + q * ((m * x - m * m / 2).exp() - 1)).log()

    def outside(self, c: float, a: float, low: float, high: float) -> arb:
        """A bound of the integral of ``phi(s) (Re w)^-c`` below low and above high, ``2 a`` below the real axis.

        ``log Re w`` is at least ``log(1 - q)``, and at least its tangent at 0: it is convex.
        """
        q, m = arb(self.q), arb(self.m)
        share = q * (2 * arb(a) * m).cos() * (-m * m / 2).exp()
        if not share >= 0:
            raise TooHardError("the strip is too wide")
        b = c * m * share / (1 - q + share)
        tangent = (b * b / 2 - c * (share - q).log1p()).exp() * (self.upper(-low - b) + self.upper(high + b))
        level = (-c * (-q).log1p()).exp() * (self.upper(arb(-low)) + self.upper(arb(high)))
        return tangent.min(level) if -low > b else level  # so that what is integrated falls on both sides

    def left_out(self, c: float, a: float, g: float, low: float, high: float) -> arb:
        """A bound of g times the sum of ``phi(s) |w|^p`` over nodes below low and above high."""
        if not self.having:
            return self.outside(c, a, low, high)
        total, M = self.upper(arb(-low)), (1 + arb(c)) * arb(self.m)  # w < 1 there
        wide = 0.5

        def log_size(s: arb) -> arb:
            return (1 + arb(c)) * self.log_w(s) - s * s / 2

        at, last = arb(high), log_size(arb(high))
        while not at > 2 * M + 20:
            to = at + wide
            then = log_size(to)
            total += (last.max(then) + arb(wide) ** 2 / 8).exp() * (wide + g) / (2 * arb.pi()).sqrt()
            at, last = to, then
        return total + (M * M / 2).exp() * self.upper(at - g - M)

    def grid(self, c: float, digits: float) -> tuple[list[acb], list[acb], arb, arb]:
        """Losses and weights of the noise's nodes, a bound of every moment's error, and one of A(c)."""
        g, a, low, high = self.noise(c, digits)
        count = int((high - low) / g) + 2
        step, start = arb(g), arb(low)
        height = arb(a if self.having else -a)
        scale = step / (2 * arb.pi()).sqrt()
        losses, weights = [], []
        for j in range(count):
            x = acb(start + j * step, height)
            loss = self.log_w(x)
            losses.append(loss if self.having else -loss)
            weights.append((self.power(arb(c)) * loss - x * x / 2).exp() * scale)
        first, last = low, float(low + (count - 1) * g) - 1e-9
        out = self.left_out(c, a, g, first, last) * (arb(a) ** 2 / 2).exp()
        aliased = (1 + (2 * arb(a) ** 2).exp()) / (2 * arb.pi() * arb(a) / step).expm1()
        total = abs(sum(weights, acb(0))) + out
        if not aliased < 0.5:
            raise TooHardError("the noise is too coarse")
        largest = total / (1 - aliased) if self.having else self.largest(c, a)
        error = out + aliased * largest
        return losses, weights, error, total + error

    def largest(self, c: float, a: float) -> arb:
        """A bound of ``E[|w|^-c]`` along every line from the real axis to ``2 a`` below it: there ``Re w`` rises."""
        q, m = arb(self.q), arb(self.m)
        edges = [arb(j) / 8 for j in range(-128, 129)]
        share = (2 * arb(a) * m).cos() * q
        total = self.outside(c, a, -16, 16)
        for s, t in zip(edges, edges[1:], strict=False):
            log_w = (share * (m * s - m * m / 2).exp() - q).log1p()
            total += (-c * log_w).exp() * (self.upper(s) - self.upper(t))
        return total

    def tail(self, plan: Plan, A: arb, low_A: arb) -> arb:
        """A bound of all nodes above the last one, over pi."""
        p, m, q, decay = self.power(arb(plan.c)), arb(self.m), arb(self.q), plan.decay
        low, wide = arb(decay.low), (arb(decay.high) - arb(decay.low)) / PIECES
        end = low + PIECES * wide
        if not (p + 1 <= 0 or (p + 1) * m * m < 4 or (p + 1) * m * m * q * (m * end - m * m / 2).exp() < 1 - q):
            raise TooHardError("more than one maximum")
        mass, H = arb(0), arb(0)
        edges = [low + i * wide for i in range(PIECES + 1)]
        logs = [self.log_w(s) for s in edges]
        above = [self.upper(s) for s in edges]
        for i in range(PIECES):
            s, t = edges[i], edges[i + 1]
            mass += (p * logs[i if self.having else i + 1]).exp() * (above[i] - above[i + 1])
            # v/(log w)' = phi w^{p + 1} e^{m m/2 - m s}/(m q): the exponent but for w is concave, w is monotone
            size = ((p + 1) * logs[i]).max((p + 1) * logs[i + 1])
            chord = [-x * x / 2 - m * x for x in (s, t)]
            H = H.max((size + chord[0].max(chord[1]) + wide * wide / 8).exp())
        H *= (m * m / 2).exp() / (m * q) / (2 * arb.pi()).sqrt()
        height = arb(plan.nodes) * arb(plan.spacing)  # of the last node; n times that is where the parts are used
        rho = (A - mass + 2 * H / (decay.times * height)) / low_A
        if not (rho < 1 and mass > 0):
            raise TooHardError("the decay is not shown")
        gap = (1 - rho.max(arb(0)) ** 2) / decay.times**2
        size = (self.k * (A.log() + (-gap).log1p() / 2) - arb(plan.c) * arb(self.epsilon)).exp()
        return size / height / arb.pi()

    def aliased(self, plan: Plan, d_moment: arb) -> arb:
        """A bound of what the sum contains besides delta."""
        c, d, period = arb(plan.c), arb(plan.d), 2 * arb.pi() / arb(plan.spacing)
        total = 1 / (c * period).expm1()
        if not self.having and self.epsilon + period > -self.k * (-arb(self.q)).log1p():
            return total  # nothing more can be lost
        share = (self.k * d_moment.log() - d * self.epsilon - (d - c) * period).exp()
        return total + share / (1 - (-(d - c) * period).exp())

    def attempt(self, log_delta: float, goal: float) -> arb:
        """A ball that contains delta, small if delta is about what is thought."""
        plan = self.plan(log_delta, goal)
        digits = plan.above + goal + math.log(self.k) + 8
        ctx.prec = int(1.4427 * digits) + 60 + int(math.log2(plan.nodes + 2))
        d_moment = self.grid(plan.d, digits)[-1] if plan.d > plan.c else arb(1)
        losses, weights, error, A = self.grid(plan.c, digits)
        low_A = A - 3 * error - 2 * abs(sum(weights, acb(0)).imag)
        for _ in range(12):
            tail = self.tail(plan, A, low_A)
            if tail < arb(log_delta - goal).exp():
                break
            plan = replace(plan, nodes=int(1.15 * plan.nodes) + 1)
        extra = self.aliased(plan, d_moment)
        ball = arb(0, error.upper())
        total = self.line_sum(plan, losses, weights, acb(ball, ball))
        return total + arb(0, tail.upper()) - extra / 2 + arb(0, (extra / 2).upper())

    def line_sum(self, plan: Plan, losses: list[acb], weights: list[acb], ball: acb) -> arb:
        """The trapezoidal sum over the line, moments as products of matrices."""
        h, epsilon, c = arb(plan.spacing), arb(self.epsilon), arb(plan.c)
        wide = int(math.sqrt(plan.nodes)) + 1
        turns = [(acb(0, h) * loss).exp() for loss in losses]
        row = [acb(1)] * len(losses)
        rows = []
        for _ in range(wide):
            rows.append(row)
            row = [x * y for x, y in zip(row, turns, strict=True)]
        right, jump = acb_mat(rows).transpose(), row
        total, j, row = arb(0), 0, weights
        while j <= plan.nodes:
            lefts = []
            for _ in range(min(40, (plan.nodes - j) // wide + 1)):
                lefts.append(row)
                row = [x * y for x, y in zip(row, jump, strict=True)]
            product = acb_mat(lefts) * right
            for i in range(len(lefts)):
                for n in range(wide):
                    if j <= plan.nodes:
                        z = acb(c, j * h)
                        value = (product[i, n] + ball) ** self.k * (-z * epsilon).exp() / (z * (1 + z))
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
