r"""A noisy linear estimating equation, and the covariance of its answer.

    r(t) = c - A (t - a),      A = A_0 + E

with a public point a, a noisy score c taken there and a noisy slope matrix A. The noise E is a symmetric Gaussian
matrix with standard deviation u on the diagonal and ``u/sqrt(2)`` beside it, independent of the noise of c. At the
target t*, with ``D = t* - a``, the residual ``r(t*)`` is normal about zero with covariance

    Sigma(D) = S + M + (u^2/2) (|D|^2 I + D D'),

S the covariance of the noise in c, M that of sampling (zero where the target is this table's own fit): ``E D`` has
exactly the last part. So ``t = a + A^-1 c`` has the covariance ``A^-1 Sigma A^-1``, noise of the slope included.

That needs a slope matrix that is not all noise. Directions whose eigenvalue is not above ``PROVEN`` standard deviations
of its noise are *hidden*: nothing is estimated along them, the answer may lie up to ``FARTHEST`` units away, and a
coefficient to which that matters has no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import TINY

PROVEN = 3.0  # standard deviations of noise, above which an eigenvalue of the slope matrix is taken to be positive
FARTHEST = 2.0  # units: a row at its bound would be predicted two half ranges of the label off


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """An estimate of k numbers, with the covariance of its error and the part of it that privacy noise makes."""

    estimate: Floats  #: (k,)
    covariance: Floats  #: (k, k)
    privacy: Floats  #: (k, k) the part of the covariance that is privacy noise
    hidden: Floats  #: (k, m) how far the numbers may lie off, along each of m hidden directions

    def mapped(self, linear: Floats, constant: Floats | float = 0.0) -> Estimated:
        """Return the same knowledge of ``linear @ numbers + constant``."""
        T = np.asarray(linear, dtype=np.float64)
        return Estimated(
            T @ self.estimate + constant, T @ self.covariance @ T.T, T @ self.privacy @ T.T, T @ self.hidden
        )


@dataclass(frozen=True, slots=True, eq=False)
class EstimatingEquation:
    """``score - slope (t - anchor)`` is near zero at the target; all of it is public."""

    anchor: Floats  #: (d,) where the score was taken
    score: Floats  #: (d,)
    slope: Floats  #: (d, d)
    score_noise: Floats  #: (d, d) covariance of the noise that was added to the score
    sampling: Floats  #: (d, d) covariance of the score itself; zero for this table's own fit
    slope_noise: float  #: standard deviation of the noise on the diagonal of the slope; 0 where it is exact

    def solved(self) -> Estimated:
        """Return the estimate and its covariance."""
        values, vectors = np.linalg.eigh((self.slope + self.slope.T) / 2.0)
        weak = ~(values > PROVEN * self.slope_noise)
        seen, blind = vectors[:, ~weak] / values[~weak], vectors[:, weak]
        step = seen @ (vectors[:, ~weak].T @ self.score)
        far = FARTHEST * blind
        length2 = float(step @ step) + (FARTHEST**2 if weak.any() else 0.0)
        spread = np.outer(step, step) + far @ far.T + length2 * np.eye(len(step))
        noise = self.score_noise + 0.5 * self.slope_noise**2 * spread
        inverse = seen @ vectors[:, ~weak].T
        privacy = inverse @ noise @ inverse.T
        return Estimated(self.anchor + step, privacy + inverse @ self.sampling @ inverse.T, privacy, far)


def bounded_draw(published: Floats, variances: Floats) -> Estimated:
    """Return what is known of the mean of a normal draw whose variances are at most these; infinite: nothing."""
    lost = ~np.isfinite(variances)
    covariance = np.diag(np.where(lost, 0.0, variances))
    return Estimated(
        np.asarray(published, dtype=np.float64), covariance, covariance, np.eye(len(lost))[:, lost] * FARTHEST
    )


def positive_part(matrix: Floats, floor: float = 0.0) -> Floats:
    """Return a symmetric matrix with its eigenvalues raised to the floor."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    part: Floats = (vectors * np.maximum(values, floor)) @ vectors.T
    return part


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
    """Return the equation of a logistic regression from noisy sums of bounded slopes, about people like these.

    The means of the last two thirds of the rounds, weighted by the precision of each sum, are anchor and score. Their
    slope is the curvature ``sum h(x'theta) x x'``, ``h(eta) = min(p, 1 - p)/2`` with p the logistic function of eta:
    there is no label in it, and the Gram matrix gives it for scores that are normal. The covariance of the score is at
    most the curvature: the squared slope is ``(1 - p)/(4 p)`` on average and the curvature ``(1 - p)/2``, p the
    probability of the likelier class, so standard errors are at most ``sqrt(2)`` too long where the model holds.

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


def slope_curvature(score: Floats) -> Floats:
    """Return h of the bounded slopes."""
    return 0.5 * np.minimum(expit(score), expit(-score))


def logistic_curvature(score: Floats) -> Floats:
    """Return h of the logistic loss."""
    return expit(score) * expit(-score)


def normal_curvature(
    gram: Floats, weight: float, theta: Floats, h: Callable[[Floats], Floats] = slope_curvature
) -> Floats:
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
    heights = masses / masses.sum() * h(score)
    h0, h1, h2 = (float(heights @ nodes**k) for k in range(3))
    mixed = np.outer(mean, along)
    rest = spread - np.outer(along, along)
    whole: Floats = n * (h0 * (np.outer(mean, mean) + rest) + h1 * (mixed + mixed.T) + h2 * np.outer(along, along))
    return whole
