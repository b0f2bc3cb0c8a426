"""Moments of one kind of sampled steps at every height of a line at once, and how they decay: every bound proved.

Helpers of ``sampled_trapezoids.py``: with ``w(x) = 1 - q + q e^{m x - m m/2}``, x standard normal, and ``p = 1 + z``
(``with``) or ``p = -z`` (``without``) the moment is ``A(z) = E[w^p]``, ``z = c + i y``, ``y >= 0``.

* The noise runs along ``s + i t``, ``t = a`` (``with``) or ``-a`` (``without``). Between the real axis and ``2 t`` is
  no zero of w if ``2 a m < pi``, and ``|w^p|`` is at most ``w(s)^{1 + c}``, or ``(Re w)^{-c}`` if ``2 a m <= pi/2``, at
  every height of z. So a trapezoidal sum of spacing g is off by ``(1 + e^{2 a a}) N/(e^{2 pi a/g} - 1)`` at most,
  N being A(c), or the mean of ``(Re w)^{-c}`` at the far side. Nodes left out: ``log w`` is convex, and ``-s s/2``
  differs from its chord by an eighth of the square of its length.
* With ``v = phi w^p`` at z = c, on an interval where ``v/(log w)'`` has a single maximum H, integration by parts gives
  ``|int v e^{i y log w}| <= 2 H/y``. So ``|A(c + i y)| <= A(c) - int v + 2 H/y``, which serves at large y; and
  ``1 - cos(n t) <= n n (1 - cos t)`` brings that down: ``1 - |A(y)|^2 >= (1 - |A(n y)|^2)/(n n)`` for the law with
  A(c) = 1, for every integer n.

What is said to be rough is in floats and only chooses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import acb, arb

from .sampled_noise import TooHardError

PIECES = 300


@dataclass(frozen=True)
class Decay:
    """Where the noise is taken by parts, how often ``1 - cos`` is divided, and the height from which this is used."""

    low: float
    high: float
    times: int
    height: float


@dataclass(frozen=True)
class Moments:
    """Losses and weights of the noise's nodes, a bound of every moment's error, and bounds of A(c)."""

    losses: list[acb]
    weights: list[acb]
    error: arb
    largest: arb
    least: arb


def upper(x: arb) -> arb:
    """The normal law above x."""
    return (x / arb(2).sqrt()).erfc() / 2


class KindOfSteps:
    """k steps of one rate and distance in one direction."""

    def __init__(self, rate: float, distance: float, steps: int, direction: str) -> None:
        self.q, self.m, self.k = rate, distance, steps
        self.having = direction == "with"
        m, q = distance, rate
        self.s = np.arange(-14.0, 60.0, 0.02)
        far = m * self.s - m * m / 2
        large = np.logaddexp(math.log1p(-q), math.log(q) + far)
        self.loss = np.where(far < 20, np.log1p(q * np.expm1(np.minimum(far, 20))), large)
        self.log_phi = -self.s * self.s / 2 - 0.5 * math.log(2 * math.pi)

    def power(self, c):
        """p at the real place c, a float or a ball."""
        return 1 + c if self.having else -c

    def far_out(self, c: float) -> float:
        """The log of what noise next to ``(1 + c) m`` adds to A(c), roughly."""
        top = (1 + c) * self.m
        return top * top / 2 - (1 + c) * (self.m**2 / 2 - math.log(self.q)) if self.having and top > 30 else -math.inf

    def log_moment(self, c: float) -> float:
        """``log A(c)``, roughly."""
        with np.errstate(over="ignore", invalid="ignore"):
            excess = float((np.exp(self.log_phi) * np.expm1(self.power(c) * self.loss)).sum()) * 0.02
        excess += math.exp(min(self.far_out(c), 700.0))
        return math.log1p(excess) if -1 < excess < 1e9 else math.inf

    def decay(self, c: float, drop: float) -> Decay | None:
        """The lowest height, roughly, above which ``|A|^k`` is below ``e^-drop`` of its value on the real axis."""
        p, m = self.power(c), self.m
        log_slope = math.log(m) + math.log(self.q) + m * self.s - m * m / 2 - self.loss
        fit = self.s < 30
        if (p + 1) * m * m > 3.99:  # log-concave, so that there is one maximum
            fit &= math.log((p + 1) * m / (1 - self.q)) + log_slope + self.loss < -0.01
        s = self.s[fit][::5]
        if s.size < 50:
            return None
        log_v = (self.log_phi + p * self.loss)[fit][::5] - self.log_moment(c)
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
        """The spacing of the noise, how high it runs, and from where to where, so that errors are ``e^-digits``."""
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
            return g, a, -wide, wide
        if self.far_out(c) > -digits - 2:
            raise TooHardError("noise far out counts")
        size = self.log_phi + self.power(c) * self.loss + a * a / 2
        return g, a, -wide, max(float(self.s[size > -digits - 2].max(initial=0.0)) + 0.5, 2.0)

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
        tangent = (b * b / 2 - c * (share - q).log1p()).exp() * (upper(-low - b) + upper(high + b))
        level = (-c * (-q).log1p()).exp() * (upper(arb(-low)) + upper(arb(high)))
        return tangent.min(level) if -low > b else level  # so that what is integrated falls on both sides

    def left_out(self, c: float, a: float, g: float, low: float, high: float) -> arb:
        """A bound of g times the sum of ``phi(s) |w|^p`` over nodes below low and above high."""
        if not self.having:
            return self.outside(c, a, low, high)
        total, M = upper(arb(-low)), (1 + arb(c)) * arb(self.m)  # w < 1 there
        wide = 0.5

        def log_size(s: arb) -> arb:
            return (1 + arb(c)) * self.log_w(s) - s * s / 2

        at, last = arb(high), log_size(arb(high))
        while not at > 2 * M + 20:
            to = at + wide
            then = log_size(to)
            total += (last.max(then) + arb(wide) ** 2 / 8).exp() * (wide + g) / (2 * arb.pi()).sqrt()
            at, last = to, then
        return total + (M * M / 2).exp() * upper(at - g - M)  # w < e^{m s}

    def largest(self, c: float, a: float) -> arb:
        """A bound of ``E[|w|^-c]`` along every line from the real axis to ``2 a`` below it: there ``Re w`` rises."""
        q, m = arb(self.q), arb(self.m)
        edges = [arb(j) / 8 for j in range(-128, 129)]
        share = (2 * arb(a) * m).cos() * q
        total = self.outside(c, a, -16, 16)
        for s, t in zip(edges, edges[1:], strict=False):
            log_w = (share * (m * s - m * m / 2).exp() - q).log1p()
            total += (-c * log_w).exp() * (upper(s) - upper(t))
        return total

    def moments(self, c: float, digits: float) -> Moments:
        """What gives the moments at every height above c."""
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
        last = float(low + (count - 1) * g) - 1e-9
        out = self.left_out(c, a, g, low, last) * (arb(a) ** 2 / 2).exp()
        aliased = (1 + (2 * arb(a) ** 2).exp()) / (2 * arb.pi() * arb(a) / step).expm1()
        if not aliased < 0.5:
            raise TooHardError("the noise is too coarse")
        total = sum(weights, acb(0))
        # with: A(c) itself is at most the sum, what was left out, and a share of itself
        N = (abs(total) + out) / (1 - aliased) if self.having else self.largest(c, a)
        error = out + aliased * N
        return Moments(losses, weights, error, abs(total) + error, total.real - error)

    def lost(self, c: float, decay: Decay, height: arb, moments: Moments) -> arb:
        """A bound of ``log |A(c + i y)/A(c)|`` for all y above a height."""
        p, m, q, n = self.power(arb(c)), arb(self.m), arb(self.q), decay.times
        low, wide = arb(decay.low), (arb(decay.high) - arb(decay.low)) / PIECES
        end = low + PIECES * wide
        # (log w)'' is at most m^2/4, and at most m^2 q e^{m s - m m/2}/(1 - q)
        if not (p + 1 <= 0 or (p + 1) * m * m < 4 or (p + 1) * m * m * q * (m * end - m * m / 2).exp() < 1 - q):
            raise TooHardError("more than one maximum")
        mass, H = arb(0), arb(0)
        edges = [low + i * wide for i in range(PIECES + 1)]
        logs = [self.log_w(s) for s in edges]
        above = [upper(s) for s in edges]
        for i in range(PIECES):
            mass += (p * logs[i if self.having else i + 1]).exp() * (above[i] - above[i + 1])
            # v/(log w)' = phi w^{p + 1} e^{m m/2 - m s}/(m q): w is monotone, the log of the rest concave
            size = ((p + 1) * logs[i]).max((p + 1) * logs[i + 1])
            left, right = (-s * s / 2 - m * s for s in (edges[i], edges[i + 1]))
            H = H.max((size + left.max(right) + wide * wide / 8).exp())
        H *= (m * m / 2).exp() / (m * q) / (2 * arb.pi()).sqrt()
        rho = (moments.largest - mass + 2 * H / (n * height)) / moments.least
        if not (rho < 1 and mass > 0):
            raise TooHardError("the decay is not shown")
        return (-(1 - rho.max(arb(0)) ** 2) / n**2).log1p() / 2
