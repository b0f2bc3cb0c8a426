"""The steps of a clipped descent: exact sums, exact noise, and from there on post-processing in floats.

In each step everybody enters a Poisson sample by bits of the operating system; the gradients of the sample are clipped
on a public fixed-point grid, in integers (``sampling.fixed_rows``: a gradient that is not a number counts as zero);
their sum is exact, and one exact draw of noise on it, rounded to the public grid, is all that the next theta knows of
the rows. Nothing that a row holds is a reason to stop.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.releases.descent.person_gradients import PersonGradients
from perinstance.sampling import Noisy, draw, exact_sums, fixed_rows


@dataclass(frozen=True, slots=True)
class Steps:
    """What was declared. All of it is public."""

    count: int
    learning_rate: float
    clip: float
    noise: float
    rate: float
    grid: float


def noisy_path(gradients: PersonGradients, X: NDArray, y: Floats, steps: Steps) -> Floats:
    """Return the iterates ``theta_0 = 0, theta_1, ..., theta_T``, one in each row."""
    path = np.zeros((steps.count + 1, gradients.width(X.shape[1])))
    for t in range(steps.count):
        sampled = poisson_sample(len(X), steps.rate)
        own = clipped(gradients.of(X[sampled], y[sampled], path[t]), steps.clip)
        noisy = draw(Noisy(exact_sums(own), steps.noise), steps.grid).values
        path[t + 1] = _next(path[t], noisy, gradients, steps)
    return path


def quiet_path(gradients: PersonGradients, X: NDArray, y: Floats, steps: Steps) -> Floats:
    """Return the iterates of everybody's gradients without noise: what a run would look like. Confidential."""
    path = np.zeros((steps.count + 1, gradients.width(X.shape[1])))
    for t in range(steps.count):
        total = clipped(gradients.of(X, y, path[t]), steps.clip).sum(axis=0) * steps.rate
        path[t + 1] = _next(path[t], total, gradients, steps)
    return path


def clipped(gradients: Floats, clip: float) -> Floats:
    """Shrink gradients to the length ``clip``, exactly, on a public grid; what is not a number becomes zero."""
    return fixed_rows(gradients, np.zeros(len(gradients)), clip, 1.0).X


def clipped_lengths(gradients: Floats, clip: float) -> Floats:
    """Return the lengths of the gradients as the release sums them."""
    return np.minimum(np.linalg.norm(clipped(gradients, clip) / clip, axis=1), 1.0) * clip


def poisson_sample(n: int, rate: float) -> NDArray[np.bool_]:
    """Pick each of n people with probability ``rate``, from the operating system's randomness.

    64 bits decide, so a rate below 2^-11 is rounded down, by less than 2^-11 of itself for any rate above 2^-53.
    """
    if rate == 1.0:
        return np.ones(n, dtype=bool)
    words = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
    return words < np.uint64(int(rate * 2.0**64))


def _next(theta: Floats, total: Floats, gradients: PersonGradients, steps: Steps) -> Floats:
    with np.errstate(all="ignore"):
        return theta - steps.learning_rate * (total / steps.rate + gradients.penalty(theta))
