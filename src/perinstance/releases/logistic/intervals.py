r"""What the released numbers of a private logistic regression say of its coefficients.

The sums of slopes are noisy scores: those of the last two thirds of the rounds are averaged, with weights in proportion
to what they spent. Their slope is the curvature ``sum h(x'theta) x x'``, in which there is no label. It follows from
the noisy Gram matrix as if the score ``x'theta`` were normal (Stein's lemma: what a function of one direction does to
second moments). The covariance of the score itself is at most the curvature: the squared slope is ``(1 - p)/(4 p)`` on
average and the curvature ``(1 - p)/2``, p the probability of the likelier class, a ratio of ``1/(2 p) <= 1``. So
standard errors are at most ``sqrt(2)`` too long where the model holds.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.inference.table import About, PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import TINY
from perinstance.releases.logistic.bounded_slope_loss import SLOPE
from perinstance.releases.logistic.mechanism import PublishedSlopes, SlopeRounds
from perinstance.releases.promises.declared_box import DeclaredBox

NODES = 60  # of the quadrature over a normal score
LEAST_SHARE = 1e-3  # of the mean eigenvalue, below which an eigenvalue of the Gram matrix is raised: it is all noise
NORMAL_SCORE = (
    "The curvature is computed as if scores were normal: fair for rows that are roughly elliptical, rough for a few "
    "rare dummies."
)
NO_ONES = (
    "without an intercept the number of people is not published, and the curvature cannot be computed; publish with "
    "fit_intercept=True"
)


def known(box: DeclaredBox, rounds: SlopeRounds, published: PublishedSlopes, about: About) -> PublishedInference:
    """Return what is known of the user's coefficients, the intercept last."""
    if not box.weight:
        return PublishedInference(None, (), NO_ONES)
    solved = equation(box, rounds, published, about == "population").solved()
    return PublishedInference(box.user_coefficients(solved), (NORMAL_SCORE,))


def equation(box: DeclaredBox, rounds: SlopeRounds, published: PublishedSlopes, population: bool) -> EstimatingEquation:
    """Return the equation, for rows in units."""
    count, d, B = len(published.path), len(published.gram), rounds.x_bound
    spent = np.square(rounds.round_distances)
    weights = np.where(np.arange(count) >= count - (2 * count + 2) // 3, spent, 0.0)
    weights /= weights.sum()
    noise = float((weights**2 * (SLOPE * B) ** 2 / spent).sum()) * np.eye(d)
    curvature = normal_curvature(published.gram, box.weight, published.theta)
    return EstimatingEquation(
        anchor=weights @ np.array(published.path),
        score=weights @ np.array(published.slope_sums),
        slope=curvature,
        score_noise=noise,
        sampling=positive_part(curvature) if population else np.zeros((d, d)),
        slope_noise=B * B / rounds.gram_distance * SLOPE / 2.0,  # h is at most a quarter
    )


def normal_curvature(gram: Floats, weight: float, theta: Floats) -> Floats:
    """Return ``sum h(x'theta) x x'`` for rows ``(u, weight)`` with normal u of the moments in the Gram matrix."""
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
