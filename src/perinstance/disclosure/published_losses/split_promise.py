"""How the promise of a publication of losses is spent: Gaussian looks only, so distances add in squares, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perinstance.numerics.rounding import BOUND_DOWN
from perinstance.releases.promises.promise import check_promise, gaussian_distance, noise_scale

HISTOGRAM, COUNT = 0.2, 0.02  # shares of the squared distance, where matrices are looked at too; the rest is theirs


@dataclass(frozen=True, slots=True)
class SplitPromise:
    """GDP distances of the parts: matrices (each), the number of people, the histogram. Public."""

    epsilon: float
    delta: float
    distance: float  #: of everything
    looks: int
    matrix: float
    count: float
    histogram: float
    failure: float  #: of any bound that is read from the noisy numbers
    each: float  #: of one of them

    @classmethod
    def of(cls, epsilon: float, delta: float, looks: int, failure: float) -> SplitPromise:
        """Split a promise; a second look at the matrix wants to know about how many people there are."""
        epsilon, delta = check_promise(epsilon, delta)
        whole = gaussian_distance(epsilon, delta)
        counted = COUNT if looks > 1 else 0.0
        histogram = HISTOGRAM if looks else 1.0

        def part(share: float) -> float:
            return whole * math.sqrt(share) * BOUND_DOWN

        matrix = part((1.0 - histogram - counted) / looks) if looks else 0.0
        # what may fail: both sides of each matrix, the number of people, the draw, the reading of quantiles
        each = failure / (2 * looks + 3)
        return cls(epsilon, delta, whole, looks, matrix, part(counted), part(histogram), failure, each)

    @property
    def noise(self) -> float:
        """The standard deviation of each count of the histogram, in which a person counts once."""
        return noise_scale(1.0, self.histogram)
