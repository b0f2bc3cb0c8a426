"""Scalar functions the profiles are made of: the Mills ratio and its drop, masses of intervals, ``log1p(x) - x``.

The Mills ratio is ``R(x) = (1 - Phi(x)) / phi(x)``. With it every normal tail is ``phi(x) R(x)``, and the exponentials
that overflow in textbook formulas cancel on paper instead of in the machine.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.compilation import kernel, piece
from perinstance.numerics.rounding import MILLS_ERROR, NEGLIGIBLE

#: Below this argument 1 - Phi is no longer small, and callers use the other tail.
MILLS_FROM = -1.5

# R(x) = G(y)/(x + 6) with y = (x - 3)/(x + 6), which maps [-1.5, inf) to [-1, 1); G by its Chebyshev expansion of
# degree 27 (60 digits), rewritten in powers of y. Relative error below 2e-15; tests/pairs/test_special.py.
MILLS = (
    2.74131268839093,
    -4.243244725053969,
    5.503836659827634,
    -6.015744135037957,
    5.52686597639112,
    -4.218169754302813,
    2.605060513370133,
    -1.2293096302761388,
    0.37835838129650395,
    -0.022059902444911288,
    -0.04537370590269242,
    0.020186633512609492,
    0.0010470422024784517,
    -0.003734943259715957,
    0.0006249370976759442,
    0.0005869200952598223,
    -0.00019926979672686573,
    -9.79108712391025e-05,
    4.6899808753129245e-05,
    1.9208378746931753e-05,
    -1.0002097104799909e-05,
    -4.346316058500728e-06,
    1.9055258349693715e-06,
    9.738581119481218e-07,
    -2.8317991236952037e-07,
    -1.7067803070932682e-07,
    2.3433624989472373e-08,
    1.6027853047066318e-08,
)
(_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13) = MILLS[:14]
(_C14, _C15, _C16, _C17, _C18, _C19, _C20, _C21, _C22, _C23, _C24, _C25, _C26, _C27) = MILLS[14:]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
#: Gauss-Legendre nodes and weights for [0, 1]
NODES, WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


@kernel
def phi(x):
    """Return the standard normal density."""
    return INV_SQRT_2PI * math.exp(-0.5 * x * x)


@piece
def mills_at(i):
    """``R(x)`` given ``i = 1/(x + 6)``, for loops that share a division; four chains instead of one."""
    y = 1.0 - 9.0 * i
    y2 = y * y
    y4 = y2 * y2
    a = _C0 + y4 * (_C4 + y4 * (_C8 + y4 * (_C12 + y4 * (_C16 + y4 * (_C20 + y4 * _C24)))))
    b = _C1 + y4 * (_C5 + y4 * (_C9 + y4 * (_C13 + y4 * (_C17 + y4 * (_C21 + y4 * _C25)))))
    c = _C2 + y4 * (_C6 + y4 * (_C10 + y4 * (_C14 + y4 * (_C18 + y4 * (_C22 + y4 * _C26)))))
    d = _C3 + y4 * (_C7 + y4 * (_C11 + y4 * (_C15 + y4 * (_C19 + y4 * (_C23 + y4 * _C27)))))
    return i * ((a + y * b) + y2 * (c + y * d))


@kernel
def mills(x):
    """``R(x) = (1 - Phi(x)) / phi(x)`` for x >= -1.5."""
    return mills_at(1.0 / (x + 6.0))


@kernel
def mills_drop(x, h):
    """``R(x) - R(x + h)`` for x >= -1.5, h >= 0, without cancellation when h is small.

    Taylor coefficients ``c_k = R^(k)(x)/k!`` follow from ``R' = x R - 1``: ``(k + 1) c_{k+1} = x c_k + c_{k-1}``.
    """
    if h > 0.04:
        return mills(x) - mills(x + h)
    before = mills(x)
    now = x * before - 1.0
    power = h
    drop = -now * power
    for k in range(1, 9):
        before, now = now, (x * now + before) / (k + 1.0)
        power *= h
        drop -= now * power
    return drop


@kernel
def drop_lost(x, h):
    """Return what ``mills_drop(x, h)`` may have lost, absolutely.

    Beyond 0.04 it is a difference of two ratios. Below it is a series from R and ``R' = x R - 1``, along which an error
    of R grows like ``e^{x h}``: to less than ``3 x h R`` times the relative one, and ``x R < 1``. Left of zero nothing
    cancels, and ``|R'| < 12``.
    """
    if h > 0.04:
        return MILLS_ERROR * (mills(x) + mills(x + h))
    return MILLS_ERROR * h * (3.0 if x > 0.0 else 18.0)


@kernel
def central_mass(a, r, u):
    """``P(|Z + r| < a)`` for a standard normal Z, a >= 0 and r >= 0, with full relative accuracy.

    ``u = a - r`` is asked for because callers know it better than this subtraction would when both are large.
    """
    product = a * r
    if a <= 1.0 and product < 4.0:  # the two tails would cancel: integrate the density over [-a, a]
        total = 0.0
        for node, weight in zip(NODES, WEIGHTS):  # noqa: B905 - numba knows no strict
            y = a * node
            total += weight * math.exp(-0.5 * y * y) * math.cosh(r * y)
        return 2.0 * a * phi(r) * total
    mirror = math.exp(-2.0 * product) * mills(a + r)
    if u > 1.0:
        return 1.0 - phi(u) * (mills(u) + mirror)
    return phi(u) * (mills(-u) - mirror)


@kernel
def log1pmx(x):
    """``log(1 + x) - x`` for x > -1, without cancellation near zero."""
    return -excess_of_log(x, 1.0 + x)


@kernel
def excess_of_log(x, one_plus_x):
    """``x - log(1 + x)`` >= 0 for x > -1, without cancellation near zero; ``1 + x`` is given for x near -1.

    With ``z = x/(2 + x)``: ``log1p(x) = 2 artanh(z)`` and ``x - 2z = x z``.
    """
    if x < -0.4 or x > 1.0:
        return x - math.log(one_plus_x)
    z = x / (2.0 + x)
    square = z * z
    total = 0.0
    power = 1.0
    for k in range(1, 40):
        power *= square
        term = power / (2.0 * k + 1.0)
        total += term
        if term < NEGLIGIBLE * total:
            break
    return x * z - 2.0 * z * total


@kernel
def expm1px(x):
    """``exp(-x) - 1 + x`` for x >= 0, without cancellation near zero."""
    if x > 0.5:
        return math.expm1(-x) + x
    term = 0.5 * x * x
    total = term
    for k in range(3, 18):
        term *= -x / k
        total += term
    return total
