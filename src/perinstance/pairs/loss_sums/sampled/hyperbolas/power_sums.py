r"""``sum_j a_j (e^{lambda_j (z_n - p)} - 1)`` at the nodes of a hyperbola in pairs of floats, with the errors of each.

``z_n = p + zeta 2^{n/M} + conj(zeta) 2^{-n/M}``: M nodes an octave. One octave further the exponent of the first power
has doubled and that of the second is half, so that of each power one octave is a series and all others are squares,
``e -> 2 e + e^2`` of ``e = e^v - 1``: nothing is lost of small ones. The series begin with exponents below 1/40,
some octaves before the first node.

**Rounding** is followed along: if e is off by b, ``2 e + e^2`` is off by at most ``2 |1 + e| b + b^2``, and by
``PAIR_PRODUCT (|e| + 3/2 |e|^2)`` for its own product and sum. The series loses ``3 PAIR_PRODUCT`` of itself, its scale
``8 PAIR_PRODUCT``, and its exponent what the loss has lost. Sums are taken of every eighth term first.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import over, plus, times
from perinstance.numerics.double_double_complex import scaled
from perinstance.numerics.numba_compile import exact_kernel, exact_piece
from perinstance.numerics.rounding import LOG_2_LOW, PAIR_PRODUCT, PAIR_SUM
from perinstance.numerics.simd_vectors import fused8, load8, repeat8, root8, store8, sum8, times8, zero8
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import exp_complex
from perinstance.pairs.loss_sums.sampled.more_digits.pair_sums import (
    LANES,
    add_to,
    load_pair,
    product8,
    store_pair,
    total8,
)

#: Terms of the series: what is left out is 3e-35 of it.
TERMS = 14
#: ``1/1!, 1/2!, ...``, first floats and then second ones.
_INVERSE = [Fraction(1, math.factorial(k)) for k in range(1, TERMS + 1)]
FACTORS = np.array([float(f) for f in _INVERSE] + [float(f - Fraction(float(f))) for f in _INVERSE])
NUMBERS = np.array([1.0, 2.0, 1.1, 1.001, 1.001 * PAIR_PRODUCT, 16.0 * PAIR_PRODUCT])
#: Rows of a node's sums: four of a pair, errors, sizes.
ROWS = 6
#: Exponents of the series, at most.
SMALL = 1.0 / 40.0
LOG_2 = math.log(2.0)


class PowerScales(NamedTuple):
    """``zeta 2^{k/M}`` and its counterpart of one octave each, four rows; octaves of squares before the first.

    The first power begins ``before`` octaves before the first node, the second ``behind`` octaves behind the last one.
    """

    first: Floats
    second: Floats
    octaves: int
    before: int
    behind: int


@exact_piece
def _size8(re, im):
    return root8(fused8(re, re, times8(im, im)))


@exact_piece
def _begin8(loss, off, scales, k, many):
    """Return ``e^{lambda scale} - 1`` of small exponents, and what it has lost; ``many``: how many scales there are."""
    scale = (
        repeat8(scales, k),
        repeat8(scales, k + many),
        repeat8(scales, k + 2 * many),
        repeat8(scales, k + 3 * many),
    )
    v = product8(loss, scale)
    e = (repeat8(FACTORS, TERMS - 1), zero8(), repeat8(FACTORS, 2 * TERMS - 1), zero8())
    for i in range(TERMS - 2, -1, -1):
        e = product8(e, v)
        re, re_low = total8(e[0], e[2], repeat8(FACTORS, i), repeat8(FACTORS, TERMS + i))
        e = (re, e[1], re_low, e[3])
    e = product8(e, v)
    lost = times8(repeat8(NUMBERS, 2), times8(_size8(scale[0], scale[1]), off))
    return e, fused8(repeat8(NUMBERS, 5), _size8(v[0], v[1]), lost)


@exact_piece
def _square8(e, lost):
    """Return ``2 e + e^2``, and what it has lost."""
    one, two = repeat8(NUMBERS, 0), repeat8(NUMBERS, 1)
    size, whole = _size8(e[0], e[1]), _size8(sum8(e[0], one), e[1])
    square = product8(e, e)
    re, re_low = total8(times8(two, e[0]), times8(two, e[2]), square[0], square[2])
    im, im_low = total8(times8(two, e[1]), times8(two, e[3]), square[1], square[3])
    own = times8(times8(repeat8(NUMBERS, 4), size), fused8(two, size, one))
    grown = times8(times8(repeat8(NUMBERS, 3), lost), fused8(two, whole, lost))
    return (re, im, re_low, im_low), sum8(grown, own)


@exact_piece
def _add8(a, off, e, e_lost, f, f_lost, parts, at):
    """Add ``a (e + f + e f)`` of eight terms to a node's; errors and sizes to the fifth and sixth row of eight."""
    size_e, size_f, size_a = _size8(e[0], e[1]), _size8(f[0], f[1]), _size8(a[0], a[1])
    both = product8(e, f)
    re, re_low = total8(e[0], e[2], f[0], f[2])
    im, im_low = total8(e[1], e[3], f[1], f[3])
    re, re_low = total8(re, re_low, both[0], both[2])
    im, im_low = total8(im, im_low, both[1], both[3])
    one = repeat8(NUMBERS, 0)
    lost = fused8(e_lost, sum8(one, sum8(size_f, f_lost)), times8(f_lost, sum8(one, size_e)))
    lost = fused8(repeat8(NUMBERS, 5), fused8(size_e, size_f, sum8(size_e, size_f)), lost)
    size = _size8(re, im)
    add_to(parts, at, product8(a, (re, im, re_low, im_low)))
    lost = fused8(size_a, fused8(repeat8(NUMBERS, 4), size, lost), times8(off, size))
    store8(parts, at + 4 * LANES, sum8(load8(parts, at + 4 * LANES), lost))
    store8(parts, at + 5 * LANES, fused8(size_a, size, load8(parts, at + 5 * LANES)))


@exact_kernel
def _add_all(parts, terms, out, lost):
    """Fill in the sums over lanes; ``terms`` is how many each lane has."""
    for n in range(lost.size):
        at = ROWS * LANES * n
        for part in range(2):
            high, low = 0.0, 0.0
            for j in range(at + part * LANES, at + (part + 1) * LANES):
                high, low = plus(high, low, parts[j], parts[j + 2 * LANES])
            out[part, n], out[part + 2, n] = high, low
        off, size = 0.0, 0.0
        for j in range(LANES):
            off += parts[at + 4 * LANES + j]
            size += parts[at + 5 * LANES + j]
        lost[n] = 1.01 * (off + 2.0 * PAIR_SUM * (terms + LANES) * size)


@exact_kernel
def fill_power_sums(weights, losses, off, scales, out, lost):
    """Fill in the sums at all nodes; terms are as many as a multiple of 8, ``off`` what weights and losses lost."""
    octaves, many, nodes, terms = scales.octaves, scales.first.shape[1], lost.size, weights.shape[1]
    first, second, a, own, off_ = (
        scales.first.ravel(),
        scales.second.ravel(),
        weights.ravel(),
        losses.ravel(),
        off.ravel(),
    )
    parts, up = np.zeros(nodes * ROWS * LANES), np.empty(octaves * 5 * LANES)
    for j in range(0, terms, LANES):
        weight, loss = load_pair(a, j, terms), load_pair(own, j, terms)
        off_weight, off_loss = load8(off_, j), load8(off_, j + terms)
        for k in range(many):
            e, e_lost = _begin8(loss, off_loss, first, k, many)
            for _ in range(scales.before):
                e, e_lost = _square8(e, e_lost)
            store_pair(up, 0, LANES, e)
            store8(up, 4 * LANES, e_lost)
            for o in range(1, octaves):
                e, e_lost = _square8(e, e_lost)
                store_pair(up, 5 * LANES * o, LANES, e)
                store8(up, 5 * LANES * o + 4 * LANES, e_lost)
            f, f_lost = _begin8(loss, off_loss, second, k, many)
            for _ in range(scales.behind):
                f, f_lost = _square8(f, f_lost)
            for o in range(octaves - 1, -1, -1):
                at = 5 * LANES * o
                node = o * many + k
                if node < nodes:
                    e, e_lost = load_pair(up, at, LANES), load8(up, at + 4 * LANES)
                    _add8(weight, off_weight, e, e_lost, f, f_lost, parts, ROWS * LANES * node)
                f, f_lost = _square8(f, f_lost)
    _add_all(parts, terms / LANES, out, lost)


def scales_of(zeta: complex, an_octave: int, nodes: int, largest: float) -> PowerScales:
    """Return the scales of a hyperbola, for losses of up to some size."""
    octaves = -(-nodes // an_octave)
    size = largest * abs(zeta) / SMALL
    before = max(math.ceil(math.log2(size)) + 1, 0)
    behind = max(math.ceil(math.log2(size)) + 1 - octaves, 0)
    first, second = np.empty((4, an_octave)), np.empty((4, an_octave))
    fill_scales(zeta, an_octave, before, first)
    fill_scales(complex(zeta.real, -zeta.imag), -an_octave, octaves - 1 + behind, second)
    return PowerScales(first, second, octaves, before, behind)


@exact_kernel
def fill_scales(zeta, an_octave, halvings, out):
    """Fill in ``zeta 2^{k/M - halvings}``, k = 0, 1, ...; M may be below zero."""
    for k in range(out.shape[1]):
        value = octave_part(zeta, k, an_octave)
        size = math.ldexp(1.0, -halvings)
        out[0, k], out[1, k], out[2, k], out[3, k] = (
            value[0] * size,
            value[1] * size,
            value[2] * size,
            value[3] * size,
        )


@exact_kernel
def octave_part(zeta, k, an_octave):
    """Return ``zeta 2^{k/M}`` as a complex pair: three products, and an exponential of floats without loss."""
    share, share_low = over(float(k), 0.0, float(an_octave), 0.0)
    log, log_low = times(share, share_low, LOG_2, LOG_2_LOW)
    grown, grown_low = exp_complex(complex(log, 0.0), complex(log_low, 0.0))
    value, low = scaled(complex(zeta.real, zeta.imag), 0.0j, grown.real, grown_low.real)
    return value.real, value.imag, low.real, low.imag
