r"""One step's moments off the real line: ``E[(1 + e^zeta)^p]`` at complex p, along a path that bends up.

With the log odds ``zeta = m x - m^2/2 + log(q/(1 - q))``, normal with mean mu and variance m^2 under P, the ratio is
``w = (1 - q)(1 + e^zeta)``; so ``E_P[w^p] = (1 - q)^p A(p)``, ``A(p) = E[e^{p S}]``, ``S = log(1 + e^zeta)``. Where p
runs up and to the right the real line is no place to integrate over: ``|e^{p S}|`` grows with zeta, and what is large
cancels. Along ``zeta(u) = u + i (eta + kappa log(1 + e^{u - b}))``, from b on a straight line that rises by kappa, it
does not (``b`` infinite: parallel to the real line).

**In the strip** ``|Im u| <= d = eta/2``, with ``eta <= 1``, ``kappa = 1/2``, ``b >= 0``, and ``xi = Re zeta``, this
holds for any q and m. Write ``L = log(1 + e^{u - b})``: ``zeta = u - kappa Im L + i (eta + Im u + kappa Re L)`` with
``|Im L| <= d``, ``Re L >= 0``. So ``|xi - Re u| <= 1/4``, ``Im zeta >= eta/2``, and where ``xi <= t`` it is at most
``1.5 + log(1 + e^{t + 1/4})/2``: 1.92 at t = 0, so that ``|1 + e^zeta| >= 0.9`` for ``xi <= 0``; 2.1 at 1/2 and 2.3 at
1, so that ``|1 + e^-zeta| >= 0.6`` for ``xi >= 0`` (beyond 1 because of ``1 - e^-1``). S is analytic, ``Im S >= 0``,
``|S'| <= 1.7 min(1, e^xi)``, ``|S''| <= 2.8 e^{-|xi|}``. By ``|1 + e^{u - b}| >= 1`` and ``|Im u| <= 1/2`` also
``0.93 <= |zeta'| <= 1.57``, ``|zeta''| <= e^{-|u - b|}/2``, ``|(log zeta')''| <= 2.1 e^{-|u - b|}``. With F the
integrand over u and ``psi = log |F|`` along a line, ``|psi''|`` is therefore at most

``(2.5 + |zeta - mu| e^{-|u - b|}/2)/m^2 + 2.1 e^{-|u - b|} + |p| (7 e^{-|xi|} + 0.9 min(1, e^xi) e^{-|u - b|})``

and the integral of ``|F|`` over a cell of width h is at most
``h (F_left + F_right) e^{h^2 max |psi''|/8}``. At the ends of the window psi falls, and bends down from there on:
what lies beyond is at most ``e^psi/|psi'|``.

**The trapezoidal rule** of step h misses at most ``(N_- + N_+)/(e^{2 pi d/h} - 1)``, N the integrals of ``|F|`` along
the edges of the strip. For ``y >= y_1`` and a between ``a_1`` and ``a_2`` every such integral at ``p = a + i y`` is at
most the larger of those at ``(a_1, y_1)`` and ``(a_2, y_1)``: it falls with y, as ``Im S >= 0``, and its logarithm is
convex in a.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING, NOT_ZERO
from perinstance.pairs.loss_sums.laplace_atoms import exp

KAPPA = 0.5
DEEP = 65.0  # 2 pi d/h
STANDARD = 14.0  # standard deviations of the log odds in the window,
FAR_LEFT = -45.0  # which starts here at the latest
STRAIGHT = 45.0  # and ends so far behind the bend
NORMAL = 0.5 * math.log(2.0 * math.pi)
DEAD = 62.0  # nodes below e^-DEAD of the largest are not visited, but bounded
BLOCK = 128  # terms of a sum that are added up one after the other


class NoisePath(NamedTuple):
    """A path: its step, m and what else it was made of; on the edges of its strip and on it (-d, 0, d) the logarithm of
    the density, and S; what psi may bend by over eight, without p and per |p|; roundings of F, in half units, the same
    way; how psi falls at the end.
    """

    h: Any
    m: Any
    shape: Any
    base: Any
    log_ratio: Any
    curve: Any
    rounds: Any
    ends: Any


@kernel
def lay_path(q, m, eta, bend, farthest, points):
    """Return the path; the window reaches to ``farthest`` standard deviations above mu, and further if it must.

    With some ``points`` it is a sketch, to choose by; else (0) its step is that of the rule.
    """
    log_odds = math.log(q) - math.log1p(-q)
    mu = log_odds - 0.5 * m * m
    d = 0.5 * eta
    h = 2.0 * math.pi * d / DEEP
    start = min(mu - STANDARD * m, FAR_LEFT)
    stop = max(mu + farthest * m, STRAIGHT + (bend if bend < np.inf else 0.0))
    if points > 0:
        h = max(h, (stop - start) / points)
    n = int((stop - start) / h) + 2
    base, ratio = np.empty((3, n), np.complex128), np.empty((3, n), np.complex128)
    curve, rounds, ends = np.empty((2, n)), np.empty((2, n)), np.empty((3, 2))
    kappa = KAPPA if bend < np.inf else 0.0
    known = 4.0 + 0.5 * m * m + abs(math.log(q)) + abs(math.log1p(-q))
    level = math.log(h) - NORMAL - math.log(m)
    for i in range(n):
        v = (start - mu) + i * h
        u = mu + v
        for line in range(3):
            over = (line - 1.0) * d
            off = soft_plus(complex(u - bend, over)) if kappa > 0.0 else 0.0j
            slope = 1.0 / (1.0 + exp(complex(bend - u, -over))) if kappa > 0.0 and u - bend > -600.0 else 0.0j
            rise = complex(-kappa * off.imag, over + eta + kappa * off.real)
            from_mu = complex(v, 0.0) + rise
            turn = 1.0 + complex(0.0, kappa) * slope
            base[line, i] = -from_mu * from_mu * (0.5 / (m * m)) + complex(
                level + math.log(abs(turn)), math.atan2(turn.imag, turn.real)
            )
            ratio[line, i] = soft_plus(complex(u, 0.0) + rise)
            if i == n - 1:
                ends[line, 0], ends[line, 1] = (from_mu.real - kappa * from_mu.imag) / (m * m), kappa
            if line == 1:
                size = abs(from_mu)
        near = math.exp(-min(abs(u - bend), 700.0)) if kappa > 0.0 else 0.0
        low = math.exp(min(u, 0.0))
        curve[0, i] = 0.125 * h * h * 1.3 * ((2.5 + 0.5 * (size + 1.0) * near) / (m * m) + 2.1 * near)
        curve[1, i] = 0.125 * h * h * 1.7 * (7.0 * math.exp(-min(abs(u), 700.0)) + 0.9 * low * near)
        rounds[0, i] = 16.0 + abs(level) + 6.0 * (size / m) ** 2
        rounds[1, i] = 6.0 * abs(ratio[1, i]) + 10.0 * (known + abs(u) + abs(ratio[1, i])) * low
    return NoisePath(
        h, m, np.array([bend, start, start + (n - 1) * h, eta, q, farthest]), base, ratio, curve, rounds, ends
    )


@kernel
def finely(path):
    """Return the path of a sketch, with the step of the rule."""
    return lay_path(path.shape[4], path.m, path.shape[3], path.shape[0], path.shape[5], 0)


@kernel
def soft_plus(z):
    """Return ``log(1 + e^z)``, continuous in the strip."""
    if z.real > 0.0:
        back = exp(complex(-z.real, -z.imag))
        return z + _log_one_plus(back)
    return _log_one_plus(exp(z))


@kernel
def _log_one_plus(t):
    """Return ``log(1 + t)`` for ``|t| <= 1``, without loss for a small t."""
    return complex(0.5 * math.log1p(t.real * (2.0 + t.real) + t.imag * t.imag), math.atan2(t.imag, 1.0 + t.real))


@kernel
def coarse_size(path, p):
    """Return about the logarithm of the integral of ``|F|`` along the path, and of what the rule misses of it."""
    top = -np.inf
    for line in range(2):
        lower = DEEP - 4.0 if line == 0 else 0.0
        for i in range(path.base.shape[1]):
            s = path.log_ratio[line, i]
            top = max(top, path.base[line, i].real + p.real * s.real - p.imag * s.imag - lower)
    return top


@kernel
def line_size(path, line, a, y):
    """Return the logarithm of a bound of the integral of ``|F|`` along one of the three lines, and of what lies beyond.

    Infinite where the window does not hold it.
    """
    m = path.m
    n = path.base.shape[1]
    order = math.hypot(a, y)
    start, stop = path.shape[1], path.shape[2]
    bent = path.shape[0] if path.shape[0] < np.inf else 0.0  # the path is straight only so far behind its bend
    tiny = 12.0 * order * math.exp(-min(stop - bent, 700.0))
    falls = path.ends[line, 0] - a + path.ends[line, 1] * y - tiny
    if falls < 0.5 / m or tiny * m * m > 0.3 or 4.0 * order * math.exp(start) * m > 10.0:
        return np.inf, np.inf
    top = -np.inf
    for i in range(n):
        s = path.log_ratio[line, i]
        top = max(top, path.base[line, i].real + a * s.real - y * s.imag)
    total, first, last = 0.0, 0.0, 0.0
    for i in range(n):
        s = path.log_ratio[line, i]
        log = path.base[line, i].real + a * s.real - y * s.imag - top
        raised = log + path.curve[0, i] + order * path.curve[1, i]
        if raised > -100.0:
            total += math.exp(min(raised, 600.0))
        if i == 0:
            first = log
        last = log
    # the density carries the factor h: beyond the ends at most e^psi/|psi'|, |psi'| >= 1/(2 m)
    beyond = (math.exp(max(first, -700.0)) + math.exp(max(last, -700.0))) * (2.0 * m / path.h)
    total = 2.0 * total * 1.001 + n * math.exp(-100.0) * 2.0 + beyond
    return top + math.log(total), top + math.log(beyond)


class Alive(NamedTuple):
    """Which nodes are visited, the exponent that everything is relative to, and the logarithm of what is left out."""

    first: Any
    last: Any
    scale: Any
    left: Any


@kernel
def alive(path, p, corners):
    """Return the nodes that count for p, and a bound of what the others do at any p between the corners."""
    n = path.base.shape[1]
    top = -np.inf
    for i in range(n):
        s = path.log_ratio[1, i]
        top = max(top, path.base[1, i].real + p.real * s.real - p.imag * s.imag)
    first, last = n, 0
    left = 0.0
    for turn in range(2):
        for i in range(n):
            s = path.log_ratio[1, i]
            high = -np.inf
            for k in range(2):
                high = max(high, path.base[1, i].real + corners[k, 0] * s.real - corners[k, 1] * s.imag)
            high = max(high, path.base[1, i].real)
            if turn == 0:
                if high > top - DEAD:
                    first, last = min(first, i), max(last, i + 1)
            elif i < first or i >= last:
                left += math.exp(max(high - top, -700.0))
    return Alive(first, last, top if abs(top) > 200.0 else 0.0, top + math.log(2.0 * left + NOT_ZERO))


@kernel
def moment(path, p, live, excess):
    """Return ``e^-scale A(p)`` (``excess``: less 1, scale 0), and its rounding."""
    order = abs(p)
    total, block = 0.0j, 0.0j
    lost, size = 0.0, 0.0
    for i in range(live.first, live.last):
        power = p * path.log_ratio[1, i]
        if excess and abs(power) < 1.0:
            plain = exp(path.base[1, i])
            half = math.sin(0.5 * power.imag)
            grown = math.expm1(power.real)
            part = plain * complex(
                grown * math.cos(power.imag) - 2.0 * half * half, (1.0 + grown) * math.sin(power.imag)
            )
            wide = abs(part)
            lost += wide * (path.rounds[0, i] + 12.0) + 3.0 * abs(plain) * order * path.rounds[1, i]
        else:
            part = exp(path.base[1, i] + power - live.scale)
            wide = abs(part)
            lost += wide * (path.rounds[0, i] + abs(live.scale) + order * path.rounds[1, i])
            if excess:
                plain = exp(path.base[1, i])
                part -= plain
                lost += abs(plain) * (path.rounds[0, i] + 4.0)
                wide += abs(plain)
        block += part
        size += wide
        if i % BLOCK == 0:
            total += block
            block = 0.0j
    lost += size * (BLOCK + 2.0 * (live.last - live.first) / BLOCK + 4.0)
    return total + block, NODE_ROUNDING * lost
