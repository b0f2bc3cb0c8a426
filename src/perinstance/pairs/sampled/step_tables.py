r"""What each kind of step adds to sums of losses: of a law of its own, or between two levels of distance.

``d E(u - k)_+/dm = phi(m/2 - log k/m)``: as ``|log k|`` grows, more of the growth between two distances m1 < m2 comes
late. So the share of it that has come at m is largest at k = 1, where it is
``b = (Phi(m/2) - Phi(m1/2))/(Phi(m2/2) - Phi(m1/2))``. Hence the law of u at m is below, in the convex order, that at
m1 with probability 1 - b and that at m2 with b, and delta grows if it is replaced by that mixture. So do moments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfc

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEVEL_SHARE, MIXED_MOMENTS
from perinstance.pairs.sampled.step_law import FEW_POINTS, NoiseLaw, StepLosses
from perinstance.pairs.sampled.steps import StepsTaken

#: So many kinds have laws of their own, of those who ask together; more are between levels (changes the width).
OWN = 256
#: The ratio of one level to the next, 6e-6 of a step's variance, and the most levels of a rate, which widen it.
RATIO, MOST_LEVELS = 1.005, 512
#: Chernoff's bound is looked at in places c that are these (changes only where lines are laid).
RUNGS = 2.0 ** (np.arange(-40, 180) / 4.0)
#: How many nodes apart a characteristic function is looked at far out (changes only speed).
APART = 16


class StepMoments(NamedTuple):
    """Log moments of each law at the nodes; of each kind, what these may be wrong by, and how they fall.

    ``falls`` has the logarithm of a bound, from some nodes on, of the moment over the first.
    """

    log: NDArray[np.complex128]
    wrong: Floats
    falls: Floats


class StepTables:
    """Tables of the kinds of steps that some people take."""

    def __init__(self, steps: StepsTaken, levels: bool) -> None:
        self.kinds = steps.kinds()
        q, m = steps.rates[self.kinds], steps.distances[self.kinds]
        self.low, self.share, self._mixed = np.arange(q.size), np.zeros(q.size), levels
        if levels:
            q, m = self._levels(q, m)
        noise: dict[float, tuple[NoiseLaw, NoiseLaw]] = {}
        self.laws, self._real = [], np.empty((q.size, RUNGS.size))
        for j in range(q.size):
            at = float(m[j])
            if at not in noise:
                noise[at] = NoiseLaw.of(at), NoiseLaw.of(at, FEW_POINTS)
            self.laws.append(StepLosses(noise[at][0], float(q[j]), steps.over))
            self._real[j] = StepLosses(noise[at][1], float(q[j]), steps.over).real(RUNGS)

    def _levels(self, q: Floats, m: Floats) -> tuple[Floats, Floats]:
        """Find each kind's lower level and its share of the upper one; return rates and distances of the levels."""
        rates: list[Floats] = []
        distances: list[Floats] = []
        for rate in np.unique(q):
            rows = np.flatnonzero(q == rate)
            low, high = m[rows].min() * 0.9999, m[rows].max() * 1.0001
            count = max(min(math.ceil(math.log(high / low) / math.log(RATIO)), MOST_LEVELS), 1) + 1
            level = np.geomspace(low, high, count)
            k = np.clip(np.searchsorted(level, m[rows], side="right") - 1, 0, count - 2)
            self.low[rows] = k + int(sum(part.size for part in distances))
            self.share[rows] = _share(m[rows], level[k], level[k + 1])
            rates.append(np.full(count, rate))
            distances.append(level)
        return np.concatenate(rates), np.concatenate(distances)

    def _of_kinds(self, table: Floats) -> Floats:
        """Return a row for each kind of what is no larger in a mixture than in both of its parts."""
        return np.maximum(table[self.low], table[self.low + 1]) if self._mixed else table

    def numbers(self, name: str) -> Floats:
        """Return a number of the laws for each kind."""
        return self._of_kinds(np.array([[getattr(law, name)] for law in self.laws]))

    def real(self) -> Floats:
        """Return ``log E e^{c loss}`` at ``RUNGS``, about; infinite where it overflows."""
        return self._of_kinds(self._real)

    def line(self, c: float, h: float, first: int, nodes: int, lengths: NDArray[np.intp]) -> StepMoments:
        """Return the first nodes of a line of so many; the others are looked at here and there.

        With ``g(y) = |E e^{(c + iy) loss}/E e^{c loss}|^2``, ``|g''|`` is at most twice the variance of the loss under
        the law of density ``e^{c loss}``; so g exceeds its larger value at two ends, H apart, by at most ``H^2/4``
        times that variance. ``lengths`` are the numbers of nodes from which falls are told.
        """
        count = len(self.laws)
        log, wrong, falls = (
            np.zeros((count, first), complex),
            np.full((count, 1), np.inf),
            np.zeros((count, len(lengths))),
        )
        for j, law in enumerate(self.laws):
            with np.errstate(over="ignore", invalid="ignore"):
                own, lost = law.moments(c, h, first)
            if not (np.isfinite(own).all() and np.isfinite(lost)):
                continue  # it overflows: whoever takes it has no answer here
            beyond, g = 0.0, np.exp(2.0 * np.maximum(own.real - own[0].real, -300.0))
            if first < nodes:
                far, more = law.moments(c, APART * h, nodes // APART + 1)
                g_far, lost = np.exp(2.0 * np.maximum(far.real - far[0].real, -300.0)), max(lost, more)
                beyond = np.max(g_far[first // APART :]) + 0.25 * (APART * h) ** 2 * law.variance(c)
            log[j], wrong[j] = own, lost
            top = np.maximum.accumulate(np.append(g, beyond)[::-1])[::-1]
            falls[j] = np.log(np.clip(np.sqrt(top[lengths]) + 2.0 * wrong[j], math.exp(-300.0), 1.0))
        return StepMoments(log, self._of_kinds(wrong) + (MIXED_MOMENTS if self._mixed else 0.0), self._of_kinds(falls))

    def logs(self, table: StepMoments, kinds: NDArray[np.intp], n: int) -> NDArray[np.complex128]:
        """Return the log moments of some kinds at the first n nodes."""
        rows = np.searchsorted(self.kinds, kinds)
        low = np.ascontiguousarray(table.log[self.low[rows], :n])
        if not self._mixed:
            return low
        with np.errstate(over="ignore", invalid="ignore"):
            return low + np.log1p(self.share[rows, None] * np.expm1(table.log[self.low[rows] + 1, :n] - low))


def _share(m: Floats, low: Floats, high: Floats) -> Floats:
    """Return the share b of the upper level, rounded up."""
    scale = math.sqrt(8.0)
    near = np.divide(erf(m / scale) - erf(low / scale), erf(high / scale) - erf(low / scale))
    with np.errstate(invalid="ignore"):
        far = np.divide(erfc(low / scale) - erfc(m / scale), erfc(low / scale) - erfc(high / scale))
    b = np.where(low > 1.0, far, near)
    return np.where(np.isfinite(b), np.minimum(b + LEVEL_SHARE, 1.0), 1.0)
