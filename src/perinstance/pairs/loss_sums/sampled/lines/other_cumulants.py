"""The cumulant function of the Gaussian and Laplace losses of the same person, at the nodes of a line."""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.laplace_atoms import exp
from perinstance.pairs.loss_sums.records import LinePlace, Losses
from perinstance.pairs.loss_sums.saddlepoint import slopes


@kernel
def _log_excess(z):
    """Return ``log(1 - z) + z``, which is about ``-z^2/2``."""
    if abs(z) < 0.1:
        total = 0.0j
        for k in range(18, 1, -1):
            total = total * z - 1.0 / k
        return total * z * z
    return np.log(1.0 - z) + z


@kernel
def _cumulant(t, losses):
    """Return ``K(t)`` at a complex t and the sum of the sizes of its terms (see ``saddlepoint.py``)."""
    nu, v, m2, levels, lap, count = losses
    total, size = 0.0j, 0.0
    for j in range(nu.size):
        if nu[j] == 0.0 and m2[j] == 0.0:
            continue
        z = t * nu[j]
        parts = (t * levels[j, 0], 0.5 * m2[j] * v[j] * t * t / (1.0 - z), -0.5 * _log_excess(z))
        for part in parts:
            total += part
            size += abs(part)
    for g in range(lap.size):
        D = lap[g]
        if D == 0.0:
            continue
        y = (1.0 + 2.0 * t) * D
        fall = D * (1.0 - 0.5 * y) if abs(y) < 1e-8 else D * (1.0 - exp(-y)) / y
        part = count[g] * np.log(1.0 - t * fall)
        total += count[g] * t * D + part
        size += count[g] * (abs(t * D) + abs(part) + 4.0)
    return total, size


@kernel
def add_cumulants_at(places, losses, values, lost):
    """Add everybody's K at some places to the values, and the rounding to ``lost``."""
    nu, v, m2, levels, lap, count = losses
    nodes = places.size
    for i in range(values.shape[0]):
        one = Losses(nu[i], v[i], m2[i], levels[i], lap[i], count[i])
        for k in range(nodes):
            K, size = _cumulant(places[k], one)
            values[i, k] += K.real
            values[i, nodes + k] += K.imag
            lost[i, k] += 8.0 * NODE_ROUNDING * size


@kernel
def add_real_cumulants(c, losses, values):
    """Add everybody's K, K' and K'' at a real c, infinite beyond the branch points."""
    nu, v, m2, levels, lap, count = losses
    for i in range(values.shape[0]):
        one = Losses(nu[i], v[i], m2[i], levels[i], lap[i], count[i])
        top = 0.0
        for j in range(nu.shape[1]):
            top = max(top, nu[i, j])
        if c * top >= 1.0:
            values[i, 0], values[i, 1], values[i, 2] = math.inf, math.inf, math.inf
            continue
        K, _size = _cumulant(complex(c, 0.0), one)
        level, lift, fall, bend, bend_fall = slopes(LinePlace(c, 1.0 - c * top, top), 0.0, one)
        values[i, 0] += K.real
        values[i, 1] += level + lift - fall
        values[i, 2] += bend + bend_fall
