"""Everyone and the worst case for a noisy mean or sum: the township of the paper's introduction.

Somebody who joins n people moves their mean by ``(x - mean)/(n + 1)`` and their sum by x. With noise of scale s the
distance is the l1 norm (Laplace noise) or the l2 norm (Gaussian noise) of that over s, largest where x points away from
the mean:

    l2: ball  B + ||mean||,         box  ||(B_j + |mean_j|)_j||
    l1: ball  B sqrt(d) + |mean|_1, box  sum_j (B_j + |mean_j|).

All of them are attained, so these are the largest distances. Under Laplace noise on several columns the loss of a
distance is an upper bound; what is lost at least is what the column that moves most gives away by itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, SMALLEST, UNIT
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.release import Release, mechanism_of


def is_mean(release: Release) -> bool:
    """Tell whether this is a noisy mean or sum."""
    return mechanism_of(release).moved in ("mean", "sum")


def farthest(release: Release, centre: Floats, bounds: Floats, domain: str) -> Floats:
    """Return the x of the domain that is farthest from the centre in the norm that the noise counts."""
    away = np.where(centre > 0, -1.0, 1.0)
    if domain == "box":
        return away * bounds
    if release.mechanism().noise == "laplace":
        return away * bounds[0] / np.sqrt(len(centre))
    length = math.hypot(*centre.tolist())  # which neither overflows nor underflows on the way
    return -centre / length * bounds[0] if length > 0 else np.eye(len(centre))[0] * bounds[0]


class MeanLoss(NamedTuple):
    """Epsilon of a movement of the mean or sum, rounded up; an upper bound where it is beyond the range of floats."""

    epsilon: float
    attained: float  #: not above the true loss, up to rounding
    kind: Kind


def loss(release: Release, move: Floats, delta: float) -> MeanLoss:
    """Return epsilon of a movement of the mean or sum."""
    mechanism = release.mechanism()
    laplace, sizes = mechanism.noise == "laplace", np.abs(move).tolist()
    length = sum(sizes) if laplace else math.hypot(*sizes)
    slack = NORM_UP + len(sizes) * UNIT
    pair = LaplaceShift if laplace else GaussianShift

    def epsilon(size: float) -> float:
        distance = size / mechanism.scale * slack
        return float(pair([max(distance, SMALLEST) if size > 0 else distance]).epsilon(delta)[0])

    found = epsilon(length)
    if laplace and sum(size > 0 for size in sizes) > 1:
        return MeanLoss(found, epsilon(max(sizes)), "upper")
    return MeanLoss(found, found, "exact" if math.isfinite(found) else "upper")
