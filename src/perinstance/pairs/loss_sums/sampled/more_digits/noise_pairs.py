r"""The noise of one sampled step in pairs of floats: ``a_x`` and ``lambda_x`` of ``noise_balls.py``, far faster.

Of each node x of the noise: ``lambda = +-log(1 + q (e^u - 1))``, ``u = m x - m^2/2``, and the exponent of ``a_x``. What
lambda loses, to first order (all of it is some 1e-28, and each sum is rounded up by a hundredth): what the logarithm
loses, and over ``w = 1 + q (e^u - 1)`` what ``e^u - 1`` loses by itself and by u (``pair_functions.py``). All
factors ``e^{i h lambda}`` come from the same lambda: after k nodes of the line that is ``k h`` times its error, and the
errors of as many exponentials as there were factors; what these lose with ``|h lambda|`` grows with k h as well.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import over, plus, times, two_product, two_sum
from perinstance.numerics.double_double_complex import product, scaled, total
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import PAIR_EXPONENTIAL, PAIR_PRODUCT, PAIR_SUM, PI_LOW, VANISHED
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import (
    exp_complex,
    expm1_complex,
    expm1_lost,
    log1p_complex,
    log1p_lost,
)

SMALLEST = math.log(VANISHED)  # a term that is smaller counts as zero
ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
#: Exponents beyond which w is ``q e^u``, to all digits, unless q is next to nothing.
LARGE = 300.0


class NoisePairs(NamedTuple):
    """Weights and losses, four rows each: parts of the first floats, then of the second.

    ``size`` is the sum of ``|a_x|``; ``off_weight`` that of what they have lost, and ``off_loss`` that of ``|a_x|``
    times what ``k h lambda_x``, and factors by it, have lost over ``k h``.
    """

    weights: Floats
    losses: Floats
    off_weight: float
    off_loss: float
    size: float


def noise_in_pairs(
    step: Any, c: float, window: tuple[float, float], height: float, noise: int, lanes: int
) -> NoisePairs:
    """Return the nodes of a window, off the real line, with zeros up to a multiple of ``lanes``."""
    weights, losses = np.zeros((2, 4, -(-noise // lanes) * lanes))
    lost = np.zeros(3)
    place = np.array([c, *window, height if step.over else -height])
    fill_noise(step.q, step.m, step.over, place, noise, weights, losses, lost)
    return NoisePairs(weights, losses, *(1.01 * lost).tolist())


@exact_kernel
def loss_of_noise(q, m, z, z_low, w_lost):
    """Return ``log(1 + q (e^{m z - m^2/2} - 1))`` of a complex pair, on the main branch, and what it has lost.

    ``w_lost`` is how far off z is; ``|e^{m z - m^2/2}|`` is above 2 where its angle is beyond pi.
    """
    real, real_low = times(z.real, z_low.real, m, 0.0)
    half, half_low = two_product(m, 0.5 * m)
    real, real_low = plus(real, real_low, -half, -half_low)
    imag, imag_low = times(z.imag, z_low.imag, m, 0.0)
    u, u_low = complex(real, imag), complex(real_low, imag_low)
    off = m * w_lost + 2.0 * PAIR_SUM * (m * abs(z.real) + half + abs(imag))
    if real > LARGE and real + math.log(q) > 0.5 * LARGE:
        return _large_loss(q, u, u_low, off)
    e, e_low = expm1_complex(u, u_low)
    grown = math.exp(real)
    off_e = expm1_lost(u, e) + 1.01 * grown * off
    v, v_low = scaled(e, e_low, q, 0.0)
    log, low = log1p_complex(v, v_low)
    lost = log1p_lost(v, log) + (q * off_e + PAIR_PRODUCT * abs(v)) / abs(1.0 + v)
    return log, low, 1.01 * lost


@exact_kernel
def _large_loss(q, u, u_low, off):
    """Return ``u + log q`` on the main branch for ``log(1 + q (e^u - 1))``; off by at most ``2 e^-u/q`` more."""
    v, v_low = two_sum(q, -1.0)
    log, low = log1p_complex(complex(v, 0.0), complex(v_low, 0.0))
    turns = np.rint(u.imag / (2.0 * math.pi))
    angle, angle_low = times(-turns, 0.0, 2.0 * math.pi, 2.0 * PI_LOW)
    found, found_low = total(u, u_low, complex(log.real, angle), complex(low.real, angle_low))
    lost = off + log1p_lost(complex(v, 0.0), log) + 2.0 * math.exp(-u.real) / q
    return found, found_low, 1.01 * (lost + 2.0 * PAIR_SUM * (abs(u) + abs(log) + abs(angle)))


@exact_kernel
def fill_noise(q, m, over_, place, noise, weights, losses, lost):
    """Fill in weights and losses; ``place``: the order c, both ends of the window, theta. ``lost``: see the record."""
    c, low, high, theta = place
    wide, wide_low = two_sum(high, -low)
    half, half_low = over(wide, wide_low, 2.0 * noise, 0.0)
    root, root_low = root_of_two_pi()
    unit, unit_low = over(2.0 * half, 2.0 * half_low, root, root_low)
    power, power_low = two_sum(c, 1.0 if over_ else 0.0)
    for i in range(noise):
        x, x_low = times(half, half_low, 2.0 * i + 1.0, 0.0)
        x, x_low = plus(x, x_low, low, 0.0)
        off_x = 4.0 * PAIR_SUM * (abs(low) + abs(x) + wide)
        z, z_low = complex(x, theta), complex(x_low, 0.0)
        log, log_low, off = loss_of_noise(q, m, z, z_low, off_x)
        sign = 1.0 if over_ else -1.0
        log, log_low = sign * log, sign * log_low
        square, square_low = product(z, z_low, z, z_low)
        a, a_low = scaled(log, log_low, power, power_low)
        off_a = 1.01 * abs(power) * off + off_x * abs(z)
        off_a += 2.0 * PAIR_PRODUCT * (abs(a) + abs(square))
        a, a_low = total(a, a_low, -0.5 * square, -0.5 * square_low)
        off_a += 1.01 * PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(a)) + 4.0 * PAIR_PRODUCT
        losses[0, i], losses[1, i], losses[2, i], losses[3, i] = log.real, log.imag, log_low.real, log_low.imag
        if a.real < SMALLEST:
            lost[0] += VANISHED
            continue
        a, a_low = exp_complex(a, a_low)
        a, a_low = scaled(a, a_low, unit, unit_low)
        weights[0, i], weights[1, i], weights[2, i], weights[3, i] = a.real, a.imag, a_low.real, a_low.imag
        size = abs(a)
        lost[0] += size * off_a
        lost[1] += size * (off + (0.5 * PAIR_EXPONENTIAL + PAIR_PRODUCT) * abs(log))
        lost[2] += size


@exact_kernel
def root_of_two_pi():
    """Return ``sqrt(2 pi)`` as a pair."""
    back, back_low = two_product(ROOT_TWO_PI, ROOT_TWO_PI)
    rest = ((2.0 * math.pi - back) - back_low) + 2.0 * PI_LOW
    return two_sum(ROOT_TWO_PI, rest / (2.0 * ROOT_TWO_PI))


@exact_kernel
def fill_turns(losses, angles, turns):
    """Fill in ``e^{i angle lambda}`` of every node, four rows for each angle."""
    for j in range(angles.size):
        for i in range(losses.shape[1]):
            a, a_low = complex(-losses[1, i], losses[0, i]), complex(-losses[3, i], losses[2, i])
            a, a_low = scaled(a, a_low, angles[j], 0.0)
            a, a_low = exp_complex(a, a_low)
            turns[j, 0, i], turns[j, 1, i], turns[j, 2, i], turns[j, 3, i] = a.real, a.imag, a_low.real, a_low.imag
