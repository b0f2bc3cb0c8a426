r"""Epsilon of objective perturbation on a device: a sum along a line that is never below the profile.

In the letters of ``pairs/loss_sums/saddlepoint.py``, ``delta(e) = (1/2 pi i) int e^{K(t) - t e} dt/(t (1 + t))`` along
any line ``Re t = t0 > 0`` on which every ``a_j = 1 - t nu_j`` has a positive real part. This inverts the transform
``int delta(x) e^{t x} dx``, so the trapezoidal rule of step h along the line is, by Poisson's summation,

``T(e) = (h/pi) e^{E(t0)} (1/2 + sum_{k >= 1} Re f_k) = sum_n e^{2 pi n t0/h} delta(e + 2 pi n/h)``, n any integer,

``E(t) = K(t) - t e - log t - log(1 + t)``, ``f_k = e^{E(t0 + i k h) - E(t0)}``. No term on the right is negative and
that of n = 0 is delta(e): **T is never below the profile, whatever t0, h and e are**. The terms of n < 0 are at most
``1/(e^{2 pi t0/h} - 1)`` together, since delta is at most one, and those of n > 0, by Chernoff's bound and for any
``t1 > t0``, at most ``c(t1) e^{K(t1) - t1 e}/(e^{2 pi (t1 - t0)/h} - 1)``, ``c(t) = t^t/(1 + t)^{1 + t}``. They
choose h, and say how far above the truth an answer may be.

What is left out. With ``C = m^2 v/(2 a^3)`` and ``G = nu/a`` at t0 and ``s = k h`` the size of f_k is

``exp(-sum_j C_j s^2/(1 + G_j^2 s^2)) prod_j (1 + G_j^2 s^2)^{-1/4}/sqrt((1 + s^2/t0^2)(1 + s^2/(1 + t0)^2))``,

which falls with s. So beyond N nodes, ``Y = N h``, h times the sum of sizes is at most ``Y |f(Y)|``, for s up to 2Y,
plus ``|f(2Y)| ((1 + t0)^2 + 4 Y^2)/(2 Y)``: the poles' factors alone fall at least like ``1/((1 + t0)^2 + s^2)``.

Rounding. u is half a unit in the last place, ``tau = t0 + Y``, a the least a_j at t0 (at least 1/2 here),
``M = tau (1 + tau) m^2/(2 a)`` and b at least every \|nu_j\|. Along the line every term of E is at most M, ``tau b/a``,
``tau e``, ``|log t0| + log(1 + t0)`` or ``-log delta`` in size, and s times a slope at t0 at most
``2 M (1 + tau b/a) + tau b + tau e``. Through less than 64 roundings each (exponentials, logarithms, sines and arcs are
good to two units in the last place, which is four u, by CUDA's tables and by the processor's libraries) they put E(t0)
and the phases of the f_k off by at most ``64 u S (1 + tau b/a)`` each, S the sum of these bounds. Sizes are ``e^{-R}``
with R good to 64 u of itself: ``64 u R e^{-R}`` is less than 24 u for each, whatever R is, and so for the part of the
phase that is R times at most ``tau b/a``. Sums in any order lose N u of the sizes' sum. ``objective_plane.py`` says
what the parameters have lost, by how much that moves E, and R.

Every bound is charged to the sum twice: for the node, and for ``e^-E(t0)`` times delta, the sum that is asked for (the
sizes' sum stands for it where that is less, so that the charge covers its part). Nothing is proved where more than
``USABLE`` of the sizes is charged. The last step d of Newton's is charged with its square, by
``|f(e + d) - f (1 - t d)| <= |f| (tau d)^2``.

People whom this would leave more than half of what is promised above the truth (a line along which the sum does not
die, because the leverage is not small next to the residual; an epsilon next to zero), or outside of the stated ranges,
have NaN here and are solved by the processor. Both directions are solved for, and the larger is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from perinstance.engines.cuda.epsilons import shift_epsilons_there, shifts_on_device
from perinstance.engines.cuda.operations.objective_plane import Plane, plane_there
from perinstance.numerics.rounding import (
    BOUND_UP,
    HALF_UNIT,
    LAST_SUM,
    LEAST_PAIR,
    NOT_ZERO,
    PROMISED,
    PROMISED_ABSOLUTE,
)

#: the largest excess variance, and the shifts, that are solved here
MOST_EXCESS, LEAST_SQUARE, MOST_SQUARE = 1.0, LEAST_PAIR, 1e12
#: what the terms before the profile and after it may add to it: ``e^-28``
SMALL = 28.0
#: the line lies at least so many standard deviations of the tilted loss right of zero
RIGHT = 2.0
#: how far the line is summed, in the same unit
REACH = 7.8
#: where Chernoff's bound is looked at
FURTHER = (5.5, 8.0, 11.0)
#: lines that are laid for a person, and how many times as many nodes each has
PASSES = (1, 1, 2, 4)
#: the share of people for whom no further line is laid: the processor is faster than many short operations
FEW = 1 / 1000
#: roundings of a term, twice (see above)
ROUNDINGS = 128.0
#: the share of the sizes that may be charged: beyond it errors of second order would count
USABLE = 0.01
#: the last step of Newton's, times tau, and the sum of sizes over the slope, times tau, that are usable
LAST, STEEP = 1e-5, 1e3


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its nodes, laid for an epsilon of each person."""

    t: Any
    turns: Any  #: ``2 pi/h``
    further: Any  #: t1 of Chernoff's bound
    log: Any  #: and the logarithm of that bound over delta
    base: Any  #: ``E(t0) + log(h/pi)`` less the logarithm of delta
    s: Any  #: (people, nodes)
    phase: Any
    size: Any
    beyond: Any  #: bound of the nodes that are left out, summed up
    mass: Any  #: half of one and all sizes
    charge: Any  #: what rounding may have taken from the sum


def objective_epsilons_there(leverage: Any, residual: Any, x_squared: Any, v_squared: Any, delta: float) -> Any:
    """Return epsilon of objective perturbation, the worse direction, never below the truth; NaN: ask the processor.

    delta lies in (0, 1/2].
    """
    import torch

    plane = plane_there(leverage, residual, x_squared, v_squared)
    half = 0.5 * plane.nu * plane.nu / plane.v.clamp(max=1.0)  # at least nu - log v
    # Pinsker's inequality: the total variation distance is at most sqrt(KL/2), KL = sum (m^2 + nu - log v)/2
    apart = 0.5 * (plane.square + half.sum(0)).sqrt() * BOUND_UP + LEAST_PAIR
    usable = (plane.nu[0] <= MOST_EXCESS) & (plane.square >= LEAST_SQUARE) & (plane.square <= MOST_SQUARE)
    none = (plane.nu[0] <= MOST_EXCESS) & (apart < delta)
    epsilon = torch.where(none, torch.zeros_like(apart), torch.full_like(apart, torch.nan))
    at = torch.nonzero(usable & ~none)[:, 0]
    if len(at):
        plane = plane.some(at)
        mean, variance = (one.clone() for one in plane.cumulants(torch.zeros_like(plane.square))[1:])
        start = shift_epsilons_there(variance.sqrt(), shifts_on_device(delta, apart.device))
        found = _solved(plane, (start + mean - 0.5 * variance).clamp(min=0.0), delta, None)
        epsilon[at] = torch.maximum(found, _solved(plane.exchanged(), found, delta, found))
    return epsilon


def _solved(plane: Plane, epsilon: Any, delta: float, enough: Any) -> Any:
    """Return epsilon of one direction, starting from some; where its delta is proved at once, ``enough`` itself."""
    import torch

    answer = torch.full_like(epsilon, torch.nan)
    left = torch.nonzero(epsilon == epsilon)[:, 0]
    epsilon = epsilon[left]
    for more in PASSES:
        if len(left) <= FEW * len(answer):
            break
        here = plane.some(left)
        line = _laid(here, epsilon, delta, more)
        floor = None if enough is None else enough[left]
        found, epsilon = _stepped(line, epsilon, delta, floor)
        answer[left] = found
        open_ones = torch.nonzero((found != found) & (epsilon < math.inf))[:, 0]
        left, epsilon = left[open_ones], epsilon[open_ones]
    return answer


def _placed(plane: Plane, epsilon: Any) -> Any:
    """Return t0 near the saddle point, or right of it."""
    import torch

    _, mean, variance = plane.cumulants(torch.zeros_like(epsilon))
    most = 0.5 / plane.nu.amax(0).clamp(min=LEAST_PAIR)
    away = mean - epsilon
    root = (away * away + 6.0 * variance).sqrt()
    t = torch.minimum(torch.where(away < 0.0, (root - away) / (2.0 * variance), 3.0 / (away + root)), most)
    for _ in range(3):
        _, first, second = plane.cumulants(t)
        one, two = 1.0 / t, 1.0 / (1.0 + t)
        step = (first - epsilon - one - two) / (second + one * one + two * two)
        t = torch.minimum(torch.maximum(t - step, 0.25 * t), most)
    return torch.minimum(torch.maximum(t, RIGHT / plane.cumulants(t)[2].sqrt()), most)


def _step_length(plane: Plane, t: Any, epsilon: Any, delta: float) -> tuple[Any, Any, Any]:
    """Return the longest ``2 pi/h`` turns at which the other terms of T add at most ``2 e^-SMALL``, and t1.

    Also the logarithm of Chernoff's bound there, over delta: of a few t1 the one that serves best.
    """
    import torch

    spread = plane.cumulants(t)[2].sqrt()
    room = 0.7 * (1.0 / plane.nu.amax(0).clamp(min=LEAST_PAIR) - t)
    turns, further, log = (torch.full_like(t, math.inf) for _ in range(3))
    for far in FURTHER:
        away = torch.minimum(far / spread, room)
        there = t + away
        K = plane.cumulants(there)[0]
        bound = K - there * epsilon + there * (there.log() - there.log1p()) - there.log1p() - math.log(delta)
        needed = (bound + SMALL) / away
        better = needed < turns
        turns, further, log = (torch.where(better, *both) for both in ((needed, turns), (there, further), (bound, log)))
    return torch.maximum(turns, (SMALL - math.log(delta)) / t), further, log


def nodes_of(delta: float) -> int:
    """Return how many nodes a line has at first: as many as a shift asks for."""
    depth = -math.log(delta)
    z = math.sqrt(2.0 * depth)
    x = max(RIGHT - z, 0.3)
    turns = max((depth + SMALL) / max(z, RIGHT), x + math.sqrt(x * x + 2.0 * SMALL + 5.0))
    return math.ceil(REACH * turns / (2.0 * math.pi)) + 1


def _laid(plane: Plane, epsilon: Any, delta: float, more: int) -> Line:
    """Lay a line through the saddle point of an epsilon."""
    import torch

    t = _placed(plane, epsilon)
    turns, further, log = _step_length(plane, t, epsilon, delta)
    h = 2.0 * math.pi / turns
    nodes = more * nodes_of(delta)
    a = 1.0 - t * plane.nu
    G, C = plane.nu / a, 0.5 * plane.m2 * plane.v / (a * a * a)
    k = torch.arange(1, nodes + 1, dtype=torch.float64, device=t.device)
    s = h[:, None] * k
    q = G[:, :, None] * s
    one = 1.0 + q * q
    fall = (C[:, :, None] * (s * s)) / one
    zero, after = s / t[:, None], s / (1.0 + t)[:, None]
    K, first, _ = plane.cumulants(t)
    drift = first - (0.5 * G).sum(0) - epsilon
    phase = drift[:, None] * s + (0.5 * q.atan() - fall * q).sum(0) - zero.atan() - after.atan()
    size = (-fall.sum(0)).exp() * ((1.0 + zero * zero) * (1.0 + after * after) * (one[0] * one[1]).sqrt()).rsqrt()
    base = K - t * epsilon - t.log() - t.log1p() + (h / math.pi).log() - math.log(delta)
    Y = nodes * h
    beyond = (size[:, -1] * Y + _size_at(2.0 * Y, t, G, C) * ((1.0 + t) ** 2 + 4.0 * Y * Y) / (2.0 * Y)) / h
    charge, mass = ROUNDINGS * HALF_UNIT * nodes, torch.zeros_like(t)
    ends = [nodes_of(delta) * share for share in (0, 1, 2, 4) if share <= more]
    for first_node, end in zip(ends[:-1], ends[1:], strict=True):  # far out, where terms are large, sizes are small
        part = size[:, first_node:end].sum(1) + (0.5 if first_node == 0 else 0.0)
        rough, each = _rounding(plane, t, t + end * h, a.amin(0), epsilon, delta)
        charge, mass = charge + rough * part + each * (end - first_node), mass + part
    return Line(t, turns, further, log, base, s, phase, size, beyond, mass, charge + HALF_UNIT * nodes * mass)


def _rounding(plane: Plane, t: Any, tau: Any, a: Any, epsilon: Any, delta: float) -> tuple[Any, Any]:
    """Return what the exponents of the nodes up to tau are off by, and what each node's size is, besides ``24 u``."""
    ratio = tau * plane.largest / a
    M = 0.5 * tau * (1.0 + tau) * plane.square / a
    terms = M + ratio + tau * epsilon + 2.0 * (t.log().abs() + t.log1p()) + (8.0 - math.log(delta))
    lost = plane.lost * (ratio + plane.largest / a)
    return ROUNDINGS * (HALF_UNIT * terms * (1.0 + ratio) + lost * (1.0 + M)), ROUNDINGS * (HALF_UNIT * ratio + lost)


def _size_at(s: Any, t: Any, G: Any, C: Any) -> Any:
    """Return the size of one node, rounded up."""
    one = 1.0 + (G * s) ** 2
    size = (-(C * s * s / one).sum(0)).exp() / (one[0] * one[1]) ** 0.25
    return 2.0 * size / ((1.0 + (s / t) ** 2) * (1.0 + (s / (1.0 + t)) ** 2)).sqrt() + NOT_ZERO


def _sums(line: Line, d: Any) -> tuple[Any, Any, Any]:
    """Return ``sum Re f``, ``sum Re t f`` and ``sum Re t^2 f`` where epsilon is moved by d, over ``e^{-t0 d}``."""
    angle = line.phase - line.s * d[:, None]
    real, odd = line.size * angle.cos(), line.size * angle.sin() * line.s
    S, I1, I2 = 0.5 + real.sum(1), odd.sum(1), (line.s * line.s * real).sum(1)
    t = line.t
    return S, t * S - I1, t * (t * S - 2.0 * I1) - I2


def _stepped(line: Line, epsilon: Any, delta: float, enough: Any) -> tuple[Any, Any]:
    """Step twice along one line; return proved answers (NaN: not yet) and where to lay the next line."""
    import torch

    S, S1, S2 = _sums(line, torch.zeros_like(epsilon))
    charge = 1.01 * (line.charge + line.beyond)
    first_goal = torch.minimum((-line.base).exp(), line.mass)
    done: Any = (
        None if enough is None else (epsilon <= enough) & (S + charge <= first_goal) & (charge <= USABLE * line.mass)
    )
    rate = S1 / S
    g = line.base + S.log()
    d = 2.0 * g / (rate + (rate * rate - 2.0 * g * (S2 / S - rate * rate)).clamp(min=0.0).sqrt())
    d = torch.maximum(d, -epsilon)
    S, S1, _ = _sums(line, d)
    tau = line.t + line.s[:, -1]
    charge = charge + ROUNDINGS * HALF_UNIT * tau * d.abs() * line.mass
    goal = torch.minimum((line.t * d - line.base).exp(), line.mass)  # the sum that delta asks for
    usable = charge <= USABLE * line.mass
    step = (S + charge - goal) / S1
    moved = tau * step
    curved = 1.1 * moved * moved * line.mass
    found = (epsilon + d + (step + curved / S1)) * (1.0 + LAST_SUM)
    # |d| is added to a rounded epsilon: the sum of the three is off by units in the last place of the largest
    found = found + 2.0 * LAST_SUM * torch.maximum(epsilon, found.abs())
    fine = usable & (S1 > 0.0) & (moved.abs() < LAST) & (tau * line.mass < STEEP * S1)
    slack = (2.2 * (charge + curved) + goal * _others(line, d, delta)) / S1
    near = torch.maximum(0.5 * PROMISED * found, torch.full_like(found, PROMISED_ABSOLUTE))
    proved = fine & ((slack <= near) | (found <= 0.0))
    answer = torch.where(proved, found.clamp(min=0.0), torch.full_like(found, torch.nan))
    answer = torch.where(usable & (d == -epsilon) & (S + charge <= goal), torch.zeros_like(found), answer)
    if enough is not None:
        answer = torch.where(done, enough, answer)
    return answer, (epsilon + d + step).clamp(min=0.0)


def _others(line: Line, d: Any, delta: float) -> Any:
    """Return a bound of the terms of T beside the profile, over delta, where epsilon is moved by d."""
    import torch

    before = 1.0 / (delta * torch.expm1(line.turns * line.t))
    after = (line.log - line.further * d).exp() / torch.expm1(line.turns * (line.further - line.t))
    return 1.01 * (before + after)
