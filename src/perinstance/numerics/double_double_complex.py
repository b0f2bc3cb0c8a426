"""Complex numbers of twice the usual digits: a pair ``(high, low)`` of complex floats stands for ``high + low``."""

from __future__ import annotations

import math

from perinstance.numerics.double_double import over, plus, times, two_product, two_sum
from perinstance.numerics.numba_compile import exact_kernel

TERMS = 14  # of the exponential series of up to 1/32, which they give to 1e-32


@exact_kernel
def product(a, a_low, b, b_low):
    """Multiply two pairs."""
    rr, rr_low = two_product(a.real, b.real)
    ii, ii_low = two_product(a.imag, b.imag)
    ri, ri_low = two_product(a.real, b.imag)
    ir, ir_low = two_product(a.imag, b.real)
    re, re_low = two_sum(rr, -ii)
    im, im_low = two_sum(ri, ir)
    low = complex(re_low + (rr_low - ii_low), im_low + (ri_low + ir_low))
    return two_sum(complex(re, im), low + (a * b_low + a_low * b))


@exact_kernel
def total(a, a_low, b, b_low):
    """Add two pairs."""
    high, low = two_sum(a, b)
    return two_sum(high, low + (a_low + b_low))


@exact_kernel
def scaled(a, a_low, r, r_low):
    """Multiply a pair by a real one."""
    re, re_low = two_product(a.real, r)
    im, im_low = two_product(a.imag, r)
    return two_sum(complex(re, im), complex(re_low, im_low) + (a * r_low + a_low * r))


@exact_kernel
def reciprocals(a, a_low):
    """Return ``1/a`` and ``a^{-1/2}`` (the root right of the imaginary axis), a not zero: four floats.

    From ``q``, the second to the usual digits, by one Newton step: ``g = q^2`` and ``rest = 1 - a g``.
    """
    size = math.sqrt(a.real * a.real + a.imag * a.imag)
    s = math.sqrt(0.5 * (size + abs(a.real)))
    q = complex(s, -0.5 * a.imag / s) if a.real >= 0.0 else complex(0.5 * abs(a.imag) / s, -math.copysign(s, a.imag))
    q = complex(q.real / size, q.imag / size)
    g, g_low = product(q, 0.0j, q, 0.0j)
    back, back_low = product(a, a_low, g, g_low)
    rest = (1.0 - back) - back_low
    g, g_low = two_sum(g, g_low + g * rest)
    return g, g_low, q, 0.5 * q * rest


@exact_kernel
def power(a, a_low, times_):
    """Return a pair to the power of a whole number."""
    out, out_low = 1.0 + 0.0j, 0.0j
    n = int(times_)
    while n > 0:
        if n % 2 == 1:
            out, out_low = product(out, out_low, a, a_low)
        a, a_low = product(a, a_low, a, a_low)
        n //= 2
    return out, out_low


@exact_kernel
def exponential(a, a_low):
    """Return ``e^a``: the series at ``a/2^k``, then k squarings."""
    k, scale = 0, 1.0
    while max(abs(a.real), abs(a.imag)) * scale > 1.0 / 32.0:
        k += 1
        scale *= 0.5
    a, a_low = a * scale, a_low * scale
    out, out_low = 1.0 + 0.0j, 0.0j
    for j in range(TERMS, 0, -1):
        one, one_low = over(1.0, 0.0, float(j), 0.0)
        out, out_low = product(out, out_low, a, a_low)
        out, out_low = scaled(out, out_low, one, one_low)
        out, out_low = total(out, out_low, 1.0 + 0.0j, 0.0j)
    for _ in range(k):
        out, out_low = product(out, out_low, out, out_low)
    return out, out_low


@exact_kernel
def hyperbola(e, e_low, bend):
    """Return ``bend (cosh u - 1) + i sinh u`` and ``cosh u - i bend sinh u`` given ``e^u``."""
    i, i_low = over(1.0, 0.0, e, e_low)
    cosh, cosh_low = plus(0.5 * e, 0.5 * e_low, 0.5 * i, 0.5 * i_low)
    sinh, sinh_low = plus(0.5 * e, 0.5 * e_low, -0.5 * i, -0.5 * i_low)
    less, less_low = plus(cosh, cosh_low, -1.0, 0.0)
    re, re_low = times(less, less_low, bend, 0.0)
    im, im_low = times(sinh, sinh_low, -bend, 0.0)
    return complex(re, sinh), complex(re_low, sinh_low), complex(cosh, im), complex(cosh_low, im_low)
