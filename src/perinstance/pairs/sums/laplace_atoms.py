r"""Laplace losses in an inversion: smooth along with a Gaussian loss, or multiplied out into exponentials.

The transform of a sum of Laplace losses, ``prod_i [(1 + t) e^{t D_i} + t e^{-(1 + t) D_i}]/(1 + 2t)``, does not die
along a line, because the losses have atoms. Where a Gaussian loss kills it in time the product is taken as
it is. Elsewhere it is a sum of exponentials, ``sum_S share_S e^{t offset_S}`` over the sets S of losses that came out
negative: those above epsilon are integrated along a contour bent to the left, those below to the right. The sum
over all sets is never written out: with the distances in two halves, for each set of the first half the sets of the
second that belong to it are a beginning (or an end) of their sorted list, so 2^k terms cost 2 2^(k/2).

Everything here is relative to its value at the saddle point t, and to the largest loss ``sum D``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import NOT_ZERO

#: The most exponentials into which each half of several Laplace losses is multiplied out.
TERMS = 4096


class Atoms(NamedTuple):
    """The Laplace factors of an integrand in units w around t: the losses themselves, or their exponentials.

    Distances, how often each occurs, how many losses that makes; the exponentials in two halves (offsets, logarithms
    of shares, negative losses), where they are cut, and room for their sums.
    """

    t: Any
    w: Any
    lap: Any
    count: Any
    losses: Any
    one: Any
    two: Any
    cut: Any
    sums: Any


@kernel
def exp(x):
    """Return ``e^x`` of a complex number; numpy's guards against overflows that cannot happen here."""
    size = math.exp(x.real)
    return complex(size * math.cos(x.imag), size * math.sin(x.imag))


@kernel
def _fall(y):
    """Return ``(1 - e^-y)/y``, which has no pole, to the last digits: ``1 - cos b = 2 sin^2(b/2)``."""
    if abs(y.real) + abs(y.imag) < 1e-8:
        return 1.0 - 0.5 * y
    less = math.expm1(-y.real)
    s, c = math.sin(0.5 * y.imag), math.cos(0.5 * y.imag)
    f = complex(2.0 * s * s * (1.0 + less) - less, 2.0 * s * c * (1.0 + less))
    size = y.real * y.real + y.imag * y.imag
    return complex((f.real * y.real + f.imag * y.imag) / size, (f.imag * y.real - f.real * y.imag) / size)


@kernel
def smooth_factor(z, t, w, lap, count):
    """Return the product of the transforms ``1 - t (1 - E)/(1 + 2t)`` at ``t + w z``, over the same at t."""
    total = 1.0 + 0.0j
    here = t + w * z
    for g in range(lap.size):
        D = lap[g]
        if D == 0.0:
            continue
        y = (1.0 + 2.0 * here) * D
        y0 = (1.0 + 2.0 * t) * D
        ratio0 = -math.expm1(-y0) / y0 if abs(y0) > 1e-8 else 1.0 - 0.5 * y0
        factor = (1.0 - here * D * _fall(y)) / (1.0 - t * D * ratio0)
        if count[g] == 1.0:
            total *= factor
        else:
            total *= exp(count[g] * np.log(factor))
    return total


@kernel
def leftmost(lap, count):
    """Return how far left of 0 exponentials are multiplied out.

    There they are of both signs: ``cancellation`` grows like ``e^{-2 t sum e^-D}``; times the pole ``1/t`` it is least
    here.
    """
    many = 0.0
    for g in range(lap.size):
        many += count[g] * math.exp(-lap[g])
    return -min(0.25, 0.5 / max(many, NOT_ZERO))


@kernel
def cancellation(t, lap, count):
    """Return how much larger the exponentials are together than their sum at t, between -1/2 and 0."""
    log = 0.0
    if t < 0.0:
        for g in range(lap.size):
            if count[g] > 0.0:
                down = -t * math.exp(-(1.0 + 2.0 * t) * lap[g]) / (1.0 + t)
                log += count[g] * (math.log1p(down) - math.log1p(-down))
    return math.exp(log)


@kernel
def halves(lap, count):
    """Return which half each distance belongs to (the one that is smaller so far), and how large the halves are."""
    second = np.zeros(lap.size, np.bool_)
    one, two = 1.0, 1.0
    for g in range(lap.size):
        if one <= two:
            one *= count[g] + 1.0
        else:
            two *= count[g] + 1.0
            second[g] = True
    return second, one, two


@kernel
def multiply_out(t, lap, count, second, chosen, out):
    """Fill the exponentials of the chosen half, largest offset first: offsets <= 0, logs of shares, negative losses."""
    n = 1
    offset, log_share, minus = out[0], out[1], out[2]
    log_share[0], offset[0], minus[0] = 0.0, 0.0, 0.0
    for g in range(lap.size):
        if second[g] != chosen or count[g] == 0.0:
            continue
        D, c = lap[g], int(count[g])
        log_up = -math.log1p(t * math.exp(-(1.0 + 2.0 * t) * D) / (1.0 + t))  # of (1 + t) e^{tD} in the sum of the two
        log_down = math.log(abs(t) / (1.0 + t)) - (1.0 + 2.0 * t) * D + log_up
        for k in range(c, -1, -1):  # k down; none down comes last, it overwrites what the others are made from
            log_times = math.lgamma(c + 1.0) - math.lgamma(k + 1.0) - math.lgamma(c - k + 1.0)
            more = log_times + (c - k) * log_up + (k * log_down if k > 0 else 0.0)
            for i in range(n):
                log_share[k * n + i] = log_share[i] + more
                offset[k * n + i] = offset[i] - 2.0 * k * D
                minus[k * n + i] = minus[i] + k
        n *= c + 1
    gap = n // 2  # Shell's sort, because a library's takes seconds to compile
    while gap > 0:
        for i in range(gap, n):
            j = i
            while j >= gap and offset[j - gap] < offset[j]:
                for row in range(3):
                    out[row, j - gap], out[row, j] = out[row, j], out[row, j - gap]
                j -= gap
        gap //= 2


@kernel
def cuts(slope, w, one, two, cut):
    """Fill, for each exponential of the first half, how many of the second make ``slope + w (both offsets) > 0``."""
    k = two.size
    for i in range(one.size):  # offsets fall, so the cut only moves back
        while k > 0 and not slope + w * (one[i] + two[k - 1]) > 0.0:
            k -= 1
        cut[i] = k


@kernel
def partial_sum(expo, z, ratio, above, one, two, cut, sums):
    """Return the sum of the exponentials above the cut (or below it) z away from t, times ``e^expo``.

    ``ratio = log[t (1 + t0)/(|t0| (1 + t))]`` is what each negative loss contributes. The sums over the second half are
    taken relative to their last term, so that nothing overflows on the side to which the contour is bent.
    """
    m = two.shape[1]
    if above:
        for k in range(cut[0]):
            v = exp(two[1, k] + two[2, k] * ratio)
            sums[k] = v if k == 0 else sums[k - 1] * exp((two[0, k - 1] - two[0, k]) * z) + v
    else:
        for k in range(m - 1, cut[-1] - 1, -1):
            v = exp(two[1, k] + two[2, k] * ratio)
            sums[k] = v if k == m - 1 else sums[k + 1] * exp((two[0, k + 1] - two[0, k]) * z) + v
    total = 0.0j
    for i in range(one.shape[1]):
        k = cut[i] - 1 if above else cut[i]
        if 0 <= k < m:
            total += sums[k] * exp(expo + one[1, i] + one[2, i] * ratio + (one[0, i] + two[0, k]) * z)
    return total
