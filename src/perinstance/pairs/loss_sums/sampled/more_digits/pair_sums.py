r"""``sum_x a_x e^{i k h lambda_x}``, k = 0, 1, ..., in pairs of floats, eight terms at a time.

The noise is gone through in blocks that stay in registers for 32 nodes of the line. Complex pairs are four numbers: the
real and the imaginary part of the first float, then of the second. Products are those of ``double_double_complex``.
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.double_double import two_sum
from perinstance.numerics.numba_compile import exact_kernel, exact_piece
from perinstance.numerics.simd_vectors import fused8, fused_less8, less8, load8, store8, sum8, times8, zero8

LANES = 8
TURN = 32  # nodes, and blocks of nodes, after which a product of factors begins afresh
SUMMED = 16  # eights of terms that are summed to a part of the sum


def additions(noise: int) -> float:
    """Return how many times what a sum over so many terms loses is lost, at most: parts, sums of parts, lanes."""
    return float(SUMMED + -(-noise // (LANES * SUMMED)) + LANES)


@exact_piece
def _two_sum8(a, b):
    total = sum8(a, b)
    part = less8(total, a)
    return total, sum8(less8(a, less8(total, part)), less8(b, part))


@exact_piece
def product8(a, b):
    """Multiply two complex pairs."""
    rr, ii, ri, ir = times8(a[0], b[0]), times8(a[1], b[1]), times8(a[0], b[1]), times8(a[1], b[0])
    re, re_low = _two_sum8(rr, less8(zero8(), ii))
    im, im_low = _two_sum8(ri, ir)
    re_low = sum8(re_low, less8(fused_less8(a[0], b[0], rr), fused_less8(a[1], b[1], ii)))
    im_low = sum8(im_low, sum8(fused_less8(a[0], b[1], ri), fused_less8(a[1], b[0], ir)))
    # with the second floats, whose own rounding does not matter
    re_more = sum8(fused_less8(a[0], b[2], times8(a[1], b[3])), fused_less8(a[2], b[0], times8(a[3], b[1])))
    im_more = sum8(fused8(a[0], b[3], times8(a[1], b[2])), fused8(a[2], b[1], times8(a[3], b[0])))
    re, re_low = _two_sum8(re, sum8(re_low, re_more))
    im, im_low = _two_sum8(im, sum8(im_low, im_more))
    return re, im, re_low, im_low


@exact_piece
def total8(a, a_low, b, b_low):
    """Add two pairs."""
    high, low = _two_sum8(a, b)
    return _two_sum8(high, sum8(low, sum8(a_low, b_low)))


@exact_piece
def load_pair(array, at, apart):
    """Return eight complex pairs: real and imaginary parts, then their low parts, so far apart."""
    return load8(array, at), load8(array, at + apart), load8(array, at + 2 * apart), load8(array, at + 3 * apart)


@exact_piece
def store_pair(array, at, apart, pair):
    """Write eight complex pairs."""
    store8(array, at, pair[0])
    store8(array, at + apart, pair[1])
    store8(array, at + 2 * apart, pair[2])
    store8(array, at + 3 * apart, pair[3])


@exact_piece
def add_to(sums, at, pair):
    """Add a pair of eights to one of some sums."""
    a = load_pair(sums, at, LANES)
    re, re_low = total8(a[0], a[2], pair[0], pair[2])
    im, im_low = total8(a[1], a[3], pair[1], pair[3])
    store_pair(sums, at, LANES, (re, im, re_low, im_low))


@exact_kernel
def _sum_block(weights, turns, noise, turned, count, first, last, sums):
    """Add up some eights of terms at the first ``count`` nodes of a block; ``turned``: which factor leads to it."""
    for at in range(first, last, LANES):
        here = load_pair(weights, at, noise)
        if turned > 0:
            here = product8(here, load_pair(turns, 4 * noise + at, noise))
            store_pair(weights, at, noise, here)
        factor = load_pair(turns, at, noise)
        add_to(sums, 0, here)
        for k in range(1, count):
            here = product8(here, factor)
            add_to(sums, 4 * LANES * k, here)


@exact_kernel
def fill_sums(weights, turns, out):
    """Fill in the sums at all nodes: four rows, as of ``weights``; ``turns``: the factors after 1, 32, 1,024 nodes.

    The terms are as many as a multiple of ``LANES``.
    """
    noise, nodes = weights.shape[1], out.shape[1]
    long, factors = weights.copy().ravel(), turns.copy().ravel()
    block = long.copy()
    parts, sums = np.empty(4 * LANES * TURN), np.empty(4 * LANES * TURN)
    for start in range(0, nodes, TURN):
        count = min(TURN, nodes - start)
        if start > 0 and start % (TURN * TURN) == 0:
            _turn(long, factors[8 * noise :], noise)
            block[:] = long
        sums[:] = 0.0
        for first in range(0, noise, LANES * SUMMED):
            parts[:] = 0.0
            last = min(first + LANES * SUMMED, noise)
            _sum_block(block, factors, noise, start % (TURN * TURN), count, first, last, parts)
            _add_parts(sums, parts, count)
        for k in range(count):
            for part in range(2):
                high, low = 0.0, 0.0
                for lane in range(LANES):
                    at = 4 * LANES * k + LANES * part + lane
                    high, rest = two_sum(high, sums[at])
                    high, low = two_sum(high, rest + (low + sums[at + 2 * LANES]))
                out[part, start + k], out[part + 2, start + k] = high, low


@exact_kernel
def _turn(terms, factors, noise):
    """Multiply all terms by their factors."""
    for at in range(0, noise, LANES):
        store_pair(terms, at, noise, product8(load_pair(terms, at, noise), load_pair(factors, at, noise)))


@exact_kernel
def _add_parts(sums, parts, count):
    for at in range(0, 4 * LANES * count, 4 * LANES):
        add_to(sums, at, load_pair(parts, at, LANES))
