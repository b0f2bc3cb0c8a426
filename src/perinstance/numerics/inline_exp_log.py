"""Exponential and logarithm as straight-line polynomials, for loops the compiler turns into SIMD code.

A call to the mathematics library inside a loop keeps it scalar. These have no branches and no calls. Accuracy: a few
units in the last place over the ranges stated.
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.compilation import piece

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SHIFTER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@piece
def bits_of(x):
    """Return the bits of a float as an integer."""
    return np.float64(x).view(np.int64)


@piece
def float_of(bits):
    """Return the float with these bits."""
    return np.int64(bits).view(np.float64)


@piece
def fast_exp(x):
    """``e^x`` for -700 <= x <= 700: ``2^k e^r`` with ``|r| <= log(2)/2`` and the Taylor polynomial of degree 13."""
    shifted = x * _LOG2E + _SHIFTER
    k = shifted - _SHIFTER
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    a = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0))
    b = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    c = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0))
    d = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    p = a + r4 * (b + r4 * (c + r4 * d))
    return float_of(bits_of(p) + (bits_of(shifted) << 52))


@piece
def fast_log1p(x):
    """``log(1 + x)`` for x >= 0: ``k log 2 + 2 artanh(f/(2 + f))`` with ``1 + x = 2^k (1 + f)``."""
    bits = bits_of(1.0 + x)
    k = (bits - _SQRT_HALF_BITS) >> 52
    f = float_of(bits - (k << 52)) - 1.0
    f = x if k == 0 else f
    z = f / (2.0 + f)
    w = z * z
    w2 = w * w
    w4 = w2 * w2
    p = (1.0 / 3.0 + w * (1.0 / 5.0)) + w2 * (1.0 / 7.0 + w * (1.0 / 9.0))
    q = (1.0 / 11.0 + w * (1.0 / 13.0)) + w2 * (1.0 / 15.0 + w * (1.0 / 17.0))
    p += w4 * (q + w4 * (1.0 / 19.0 + w * (1.0 / 21.0)))
    kf = float(k)
    return kf * _LN2_HIGH + (2.0 * z + (2.0 * z * w * p + kf * _LN2_LOW))
