"""Real log moments of many distances to three digits or more, from some of them: they place lines and prove nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import SMALLEST
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, StepKind, divergence_of, real_moments
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

#: Of more different distances than these at one rate, as many points are taken.
TAKEN = 128
#: A spline has at least so many.
FEWEST = 4


@dataclass(frozen=True, slots=True)
class RealSplines:
    """Monotone cubic splines in log m, one for each place and each rate that has many distances, kept for everybody."""

    steps: SampledSteps
    _points: dict[float, tuple[Floats, Floats]] = field(default_factory=dict)
    _splines: dict[tuple[float, float], tuple[float, PchipInterpolator | None]] = field(default_factory=dict)

    def values(self, c: float, kinds: NDArray[np.intp]) -> Floats:
        """Return log A, its first and its second derivative of some kinds at a real place."""
        s, values, open_ = self.steps, np.full((kinds.size, 3), BEYOND), np.ones(kinds.size, dtype=bool)
        rates = s.rates[kinds]
        for rate in self._many() if kinds.size > TAKEN else ():
            mine = np.flatnonzero(rates == rate)
            logs, (end, spline) = np.log(s.distances[kinds[mine]]), self._spline(c, rate)
            near = logs <= end
            if spline is not None:
                values[mine[near]] = np.exp(spline(logs[near]))
            open_[mine] = False
        rest = kinds[open_]
        found = np.empty((rest.size, 3))
        fill_real(s.rates[rest], s.distances[rest], s.own_kl(rest), s.over, c, found)
        values[open_] = found
        return values

    def _many(self) -> dict[float, tuple[Floats, Floats]]:
        """Return the points of every rate that has many distances, and their divergences."""
        s = self.steps
        if not self._points and s.rates.size > TAKEN:
            for rate, count in zip(*np.unique(s.rates, return_counts=True), strict=True):
                if count > TAKEN:
                    own = s.distances[s.rates == rate]
                    points = np.geomspace(own.min(), own.max(), TAKEN)
                    kl = np.array([divergence_of(StepKind(rate, m, s.over, 0.0)) for m in points.tolist()])
                    self._points[float(rate)] = points, kl
        return self._points

    def _spline(self, c: float, rate: float) -> tuple[float, PchipInterpolator | None]:
        """Return the logarithm of the furthest distance whose moment lies within the noise, and the spline up to it."""
        from scipy.interpolate import PchipInterpolator

        if (c, rate) not in self._splines:
            points, kl = self._points[rate]
            found = np.empty((points.size, 3))
            fill_real(np.full(points.size, rate), points, kl, self.steps.over, c, found)
            inside = (found < BEYOND).all(axis=1)
            last = points.size if inside.all() else int(np.argmin(inside))
            logs, spline = np.log(points), None
            if last >= FEWEST:
                spline = PchipInterpolator(logs[:last], np.log(np.maximum(found[:last], SMALLEST)))
            end = np.inf if last == points.size else float(logs[last - 1])
            self._splines[c, rate] = end, spline
        return self._splines[c, rate]


@kernel
def fill_real(rates, distances, kl, over, c, values):
    """Fill in log A and two derivatives of every kind at c."""
    for j in range(rates.size):
        step = StepKind(rates[j], distances[j], over, 0.0)
        values[j, 0], values[j, 1], values[j, 2] = real_moments(step, kl[j, 0], c)
