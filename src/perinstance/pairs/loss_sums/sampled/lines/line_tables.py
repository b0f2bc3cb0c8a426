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

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING, SPANNED, UNPROVED_WEIGHT
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.lines.line_decay import fill_decay
from perinstance.pairs.loss_sums.sampled.lines.piece_tables import PieceTables
from perinstance.pairs.loss_sums.sampled.lines.real_splines import RealSplines
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, StepKind, fill_log_moments
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps, StepTable

#: What a place is chosen by may be so far off, relatively: it proves nothing.
UNPROVED = 1e-3
#: From this error on, relative to ``K(c)``, everybody is charged for their own kinds of steps alone.
UNEVEN = 1e-7
#: So much of what a line has died by may be given away.
DECAY_LOST = 0.02
#: A basis is worth its products if it is so much smaller than the number of kinds.
SMALLER = 2
#: From so many different kinds of steps on, distances die together that lie within so many parts of an octave, and
#: moments are those of pieces.
MANY_DISTANCES, CLOSE = 256, 16.0


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
    pieces: PieceTables
    splines: RealSplines
    basis: Basis | None = None
    _lines: dict[tuple[float, float, int], LineTable] = field(default_factory=dict)
    _reals: dict[float, StepTable] = field(default_factory=dict)
    _decays: dict[tuple[float, float], Floats] = field(default_factory=dict)
    _ends: dict[tuple[float, float], StepTable] = field(default_factory=dict)

    @classmethod
    def of(cls, view: LossCoordinates) -> LineTables:
        """Make empty tables for people who take sampled steps."""
        assert view.sampled is not None
        return cls.of_steps(view.sampled)

    @classmethod
    def of_steps(cls, steps: SampledSteps) -> LineTables:
        """Make empty tables for people who take these steps."""
        return cls(steps, PieceTables(bool(steps.over)), RealSplines(steps))

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
            self.pieces,
            self.splines,
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
        table = self._own_line((c, spacing), nodes, kinds)
        if self.basis is not None:
            table = self.basis.line(table)
        if s.index is None:
            self._lines[key] = table
        return table

    def _own_line(self, place: tuple[float, float], nodes: int, kinds: NDArray[np.intp]) -> LineTable:
        """Sum up the table of some kinds on a line; of many distances, that of the points of their pieces."""
        s, rest = self.steps, np.arange(kinds.size)
        values, lost, error = np.empty((kinds.size, 2 * nodes)), np.empty((kinds.size, nodes)), np.zeros(nodes)
        if kinds.size > MANY_DISTANCES:
            rest = self.pieces.fill(s.rates[kinds], s.distances[kinds], place, values, lost)
        own = kinds[rest]
        found, off = np.empty((own.size, 2 * nodes)), np.empty((own.size, nodes))
        fill_line(s.rates[own], s.distances[own], s.own_kl(own), s.over, np.array(place), found, off)
        values[rest], lost[rest] = found, off
        fill_errors(values, lost, error)
        return LineTable(StepTable(values), error, error, lost)

    def real(self, c: float, kinds: NDArray[np.intp]) -> StepTable:
        """Return log A, its first and its second derivative at a real place, a row for each kind: not proved."""
        if c in self._reals:
            return self._reals[c]
        s = self.steps
        values = self.splines.values(c, kinds)
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
        rates, distances = s.rates[kinds], s.distances[kinds]
        nearest, furthest, which = np.arange(kinds.size), np.arange(kinds.size), np.arange(kinds.size)
        if kinds.size > MANY_DISTANCES:
            nearest, furthest, which = close_together(rates, distances)
        values, kl = np.empty((furthest.size, places.size)), s.own_kl(kinds[furthest])
        ends = np.stack([distances[nearest], distances[furthest]], axis=1)
        fill_decays(rates[furthest], ends, kl, s.over, c, places, values)
        values = values[which]
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


def close_together(rates: Floats, distances: Floats) -> tuple[NDArray[np.intp], ...]:
    """Return the positions of the nearest and of the furthest of distances close to each other, and whose each is."""
    order = np.lexsort((distances, rates))
    cells = np.floor(CLOSE * np.log2(distances[order]))
    new = np.flatnonzero((np.diff(rates[order]) != 0.0) | (np.diff(cells) != 0.0)) + 1
    starts, ends = np.concatenate([[0], new]), np.append(new, order.size)
    which = np.empty(order.size, dtype=np.intp)
    which[order] = np.repeat(np.arange(starts.size), ends - starts)
    return order[starts], order[ends - 1], which


@kernel
def fill_line(rates, distances, kl, over, place, values, lost):
    """Fill in the log moments of every kind on the line through ``place[0]`` with nodes ``place[1]`` apart."""
    n = lost.shape[1]
    out = np.empty(n, np.complex128)
    for j in range(rates.size):
        fill_log_moments(StepKind(rates[j], distances[j], over, 0.0), kl[j], place[0], place[1], out, lost[j])
        for k in range(n):
            values[j, k], values[j, n + k] = out[k].real, out[k].imag


@kernel
def fill_errors(values, lost, error):
    """Fill in errors relative to the first node, of the moments and of the sum over all kinds."""
    kinds, n = lost.shape
    for j in range(kinds):
        first = values[j, 0]
        for k in range(n):
            lost_here = lost[j, k] + NODE_ROUNDING * (2.0 + kinds) * (abs(values[j, k]) + abs(values[j, n + k]))
            error[k] = max(error[k], lost_here / first) if first > 0.0 else np.inf
            # infinite, but zero steps of it are zero
            lost[j, k] = lost_here if first > 0.0 and lost_here < BEYOND else BEYOND


@kernel
def fill_decays(rates, ends, kl, over, c, places, values):
    """Fill in how far kinds have died at some places of the line through c, for all distances between two ends."""
    out, lost = np.empty(1, np.complex128), np.empty(1)
    for j in range(rates.size):
        step = StepKind(rates[j], ends[j, 1], over, 0.0)
        fill_log_moments(step, kl[j], c, 1.0, out, lost)
        log = out[0].real + lost[0] if out[0].real < BEYOND else np.inf
        fill_decay(step, ends[j, 0], c, log, places, values[j])
