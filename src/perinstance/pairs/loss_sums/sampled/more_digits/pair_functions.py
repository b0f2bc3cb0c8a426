r"""``e^a``, ``e^a - 1`` and ``log(1 + a)`` of complex numbers of twice the usual digits, without loss next to zero.

**The exponential.** ``a = n log 2 + i k pi/2 + (j log 2 + 2 i l pi)/32 + r``, j and l up to 16, ``|r| < 0.027``; with
``e = e^r - 1`` from fourteen terms of its series (what is left out is 8e-35 of it) and tables of
``A = 2^{j/32} - 1`` and ``B = e^{i l pi/64} - 1``. Let p be ``PAIR_PRODUCT``; sums lose p/2 of the sizes of what they
add. The series loses 2.6p of e, ``1 + e`` p/2, and two more products 2p: ``e^a`` loses 4p of itself, and for taking
the parts off a ``2^-100 |a|``; together ``PAIR_EXPONENTIAL (1 + |a|/2)``.

Next to zero (n and k are 0) ``e^a - 1 = (1 + A)(1 + B)(1 + e) - 1`` is added up from A, B and e and loses at most
``8p (|A| + |B| + |e|)``; that is 2.6p of itself where j and l are zero too, and else 96p of itself, because
``|A| + |B| + |e| <= 5 |a|`` and ``|e^a - 1| >= 0.42 |a|``. Elsewhere ``|e^a - 1| > 0.29``: 22p where ``|Im a| < pi``.

**The logarithm** ``l`` of floats is corrected by ``d = (a - (e^l - 1))/e^l``, ``log(1 + a) = l + log(1 + d)``, and
``d - d^2/2`` has all digits of the last: d is some units in the last place of l. ``|e^l - 1|/|e^l|`` is at most
``2.4 |l|`` next to zero, and elsewhere ``|l| > 0.34``. So the logarithm loses 10p of itself where it is below 1/100 in
size, elsewhere ``PAIR_LOGARITHM``; and next to a = -1, where sums have lost their digits, ``4 PAIR_SUM/|1 + a|`` more.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.double_double import times
from perinstance.numerics.double_double_complex import product, scaled, total
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import LOG_2_LOW, PAIR_EXPONENTIAL, PAIR_LOGARITHM, PAIR_PRODUCT, PAIR_SUM, PI_LOW

TERMS, PARTS = 14, 16
LOG_2, HALF_PI = math.log(2.0), 0.5 * math.pi
#: Next to zero, in size: logarithms lose so many ``PAIR_PRODUCT`` of themselves.
SMALL, SMALL_LOST = 0.01, 10.0
PI = "3.14159265358979323846264338327950288419716939937510582097494"


def _powers_of_two() -> list[complex]:
    """Return ``2^{j/32} - 1``, j = -16 ... 16, as pairs: first floats, then second ones."""
    with localcontext(prec=50):
        return _in_pairs([(Decimal(2) ** (Decimal(j) / 32) - 1, Decimal(0)) for j in range(-PARTS, PARTS + 1)])


def _turns() -> list[complex]:
    """Return ``e^{i l pi/64} - 1``, l = -16 ... 16."""
    found = []
    with localcontext(prec=50):
        for j in range(-PARTS, PARTS + 1):
            angle, real, imag, term = Decimal(PI) * j / 64, Decimal(0), Decimal(0), Decimal(1)
            for k in range(1, 40):
                term *= angle / k
                sign = -1 if k % 4 in (2, 3) else 1
                real, imag = (real + sign * term, imag) if k % 2 == 0 else (real, imag + sign * term)
            found.append((real, imag))
        return _in_pairs(found)


def _in_pairs(numbers: list[tuple[Decimal, Decimal]]) -> list[complex]:
    first = [complex(float(real), float(imag)) for real, imag in numbers]
    rest = [(a - Decimal(b.real), c - Decimal(b.imag)) for (a, c), b in zip(numbers, first, strict=True)]
    return first + [complex(float(real), float(imag)) for real, imag in rest]


#: ``1/j`` as pairs.
INVERSE = np.array([1.0 / max(j, 1) for j in range(TERMS + 1)])
INVERSE_LOW = np.array([float(Fraction(1, max(j, 1)) - Fraction(1.0 / max(j, 1))) for j in range(TERMS + 1)])
GROWN: NDArray[np.complex128] = np.array(_powers_of_two()).reshape(2, -1)
TURNED: NDArray[np.complex128] = np.array(_turns()).reshape(2, -1)


@exact_kernel
def _series(a, a_low):
    """Return ``e^a - 1`` of a next to zero."""
    e, e_low = 1.0 + 0.0j, 0.0j
    for j in range(TERMS, 1, -1):
        e, e_low = product(e, e_low, a, a_low)
        e, e_low = scaled(e, e_low, INVERSE[j], INVERSE_LOW[j])
        e, e_low = total(e, e_low, 1.0 + 0.0j, 0.0j)
    return product(e, e_low, a, a_low)


@exact_kernel
def _without(a, a_low, log_2, half_pi):
    """Return a less so many log 2 and ``i pi/2``."""
    real, real_low = times(log_2, 0.0, LOG_2, LOG_2_LOW)
    imag, imag_low = times(half_pi, 0.0, HALF_PI, 0.5 * PI_LOW)
    return total(a, a_low, complex(-real, -imag), complex(-real_low, -imag_low))


@exact_kernel
def _reduced(a, a_low):
    """Return n, k, the positions of j and l in the tables, and ``e^r - 1``."""
    n, k = np.rint(a.real / LOG_2), np.rint(a.imag / HALF_PI)
    rest = complex(a.real - n * LOG_2, a.imag - k * HALF_PI)
    j = min(max(np.rint(rest.real * (2 * PARTS / LOG_2)), -PARTS), PARTS)
    turn = min(max(np.rint(rest.imag * (2 * PARTS / HALF_PI)), -PARTS), PARTS)
    a, a_low = _without(a, a_low, n + j / (2 * PARTS), k + turn / (2 * PARTS))
    e, e_low = _series(a, a_low)
    return n, k, int(j) + PARTS, int(turn) + PARTS, e, e_low


@exact_kernel
def _multiplied(n, k, grown, turned, e, e_low):
    """Return ``e^a`` from its parts."""
    e, e_low = total(e, e_low, 1.0 + 0.0j, 0.0j)
    turn, turn_low = total(TURNED[0, turned], TURNED[1, turned], 1.0 + 0.0j, 0.0j)
    e, e_low = product(e, e_low, turn, turn_low)
    more, more_low = total(GROWN[0, grown], GROWN[1, grown], 1.0 + 0.0j, 0.0j)
    e, e_low = scaled(e, e_low, more.real, more_low.real)
    quarter = k % 4.0
    if quarter == 1.0:
        e, e_low = complex(-e.imag, e.real), complex(-e_low.imag, e_low.real)
    elif quarter == 2.0:
        e, e_low = -e, -e_low
    elif quarter == 3.0:
        e, e_low = complex(e.imag, -e.real), complex(e_low.imag, -e_low.real)
    size = math.ldexp(1.0, int(n))
    return e * size, e_low * size


@exact_kernel
def exp_complex(a, a_low):
    """Return ``e^a`` of a pair whose real part lies within the exponents of floats."""
    return _multiplied(*_reduced(a, a_low))


@exact_kernel
def expm1_complex(a, a_low):
    """Return ``e^a - 1`` of such a pair."""
    n, k, grown, turned, e, e_low = _reduced(a, a_low)
    if n == 0.0 and k == 0.0:
        for table, at in ((TURNED, turned), (GROWN, grown)):
            both, both_low = product(e, e_low, table[0, at], table[1, at])
            e, e_low = total(e, e_low, both, both_low)
            e, e_low = total(e, e_low, table[0, at], table[1, at])
        return e, e_low
    e, e_low = _multiplied(n, k, grown, turned, e, e_low)
    return total(e, e_low, -1.0 + 0.0j, 0.0j)


@exact_kernel
def expm1_lost(a, e):
    """Return what ``e = e^a - 1`` has lost, ``|Im a| < pi``."""
    return (3.0 * PAIR_PRODUCT if abs(a) < SMALL else 24.0 * PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(a))) * abs(e)


@exact_kernel
def log1p_complex(a, a_low):
    """Return ``log(1 + a)`` of a pair, on the main branch; a is not -1."""
    w, _ = total(a, a_low, 1.0 + 0.0j, 0.0j)
    if a.real > -0.5:
        real = 0.5 * math.log1p(a.real * (2.0 + a.real) + a.imag * a.imag)
    else:
        real = math.log(math.hypot(w.real, w.imag))
    log = complex(real, math.atan2(w.imag, w.real))
    back, back_low = expm1_complex(log, 0.0j)
    rest, rest_low = total(a, a_low, -back, -back_low)
    d = (rest + rest_low) / w
    return total(log, 0.0j, d - 0.5 * d * d, 0.0j)


@exact_kernel
def log1p_lost(a, log):
    """Return what ``log(1 + a)`` has lost."""
    size = abs(log)
    lost = (SMALL_LOST * PAIR_PRODUCT if size < SMALL else PAIR_LOGARITHM) * size
    return lost + 4.0 * PAIR_SUM / abs(1.0 + a) if abs(a) > 0.5 else lost
