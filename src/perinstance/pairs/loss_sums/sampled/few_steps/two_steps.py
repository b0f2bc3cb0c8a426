r"""Two sampled steps without inversion: every term is positive, so no tail is too deep, and every error is added.

With the person over without them ``delta(epsilon) = int int phi(x) phi(y) (w_1(x) w_2(y) - e^epsilon)_+ dx dy``; the
integral over y at a given x is the profile of one step, which has a closed form. Over all x it would not be analytic
where ``l_1(x)`` takes all of epsilon: the threshold of y runs to minus infinity there. So the region is cut: choose
``e_1 + e_2 = epsilon`` and ``l_i(d_i) = e_i``. It consists of a strip ``x <= d_1``, a strip ``y <= d_2`` and the
quadrant beyond both, which overlap nowhere. In a strip the variable that is integrated numerically is the one that
stays away from that point, and the quadrant is a product: with ``Q_i``, ``P_i`` the probabilities of ``x_i > d_i``

``Q_1 Q_2 - e^epsilon P_1 P_2 = delta_1(e_1) Q_2 + e^{e_1} P_1 delta_2(e_2)``, as ``delta_i(e_i) = Q_i - e^{e_i} P_i``.

Without over with, ``int int phi phi (1 - e^epsilon w_1 w_2)_+``, ``l_i(d_i) = -e_i``: the strips ``x <= d_1`` and
``y <= d_2`` overlap in a quadrant, ``delta_1(e_1) P_2 + e^{e_1} Q_1 delta_2(e_2)`` with the probabilities of
``x_i < d_i``, which is taken off once; each strip is at least as large.

``e_1 = (epsilon +- (log p_1 - log p_2))/2`` makes ``w_i(d_i)/p_i`` the same number s for both, and then the point that
is avoided lies at least ``log(2)/m`` beyond ``d_i``, since ``(s^2 - 1)/(s - 1) >= 2``.

**What is added**: the rule's error and the tail of each strip (``strips.py``) and every rounding; strips reach as far
as ``d_i`` may be, thresholds are moved by their errors to where the profile is larger (``one_step.py``). An epsilon is
returned only if all this lies below delta at that epsilon.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import LAST_RAISE, LAST_STEP, LOGARITHM, PROMISED, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import (
    hazard,
    log_upper,
    make_step,
    one_step_epsilon,
    scaled,
    step_bound,
)
from perinstance.pairs.loss_sums.sampled.few_steps.strips import log_peak, strip

RAISES = 40
LEAST_LOG = -745.0  # of a float
ITERATIONS = 60
OUT = 100.0
HALF = 0.6932  # more than log 2
BELOW = 1.0 - PROMISED


@kernel
def _tails(bound, step):
    """Return the logarithms of the probabilities of ``x > d`` (with) or ``x < d`` under P and under Q, about."""
    near, far = log_upper(bound.u), log_upper(bound.u + step.m)
    P = far if step.sign > 0.0 else near
    top, other = (step.log_q + near, step.log_p + far) if step.sign > 0.0 else (step.log_p + near, step.log_q + far)
    high = max(top, other)
    return P, high + math.log(math.exp(top - high) + math.exp(other - high))


@kernel
def _end(bound, step):
    """Return d, rounded up, and by how much: a strip that reaches a little further is only larger."""
    d = step.sign * bound.E / step.m + 0.5 * step.m
    off = 2.0 * bound.moved / step.m + 16.0 * UNIT * (abs(d) + step.m)
    return d + off, off


@kernel
def _quadrant(epsilon, e_1, scale, bounds, steps, off):
    """Return ``e^-scale`` times the quadrant, rounded up (with) or down (without), and minus its slope, about."""
    (one, two), (first, second) = bounds, steps
    sign = first.sign
    if max(one.u, two.u) > OUT:  # a factor of it is a probability of being so far out
        return (scaled(log_upper(0.5 * OUT) - scale) if sign > 0.0 else 0.0), 0.0
    (P_1, Q_1), (P_2, Q_2) = _tails(one, first), _tails(two, second)
    other, rest = (Q_2, e_1 + P_1) if sign > 0.0 else (P_2, e_1 + Q_1)
    value = one.factor * scaled(one.power + other - scale)
    value += two.factor * scaled(two.power + rest - scale)
    far_1, far_2 = max(one.u + first.m, 0.0), max(two.u + second.m, 0.0)
    lost = 8.0 * UNIT * (24.0 + far_1 * far_1 + far_2 * far_2 + abs(scale) + epsilon)
    lost += 2.0 * (off[0] * hazard(one.u + first.m) + off[1] * hazard(two.u + second.m))
    both = epsilon + (P_1 + P_2 if sign > 0.0 else Q_1 + Q_2)
    if not lost < 0.1:
        return (np.inf if sign > 0.0 else 0.0), 0.0
    return value * (1.0 + sign * lost), math.exp(min(both - scale, 600.0))


@kernel
def log_delta(epsilon, floor, first, second, rule):
    """Return the logarithm of an upper bound of delta at epsilon >= 0, and minus its slope; infinite if it fails.

    Errors are kept small beside delta, or beside ``e^floor`` where that is larger.
    """
    sign = first.sign
    same = first.q == second.q and first.m == second.m
    e_1 = 0.5 * epsilon if same else 0.5 * (epsilon + sign * (first.log_p - second.log_p))
    e_2 = epsilon - e_1
    off = 4.0 * UNIT * (abs(epsilon) + (0.0 if same else abs(first.log_p) + abs(second.log_p)))
    one, two = step_bound(e_1, off, first, sign), step_bound(e_2, off, second, sign)
    if not (one.moved < np.inf and two.moved < np.inf):
        return np.inf, 1.0
    d_1, d_2 = _end(one, first), _end(two, second)
    scale = max(floor, log_peak(epsilon, d_1[0], (first, second)))
    if not same:
        scale = max(scale, log_peak(epsilon, d_2[0], (second, first)))
    corner, rate = _quadrant(epsilon, e_1, scale, (one, two), (first, second), (d_1[1], d_2[1]))
    if not corner < np.inf:
        return np.inf, 1.0
    here = strip(epsilon, d_1[0], scale, (first, second), rule)
    there = here if same else strip(epsilon, d_2[0], scale, (second, first), rule)
    total, slope = here.value + there.value + sign * corner, here.slope + there.slope + sign * rate
    if not 0.0 < total < np.inf:
        return np.inf, 1.0
    return scale + math.log(total) + 4.0 * UNIT * (2.0 + abs(scale)), slope / total


@kernel
def solve_two(goal, largest, steps, rule):
    """Return an epsilon whose delta is proved to be at most ``e^goal``, next to the least; ``largest`` is the last one.

    It lies between what one of the steps loses and the sum of what each does at half of delta, itself a proved bound.
    """
    first, second = steps
    low = min(max(one_step_epsilon(goal, first), one_step_epsilon(goal, second)) * BELOW, largest)
    halves = one_step_epsilon(goal - HALF, first) + one_step_epsilon(goal - HALF, second)
    high = min(halves * (1.0 + 4.0 * UNIT), largest)
    top = high
    goal -= LOGARITHM * (4.0 + abs(goal))
    epsilon, rate = low, 1.0
    for turn in range(ITERATIONS):
        log, rate = log_delta(epsilon, goal, first, second, rule)
        if turn == 0 and log <= goal:  # the lower end is rounded, too: below it nothing is likely but zero
            low = epsilon = 0.0
            log, rate = log_delta(epsilon, goal, first, second, rule)
        excess = log - goal
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
            if epsilon == 0.0:
                return 0.0
        if not (rate > 0.0 and abs(excess) < np.inf):
            new = 0.5 * (low + high)
        else:
            if abs(excess) < LAST_STEP * (4.0 + abs(goal)):
                break
            new = epsilon + excess / rate
        if not low < new < high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * low + 1.0
        if high - low <= LAST_RAISE * high:
            break
        epsilon = new
    raised = LAST_RAISE * (epsilon + 1.0 / max(rate, 1.0))
    for _ in range(RAISES):
        if epsilon >= top or log_delta(epsilon, goal, first, second, rule)[0] <= goal:
            break
        epsilon += raised
        raised *= 2.0
    else:
        return top
    return min(epsilon, top)


@kernel
def solve_all(table, sign, log_deltas, largest, rule, out):
    """Fill in epsilon of everybody: rows of the table are rate, distance, rate, distance."""
    for i in range(out.size):
        steps = (make_step(table[i, 0], table[i, 1], sign), make_step(table[i, 2], table[i, 3], sign))
        out[i] = solve_two(log_deltas[i], largest[i], steps, rule)


@kernel
def profile_all(table, sign, epsilon, rule, out):
    """Fill in the bound of log delta at an epsilon, and minus its slope."""
    for i in range(len(out)):
        first, second = make_step(table[i, 0], table[i, 1], sign), make_step(table[i, 2], table[i, 3], sign)
        out[i] = log_delta(epsilon[i], LEAST_LOG, first, second, rule)
