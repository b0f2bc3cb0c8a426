r"""Epsilon where nearly all of delta is total variation: the profile once more, in pairs of floats.

Next to epsilon = 0, ``1 - delta = P(L < epsilon) + e^epsilon Q(L > epsilon)`` may change with epsilon by a fortieth of
itself only (not less while ``1 - delta`` is a difference of floats, because K is convex), so 1e-13 of epsilon asks for
2e-15 of ``1 - delta``, with an exponent of size 40. Here the same contour is summed with

``K(t) - t epsilon = sum_j t (1 + t) m^2/(2 a) - (log a)/2 - t (epsilon + sum_j (log v)/2)``, ``a = 1 - t nu``,

all of it in pairs but the last exponential: ``e^{high} (1 + low)`` with the library's exp, cos and sin. They are good
to 0.58 units in the last place each: together ``LIBRARY_NODE`` of each node at the very most.
Where the nodes are so much larger than their sum that this is not enough, that exponential is a pair as well.
The step is halved until that may move the sum by less than ``PAIR_STEP``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.double_double import expm1_pair, over, plus, times, two_product, two_sum
from perinstance.numerics.double_double_complex import (
    exponential,
    hyperbola,
    power,
    product,
    reciprocals,
    scaled,
    total,
)
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import (
    LIBRARY_NODE,
    NEGLIGIBLE,
    PAIR_NODE,
    PAIR_STEP,
    PI_LOW,
    PROMISED,
    PROMISED_ABSOLUTE,
)
from perinstance.pairs.loss_sums.cumulant_levels import log_pair
from perinstance.pairs.loss_sums.quadrature import SLIGHT, STEP, STRONG
from perinstance.pairs.loss_sums.solve_epsilon import SURE, UP

FURTHEST = 45.0
MANY = 1024  # exponentials that are summed one by one
CLOSE = 1e-8  # a step of epsilon whose square is nothing


class ShiftedLosses(NamedTuple):
    """``epsilon + sum (log v)/2``, nu and ``m^2/2`` as pairs, Laplace distances and how often each occurs."""

    level: Any
    level_low: Any
    nu: Any
    nu_low: Any
    half: Any
    half_low: Any
    lap: Any
    count: Any


@exact_kernel
def _laplace(t, t_low, D):
    """Return ``[(1 + t) e^{t D} + t e^{-(1 + t) D}]/(1 + 2t)``, t off -1/2."""
    after, after_low = total(t, t_low, 1.0 + 0.0j, 0.0j)
    up, up_low = scaled(t, t_low, D, 0.0)
    up, up_low = exponential(up, up_low)
    up, up_low = product(up, up_low, after, after_low)
    down, down_low = scaled(after, after_low, -D, 0.0)
    down, down_low = exponential(down, down_low)
    down, down_low = product(down, down_low, t, t_low)
    both, both_low = total(up, up_low, down, down_low)
    middle, middle_low = total(t, t_low, after, after_low)
    one, one_low, _q, _q_low = reciprocals(middle, middle_low)
    return product(both, both_low, one, one_low)


@exact_kernel
def _sum_of_sets(expo, expo_low, t, t_low, after, after_low, sets, sharp):
    """Return ``sum times (t/(1 + t))^k e^{expo + t x - D}`` over the columns k, times, x, D, and the sum of moduli."""
    one, one_low, _q, _q_low = reciprocals(after, after_low)
    ratio, ratio_low = product(t, t_low, one, one_low)
    f, f_low, size = 0.0j, 0.0j, 0.0
    for i in range(sets.shape[1]):
        g, g_low = scaled(t, t_low, sets[2, i], sets[3, i])
        g, g_low = total(g, g_low, complex(-sets[4, i], 0.0), complex(-sets[5, i], 0.0))
        g, g_low = total(g, g_low, expo, expo_low)
        e, e_low = _exp(g, g_low, sharp)
        g, g_low = power(ratio, ratio_low, sets[0, i])
        g, g_low = product(g, g_low, e, e_low)
        g, g_low = scaled(g, g_low, sets[1, i], 0.0)
        f, f_low = total(f, f_low, g, g_low)
        size += abs(g)
    return f, f_low, size


@exact_kernel
def _exp(a, a_low, sharp):
    """Return ``e^a``: all of it, or as good as the library's functions are."""
    if sharp:
        return exponential(a, a_low)
    size = math.exp(a.real)
    c, c_low = two_product(size, math.cos(a.imag))
    s, s_low = two_product(size, math.sin(a.imag))
    return complex(c, s), complex(c_low, s_low) + complex(c, s) * a_low


@exact_kernel
def _node(t, t_low, speed, speed_low, person, sets, sharp):
    """Return ``e^{K(t) - t epsilon}/(t (1 + t))`` times ``speed``, and what its rounding is relative to.

    The speed is that of t along the contour. Of the Laplace losses all, or the exponentials in ``sets``.
    """
    level, level_low, nu, nu_low, half, half_low, lap, count = person
    after, after_low = total(t, t_low, 1.0 + 0.0j, 0.0j)
    poles, poles_low = product(t, t_low, after, after_low)
    expo, expo_low = scaled(t, t_low, -level, -level_low)
    f, f_low, _q, _q_low = reciprocals(poles, poles_low)
    f, f_low = product(f, f_low, speed, speed_low)
    for j in range(nu.size):
        if nu[j] == 0.0 and half[j] == 0.0:
            continue
        g, g_low = scaled(poles, poles_low, half[j], half_low[j])
        if nu[j] != 0.0:
            a, a_low = scaled(t, t_low, -nu[j], -nu_low[j])
            a, a_low = total(a, a_low, 1.0 + 0.0j, 0.0j)
            one, one_low, q, q_low = reciprocals(a, a_low)
            f, f_low = product(f, f_low, q, q_low)
            if half[j] != 0.0:
                g, g_low = product(g, g_low, one, one_low)
        expo, expo_low = total(expo, expo_low, g, g_low)
    if sets.shape[1] == 0:
        for k in range(lap.size):
            if lap[k] != 0.0:
                g, g_low = _laplace(t, t_low, lap[k])
                g, g_low = power(g, g_low, count[k])
                f, f_low = product(f, f_low, g, g_low)
        e, e_low = _exp(expo, expo_low, sharp)
        f, f_low = product(e, e_low, f, f_low)
        return f, f_low, abs(f)
    middle, middle_low = total(t, t_low, after, after_low)
    g, g_low, _q, _q_low = reciprocals(middle, middle_low)
    g, g_low = product(g, g_low, after, after_low)
    g, g_low = power(g, g_low, np.sum(count))
    f, f_low = product(f, f_low, g, g_low)
    g, g_low, size = _sum_of_sets(expo, expo_low, t, t_low, after, after_low, sets, sharp)
    size *= abs(f)
    f, f_low = product(f, f_low, g, g_low)
    return f, f_low, size


@exact_kernel
def _integral(t0, w, bend, step, still, person, sets, sharp):
    """Return the integral as a pair, minus its slope, a bound of its curvature and its error.

    The step is halved while that moves more than ``still``. An infinite error says that this contour does not serve.
    """
    for _ in range(4):
        e, e_low = 1.0, 0.0
        grow, grow_low = expm1_pair(step)
        grow, grow_low = plus(grow, grow_low, 1.0, 0.0)
        high, low, even, even_low = 0.0, 0.0, 0.0, 0.0
        slope, curve, mass, largest = 0.0, 0.0, 0.0, 0.0
        k, quiet = 0, 0
        while quiet < 2 and k * step < FURTHEST:
            z, z_low, speed, speed_low = hyperbola(e, e_low, bend)
            t, t_low = scaled(z, z_low, w, 0.0)
            t, t_low = total(t, t_low, complex(t0, 0.0), 0.0j)
            f, f_low, size = _node(t, t_low, speed, speed_low, person, sets, sharp)
            share = 0.5 if k == 0 else 1.0
            size *= share
            if not size < (1e3 * largest if k > 0 else np.inf):
                return 0.0, 0.0, 0.0, 0.0, np.inf
            largest = max(largest, size)
            quiet = quiet + 1 if size < NEGLIGIBLE * largest else 0
            high, low = plus(high, low, share * f.real, share * f_low.real)
            if k % 2 == 0:
                even, even_low = plus(even, even_low, 2.0 * share * f.real, 2.0 * share * f_low.real)
            slope += share * (f.real * t.real - f.imag * t.imag)
            curve += size * (t.real * t.real + t.imag * t.imag)
            mass += size
            k += 1
            e, e_low = times(e, e_low, grow, grow_low)
        if quiet < 2:
            return 0.0, 0.0, 0.0, 0.0, np.inf
        unit, unit_low = times(step, 0.0, w, 0.0)
        unit, unit_low = over(unit, unit_low, math.pi, PI_LOW)
        halved = abs((even - high) + (even_low - low)) / mass
        # along a bent contour everything dies and halving the step squares the error; the power 3/2 leaves room
        halved = (halved if bend == 0.0 else halved * math.sqrt(halved)) * mass * unit
        if halved <= still:
            break
        step *= 0.5
    high, low = times(high, low, unit, unit_low)
    error = (PAIR_NODE if sharp else LIBRARY_NODE) * mass * unit + 2.0 * halved
    return high, low, slope * unit, curve * unit, error


@exact_kernel
def _sets(lap, count, out):
    """Fill in every choice of the Laplace losses that came out negative.

    How many they are, how often the choice occurs, the loss of all and the sum of distances of the chosen (as pairs).
    """
    n = 1
    out[1, 0] = 1.0  # the others are zero
    for g in range(lap.size):
        c = int(count[g])
        for k in range(c, -1, -1):  # none comes last, it overwrites what the others are made from
            choices = 1.0
            for i in range(k):
                choices = choices * (c - i) / (i + 1)
            D, D_low = times(float(k), 0.0, lap[g], 0.0)
            rest, rest_low = times(float(c - 2 * k), 0.0, lap[g], 0.0)
            for i in range(n):
                here = k * n + i
                out[0, here], out[1, here] = out[0, i] + k, out[1, i] * choices
                out[2, here], out[3, here] = plus(out[2, i], out[3, i], rest, rest_low)
                out[4, here], out[5, here] = plus(out[4, i], out[5, i], D, D_low)
        n *= c + 1


@exact_kernel
def _value(laid, still, person, sets, sharp):
    """Return what ``_integral`` does along the contour that was laid; among atoms along two.

    Those are bent to the side where their exponentials die. Without Gaussian losses the second gives nothing.
    """
    t0, w, bend, step = laid
    value, value_low, slope, curve, error = 0.0, 0.0, 0.0, 0.0, 0.0
    group = np.empty(sets.shape)
    for above in range(2 if step == 0.0 else 1):
        n = 0
        for i in range(sets.shape[1]):
            if (bend - 2.0 * w * sets[4, i] > 0.0) == (above == 0):
                for row in range(6):
                    group[row, n] = sets[row, i]
                n += 1
        if step == 0.0 and (n == 0 or (above == 1 and not (person.nu.any() or person.half.any()))):
            continue
        side = -1.0 if above == 0 else 1.0
        part = (0.0, 0.0, 0.0, 0.0, np.inf)
        for steep in (SLIGHT, STRONG):
            if part[4] == np.inf:
                tangent, first = (side * steep, STEP) if step == 0.0 else (bend, step)
                part = _integral(t0, w, tangent, first, still, person, group[:, :n], sharp)
        value, value_low = plus(value, value_low, part[0], part[1])
        slope, curve, error = slope + part[2], curve + part[3], error + part[4]
    return value, value_low, slope, curve, error


@exact_kernel
def refine(delta, laid, losses, out):
    """Lower each epsilon in ``out`` to what the pairs of floats say; ``laid`` holds t0, w, bend and step.

    Right of 0 the integral is ``delta``, left of it ``delta - 1``. A Newton step, raised by the error; where the
    contour does not serve, epsilon stays what it is.
    """
    nu, nu_low, m2, m2_low, lap, count = losses
    half, half_low = np.empty(nu.shape[1]), np.empty(nu.shape[1])
    for i in range(out.size):
        logs, logs_low = 0.0, 0.0
        for j in range(nu.shape[1]):
            half[j], half_low[j] = 0.5 * m2[i, j], 0.5 * m2_low[i, j]
            v, v_low = plus(1.0, 0.0, nu[i, j], nu_low[i, j])
            log, log_low = log_pair(nu[i, j], nu_low[i, j], v, v_low)
            logs, logs_low = plus(logs, logs_low, 0.5 * log, 0.5 * log_low)
        many = np.prod(count[i] + 1.0) if laid[i, 3] == 0.0 else 0.0
        if many > MANY:
            continue
        sets = np.zeros((6, int(many)))
        if many > 0.0:
            _sets(lap[i], count[i], sets)
        goal, goal_low = (delta[i], 0.0) if laid[i, 0] > 0.0 else two_sum(delta[i], -1.0)
        epsilon, sharp = out[i], 0
        for _ in range(4):
            level, level_low = plus(logs, logs_low, epsilon, 0.0)
            person = ShiftedLosses(level, level_low, nu[i], nu_low[i], half, half_low, lap[i], count[i])
            value, value_low, slope, curve, error = _value(laid[i], PAIR_STEP * abs(goal), person, sets, sharp > 0)
            if not (error < PROMISED * abs(goal) and slope > 0.0):
                break
            move = ((value - goal) + (value_low - goal_low)) / slope
            if abs(move) < CLOSE:
                slack = SURE * (error + 2.0 * curve * move * move) / slope
                out[i] = min(out[i], max(epsilon + move + slack, 0.0) * UP)
                if sharp > 0 or 2.0 * slack < max(PROMISED * out[i], PROMISED_ABSOLUTE):
                    break
                sharp = 1
            epsilon = max(epsilon + move, 0.0)
