"""Tables that people share: log moments of every kind of step at the nodes of a line ``c + i k h``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.sampled.log_moments import StepKind, fill_log_moments, real_moments
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps


@dataclass(frozen=True, slots=True)
class LineTable:
    """Real and imaginary parts of log A side by side, a row for each kind; errors relative to log A at the first node.

    Whoever takes any of these steps has ``K = steps @ values``, with an error of at most ``error`` times ``K(c)``.
    """

    values: Floats
    error: Floats


@dataclass(frozen=True, slots=True)
class LineTables:
    """The tables of one call, kept while everybody has the same kinds of steps."""

    steps: SampledSteps
    _lines: dict[tuple[float, float, int], LineTable] = field(default_factory=dict)
    _reals: dict[float, Floats] = field(default_factory=dict)

    def line(self, c: float, spacing: float, nodes: int, kinds: NDArray[np.intp]) -> LineTable:
        """Return the table of some kinds on a line."""
        key = (c, spacing, nodes)
        if key in self._lines:
            return self._lines[key]
        s = self.steps
        values, error = np.empty((kinds.size, 2 * nodes)), np.zeros(nodes)
        kl = s.kl[1 if s.over else 0][kinds]
        fill_line(s.rates[kinds], s.distances[kinds], kl, s.over, np.array([c, spacing]), values, error)
        table = LineTable(values, error)
        if s.index is None:
            self._lines[key] = table
        return table

    def real(self, c: float, kinds: NDArray[np.intp]) -> Floats:
        """Return log A, its first and its second derivative at a real place, a row for each kind."""
        if c in self._reals:
            return self._reals[c]
        s = self.steps
        values = np.empty((kinds.size, 3))
        fill_real(s.rates[kinds], s.distances[kinds], s.kl[1 if s.over else 0][kinds], s.over, c, values)
        if s.index is None:
            self._reals[c] = values
        return values


@kernel
def fill_line(rates, distances, kl, over, place, values, error):
    """Fill in the log moments of every kind on the line through ``place[0]`` with nodes ``place[1]`` apart."""
    n = error.size
    out, lost = np.empty(n, np.complex128), np.empty(n)
    for j in range(rates.size):
        fill_log_moments(StepKind(rates[j], distances[j], over), kl[j], place[0], place[1], out, lost)
        for k in range(n):
            values[j, k], values[j, n + k] = out[k].real, out[k].imag
            # of the moment, and of the sum over the kinds
            lost_here = lost[k] + NODE_ROUNDING * rates.size * (abs(out[k].real) + abs(out[k].imag))
            error[k] = max(error[k], lost_here / out[0].real)


@kernel
def fill_real(rates, distances, kl, over, c, values):
    """Fill in log A and two derivatives of every kind at c."""
    for j in range(rates.size):
        values[j, 0], values[j, 1], values[j, 2] = real_moments(StepKind(rates[j], distances[j], over), kl[j], c)
