"""What AdaSSP's released numbers say of its coefficients: an estimating equation, made of what was published anyway.

The last rounds' moments ``m_k = sum clip(y - x'theta_k, c) x + noise`` are the score. For normal residuals of standard
deviation tau a clip at c lets the part ``p = 2 Phi(c/tau) - 1`` of a small change pass, so ``m_k/p`` is a score with
the Gram matrix as its slope. The first round is left out where there are others: its residuals are labels. The spread
of residuals follows from the look at labels, taken two standard deviations of its noise too large.

What is assumed: a linear mean, one spread of residuals everywhere, and symmetry where the clip bites.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.inference.table import About, PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.releases.adassp.mechanism import Published, Rounds
from perinstance.releases.promises.promise import noise_scale

LAST_ROUNDS = 3  # that the equation averages
LEAST_SPREAD, MOST_SPREAD = 1e-5, 1.0  # of a squared residual, in units of the label's half range
ONE_SPREAD = (
    "Free intervals take residuals to be of one spread everywhere and symmetric; for costs, "
    "incomes and other skewed outcomes whose spread grows with their mean they are too short."
)
ONE_SHOT = (
    "with rounds=1 nothing that was published tells how widely outcomes scatter, so nothing can be said of people like "
    'these; publish with rounds=5 (the default), or ask about="table"'
)
FEW = "The number of people is lost in the noise: nothing can be said."


def equation(published: Published, rounds: Rounds, population: bool) -> EstimatingEquation:
    """Return the equation, for rows in the coordinates of the Gram matrix."""
    n, d = published.opening.n, len(published.gram)
    rows = rounds.geometry(published.frame, n)
    slope_noise = noise_scale(rows.gram_sensitivity, rounds.gram_distance)
    none = np.zeros((d, d))
    if rounds.count == 1:
        noise = noise_scale(rows.x_bound * (rounds.clip or 1.0), rounds.round_distance)
        return EstimatingEquation(
            np.zeros(d), published.moments[0], published.gram, noise**2 * np.eye(d), none, slope_noise
        )
    if n is None:
        return EstimatingEquation(published.path[-1], np.zeros(d), none, none, none, slope_noise)
    gram = positive_part(published.gram)
    clip = published.clips[-1]
    used = [k for k in range(rounds.count) if published.clips[k] >= clip][-LAST_ROUNDS:]
    points = np.array([published.path[k] for k in used])
    moments = np.array([published.moments[k] for k in used])
    round_noise = clip * rows.x_bound / rounds.round_distance
    theta = published.path[-1]
    for _ in range(3):
        square = _squared_spread(published, rounds, gram, slope_noise, theta)
        away = np.maximum(np.einsum("ki,ij,kj->k", theta - points, gram, theta - points) / n, 0.0)
        passed = 2.0 * ndtr(clip / np.sqrt(square + away)) - 1.0
        score = (moments / passed[:, None]).mean(axis=0)
        noise = round_noise**2 * float((1.0 / passed**2).sum()) / len(used) ** 2 * np.eye(d)
        found = EstimatingEquation(points.mean(axis=0), score, published.gram, noise, none, slope_noise)
        theta = found.solved().estimate
    # a clipped normal residual, divided by the part that passes, has this variance
    k = clip / math.sqrt(square)
    inside = 2.0 * float(ndtr(k)) - 1.0
    density = math.exp(-k * k / 2.0) / math.sqrt(2.0 * math.pi)
    spread = square * (inside - 2.0 * k * density + k * k * (1.0 - inside)) / inside**2
    # this table's least squares differs from the root of its clipped residuals by the difference of their variances
    sampling = (spread if population else max(spread - square, 0.0)) * gram
    return EstimatingEquation(found.anchor, score, published.gram, noise, sampling, slope_noise)


def _squared_spread(published: Published, rounds: Rounds, gram: Floats, slope_noise: float, theta: Floats) -> float:
    """Return the mean squared residual at theta from the look at labels: two standard deviations of noise too large."""
    look, n = rounds.look, published.opening.n
    assert look is not None and n is not None
    scales, at = look.scales(), 2 if look.n_public is None else 1
    squares = float(published.totals[at]) + n / 2.0
    noise = math.hypot(scales[at], scales[0] / 2.0 if at == 2 else 0.0)
    doubt = math.hypot(noise, slope_noise * float(theta @ theta))  # theta'E theta has the second part
    square = (squares - float(theta @ gram @ theta) + 2.0 * doubt) / n
    return min(max(square, LEAST_SPREAD), MOST_SPREAD)


def known(rounds: Rounds, published: Published, about: About) -> PublishedInference:
    """Return what is known of the user's coefficients, the intercept last."""
    population = about == "population"
    if population and rounds.count == 1:
        return PublishedInference(None, (), ONE_SHOT)
    box, frame, k = rounds.box, published.frame, len(published.gram)
    units = np.eye(k) if frame is None else np.array([frame.in_units(one, box.weight) for one in np.eye(k)]).T
    solved = equation(published, rounds, population).solved().mapped(units)
    few = rounds.count > 1 and published.opening.n is None
    notes = (FEW,) if few else (ONE_SPREAD,) if rounds.count > 1 and population else ()
    return PublishedInference(box.user_coefficients(solved), notes)
