"""From lengths of gradients to pairs: steps of one length, of many lengths, and what the promise is.

Step t adds noise ``N(0, sigma^2 I)`` to the sum of clipped gradients of a Poisson sample of rate q; a person whose
clipped gradient has length s is at the distance ``s / sigma`` there. Steps add up in ``SampledGaussian``; at rate 1,
distances add in quadrature (``Shift``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, STEP_UP
from perinstance.pairs import SampledGaussian, Shift
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.kinds import Kind

#: Lengths are counted at so many levels between 0 and the clip, each length at the level above it.
LEVELS = 128
#: Where the bisection for the noise stops, relatively; the side that keeps the promise is taken.
NOISE_STEP = 2.0**-30


def equal_steps(rate: float, distance: Any, steps: int, kind: Kind = "upper") -> Pairs:
    """Return the pairs of people who are at one distance in every step."""
    m = np.atleast_1d(np.asarray(distance, dtype=np.float64)) * STEP_UP
    if rate == 1.0:
        return Shift(m * (math.sqrt(steps) * STEP_UP) * STEP_UP, kind)
    return SampledGaussian(rate, m, steps, kind)


def levels_of(clip: float, count: int = LEVELS) -> Floats:
    """Return the levels ``0, clip / count, ..., clip`` (a length of zero has a level of its own)."""
    levels = clip * (np.arange(count + 1) / count)
    levels[-1] = clip
    return levels


def counted(norms: Floats, clip: float, count: int = LEVELS) -> NDArray[np.intp]:
    """Return the position of the smallest level that is not below each clipped length.

    >>> counted(np.array([0.0, 1e-9, 0.5, 0.51, 7.0]), clip=1.0, count=2)
    array([0, 1, 1, 2, 2])
    """
    return np.minimum(np.searchsorted(levels_of(clip, count), norms, side="left"), count)


def counted_steps(rate: float, noise: float, clip: float, counts: NDArray[Any], kind: Kind = "estimate") -> Pairs:
    """Return the pairs of people who took ``counts[i, k]`` steps at level k."""
    distances = levels_of(clip, counts.shape[1] - 1) / noise * STEP_UP
    if rate == 1.0:
        square = counts @ distances**2
        return Shift(np.sqrt(square) * NORM_UP, kind)
    # the kinds of steps that nobody took cost time only
    taken = np.flatnonzero(counts.any(axis=0) & (distances > 0))
    if not taken.size:
        return Shift(np.zeros(len(counts)), kind)
    return SampledGaussian(rate, distances[None, taken], counts[:, taken], kind)


@dataclass(frozen=True, slots=True)
class DescentPromise:
    """What holds for everybody, in every data set, whatever their row is. It is public.

    ``distance`` is the clip over the noise; all iterates are charged, so the last one alone costs no more.
    """

    rate: float
    distance: float
    steps: int
    kind: Kind = "upper"

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at epsilon in both directions."""
        if not np.isfinite(epsilon):
            raise InvalidInput(f"epsilon must be a finite number, got {epsilon!r}")
        return float(self.pairs.delta(epsilon)[0])

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which both directions are at most delta."""
        return float(self.pairs.epsilon(probability("delta", delta))[0])

    @property
    def pairs(self) -> Pairs:
        """One pair: that of a person whose gradient is clipped in every step."""
        return equal_steps(self.rate, self.distance, self.steps, self.kind)


@lru_cache(maxsize=64)
def largest_distance(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the largest clip over noise, rounded down, at which the steps keep (epsilon, delta).

    >>> round(largest_distance(1.0, 100, 1.0, 1e-6), 5)
    0.02367
    """

    def excess(m: float) -> float:
        return float(equal_steps(rate, m, steps).epsilon(delta)[0]) - epsilon

    low, high = 0.0, 1.0
    at_low, at_high = -epsilon, excess(high)
    while at_high <= 0.0:
        if high >= 1e6:
            return high
        low, high, at_low, at_high = high, 2.0 * high, at_high, excess(2.0 * high)
    while low == 0.0:
        middle = 0.25 * high
        if middle < NOISE_STEP:
            raise InvalidInput(f"no noise keeps epsilon={epsilon:g}, delta={delta:g} over {steps} steps")
        found = excess(middle)
        low, high, at_low, at_high = (middle, high, found, at_high) if found <= 0.0 else (0.0, middle, at_low, found)
    return _largest_kept(excess, low, high, (at_low, at_high))


def _largest_kept(excess: Callable[[float], float], low: float, high: float, at: tuple[float, float]) -> float:
    """Return where the function is not yet above zero and, a relative ``NOISE_STEP`` further, is; ``at`` are its ends.

    ITP, which interpolates, and never takes more steps than bisection and one (Oliveira and Takahashi, doi
    10.1145/3423597, with k1 = 0.2 / width, k2 = 2, n0 = 1): each step is a sum of losses, and may take seconds.
    """
    (at_low, at_high), width = at, high - low
    allowed = width  # how far bisection and one step more would have come
    while high - low > NOISE_STEP * high:
        half = 0.5 * (low + high)
        new = half
        if math.isfinite(at_high):
            root = low - at_low * ((high - low) / (at_high - at_low))
            toward = math.copysign(1.0, half - root)
            shift = min(0.2 * (high - low) ** 2 / width, abs(half - root))
            most = max(allowed - 0.5 * (high - low), 0.0)  # from the middle, not to fall behind
            new = half - toward * min(abs(half - (root + toward * shift)), most)
            least = 0.5 * NOISE_STEP * high  # an interpolation that is next to the truth ends the search
            new = min(max(new, low + least), high - least)
        allowed *= 0.5
        found = excess(new)
        low, high, at_low, at_high = (new, high, found, at_high) if found <= 0.0 else (low, new, at_low, found)
    return low
