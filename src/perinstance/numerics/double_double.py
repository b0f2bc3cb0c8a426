"""Sums of two floats, for the few differences that cancel: about 32 digits (Dekker, Knuth).

A pair ``(high, low)`` stands for ``high + low``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from perinstance.numerics.compilation import exact_kernel
from perinstance.numerics.rounding import UNIT


@exact_kernel
def two_sum(a, b):
    """Return the sum of two floats as a pair, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fused(typingctx, a, b, c):
    """Return ``a b + c``, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


fused: Any = intrinsic(_fused)


@exact_kernel
def two_product(a, b):
    """Return the product of two floats as a pair, exactly."""
    product = a * b
    return product, fused(a, b, -product)


@exact_kernel
def times(a, a_low, b, b_low):
    """Multiply two pairs."""
    high, low = two_product(a, b)
    return two_sum(high, low + (a * b_low + a_low * b))


@exact_kernel
def over(a, a_low, b, b_low):
    """Divide two pairs."""
    high = a / b
    back, back_low = two_product(high, b)
    return two_sum(high, ((a - back) - back_low + a_low - high * b_low) / b)


@exact_kernel
def log1p_pair(x):
    """Return ``log(1 + x)`` of x >= 0 as a pair: one Newton step, ``low = (x - expm1(high))/(1 + x)``."""
    high = math.log1p(x)
    e, e_low = expm1_pair(high)
    return high, ((x - e) - e_low) / (1.0 + x)


@exact_kernel
def expm1_pair(x):
    """Return ``e^x - 1`` of x >= 0 as a pair: the series at ``x/2^k`` and k doublings ``e -> e (2 + e)``."""
    k = 0
    y = x
    while y > 0.01:
        y *= 0.5
        k += 1
    e, e_low = 1.0, 0.0  # y + y^2/2 + ... + y^12/12! by Horner
    for j in range(12, 1, -1):
        e, e_low = times(e, e_low, y, 0.0)
        e, e_low = over(e, e_low, float(j), 0.0)
        e, rest = two_sum(1.0, e)
        e_low += rest
    e, e_low = times(e, e_low, y, 0.0)
    for _ in range(k):
        two, two_low = two_sum(2.0, e)
        e, e_low = times(e, e_low, two, two_low + e_low)
    return e, e_low


@exact_kernel
def plus(a, a_low, b, b_low):
    """Add two pairs."""
    high, low = two_sum(a, b)
    return two_sum(high, low + (a_low + b_low))


@exact_kernel
def root(a, a_low):
    """Return the square root of a pair >= 0."""
    if a == 0.0:
        return 0.0, 0.0
    high = math.sqrt(a)
    back, back_low = two_product(high, high)
    return two_sum(high, ((a - back) - back_low + a_low) / (2.0 * high))


@exact_kernel
def raised(high, low):
    """Return the smallest float that is not below the pair."""
    total = high + low
    return np.nextafter(total, np.inf) if (high - total) + low > 0.0 else total


@exact_kernel
def one_less_product(a, a_low, b, b_low):
    """Return ``1 - a b`` of two pairs, rounded down; of floats that are next to each other's inverse too."""
    product, low = two_product(a, b)
    rest = a_low * b + a * b_low
    return ((1.0 - product) - (low + rest)) * (1.0 - UNIT) - 2.0 * UNIT * abs(rest)
