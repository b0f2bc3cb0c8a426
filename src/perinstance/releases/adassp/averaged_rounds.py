"""One estimate from all rounds: noisy moments of residuals at different estimates, averaged.

A moment at ``theta_k`` is about ``p G (theta - theta_k)`` plus noise, p the part of a small change of residuals that
the clip lets pass. With weights that add up to one, the averaged moment is the moment at the averaged estimate, and
its noise is smaller; but the error of the Gram matrix acts on ``theta`` less that average. So a round counts by its
noise and by how far its estimate is from the present one, and the older it is, the less: its residuals were clipped
at a worse estimate. All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.releases.adassp.shrinkage import NoisyGram, posterior_mean

PASSED, PASSED_IN_A_FRAME = 0.75, 0.9  # p: two thirds of normal residuals lie within one standard deviation;
# in a frame rows are whole in moments and clipped in the Gram matrix, which makes up for part of it
KEPT = 0.6  # weight of a round against the next one


@dataclass(frozen=True, slots=True)
class Round:
    """One released moment, in units where ``B_x = B_y = 1``."""

    theta: Floats  #: the estimate that residuals were taken of
    moment: Floats
    clip: float
    scale: float  #: of the noise


def estimate(gram: NoisyGram, rounds: Sequence[Round], passed: float = PASSED) -> Floats:
    """Return the posterior mean given the rounds; those of a narrower clip than the last one are left out."""
    used = [one for one in rounds if one.clip >= rounds[-1].clip]
    thetas, moments = (np.array([getattr(one, name) for one in used]) for name in ("theta", "moment"))
    scales = np.array([one.scale for one in used]) / passed
    age = np.arange(len(used))[::-1]
    best: Floats = thetas[-1]
    for _ in range(2 if len(used) > 1 else 1):
        far = ((thetas - best) ** 2).sum(axis=1)
        weights = KEPT**age / (scales**2 + 0.5 * gram.scale**2 * far)
        weights /= weights.sum()
        noise = math.sqrt(float(weights**2 @ scales**2))
        best = weights @ thetas + posterior_mean(gram, weights @ moments / passed, noise)
    return best
