r"""What noisy sums of bounded slopes say of a logistic regression: its estimating equation, at no further cost.

Published are a noisy Gram matrix of rows ``(u, weight)`` and, for each round, a point z and the noisy sum
``g = sum_i slope_i(z) x_i``. The means of z and g over the last two thirds of the rounds, weighted by the precision of
each sum, are anchor and score. Their slope is the curvature ``sum h(x'theta) x x'`` with
``h(eta) = min(p, 1 - p)/2``, p the logistic function of eta: there is no label in it, and the Gram matrix gives it for
scores that are normal. The covariance of the score is at most the curvature: the squared slope is ``(1 - p)/(4 p)`` on
average and the curvature ``(1 - p)/2``, p the probability of the likelier class, so standard errors are at most
``sqrt(2)`` too long where the model holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import TINY

NODES = 60  # of the quadrature over a normal score
LEAST_SHARE = 1e-3  # of the mean eigenvalue, below which an eigenvalue of the Gram matrix is raised: it is all noise
LARGEST_H = 0.25


def averaged_slopes(
    path: Sequence[Floats],
    sums: Sequence[Floats],
    noise: Floats,
    gram: Floats,
    gram_noise: float,
    theta: Floats,
    weight: float,
) -> EstimatingEquation:
    """Return the equation about people like these; without ``sampling`` it is about this table.

    Parameters
    ----------
    path, sums, noise
        Where each round took slopes, what it published, and the standard deviation of its noise.
    gram, gram_noise
        The noisy Gram matrix, and the standard deviation of the noise on its diagonal.
    theta, weight
        The published coefficients, and the last entry of every row, which stands for the intercept.
    """
    count = len(path)
    weights = np.where(np.arange(count) >= count - (2 * count + 2) // 3, noise**-2.0, 0.0)
    weights /= weights.sum()
    curvature = normal_curvature(gram, weight, theta)
    return EstimatingEquation(
        anchor=weights @ np.array(path),
        score=weights @ np.array(sums),
        slope=curvature,
        score_noise=float((weights**2 * noise**2).sum()) * np.eye(len(gram)),
        sampling=positive_part(curvature),
        slope_noise=gram_noise * LARGEST_H,
    )


def normal_curvature(gram: Floats, weight: float, theta: Floats) -> Floats:
    """Return ``sum h(x'theta) x x'`` for rows ``(u, weight)`` with normal u of the moments in the Gram matrix.

    By Stein's lemma, which says what a function of one direction does to second moments.
    """
    gram = positive_part(gram, max(LEAST_SHARE * float(np.trace(gram)) / len(gram), TINY))
    n = max(float(gram[-1, -1]) / weight**2, 1.0)
    mean = gram[:, -1] / (n * weight)
    mean[-1] = weight
    spread = positive_part(gram / n - np.outer(mean, mean))
    spread[-1], spread[:, -1] = 0.0, 0.0
    along = spread @ theta
    deviation = np.sqrt(max(float(theta @ along), TINY))
    along = along / deviation
    nodes, masses = np.polynomial.hermite_e.hermegauss(NODES)
    score = mean @ theta + deviation * nodes
    heights = masses / masses.sum() * 0.5 * np.minimum(expit(score), expit(-score))
    h0, h1, h2 = (float(heights @ nodes**k) for k in range(3))
    mixed = np.outer(mean, along)
    rest = spread - np.outer(along, along)
    whole: Floats = n * (h0 * (np.outer(mean, mean) + rest) + h1 * (mixed + mixed.T) + h2 * np.outer(along, along))
    return whole
