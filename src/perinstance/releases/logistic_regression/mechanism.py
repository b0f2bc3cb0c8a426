"""Private logistic regression as a mechanism: one noisy Gram matrix, then rounds of noisy sums of slopes.

    G~ = X'X + E,      g_t = sum_i slope(x_i'z_t, s_i) x_i + noise,      theta_{t+1} = z_t + P^-1 (g_t - lambda_t z_t)

with momentum, ``z_t = theta_t + m_t (theta_t - theta_{t-1})``: descent on the loss plus ``lambda/2 |theta|^2``, with
steps of Newton's method where G~ is above its noise. ``P = max(G~, noise)/4 + lambda`` (the average curvature of the
loss is at most 1/4 of a row's square). What is published is the mean of the last two thirds of the estimates.

The penalty is not tuned: it is the one at which the gradient of the loss at the answer, ``lambda |theta|``, is as long
as the noise in it, ``sigma sqrt(d)`` with sigma that of all rounds together (the discrepancy principle of Morozov).
Below that one would fit noise. Everything but the two kinds of noisy sums is post-processing of what was released.

Every sum is Gaussian with a sensitivity that holds whatever the others said (``||x x'||_F <= B^2``; ``B/2``), so the
distances add in quadrature and the promise is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUND_DOWN, STEP_UP
from perinstance.releases.logistic_regression.bounded_slope_loss import SLOPE
from perinstance.releases.logistic_regression.noisy_sums import SumWindow
from perinstance.releases.promises.calibration import gaussian_distance, noise_scale
from perinstance.releases.promises.promise import Promise

GRAM = 0.05  # share of the squared distance; round t has a part of the rest that is proportional to sqrt(t)
CURVATURE = 0.25
LARGEST_PENALTY = 2.0**60  # that leaves nothing of an estimate


@dataclass(frozen=True, slots=True)
class SlopeRounds:
    """What the user declared, and how the budget is spent. All of it is public."""

    x_bound: float
    gram_distance: float
    round_distances: tuple[float, ...]
    promise: Promise


@dataclass(frozen=True, slots=True)
class PublishedSlopes:
    """What one run published, for rows as the window has them. Public when the window was exact."""

    theta: Floats
    gram: Floats
    slope_sums: tuple[Floats, ...]
    path: tuple[Floats, ...]  #: where each round took slopes


def spend(epsilon: float, delta: float, x_bound: float, count: int) -> SlopeRounds:
    """Split the budget: exact Gaussian composition, so the squared distances are what is shared out.

    Later rounds see a better estimate and get more, in proportion to the root of their number.
    """
    budget = gaussian_distance(epsilon, delta)
    gram = budget * math.sqrt(GRAM) * ROUND_DOWN
    roots = [math.sqrt(t) for t in range(1, count + 1)]
    whole = math.fsum(roots)
    each = tuple(budget * math.sqrt((1.0 - GRAM) * root / whole) * ROUND_DOWN for root in roots)
    distance = math.sqrt(math.fsum([gram**2, *(one**2 for one in each)])) * STEP_UP
    return SlopeRounds(x_bound, gram, each, Promise(distance))


def run(rounds: SlopeRounds, window: SumWindow) -> PublishedSlopes:
    """Look through the window; the estimate is post-processing of what was seen."""
    B, d = rounds.x_bound, window.d
    unit_scale = noise_scale(STEP_UP, rounds.gram_distance)
    G = window.gram(unit_scale * B**2)
    values, vectors = np.linalg.eigh(G / B**2)
    floor = CURVATURE * unit_scale * math.sqrt(2.0 * d)  # of the curvatures: the largest eigenvalue of the noise
    curvature = np.maximum(CURVATURE * values, floor)
    spent = math.fsum(one**2 for one in rounds.round_distances)
    noise = SLOPE * math.sqrt(d / spent)
    theta = before = answer = np.zeros(d)
    penalty = LARGEST_PENALTY
    sums: list[Floats] = []
    path: list[Floats] = []
    estimates: list[Floats] = []
    for t, distance in enumerate(rounds.round_distances):
        z = theta + _momentum(t, floor, penalty) * (theta - before)
        g = window.slope_sum(z / B, noise_scale(SLOPE * STEP_UP, distance) * B)
        sums.append(g)
        path.append(z / B)
        if t == 0:
            penalty = _first_penalty(vectors.T @ g / B, curvature, noise)
        step = vectors @ (vectors.T @ (g / B - penalty * z) / (curvature + penalty))
        before, theta = theta, z + step
        estimates.append(theta)
        answer = _mean_of_last(estimates, rounds.round_distances)
        penalty = _penalty(answer, noise)  # a single estimate has more noise, and would look longer than it is
    return PublishedSlopes(answer / B, G, tuple(sums), tuple(path))


def _mean_of_last(estimates: list[Floats], distances: tuple[float, ...]) -> Floats:
    """Average the last two thirds of the estimates so far, weighted by what their rounds spent."""
    last = (2 * len(estimates) + 2) // 3
    weights = np.square(distances[len(estimates) - last : len(estimates)])
    return weights @ np.array(estimates[-last:]) / weights.sum()


def _penalty(theta: Floats, noise: float) -> float:
    """Return lambda with ``lambda |theta| = noise``."""
    return noise / max(float(np.linalg.norm(theta)), noise / LARGEST_PENALTY)


def _first_penalty(g: Floats, curvature: Floats, noise: float) -> float:
    """Return the same for the estimate that a first step from zero will give; the largest where all is noise."""
    penalty = float(curvature.min())
    for _ in range(64):
        penalty = _penalty(g / (curvature + penalty), noise)
    return penalty


def _momentum(t: int, floor: float, penalty: float) -> float:
    """Return Nesterov's factor for the condition number ``(floor + penalty)/penalty``, less in the first rounds."""
    root = math.sqrt((floor + penalty) / penalty)
    return min((root - 1.0) / (root + 1.0), t / (t + 3.0))
