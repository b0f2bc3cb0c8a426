"""Private logistic regression as a mechanism: one noisy Gram matrix, then rounds of noisy sums of slopes.

    G~ = X'X + E,      g_t = sum_i slope(x_i'z_t, s_i) x_i + noise,      theta_{t+1} = z_t + P^-1 (g_t - lambda_t z_t)

with momentum, ``z_t = theta_t + m_t (theta_t - theta_{t-1})``: descent on the loss plus ``lambda/2 |theta|^2``, with
steps of Newton's method where G~ is above its noise. P and the A below are what ``gram_reading`` makes of G~. With
z, g the means over the rounds that count, weighted by what they spent, what is published solves

    (A + lambda) answer = g + A z,

one last step from the mean point with the mean slope: noise of all these rounds averages out.

The penalty is not tuned: it is the one at which the gradient of the loss at the answer, ``lambda |theta|``, is as long
as the noise in it, ``sigma sqrt(d)`` with sigma that of all rounds together (the discrepancy principle of Morozov).
Below that one would fit noise. In doubt it is at least the one of the best linear estimate of coefficients that vary
about zero, ``sigma^2 / (typical square * curvature)``. Everything but the two kinds of noisy sums is
post-processing of what was released.

Every sum is Gaussian with a sensitivity that holds whatever the others said (``||x x'||_F <= B^2``; ``B/2``), so the
distances add in quadrature and the promise is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUND_DOWN, STEP_UP
from perinstance.releases.base.row_sums import products
from perinstance.releases.promises.promise import Promise, noise_scale, person_distance, row_distance
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows

GRAM = 0.05  # share of the squared distance; round t has a part of the rest that is proportional to sqrt(t)
LARGEST_PENALTY = 2.0**60  # that leaves nothing of an estimate
TYPICAL_SQUARE = 2.0  # of a coefficient, for rows of norm at most 1


@dataclass(frozen=True, slots=True)
class SlopeRounds:
    """What the user declared, and how the budget is spent. All of it is public."""

    x_bound: float
    gram_distance: float
    round_distances: tuple[float, ...]
    promise: Promise
    #: rows that are used of a person; the distances are those of one row, and a person's are as many times as large
    rows_per_person: int = 1


@dataclass(frozen=True, slots=True)
class PublishedSlopes:
    """What one run published, for rows as the window has them. Public when the window was exact."""

    theta: Floats
    gram: Floats
    slope_sums: tuple[Floats, ...]
    path: tuple[Floats, ...]  #: where each round took slopes


def spend(epsilon: float, delta: float, x_bound: float, count: int, rows_per_person: int = 1) -> SlopeRounds:
    """Split the budget: exact Gaussian composition, so the squared distances are what is shared out.

    Later rounds see a better estimate and get more, in proportion to the root of their number. A person's rows move
    every sum by at most as many times what one row moves it by.
    """
    budget = row_distance(epsilon, delta, rows_per_person)
    gram = budget * math.sqrt(GRAM) * ROUND_DOWN
    roots = [math.sqrt(t) for t in range(1, count + 1)]
    whole = math.fsum(roots)
    each = tuple(budget * math.sqrt((1.0 - GRAM) * root / whole) * ROUND_DOWN for root in roots)
    distance = math.sqrt(math.fsum([gram**2, *(one**2 for one in each)])) * STEP_UP
    return SlopeRounds(x_bound, gram, each, Promise(person_distance(distance, rows_per_person)), rows_per_person)


def run(rounds: SlopeRounds, window: Window) -> PublishedSlopes:
    """Look through the window; the estimate is post-processing of what was seen."""
    B, d, spent = rounds.x_bound, window.d, np.square(rounds.round_distances)
    gram_noise = noise_scale(STEP_UP, rounds.gram_distance)
    G = window.outer(lambda rows: rows.X, gram_noise * B**2)
    reading = read_gram(G / B**2, gram_noise, rounds.promise.distance / rounds.rows_per_person)
    V, curvature = reading.vectors, reading.steps
    sigma = SLOPE / math.sqrt(math.fsum(spent))
    noise, least_penalty = sigma * math.sqrt(d), sigma * reading.error / TYPICAL_SQUARE * reading.doubt

    def penalty_of(estimate: Floats) -> float:
        """Return lambda with ``lambda |estimate| = noise``, or the least there is."""
        return max(noise / max(float(np.linalg.norm(estimate)), noise / LARGEST_PENALTY), least_penalty)

    theta = before = answer = np.zeros(d)
    penalty = LARGEST_PENALTY
    points: list[Floats] = []  # for rows of norm at most 1
    found: list[Floats] = []
    for t, distance in enumerate(rounds.round_distances):
        # Nesterov's momentum for the condition number of the slowest direction, less in the first rounds, and none in
        # doubt: it would carry noise on
        root = math.sqrt((reading.unknown + penalty) / penalty)
        momentum = min((root - 1.0) / (root + 1.0), t / (t + 3.0)) * (1.0 - reading.doubt)
        z = theta + momentum * (theta - before)
        scale = noise_scale(SLOPE * STEP_UP, distance) * B
        sums = window.sums(partial(_moved, theta=z / B), [scale] * d)
        points.append(z)
        found.append(sums)
        if t == 0:  # that of the estimate which a first step from zero will give; the largest where all is noise
            penalty = float(curvature.min())
            for _ in range(64):
                penalty = penalty_of(V.T @ (sums / B) / (curvature + penalty))
        before, theta = theta, z + V @ (V.T @ (sums / B - penalty * z) / (curvature + penalty))
        weights = _weights(spent[: t + 1], reading.doubt)
        z_mean, g_mean = V.T @ (weights @ np.array(points)), V.T @ (weights @ np.array(found)) / B
        answer = V @ ((g_mean + reading.answer * z_mean) / (reading.answer + penalty))
        penalty = penalty_of(answer)  # a single estimate has more noise, and would look longer than it is
    return PublishedSlopes(answer / B, G, tuple(found), tuple(z / B for z in points))


def _moved(rows: FixedRows, theta: Floats) -> Floats:
    """Return what each person adds to a sum of slopes: at most ``B/2`` long, but for one rounding of each product."""
    return rows.X * slopes(products(rows.X, theta), np.sign(rows.y))[:, None]


def _weights(spent: Floats, doubt: float) -> Floats:
    """Weigh rounds by what they spent; without doubt the first third of those so far does not count."""
    count = len(spent)
    left_out = (count - (2 * count + 2) // 3) * (1.0 - doubt)
    weights = np.clip(np.arange(1, count + 1) - left_out, 0.0, 1.0) * spent
    return np.asarray(weights / weights.sum())


CURVATURE = 0.25  # of the loss, on average at most, for a row's square of 1
CERTAIN, LOST = 0.6, 2.4  # errors of a coefficient: no doubt up to the first, nothing but doubt from the second
SHORTER = 5.0  # steps along unknown directions, in doubt: by a factor of 1 + 5
CAUTION, LEAST_SEEN = 0.5, 0.25  # standard deviations: taken off the trace; what is left at least


@dataclass(frozen=True, slots=True, eq=False)
class GramReading:
    """Directions, and the curvature of the loss along each; rows have norm at most 1."""

    vectors: Floats  #: orthonormal, as columns
    steps: Floats  #: curvature that a step is made for: not below that of the loss, but for the noise
    answer: Floats  #: curvature that the answer is computed with: in doubt only what stands out
    unknown: float  #: curvature that steps assume where the matrix tells nothing
    doubt: float  #: from 0 to 1
    error: float  #: the standard error of a coefficient by noise


def read_gram(gram: Floats, noise: float, distance: float) -> GramReading:
    """Read a released Gram matrix of rows of norm at most 1.

    ``noise`` is the standard deviation on its diagonal, ``distance`` what the whole promise spends.

    >>> clear = read_gram(np.diag([5e4, 4e4]), 10.0, 0.3)
    >>> clear.doubt, bool((clear.steps == clear.answer).all())
    (0.0, True)
    """
    d = len(gram)
    values, vectors = np.linalg.eigh(gram)
    spread = noise * math.sqrt(d)  # of the trace
    seen = max(float(values.sum()) - CAUTION * spread, LEAST_SEEN * spread)
    error = SLOPE / distance / (CURVATURE * seen / d)
    doubt = min(max((error - CERTAIN) / (LOST - CERTAIN), 0.0), 1.0)
    edge = noise * math.sqrt(2.0 * d)
    known = CURVATURE * np.maximum(values, edge)
    stands_out = CURVATURE * np.maximum(values - edge, 0.0)
    unknown = CURVATURE * edge * (1.0 + SHORTER * doubt)
    return GramReading(
        vectors=vectors,
        steps=np.where(values > edge, known, unknown),
        answer=known + (stands_out - known) * doubt,
        unknown=unknown,
        doubt=doubt,
        error=error,
    )


#: the largest slope
SLOPE = 0.5
#: slopes are multiples of ``2^-SLOPE_BITS``, a public grid; truncation never makes one steeper
SLOPE_BITS = 40
_FARTHEST = 64.0  # beyond this margin a slope is below the grid
_LOG2 = math.log(2.0)
_TERMS = 14  # of the series of exp on [-log(2)/2, log(2)/2]: the next is below 1e-17


def slopes(eta: Floats, sign: Floats) -> Floats:
    """Return ``-dl/deta`` of each row, on the public grid: ``s exp(-max(s eta, 0))/2``; a row of sign 0 has none.

    With ``m = s eta`` the loss is ``exp(-m)/2`` for ``m >= 0`` and ``(1 - m)/2`` below: convex, and least on average at
    the true log odds, because the slope is ``w (p - [s = 1])``, p the logistic function of eta and ``w = 1/(2 max(p, 1
    - p))``. Noise is as large as the largest slope, and the estimate moves by noise over curvature: of all losses with
    such a slope, whatever w > 0, this one has the largest curvature at a given largest slope, twice that of the
    logistic loss at best.

    The answer to a row depends on nothing but the row: every operation below is correctly rounded, cell by cell,
    whereas the rounding of a library's exp may depend on where in an array a cell stands.
    """
    margin = np.clip(sign * eta, 0.0, _FARTHEST)
    halvings = np.rint(margin / _LOG2)  # exp(-margin), at most 1
    rest, series = halvings * _LOG2 - margin, np.ones_like(margin)
    for k in range(_TERMS, 0, -1):
        series = 1.0 + rest * series / k
    decay = np.minimum(np.ldexp(series, -halvings.astype(np.int64)), 1.0)
    return sign * np.ldexp(np.trunc(np.ldexp(decay, SLOPE_BITS - 1)), -SLOPE_BITS)
