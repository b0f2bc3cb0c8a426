r"""How large the moments of one step may be away from the real line: ``|A(x + i y)|`` on boxes, proved.

``A(z) = int w^{1+z} phi du`` with the person, along any path through the complex noise on whose way w has no zero:
these lie at ``t* + i (2k + 1) pi/m``, where ``q e^{m t - m^2/2} = 1 - q`` at t*. The path follows the real line up to a
start t0, rises to a height of a half of ``pi/m`` or less, stays there up to t*, and rises again. Along it

``|A| <= int_{t < t0} w^{1+x} phi dt + int_{t > t0} |w|^{1+x} e^{-y arg w} |phi| |du|``.

*Before t0* ``w^{1+x}`` is convex in t, so that it lies below its chords, whose integrals over cells of the normal law
are known; and the integral is convex in x, so that it is largest at an end of a range of x. (For powers below zero it
is not convex in t: chords of cells of width d are at most ``d^2/8 |1+x| m^2 w^{1+x} v/w`` below it.) Minus one is taken
off first: seldom steps have moments next to it.

On the real axis, ``|A(x + iy)| <= A(x)``, a trapezoidal sum: within ``pi/(2 m)`` of it ``|w|`` is at most w at the real
part, and ``w/(1 - q)`` at least 1, so that the sum is off by at most ``2 e^{a^2/2}/(e^{2 pi a/d} - 1)`` of A, or of 1,
with ``a = pi/(2 m)`` or less: ``CELL_TRAPEZOID``.

*After t0*, on each leg of the path, ``|phi(u)|`` is at most ``e^{theta^2/2} phi(t)``, and ``log w`` differs from that
in the middle by at most ``r m |v| e^{m r}/(|w| - |v| (e^{m r} - 1))``, ``v = q e^{m u - m^2/2}`` in the middle, r half
of the leg; where ``o = |v| e^{-m r}/(1 - q) > 1`` by at most ``r m o/(o - 1)``, and where
``o' = |v| e^{m r}/(1 - q) < 1/e`` by at most ``2.5 o'``, as all of it is within ``-log(1 - o')`` of ``log(1 - q)``.
Behind the last leg, where ``o > e^10``, w is v and its logarithm that of v, but for ``1.01 e^-10``: the path goes on at
one slope k, where ``|v^{1+z} phi|`` is the exponential of ``B s - (1 - k^2) s^2/2``, whose integral is known. (There
``log |v|`` counts as zero at least, so that the largest real part of z says most.)

Without the person it is ``w/(1 - q)``, at least 1, whose moments are bounded: A itself is next to nothing far along.
What holds at y holds for all that is larger, as ``arg w >= 0`` along the path. Several starts are tried.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import CELL_SUM, CELL_TRAPEZOID, NODE_ROUNDING
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL

#: Width of cells at distances up to 2, and how much of the way from the start the later legs of a path are.
CELL, GROWING = 0.1, 0.06
#: The real line begins here: w is below one to the left.
LEFT = -9.5
BELOW = 1.1 * float(ndtr(LEFT))
#: Starts of paths, from m/2, but for those so far behind t*, and legs at most.
STARTS, FURTHEST, LEGS = np.array([*np.linspace(-7.0, 8.0, 16), 11.0, 16.0, 23.0, 33.0]), 30.0, 208
#: Slope of a path where it begins, its height at t*, with and without the person, in units of pi/m, and the longest
#: legs where it rises, or next to t*, and elsewhere, times m; behind t*, and long before it, they may grow by so much
#: of the way.
STEEPEST, HEIGHT, LOWER, FINE, COARSE, NEXT, BENDS, BEFORE = 0.8, 0.5, 0.3, 0.15, 0.3, 1.5, 0.15, -20.0
#: Slopes behind t*. Beyond some distance flatter ones are tried too, with the person: ``w^{1+z} phi`` is largest next
#: to ``m (1 + z)``.
FLATTER, SLOPES = 6.0, STEEPEST * 2.0 ** (-0.5 * np.arange(10.0))
#: Logarithm of the odds from which on ``w`` is ``v = q e^{m u - m^2/2}``, and how far off its logarithm may be.
BEHIND = 10.0
LIKE_ODDS = 1.01 * math.exp(-BEHIND)
#: Bounds of ``A - 1`` below which the real axis is not asked once it was further off.
SMALL = 1e-3
#: The least bound, of which sums over cells are a share.
LEAST = 1e-6
#: Beyond so many standard deviations masses are bounded by the density.
FAR = 20.0
#: Exponents beyond which nothing is proved.
LARGEST = 600.0


class MomentBounds(NamedTuple):
    """Cells of the real line: losses and the density at their ends, shares of the law that go to each end; then paths.

    ``starts`` are the first cells that a path does not take, ``beyond`` the normal law there; ``legs`` of each path the
    logarithm of its weight, ``log |w|`` in the middle, the least ``arg w`` and how far off both are; ``ends`` of each
    path how many legs it has, t and its height at the end, its slope from there on, and ``log |v|``.
    """

    q: float
    m: float
    width: float
    losses: Floats
    density: Floats
    shares: Floats
    starts: Any
    beyond: Floats
    legs: Floats
    ends: Floats


def bounds_of(q: float, m: float, over: bool) -> MomentBounds:
    """Prepare the cells and paths of one kind of step; ``over``: with the person, else ``w/(1 - q)`` is meant by w."""
    width = CELL / max(1.0, 0.5 * m)
    zero = zero_of(q, m)
    slopes = SLOPES if over and m > FLATTER else SLOPES[:1]
    last = max(zero - 0.5 * m + FURTHEST, STARTS[-4])
    far = STARTS[: np.searchsorted(STARTS, last, side="right")]
    t = LEFT + width * np.arange(int((0.5 * m + far[-1] - LEFT) / width) + 2)
    least = 0.0 if over else math.log1p(-q)
    log = m * t - 0.5 * m * m
    losses = np.where(log < LARGEST, np.log1p(q * np.expm1(np.minimum(log, LARGEST))), log + math.log(q))
    mass = np.where(t[:-1] > 0.0, ndtr(-t[:-1]) - ndtr(-t[1:]), ndtr(t[1:]) - ndtr(t[:-1]))
    density = np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
    right = np.clip((density[:-1] - density[1:] - t[:-1] * mass) / width, 0.0, mass)
    starts = np.repeat(np.searchsorted(t, 0.5 * m + far).clip(max=len(t) - 1), len(slopes))
    legs, ends = np.zeros((len(starts), 4, LEGS)), np.empty((len(starts), 5))
    ends[:, 3] = np.tile(slopes, len(far))
    fill_paths(q, m, (HEIGHT if over else LOWER) * math.pi / m, t[starts], width, legs, ends)
    legs[:, 1] -= least
    ends[:, 4] -= least
    shares = np.stack([mass - right, right])
    return MomentBounds(q, m, width, losses - least, width * density, shares, starts, ndtr(-t[starts]), legs, ends)


@kernel
def zero_of(q, m):
    """Return t*, where w has its zeros."""
    return (math.log1p(-q) - math.log(q) + 0.5 * m * m) / m


@kernel
def fill_paths(q, m, high, starts, width, legs, ends):
    """Fill in the legs of paths of some height, and their ends, given slopes."""
    for i in range(starts.size):
        start, t, height, slope = starts[i], starts[i], 0.0, ends[i, 3]
        zero = max(zero_of(q, m), start + high / STEEPEST)
        last, k = max(zero_of(q, m) + BEHIND / m, zero), 0
        while t < last and k < legs.shape[2]:
            past = m * (t - zero)
            longest = (
                FINE if height < high or abs(past) < NEXT else COARSE + BENDS * max(past, BEFORE - past, 0.0)
            ) / m
            leg = min(max(width, GROWING * (t - start)), longest)
            to = max(min(STEEPEST * (t + leg - start), high), high + slope * (t + leg - zero))
            middle, long = complex(t + 0.5 * leg, 0.5 * (height + to)), math.hypot(leg, to - height)
            off, loss = spread_at(q, m, middle, 0.5 * long), log_w_at(q, m, middle)
            legs[i, 0, k] = _log_mass(t, leg) + 0.5 * max(height, to) ** 2 + math.log(long / leg)
            legs[i, 1, k], legs[i, 2, k], legs[i, 3, k] = loss.real, max(loss.imag - off, 0.0), off
            t, height, k = t + leg, to, k + 1
        if t < last:
            legs[i, 0, 0] = np.inf  # it is not known where the path ends
        ends[i, 0], ends[i, 1], ends[i, 2] = k, t, height
        ends[i, 4] = math.log(q) + m * t - 0.5 * m * m


@kernel
def _log_mass(t, leg):
    """Return the logarithm of the normal law from t on, so far; far out at most."""
    if t > FAR:
        return math.log(leg) - 0.5 * t * t - NORMAL
    first, second = t / math.sqrt(2.0), (t + leg) / math.sqrt(2.0)
    if t < 0.0:
        first, second = -second, -first
    return math.log(0.5 * (math.erfc(first) - math.erfc(second)) * (1.0 + CELL_SUM))


@kernel
def log_w_at(q, m, u):
    """Return ``log w`` continued from the real line; ``|Im m u| < pi`` left of t*."""
    odds = complex(math.log(q) - math.log1p(-q) + m * u.real - 0.5 * m * m, m * u.imag)
    far = odds.real > 0.0
    size = math.exp(-abs(odds.real))
    turn = -odds.imag if far else odds.imag
    log = complex(0.5 * math.log1p(size * (2.0 * math.cos(turn) + size)), 0.0)
    log += complex(math.log1p(-q), math.atan2(size * math.sin(turn), 1.0 + size * math.cos(turn)))
    return log + odds if far else log


@kernel
def spread_at(q, m, middle, radius):
    """Return by how much ``log w`` may differ from that in the middle within some radius; infinite next to a zero."""
    odds = math.log(q) - math.log1p(-q) + m * middle.real - 0.5 * m * m
    off, reach = np.inf, m * radius
    share = math.exp(min(math.log1p(-q) + odds - log_w_at(q, m, middle).real, LARGEST))
    if reach < 1.0 and share * math.expm1(reach) < 1.0:
        off = share * math.exp(reach) / (1.0 - share * math.expm1(reach))
    if odds > reach:
        off = min(off, 1.0 + 1.0 / math.expm1(min(odds - reach, LARGEST)))
    if odds + reach < -1.0 and reach > 0.5:
        off = min(off, 2.5 * math.exp(odds + reach) / reach)
    return reach * off * (1.0 + CELL_SUM)


@kernel
def _line_part(bounds, x, out):
    """Fill in ``int (w^{1+x} - 1) phi dt`` up to the end of each cell, from above."""
    losses, shares = bounds.losses, bounds.shares
    bends = max(-1.0 - x, 0.0) * (1.0 + CELL_SUM) * (bounds.m * bounds.width) ** 2 / 8.0
    before = math.expm1(min((1.0 + x) * losses[0], LARGEST))
    total = BELOW * max(before, 0.0)
    out[0] = total
    for i in range(shares.shape[1]):
        exponent = (1.0 + x) * losses[i + 1]
        if exponent > LARGEST:
            out[i + 1 :] = np.inf
            return
        here = math.expm1(exponent)
        total += before * shares[0, i] + here * shares[1, i]
        total += CELL_SUM * (abs(before) * shares[0, i] + abs(here) * shares[1, i])
        total -= bends * math.expm1(-losses[i + 1]) * (1.0 + before) * (shares[0, i] + shares[1, i])
        out[i + 1] = total
        before = here


@kernel
def _path_part(bounds, path, low, high, y, most):
    """Return the integral along a path over moments of real parts from low to high, imaginary parts from y on.

    Infinite where it is more than so much, or not known.
    """
    legs, end = bounds.legs[path], bounds.ends[path]
    total = 0.0
    for i in range(int(end[0])):
        loss = legs[1, i]
        grown, turned = (1.0 + (high if loss > 0.0 else low)) * loss, y * legs[2, i]
        exponent = legs[0, i] + grown + max(abs(1.0 + low), abs(1.0 + high)) * legs[3, i] - turned
        exponent += 8.0 * NODE_ROUNDING * (abs(grown) + turned + abs(legs[0, i]))
        if not exponent < LARGEST:
            return np.inf
        total += math.exp(exponent)
        if not total < most:
            return np.inf
    last = _behind(bounds.m, end, high, y)
    return (total + math.exp(last)) * (1.0 + CELL_SUM) if last < LARGEST else np.inf


@kernel
def _behind(m, end, high, y):
    """Return the logarithm of the integral from the end of a path on: a Gaussian one of ``B s - a s^2/2``, at most."""
    t, height, slope, loss = end[1], end[2], end[3], max(end[4], 0.0)
    grown = (1.0 + high) * loss + abs(1.0 + high) * LIKE_ODDS
    turned = y * max(m * height - LIKE_ODDS, 0.0)
    more, bent = (1.0 + high) * m - y * m * slope - t + slope * height, 1.0 - slope * slope
    rounding = abs(grown) + turned + t * t + height * height
    last = grown - turned + 0.5 * (height * height - t * t) + 0.5 * math.log1p(slope * slope) - NORMAL
    if more > 0.0:
        rounding += more * (abs(1.0 + high) * m + y * m * slope + t + slope * height) / bent
        last += 0.5 * more * more / bent + 0.5 * math.log(2.0 * math.pi / bent)
    else:
        last -= math.log(max(-more, math.sqrt(2.0 * bent / math.pi)) * (1.0 - CELL_SUM))
    return last + 8.0 * NODE_ROUNDING * rounding


@kernel
def fill_log_bounds(bounds, x, y, out):
    """Fill in bounds of ``log |A|`` on boxes: real parts between two neighbours of x, imaginary parts from y on."""
    one, other = np.empty(bounds.losses.size), np.empty(bounds.losses.size)
    _line_part(bounds, x[0], one)
    near = True
    for k in range(y.size):
        _line_part(bounds, x[k + 1], other)
        low, high, least = min(x[k], x[k + 1]), max(x[k], x[k + 1]), np.inf
        for path in range(bounds.starts.size):
            start = bounds.starts[path]
            line = max(one[start], other[start]) - bounds.beyond[path] * (1.0 - CELL_SUM)
            if line == np.inf:
                break
            if line < least:
                least = min(least, line + _path_part(bounds, path, low, high, y[k], least - line))
        if near or not least < SMALL:  # the real axis
            real = max(_real_moment(bounds, x[k]), _real_moment(bounds, x[k + 1]))
            near, least = real < least or least == np.inf, min(least, real)
        out[k] = math.log(max(1.0 + least, LEAST)) if least < np.inf else np.inf
        one, other = other, one


@kernel
def _real_moment(bounds, x):
    """Return a bound of ``A(x) - 1``."""
    total, size = 0.0, 0.0
    for i in range(bounds.losses.size):
        exponent = (1.0 + x) * bounds.losses[i]
        if exponent > LARGEST:
            return np.inf
        here = bounds.density[i] * math.expm1(exponent)
        total += here
        size += abs(here)
    last = bounds.losses.size - 1
    end = (LEFT + bounds.width * last) - max(1.0 + x, 0.0) * bounds.m
    if end < 1.0:
        return np.inf
    beyond = bounds.density[last] / bounds.width * math.exp((1.0 + x) * bounds.losses[last])
    return total + beyond + (size + 1.0) * (CELL_SUM + CELL_TRAPEZOID)
