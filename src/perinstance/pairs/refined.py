r"""Epsilon where nearly all of delta is total variation: the profile once more, in pairs of floats.

Next to epsilon = 0, ``1 - delta = P(L < epsilon) + e^epsilon Q(L > epsilon)`` may change with epsilon by a fortieth of
itself only (not less while ``1 - delta`` is a difference of floats, because K is convex), so 1e-13 of epsilon asks for
2e-15 of ``1 - delta``, with an exponent of size 40. Here the same contour is summed with

``K(t) - t epsilon = sum_j t (1 + t) m^2/(2 a) - (log a)/2 - t (epsilon + sum_j (log v)/2)``, ``a = 1 - t nu``,

all of it in pairs but the last exponential: ``e^{high} (1 + low)`` with the library's exp, cos and sin. They are good
to 0.6 units in the last place each and their product to half of one: together ``LAST`` of each node at the very most.
The step is halved until that moves the sum by less than ``STILL``.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.pairs.compiled import exact_kernel
from perinstance.pairs.double import expm1_pair, over, plus, times, two_sum
from perinstance.pairs.double_complex import (
    exponential,
    hyperbola,
    power,
    product,
    reciprocals,
    scaled,
    total,
)
from perinstance.pairs.hockey import SURE, UP
from perinstance.pairs.levels import log_pair

LAST = 4e-16
STILL = 1e-16
ALIVE = 1e-18  # of the largest node
FURTHEST = 45.0
CLOSE = 1e-8  # a step of epsilon whose square is nothing
PI, PI_LOW = math.pi, 1.2246467991473532e-16


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
def _node(t, t_low, way, way_low, level, level_low, nu, nu_low, half, half_low, lap, count):
    """Return ``e^{K(t) - t epsilon}/(t (1 + t))`` times ``way``."""
    after, after_low = total(t, t_low, 1.0 + 0.0j, 0.0j)
    poles, poles_low = product(t, t_low, after, after_low)
    expo, expo_low = scaled(t, t_low, -level, -level_low)
    f, f_low, _q, _q_low = reciprocals(poles, poles_low)
    f, f_low = product(f, f_low, way, way_low)
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
    for k in range(lap.size):
        if lap[k] != 0.0:
            g, g_low = _laplace(t, t_low, lap[k])
            g, g_low = power(g, g_low, count[k])
            f, f_low = product(f, f_low, g, g_low)
    size = math.exp(expo.real)
    e = complex(size * math.cos(expo.imag), size * math.sin(expo.imag))
    return product(e, e * expo_low, f, f_low)


@exact_kernel
def _integral(t0, w, bend, step, level, level_low, nu, nu_low, half, half_low, lap, count):
    """Return the integral as a pair, minus its slope, a bound of its curvature, its relative error, and half its step's.

    An infinite error says that this contour does not serve.
    """
    e, e_low = 1.0, 0.0
    grow, grow_low = expm1_pair(step)
    grow, grow_low = plus(grow, grow_low, 1.0, 0.0)
    high, low, even = 0.0, 0.0, 0.0
    slope, curve, mass, largest = 0.0, 0.0, 0.0, 0.0
    k, quiet = 0, 0
    while quiet < 2 and k * step < FURTHEST:
        z, z_low, way, way_low = hyperbola(e, e_low, bend)
        t, t_low = scaled(z, z_low, w, 0.0)
        t, t_low = total(t, t_low, complex(t0, 0.0), 0.0j)
        f, f_low = _node(t, t_low, way, way_low, level, level_low, nu, nu_low, half, half_low, lap, count)
        share = 0.5 if k == 0 else 1.0
        size = share * abs(f)
        if not size < (1e3 * largest if k > 0 else np.inf):
            return 0.0, 0.0, 0.0, 0.0, np.inf, 0.0
        largest = max(largest, size)
        quiet = quiet + 1 if size < ALIVE * largest else 0
        high, low = plus(high, low, share * f.real, share * f_low.real)
        even += 2.0 * share * f.real if k % 2 == 0 else 0.0
        slope += share * (f.real * t.real - f.imag * t.imag)
        curve += size * (t.real * t.real + t.imag * t.imag)
        mass += size
        k += 1
        e, e_low = times(e, e_low, grow, grow_low)
    if quiet < 2 or not abs(high) > 0.0:
        return 0.0, 0.0, 0.0, 0.0, np.inf, 0.0
    error, halved = LAST * mass / abs(high), abs((even - high) / high)
    unit, unit_low = times(step, 0.0, w, 0.0)
    unit, unit_low = over(unit, unit_low, PI, PI_LOW)
    high, low = times(high, low, unit, unit_low)
    return high, low, slope * unit, curve * unit, error, halved


@exact_kernel
def refine(delta, laid, nu, nu_low, m2, m2_low, lap, count, out):
    """Lower each epsilon in ``out`` to what the pairs of floats say; ``laid`` holds t0, w, bend and step.

    Right of 0 the integral is ``delta``, left of it ``delta - 1``. A Newton step, raised by the error; where the
    contour does not serve, epsilon stays what it is.
    """
    half, half_low = np.empty(nu.shape[1]), np.empty(nu.shape[1])
    for i in range(out.size):
        t0, w, bend, step = laid[i]
        logs, logs_low = 0.0, 0.0
        for j in range(nu.shape[1]):
            half[j], half_low[j] = 0.5 * m2[i, j], 0.5 * m2_low[i, j]
            v, v_low = plus(1.0, 0.0, nu[i, j], nu_low[i, j])
            log, log_low = log_pair(nu[i, j], nu_low[i, j], v, v_low)
            logs, logs_low = plus(logs, logs_low, 0.5 * log, 0.5 * log_low)
        goal, goal_low = (delta[i], 0.0) if t0 > 0.0 else two_sum(delta[i], -1.0)
        epsilon = out[i]
        for turn in range(5):
            level, level_low = plus(logs, logs_low, epsilon, 0.0)
            value, value_low, slope, curve, error, halved = _integral(
                t0, w, bend, step, level, level_low, nu[i], nu_low[i], half, half_low, lap[i], count[i]
            )
            if not (error < 1e-12 and halved < 1e-6 and slope > 0.0):
                break
            if halved > STILL and turn < 3:
                step *= 0.5
                continue
            error += 2.0 * halved
            move = ((value - goal) + (value_low - goal_low)) / slope
            slack = (error * abs(value) + 2.0 * curve * move * move) / slope
            if abs(move) < CLOSE:
                out[i] = min(out[i], max(epsilon + move + SURE * slack, 0.0) * UP)
                break
            epsilon = max(epsilon + move, 0.0)
