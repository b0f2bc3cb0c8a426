r"""Inversion along a line that slants, never below the truth: for a few steps, or seldom ones.

Both directions are one integral: with p = 1 + z (the person with, over without), or p the conjugate of -z,

``delta(epsilon) = 1/pi Im int e^{-z epsilon} prod_j E_P[w_j^p]^{n_j} dp/(p (p - 1))``

from a real p, above 1 or below 0, upwards; ``e^{-z epsilon}`` is ``e^{-(p - 1) epsilon}`` or ``e^{p epsilon}``.

**Why it may slant.** The loss of a step lies above ``log(1 - q)`` (with), and most of it next to that: along a straight
line its transform turns forever. Every moment is entire, and in the sector between the vertical and the direction
``arctan(TANGENT)`` the integrand is bounded by a constant over ``|p|^2``: split epsilon into ``e_j > log(1 - q_j)``
(below them in the other direction, where epsilon is less than the largest loss), and integrate the moment
``int e^{p (lambda - e_j)} g(lambda) dlambda`` along the real lambda up to ``e_j`` and from there upwards, at an angle
with ``Re e^{i phi} (lambda - e_j) <= 0``: its integrand does not grow with p, and g dies along it. So the line may
be turned (Cauchy, Jordan), and on it ``e^{-p (epsilon - sum n_j log(1 - q_j))}`` decays as well as it turns.

**What is added** to the sum over the nodes: Gauss's rule and the rest of the line (``panels.py``), the error of every
moment (``noise_path.py``), every rounding. An epsilon is returned only if all this lies below delta at that epsilon.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import LAST_RAISE, LAST_STEP, LOGARITHM, NODE_ROUNDING
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.line_choice import choose
from perinstance.pairs.loss_sums.sampled.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.slanted_line.panels import COSINE, SINE, lay_panels
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps

NODES = 24
TIMES = 3  # that the line is laid, each time for a better epsilon
RAISES = 40
VAGUE = 0.1
LEAST_DISTANCE, FARTHEST_DISTANCE = 0.2, 12.0
MOST_KINDS = 8
MOST_PEOPLE = 32  # different ones in one call: each takes some tenths of a second
MOVED = 0.3  # in units of 1/c
WITHIN = 0.999  # of the largest loss: where Newton's iteration may start


def _gauss_rule() -> Floats:
    """Return nodes and weights of Gauss's rule to the last digit (numpy's weights are good to 14)."""
    from flint import arb

    found = [arb.legendre_p_root(NODES, NODES - 1 - i, weight=True) for i in range(NODES)]
    return np.array([[float(part) for part in one] for one in found]).T.copy()


RULE: Floats = _gauss_rule()


@kernel
def log_bound(epsilon, sign, edge, line):
    """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
    first = line.p[0].real
    scale = line.log[0].real - (first - 1.0) * epsilon if sign > 0.0 else line.log[0].real + first * epsilon
    scale -= first * edge
    total, slope, lost, size = 0.0, 0.0, 0.0, 0.0
    for k in range(line.p.size):
        p = line.p[k]
        z = p - 1.0 if sign > 0.0 else -p
        power = line.log[k] - z * epsilon - p * edge - scale
        modulus = math.exp(min(power.real, 600.0))
        f = complex(modulus * math.cos(power.imag), modulus * math.sin(power.imag)) / (p * (p - 1.0))
        f *= complex(COSINE, SINE) * line.weight[k]
        total += f.imag
        slope += (f * z).imag
        off = line.error[k] + NODE_ROUNDING * (24.0 + abs(scale) + 16.0 * (abs(z) * epsilon + abs(p) * edge))
        off += 8.0 * NODE_ROUNDING * (abs(line.log[k]) + 1.0 + abs(p) / abs(p - 1.0))
        lost += abs(f) * (1.1 * off if off < VAGUE else 1.0 + math.exp(min(off, 600.0)))
        size += abs(f)
    away = edge + sign * epsilon
    if not away > 0.0:
        return np.inf, 1.0
    last = line.corner.shape[0] - 1
    for k in range(last + 1):
        for i in range(2):
            a = line.real[k, i]
            power = line.corner[k, i] - ((a - 1.0) * epsilon if sign > 0.0 else -a * epsilon) - scale
            if k == last:
                power -= math.log(away)
            lost += math.exp(min(power, 600.0))
    total += 1.01 * lost + NODE_ROUNDING * line.p.size * size
    if not 0.0 < total < np.inf:
        return np.inf, 1.0
    return scale + math.log(total / math.pi) + 8.0 * NODE_ROUNDING * (2.0 + abs(scale)), slope / total


@kernel
def solve_slanted(goal, start, largest, place, line):
    """Return an epsilon whose delta is at most ``e^goal``, the least that this line can prove; or infinity."""
    sign, edge = place[1], place[4]
    low, high = 0.0, largest
    epsilon = min(start, largest)
    rate = 1.0
    for _ in range(60):
        log, rate = log_bound(epsilon, sign, edge, line)
        excess = log - goal
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
            if epsilon == 0.0:
                return 0.0
        if not (rate > 0.0 and abs(excess) < np.inf):
            return np.inf
        new = epsilon + min(max(excess / rate, -20.0 / rate), 20.0 / rate)
        if not low <= new <= high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * low
        if abs(excess) < LAST_STEP * (4.0 + abs(goal)) or new == epsilon:
            break
        epsilon = new
    raised = LAST_RAISE * (epsilon + (1.0 + abs(goal)) / rate)
    for _ in range(RAISES):
        if log_bound(epsilon, sign, edge, line)[0] <= goal:
            return epsilon
        epsilon += raised
        raised *= 2.0
    return np.inf


@kernel
def slanted_epsilon(steps, place, largest, rule):
    """Return an epsilon for one person whose kinds of steps are the columns of a table: rate, distance, how many.

    ``place``: where the line starts, +1 with or -1 without, an epsilon to start from, log delta, the loss at the end.
    """
    line = lay_panels(steps, place, rule)
    if not line.done:
        return np.inf
    goal = place[3] - LOGARITHM * (4.0 + abs(place[3]))
    return solve_slanted(goal, place[2], largest, place, line)


@kernel
def slanted_log_delta(steps, place, rule):
    """Return the logarithm of an upper bound of delta at the epsilon of the place, and minus its slope."""
    line = lay_panels(steps, place, rule)
    if not line.done:
        return np.inf, 1.0
    return log_bound(place[2], place[1], place[4], line)


def answer_slanted(view: LossCoordinates, tables: LineTables, c: Floats, goals: Floats, solving: bool) -> Floats:
    """Return what ``invert`` does, for people one by one; infinite for whom a slanted line does not serve.

    Goals are log delta, epsilon (to start from, or to be asked) and the largest loss. Where an epsilon is solved for,
    the first is often far off: the line is laid again, through the saddle point of what was found. Nobody is answered
    if more than ``MOST_PEOPLE`` different ones ask: what straight lines say is above the truth as well, and quick.
    """
    steps = view.sampled
    assert steps is not None
    out, goals = np.full((len(c), 2), np.inf), goals.copy()
    known: dict[bytes, tuple[float, float]] = {}
    different = {steps.of_person(i).tobytes() for i in range(len(c))}
    rows = np.arange(0 if view.has_others or len(different) > MOST_PEOPLE else len(c))
    for _ in range(TIMES if solving else 1):
        for i in rows:
            out[i] = np.minimum(out[i], _answer(steps, int(i), c[i], goals[i], solving, known))
        with np.errstate(invalid="ignore"):
            moved = np.abs(out[rows, 0] - goals[rows, 1]) * c[rows]
        rows = rows[(moved > MOVED) & np.isfinite(out[rows, 0])]
        if not rows.size:
            break
        goals[rows, 1] = out[rows, 0]
        c = c.copy()
        c[rows] = choose(view[rows], tables, goals[rows, 1], solving=False).c
    return out


def _answer(
    steps: SampledSteps, i: int, c: float, goal: Floats, solving: bool, known: dict[bytes, tuple[float, float]]
) -> tuple[float, float]:
    """Answer for one person, unless somebody like them was answered before."""
    table = steps.of_person(i)
    fits = (table[1] >= LEAST_DISTANCE) & (table[1] <= FARTHEST_DISTANCE)
    if not (0 < table.shape[1] <= MOST_KINDS and fits.all() and c < np.inf):
        return np.inf, 1.0
    edge = float(-(table[2] * np.log1p(-table[0])).sum())
    epsilon = goal[1] if steps.over else min(goal[1], WITHIN * edge)
    place = np.array([1.0 + c if steps.over else -c, 1.0 if steps.over else -1.0, epsilon, goal[0], edge])
    key = table.tobytes() + place.tobytes()
    if key not in known:
        if solving:
            known[key] = (slanted_epsilon(table, place, goal[2], RULE), 1.0)
        else:
            known[key] = slanted_log_delta(table, place, RULE)
            if known[key][0] < goal[0] - 1.0:  # Chernoff's bound, to which the line was laid, was far above
                place[3] = known[key][0]
                known[key] = min(known[key], slanted_log_delta(table, place, RULE))
    return known[key]
