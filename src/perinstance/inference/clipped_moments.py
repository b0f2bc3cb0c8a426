"""The estimating equation of noisy moments of clipped residuals, where residuals are of one spread and symmetric.

    m_k = sum clip(y - x'theta_k, c) x + noise

For normal residuals of standard deviation tau a clip at c lets the part ``p = 2 Phi(c/tau) - 1`` of a small change
pass, so ``m_k/p`` is a score with the Gram matrix as its slope. What is assumed: a linear mean, one spread of residuals
everywhere, and symmetry where the clip bites.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.numerics.array_types import Floats

LEAST_SPREAD, MOST_SPREAD = 1e-5, 1.0  # of a squared residual, in units of the label's half range


@dataclass(frozen=True, slots=True, eq=False)
class ClippedMoments:
    """Moments of r rounds that clip alike, and what else was published; rows in the coordinates of the Gram matrix."""

    points: Floats  #: (r, d) where residuals were taken
    moments: Floats  #: (r, d)
    clip: float
    noise: float  #: standard deviation of the noise in a moment
    gram: Floats  #: (d, d) with noise
    gram_noise: float  #: standard deviation of the noise on its diagonal
    n: float
    squares: float  #: the sum of squared labels, with noise
    squares_noise: float

    def equation(self, theta: Floats, population: bool) -> EstimatingEquation:
        """Return the equation, of the spread of residuals at its solution; ``theta`` is where that search starts."""
        points, count = self.points, len(self.points)
        gram, none = positive_part(self.gram), np.zeros_like(self.gram)
        for _ in range(3):
            square = self._squared_spread(gram, theta)
            away = np.maximum(np.einsum("ki,ij,kj->k", theta - points, gram, theta - points) / self.n, 0.0)
            passed = 2.0 * ndtr(self.clip / np.sqrt(square + away)) - 1.0
            score = (self.moments / passed[:, None]).mean(axis=0)
            noise = self.noise**2 * float((1.0 / passed**2).sum()) / count**2 * np.eye(len(gram))
            found = EstimatingEquation(points.mean(axis=0), score, self.gram, noise, none, self.gram_noise)
            theta = found.solved().estimate
        # a clipped normal residual, divided by the part that passes, has this variance
        k = self.clip / math.sqrt(square)
        inside = 2.0 * float(ndtr(k)) - 1.0
        density = math.exp(-k * k / 2.0) / math.sqrt(2.0 * math.pi)
        spread = square * (inside - 2.0 * k * density + k * k * (1.0 - inside)) / inside**2
        # this table's least squares differs from the root of its clipped residuals by the difference of their variances
        sampling = (spread if population else max(spread - square, 0.0)) * gram
        return EstimatingEquation(found.anchor, score, self.gram, noise, sampling, self.gram_noise)

    def _squared_spread(self, gram: Floats, theta: Floats) -> float:
        """Return the mean squared residual at theta: two standard deviations of noise too large."""
        doubt = math.hypot(self.squares_noise, self.gram_noise * float(theta @ theta))  # theta'E theta: the second part
        square = (self.squares - float(theta @ gram @ theta) + 2.0 * doubt) / self.n
        return min(max(square, LEAST_SPREAD), MOST_SPREAD)
