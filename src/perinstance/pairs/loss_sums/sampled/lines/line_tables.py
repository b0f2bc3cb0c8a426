r"""Tables that people share: log moments of every kind of step at the nodes of a line ``c + i k h``, and their decay.

**A basis.** Log moments are smooth in the rate and the distance of a step, so that the tables T of many kinds span few
directions: ``T = U V + R`` with a small remainder, where U has a row for each kind and some 15 columns. Of many people
``steps @ U`` is taken once, and ``steps @ T`` is ``(steps @ U) @ V`` for every table. It is off by at most
``sum_j steps_j e_j``, ``e = |R| + u (kinds + 3 columns + 8) (|U| |V| + |T|)``: the remainder, its own rounding and that
of both products, u half a unit in the last place. Where s_j > 0 are any numbers of the kinds, that is at most
``max_j(e_j/s_j)`` times ``steps @ s``. R is computed for every table and all of this is charged to it, so that nothing
rests on how U was found (from the singular vectors of what a sample of people needs); a table that U does not span well
is taken kind by kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING, SPANNED, UNPROVED_WEIGHT
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.lines.line_decay import fill_decay
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, StepKind, fill_log_moments, real_moments
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps, StepTable

#: What a place is chosen by may be so far off, relatively: it proves nothing.
UNPROVED = 1e-3
#: From this error on, relative to ``K(c)``, everybody is charged for their own kinds of steps alone.
UNEVEN = 1e-7
#: So much of what a line has died by may be given away.
DECAY_LOST = 0.02
#: A basis is worth its products if it is so much smaller than the number of kinds.
SMALLER = 2
#: Of more different distances than these at one rate, so many are taken where nothing is proved.
MANY_DISTANCES, TAKEN = 256, 128


@dataclass(frozen=True, slots=True)
class LineTable:
    """Real and imaginary parts of log A side by side, a row for each kind; errors relative to log A at the first node.

    Whoever takes any of these steps has ``K = steps @ values``, with an error of at most ``error`` times ``K(c)``; over
    the basis ``error_over_basis``. It is also at most ``steps @ lost``, which goes by the kinds that a person takes.
    """

    values: StepTable
    error: Floats
    error_over_basis: Floats
    lost: Floats

    def first(self, nodes: int) -> LineTable:
        """Return the table of the first nodes."""
        whole, count = self.values, self.error.size
        kept = np.r_[:nodes, count : count + nodes]
        over = None if whole.over_basis is None else np.ascontiguousarray(whole.over_basis[:, kept])
        errors = (self.error[:nodes], self.error_over_basis[:nodes], self.lost[:, :nodes])
        return LineTable(StepTable(whole.values[:, kept], over), *errors)

    @property
    def uneven(self) -> bool:
        """Whether some kind has lost so much that those who do not take it should not be charged for it."""
        return not self.error.max() < UNEVEN

    def error_for(self, steps: SampledSteps) -> Floats:
        """Return the error of what these people add up."""
        return self.error_over_basis if steps.fits(self.values) else self.error


@dataclass(frozen=True, slots=True)
class Basis:
    """U, a row for each kind, and what V is found with: ``V = inverse @ T``."""

    vectors: Floats
    inverse: Floats

    @classmethod
    def of(cls, proved: list[Floats], unproved: list[Floats]) -> Basis | None:
        """Find the basis of some tables, relative to the first column; None if it would be large."""
        scale = proved[0][:, :1]
        rough = np.hstack(unproved) / scale
        rough *= UNPROVED_WEIGHT / np.abs(rough).max(axis=0)
        left, sizes, _ = np.linalg.svd(np.hstack([*(one / scale for one in proved), rough]), full_matrices=False)
        count = int((sizes > SPANNED * sizes[0]).sum())
        if SMALLER * count > len(scale):
            return None
        left = np.ascontiguousarray(left[:, :count])
        return cls(left * scale, left.T / scale.T)

    def over(self, values: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Return V of a table, and of each column the largest ``e_j`` over ``scale_j``."""
        V = self.inverse @ values
        kinds, count = self.vectors.shape
        size = np.abs(self.vectors) @ np.abs(V) + np.abs(values)
        e = np.abs(values - self.vectors @ V) + NODE_ROUNDING * (kinds + 3.0 * count + 8.0) * size
        return V, np.asarray((e / scale).max(axis=0))

    def line(self, table: LineTable) -> LineTable:
        """Return a line over the basis, if that loses no more than the table has lost."""
        values, n = table.values.values, table.error.size
        if not values.max() < BEYOND or table.uneven:
            return table
        V, e = self.over(values, values[:, :1])
        more = e[:n] + e[n:]
        if not (more <= table.error).all():
            return table
        return LineTable(StepTable(values, V), table.error, table.error + more, table.lost)

    def real(self, values: Floats) -> StepTable:
        """Return log A and derivatives at a real place over the basis."""
        if not (values.max() < BEYOND and values.min() > 0.0):
            return StepTable(values)
        V, e = self.over(values, values)
        return StepTable(values, V if (e < UNPROVED).all() else None)

    def decay(self, values: Floats, log: Floats) -> StepTable:
        """Return lower bounds of a decay over the basis: less e, which is relative to log A at the place."""
        if not (log.max() < BEYOND and log.min() > 0.0 and values.min() > 0.0 and values.max() < np.inf):
            return StepTable(values)
        V, e = self.over(values, log)
        of_log, off = self.over(log, log)
        if not (off[0] < UNPROVED and (e < DECAY_LOST * (values / log).min(axis=0)).all()):
            return StepTable(values)
        return StepTable(values, V - (1.0 + 2.0 * UNPROVED) * e * of_log)


@dataclass(frozen=True, slots=True)
class LineTables:
    """The tables of one call, kept while everybody has the same kinds of steps."""

    steps: SampledSteps
    basis: Basis | None = None
    _lines: dict[tuple[float, float, int], LineTable] = field(default_factory=dict)
    _reals: dict[float, StepTable] = field(default_factory=dict)
    _decays: dict[tuple[float, float], Floats] = field(default_factory=dict)
    _ends: dict[tuple[float, float], StepTable] = field(default_factory=dict)

    @classmethod
    def of(cls, view: LossCoordinates) -> LineTables:
        """Make empty tables for people who take sampled steps."""
        assert view.sampled is not None
        return cls(view.sampled)

    def with_basis(self, low: float, high: float) -> LineTables | None:
        """Return the same tables over a basis of those that were asked for so far; of real ones between two places."""
        lines = [table.values.values for table in self._lines.values() if table.values.values.max() < BEYOND]
        near = [one.values for c, one in self._reals.items() if low <= c <= high]
        near = [values for values in near if values.min() > 0.0 and values.max() < BEYOND]
        basis = Basis.of(lines, near) if lines and near and lines[0][:, 0].min() > 0.0 else None
        if basis is None:
            return None
        return LineTables(
            self.steps,
            basis,
            {key: basis.line(table) for key, table in self._lines.items()},
            {c: basis.real(table.values) for c, table in self._reals.items()},
            self._decays,
        )

    def line(self, c: float, spacing: float, nodes: int, kinds: NDArray[np.intp]) -> LineTable:
        """Return the table of some kinds on a line."""
        key = (c, spacing, nodes)
        if key in self._lines:
            return self._lines[key]
        s = self.steps
        longest = self.longest(c, spacing)
        if longest > nodes:
            self._lines[key] = self._lines[c, spacing, longest].first(nodes)
            return self._lines[key]
        values, lost, error = np.empty((kinds.size, 2 * nodes)), np.empty((kinds.size, nodes)), np.zeros(nodes)
        place = np.array([c, spacing])
        fill_line(s.rates[kinds], s.distances[kinds], s.own_kl(kinds), s.over, place, values, lost, error)
        table = LineTable(StepTable(values), error, error, lost)
        if self.basis is not None:
            table = self.basis.line(table)
        if s.index is None:
            self._lines[key] = table
        return table

    def real(self, c: float, kinds: NDArray[np.intp]) -> StepTable:
        """Return log A, its first and its second derivative at a real place, a row for each kind: not proved."""
        if c in self._reals:
            return self._reals[c]
        s = self.steps
        values = real_values(s.rates[kinds], s.distances[kinds], s.own_kl(kinds), s.over, c)
        table = StepTable(values) if self.basis is None else self.basis.real(values)
        if s.index is None:
            self._reals[c] = table
        return table

    def longest(self, c: float, spacing: float) -> int:
        """Return how many nodes the longest table of a line has, or 0."""
        return max((key[2] for key in self._lines if key[:2] == (c, spacing)), default=0)

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

    def ends(self, c: float, spacing: float) -> StepTable | None:
        """Return what ``put_ends`` made for a line."""
        return self._ends.get((c, spacing))

    def put_ends(self, c: float, spacing: float, lengths: list[int], beyond: Floats) -> StepTable:
        """Make lower bounds of the decay at *the nodes* from each of some lengths on to the last, a row for each kind.

        They are what the line's table says, less its error; where a loss is skewed that is twice what is proved for
        every y beyond a length. The last column is such a bound, ``beyond``, for all that follows.
        """
        kinds, last = np.arange(self.steps.rates.size), lengths[-1]
        table = self.line(c, spacing, last, kinds)
        log = table.values.values[:, :1]
        gone = log - table.values.values[:, :last] - (table.error[0] + table.error) * log
        gone = np.minimum.accumulate(gone[:, ::-1], axis=1)[:, ::-1]
        found = np.hstack([gone[:, lengths[:-1]], beyond])
        self._ends[c, spacing] = StepTable(found) if self.basis is None else self.basis.decay(found, log)
        return self._ends[c, spacing]


def real_values(rates: Floats, distances: Floats, kl: Floats, over: bool, c: float) -> Floats:
    """Return log A and two derivatives of every kind at c, to three digits or more where a rate has many distances."""

    def of(kinds: NDArray[np.intp]) -> Floats:
        found = np.empty((kinds.size, 3))
        fill_real(rates[kinds], distances[kinds], kl[kinds], over, c, found)
        return found

    if rates.size <= MANY_DISTANCES:
        return of(np.arange(rates.size))
    values, order = np.empty((rates.size, 3)), np.lexsort((distances, rates))
    for rows in np.split(order, np.flatnonzero(np.diff(rates[order])) + 1):
        some = rows[_taken(distances[rows])] if rows.size > MANY_DISTANCES else rows
        found = of(some)
        if some.size == rows.size:
            values[rows] = found
        elif found.min() > 0.0 and found.max() < BEYOND:
            values[rows] = np.exp(CubicSpline(np.log(distances[some]), np.log(found))(np.log(distances[rows])))
        else:
            values[rows] = of(rows)
    return values


def _taken(distances: Floats) -> NDArray[np.intp]:
    """Return the positions of some distances, which are sorted and different, with both ends: evenly by logarithm."""
    found = np.searchsorted(distances, np.geomspace(distances[0], distances[-1], TAKEN)[1:-1])
    return np.unique(np.concatenate([[0], found, [distances.size - 1]]))


@kernel
def fill_line(rates, distances, kl, over, place, values, lost, error):
    """Fill in the log moments of every kind on the line through ``place[0]`` with nodes ``place[1]`` apart."""
    n = error.size
    out = np.empty(n, np.complex128)
    for j in range(rates.size):
        fill_log_moments(StepKind(rates[j], distances[j], over, 0.0), kl[j], place[0], place[1], out, lost[j])
        for k in range(n):
            values[j, k], values[j, n + k] = out[k].real, out[k].imag
            # of the moment, and of the sum over the kinds
            lost_here = lost[j, k] + NODE_ROUNDING * (2.0 + rates.size) * (abs(out[k].real) + abs(out[k].imag))
            error[k] = max(error[k], lost_here / out[0].real) if out[0].real > 0.0 else np.inf
            # infinite, but zero steps of it are zero
            lost[j, k] = lost_here if out[0].real > 0.0 and lost_here < BEYOND else BEYOND


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
