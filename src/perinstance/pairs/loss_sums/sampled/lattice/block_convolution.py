r"""The beginning of the convolution of two sequences of positive numbers, rounded up, by FFTs of blocks.

An FFT of everything would lose what is small beside the largest number. Blocks are short enough that the numbers of
one are of a size; the transforms of all pairs of blocks that end in the same place are added and transformed back.
Losses of seldom steps crowd at the beginning: the first two blocks are convolved by smaller blocks, and so on, the
first numbers of all one by one. Products of two that are both given on finer points are left out, and come from there.

**What it may be wrong by.** A number of an FFT of n = 2^t numbers is a sum of all of them times roots of unity, along
paths of t butterflies, each good to a few roundings of what it adds: it is off by at most ``c t UNIT sum |a_i|``, and
all of them in the mean square by ``c t UNIT |a|``; c is less than 4 (Higham 2002, section 24.1), 16 is charged. So a
number of ``a * b`` is off by at most ``UNIT (3 x 16 t + 8) |a| |b|``, Euclidean norms, and a sum of k such products by
k UNIT times the sum of these more. That is added to every number of the block, and more than what underflows.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO, UNIT

LEAST_BLOCK = 64
FEWEST, MOST = 24.0, 512.0  # blocks
FALL = 4.0  # of the logarithm within a block, about
HEAD = 16  # numbers at the beginning, often the largest by far, that are multiplied one by one
STRETCH = 2048  # of numbers that stay in the cache


@kernel
def _products(left, right, same, out):
    """Fill in the sums of products of transforms whose blocks end in the same place, but for the first two.

    Rows are blocks. Real and imaginary parts lie apart: several numbers to a register.
    """
    blocks, size = left.shape[1], left.shape[2]
    for c in range(1, out.shape[1]):
        re, im = out[0, c], out[1, c]
        for a in range(max(0, c + 1 - blocks), min(c + 1, blocks)):
            b = c - a
            if same and b < a:
                break
            twice = 2.0 if same and b > a else 1.0
            x, y, u, v = left[0, a], left[1, a], right[0, b], right[1, b]
            for k in range(size):
                re[k] += twice * (x[k] * u[k] - y[k] * v[k])
                im[k] += twice * (x[k] * v[k] + y[k] * u[k])


def _transformed(numbers: Floats, size: int) -> tuple[np.ndarray, Floats]:
    """Return the transforms of the blocks, padded to twice their size, and their norms, rounded up."""
    blocks = -(-numbers.size // size)
    table = np.zeros((blocks, size))
    table.ravel()[: numbers.size] = numbers
    largest = table.max(axis=1) + NOT_ZERO  # squares would underflow
    norms = largest * np.sqrt(((table / largest[:, None]) ** 2).sum(axis=1)) * (1.0 + UNIT * size)
    transforms = np.fft.rfft(table, 2 * size, axis=1)
    return np.stack((transforms.real, transforms.imag)), norms


@kernel
def add_products(few, many, times, out):
    """Add all products of a few numbers with many, so many times, each where its two places add up to."""
    for begin in range(0, out.size, STRETCH):
        for i in range(few.size):
            factor = times * few[i]
            for k in range(max(begin, i), min(begin + STRETCH, out.size, many.size + i)):
                out[k] += factor * many[k - i]


def convolve(left: Floats, right: Floats, count: int, head: int = 0) -> Floats:
    """Return the first numbers of the convolution, without products of two of the first ``head``, never below.

    ``head`` is zero or a power of two, at least ``LEAST_BLOCK``.
    """
    same = left is right
    inner = _without_first(left)
    out = _convolve_blocks(inner, inner if same else _without_first(right), count, head)
    few = max(HEAD, head)
    if not head:
        add_products(left[:HEAD], right[:HEAD], 1.0, out)
    for one, two in ((left, right),) if same else ((left, right), (right, left)):
        add_products(one[:HEAD], two[few:], 2.0 if same else 1.0, out[few:])
    return out * (1.0 + UNIT * (3 * HEAD + 4)) + NOT_ZERO


def _without_first(numbers: Floats) -> Floats:
    out = numbers.copy()
    out[:HEAD] = NOT_ZERO
    return out


def _fall(numbers: Floats) -> float:
    """Return by how much the logarithm differs between the numbers that are left."""
    kept = numbers[HEAD:]
    return math.log(kept.max()) - math.log(kept.min()) if kept.size else 0.0


def _convolve_blocks(left: Floats, right: Floats, count: int, head: int) -> Floats:
    """Return the first ``count`` numbers by transforms of blocks; of the first two blocks by smaller ones."""
    n, same = left.size, left is right
    if n <= head:
        return np.zeros(count)
    blocks = min(max(_fall(left) / FALL, _fall(right) / FALL, FEWEST), MOST)
    size = max(LEAST_BLOCK, head, 1 << int(math.log2(max(n / blocks, 1.0)) + 0.5))
    if n <= size:
        return _convolve_two(left, right, count)
    here, own = _transformed(left, size)
    there, other = (here, own) if same else _transformed(right, size)
    whole = -(-count // size)
    sums = np.zeros((2, whole, size + 1))
    _products(here, there, same, sums)
    norms = np.zeros(whole)
    pairs = np.convolve(own, other)[:whole]
    norms[1 : pairs.size] = pairs[1:]
    charge = UNIT * (48.0 * math.log2(2 * size) + 8.0 + len(own)) * norms
    found = np.fft.irfft(sums[0] + 1j * sums[1], 2 * size, axis=1)
    out = np.maximum(found[:, :size], 0.0) + charge[:, None]
    out[1:] += np.maximum(found[:-1, size:], 0.0) + charge[:-1, None]
    out = out.ravel()[:count]
    first = left[:size]
    inner = _convolve_blocks(first, first if same else right[:size], min(2 * size, count), head)
    out[: inner.size] += inner
    return out * (1.0 + 2.0 * UNIT)


def _convolve_two(left: Floats, right: Floats, count: int) -> Floats:
    """Return the convolution of short sequences, number by number."""
    out = np.zeros(count)
    found = np.convolve(left, right)[:count]
    out[: found.size] = found * (1.0 + UNIT * (left.size + 2))
    return out
