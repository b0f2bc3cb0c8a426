"""Tables that people share: log moments of every kind of step at the nodes of a line ``c + i k h``, and their decay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.line_decay import fill_decay
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, StepKind, fill_log_moments, real_moments
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
    _decays: dict[tuple[float, float], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, view: LossCoordinates) -> LineTables:
        """Make empty tables for people who take sampled steps."""
        assert view.sampled is not None
        return cls(view.sampled)

    def line(self, c: float, spacing: float, nodes: int, kinds: NDArray[np.intp]) -> LineTable:
        """Return the table of some kinds on a line."""
        key = (c, spacing, nodes)
        if key in self._lines:
            return self._lines[key]
        s = self.steps
        values, error = np.empty((kinds.size, 2 * nodes)), np.zeros(nodes)
        fill_line(s.rates[kinds], s.distances[kinds], s.own_kl(kinds), s.over, np.array([c, spacing]), values, error)
        table = LineTable(values, error)
        if s.index is None:
            self._lines[key] = table
        return table

    def real(self, c: float, kinds: NDArray[np.intp]) -> Floats:
        """Return log A, its first and its second derivative at a real place, a row for each kind: not proved."""
        if c in self._reals:
            return self._reals[c]
        s = self.steps
        values = np.empty((kinds.size, 3))
        fill_real(s.rates[kinds], s.distances[kinds], s.own_kl(kinds), s.over, c, values)
        if s.index is None:
            self._reals[c] = values
        return values

    def decay(self, c: float, spacing: float, places: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Return lower bounds of ``-log |A(c + iy)|/A(c)`` for all y beyond each place, a row for each kind."""
        key = (c, spacing)
        if key in self._decays:
            return self._decays[key]
        s = self.steps
        values = np.empty((kinds.size, places.size))
        fill_decays(s.rates[kinds], s.distances[kinds], s.own_kl(kinds), s.over, c, places, values)
        if s.index is None:
            self._decays[key] = values
        return values


@kernel
def fill_line(rates, distances, kl, over, place, values, error):
    """Fill in the log moments of every kind on the line through ``place[0]`` with nodes ``place[1]`` apart."""
    n = error.size
    out, lost = np.empty(n, np.complex128), np.empty(n)
    for j in range(rates.size):
        fill_log_moments(StepKind(rates[j], distances[j], over, 0.0), kl[j], place[0], place[1], out, lost)
        for k in range(n):
            values[j, k], values[j, n + k] = out[k].real, out[k].imag
            # of the moment, and of the sum over the kinds
            lost_here = lost[k] + NODE_ROUNDING * (2.0 + rates.size) * (abs(out[k].real) + abs(out[k].imag))
            error[k] = max(error[k], lost_here / out[0].real) if out[0].real > 0.0 else np.inf


@kernel
def fill_real(rates, distances, kl, over, c, values):
    """Fill in log A and two derivatives of every kind at c."""
    for j in range(rates.size):
        step = StepKind(rates[j], distances[j], over, 0.0)
        values[j, 0], values[j, 1], values[j, 2] = real_moments(step, kl[j, 0], c)


@kernel
def fill_decays(rates, distances, kl, over, c, places, values):
    """Fill in how far every kind has died at some places of the line through c."""
    out, lost = np.empty(1, np.complex128), np.empty(1)
    for j in range(rates.size):
        step = StepKind(rates[j], distances[j], over, 0.0)
        fill_log_moments(step, kl[j], c, 1.0, out, lost)
        log = out[0].real + lost[0] if out[0].real < BEYOND else np.inf
        fill_decay(step, c, log, places, values[j])
