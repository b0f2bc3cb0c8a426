"""The sum of ``W (e^{z lambda} - 1 - z lambda)`` over the noise of one step, eight nodes of it at a time."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.simd_vectors import (
    absolute8,
    add8,
    less8,
    load8,
    multiply8,
    multiply_add8,
    repeat8,
    store8,
    zero8,
)

LANES = 8
#: ``e^v - 1 - v = v^2/2 (1 + v/3 (1 + v/4 (...)))``: a term is lost below 1e-19 up to a size of one.
TERMS = 20


@kernel
def excess_sums(z, noise, n, first, last):
    """Return ``sum weight (e^v - 1 - v)``, ``v = z lambda``, its size, and roundings, from one node to before another.

    Rows: lambda and the weights, real and imaginary parts; the rounding of the weights, and what moves with lambda. No
    v may be larger than one; the nodes are a multiple of ``LANES``.
    """
    constants = np.empty(TERMS + 2)
    constants[0], constants[1], constants[2], constants[3] = z.real, z.imag, 0.5, 1.0
    for k in range(4, TERMS + 2):
        constants[k] = 1.0 / (k - 1.0)  # 1/3, 1/4, ..., 1/TERMS
    x, y, half, one = repeat8(constants, 0), repeat8(constants, 1), repeat8(constants, 2), repeat8(constants, 3)
    re, im, size, lost, moved = zero8(), zero8(), zero8(), zero8(), zero8()
    for at in range(first, last, LANES):
        a, b = load8(noise, at), load8(noise, n + at)
        v = multiply_add8(x, a, less8(zero8(), multiply8(y, b)))
        w = multiply_add8(x, b, multiply8(y, a))
        minus = less8(zero8(), w)
        total, turned = one, zero8()
        for k in range(TERMS + 1, 3, -1):
            inverse = repeat8(constants, k)
            p = multiply_add8(v, total, multiply8(minus, turned))
            turned = multiply8(multiply_add8(v, turned, multiply8(w, total)), inverse)
            total = multiply_add8(p, inverse, one)
        p = multiply8(half, multiply_add8(v, v, multiply8(minus, w)))
        r = multiply8(v, w)
        a = multiply_add8(p, total, less8(zero8(), multiply8(r, turned)))
        b = multiply_add8(p, turned, multiply8(r, total))
        p, r = load8(noise, 2 * n + at), load8(noise, 3 * n + at)
        v = multiply_add8(a, p, less8(zero8(), multiply8(b, r)))
        w = multiply_add8(a, r, multiply8(b, p))
        re, im = add8(re, v), add8(im, w)
        part = add8(absolute8(v), absolute8(w))
        size = add8(size, part)
        lost = multiply_add8(part, load8(noise, 4 * n + at), lost)
        moved = add8(moved, load8(noise, 5 * n + at))
    sums = np.empty(5 * LANES)
    store8(sums, 0, re)
    store8(sums, LANES, im)
    store8(sums, 2 * LANES, size)
    store8(sums, 3 * LANES, lost)
    store8(sums, 4 * LANES, moved)
    return sums.reshape(5, LANES).sum(axis=1)
