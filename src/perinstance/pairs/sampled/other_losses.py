"""Log moments of the Gaussian and Laplace losses of other releases on the same people, but plain shifts."""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import UNIT
from perinstance.pairs.sums.coordinates import LossCoordinates


def plain_shifts(view: LossCoordinates) -> Floats:
    """Return the sum of m^2 of the coordinates of equal variances, rounded up: the variance of their losses."""
    return np.asarray(np.where(view.nu == 0.0, view.m2, 0.0).sum(axis=1)) * (1.0 + 4.0 * UNIT * (1 + view.nu.shape[1]))


@kernel
def add_cumulants(places, losses, values, steep):
    """Add ``log E e^{z loss}`` at some places, infinite beyond a branch point; raise ``steep`` by ``|log|/|z|``.

    A Gaussian coordinate (``coordinates.py``) has ``z kl + m^2 v z^2/(2 (1 - z nu)) - (log(1 - z nu) + z nu)/2``, a
    Laplace loss of distance D has ``z D + log(1 - z (1 - e^-y)/(1 + 2 z))``, ``y = (1 + 2z) D``.
    """
    for i in range(values.shape[0]):
        most, nu, v, m2 = 0.0, losses.nu[i], losses.v[i], losses.m2[i]
        levels, lap, count = losses.levels[i], losses.lap[i], losses.count[i]
        for k in range(places.size):
            z, total, size = places[k], 0.0j, 0.0
            for j in range(nu.size):
                if nu[j] == 0.0:
                    continue
                x = z * nu[j]
                if x.real >= 1.0:
                    total, size = complex(math.inf, 0.0), 0.0
                    break
                log = np.log(1.0 - x) + x
                if abs(x) < 0.1:
                    log = 0.0j
                    for power in range(18, 1, -1):
                        log = log * x - 1.0 / power
                    log *= x * x
                a, b = z * levels[j, 0], 0.5 * m2[j] * v[j] * z * z / (1.0 - x)
                total += a + b - 0.5 * log
                size += abs(a) + abs(b) + 2.0 * abs(x) + 1.0
            for j in range(lap.size):
                y = (1.0 + 2.0 * z) * lap[j]
                fall = lap[j] * (1.0 - 0.5 * y) if abs(y) < 1e-6 else lap[j] * (1.0 - np.exp(-y)) / y
                log = np.log(1.0 - z * fall)
                total += count[j] * (z * lap[j] + log)
                size += count[j] * (abs(z) * lap[j] + abs(log) + 4.0)
            values[i, k] += total
            most = max(most, size / abs(z))
        steep[i] += 8.0 * most
