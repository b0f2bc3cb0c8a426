"""Log moments along lines of many distances, from those of the points of their pieces (``distance_pieces.py``).

Excesses ``A - 1`` are interpolated, which may be small, and then their logarithms are taken. A piece serves where its
remainder is no more than what the moments of its points have lost, else it is halved; distances elsewhere are left to
their own sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NODE_ROUNDING
from perinstance.pairs.loss_sums.sampled.lines.distance_pieces import POINTS, DistancePiece, pieces_of
from perinstance.pairs.loss_sums.sampled.log_moments import (
    VAGUE,
    StepKind,
    divergence_of,
    fill_log_moments,
    log_one_plus,
)

#: Roundings of a weight and of a sum over points, in half units; the same of an excess from a logarithm.
WEIGHING, RAISING = 5.0 * POINTS + 8.0, 8.0
#: Log moments at the first node that are too large for pieces.
LARGE = 4.0


@dataclass(frozen=True, slots=True)
class PieceTable:
    """Excesses of the points at the nodes of a line, real and imaginary parts side by side, and what they have lost.

    ``remainder`` of each node; empty where the piece does not serve.
    """

    excess: Floats
    lost: Floats
    remainder: Floats

    def first(self, nodes: int) -> PieceTable:
        """Return the same of the first nodes."""
        whole = self.lost.shape[1]
        return PieceTable(
            self.excess[:, np.r_[:nodes, whole : whole + nodes]], self.lost[:, :nodes], self.remainder[:nodes]
        )

    def fill(self, weights: Floats, values: Floats, lost: Floats) -> None:
        """Fill in log moments of distances with these weights, a row for each, and their errors."""
        size, points = np.abs(weights), np.abs(self.excess)
        nodes = self.remainder.size
        off = size @ (self.lost + WEIGHING * NODE_ROUNDING * (points[:, :nodes] + points[:, nodes:]))
        np.matmul(weights, self.excess, out=values)
        fill_logs(values, off + self.remainder, lost)


@dataclass(frozen=True, slots=True)
class PieceTables:
    """The tables of all pieces of one call, kept for whoever has distances in them."""

    over: bool
    _kl: dict[DistancePiece, Floats] = field(default_factory=dict)
    _tables: dict[tuple[DistancePiece, float, float], PieceTable] = field(default_factory=dict)

    def fill(
        self, rates: Floats, distances: Floats, place: tuple[float, float], values: Floats, lost: Floats
    ) -> NDArray[np.intp]:
        """Fill in log moments of the distances that lie in pieces which serve; return the positions of all others."""
        open_, pieces = np.ones(rates.size, dtype=bool), pieces_of(rates, distances)
        while pieces:
            piece, rows = pieces.pop()
            table = self._table(piece, place, lost.shape[1])
            if not table.remainder.size:
                pieces += [(half, rows[some]) for half, some in piece.halves(distances[rows])]
                continue
            found, off = np.empty((rows.size, values.shape[1])), np.empty((rows.size, lost.shape[1]))
            table.fill(piece.weights(distances[rows]), found, off)
            values[rows], lost[rows] = found, off
            open_[rows] = False
        return np.flatnonzero(open_)

    def _table(self, piece: DistancePiece, place: tuple[float, float], nodes: int) -> PieceTable:
        """Return the table of one piece along a line of at least so many nodes, or an empty one."""
        key = (piece, *place)
        known = self._tables.get(key)
        if known is None or 0 < known.remainder.size < nodes:
            known = self._tables[key] = self._make(piece, place, nodes)
        return known.first(nodes) if known.remainder.size else known

    def _make(self, piece: DistancePiece, place: tuple[float, float], nodes: int) -> PieceTable:
        c, spacing = place
        if piece not in self._kl:
            kinds = [StepKind(piece.rate, m, self.over, 0.0) for m in piece.points.tolist()]
            self._kl[piece] = np.array([divergence_of(kind) for kind in kinds])
        excess, lost = np.empty((POINTS, 2 * nodes)), np.empty((POINTS, nodes))
        large = fill_excess(piece.rate, piece.points, self._kl[piece], self.over, np.array(place), excess, lost)
        remainder = np.empty(0)
        if not large:
            remainder = piece.remainders(self.over, c, spacing, nodes)
            if not (remainder <= lost.max(axis=0)).all():
                remainder = np.empty(0)
        return PieceTable(excess, lost, remainder)


@kernel
def fill_excess(rate, points, kl, over, place, excess, lost):
    """Fill in ``A - 1`` of some distances along a line, and errors; return whether one is too large for that."""
    n = lost.shape[1]
    out = np.empty(n, np.complex128)
    for j in range(points.size):
        fill_log_moments(StepKind(rate, points[j], over, 0.0), kl[j], place[0], place[1], out, lost[j])
        if not out[0].real < LARGE:
            return True
        for k in range(n):
            real, half = np.expm1(out[k].real), np.sin(0.5 * out[k].imag)
            excess[j, k] = real * np.cos(out[k].imag) - 2.0 * half * half
            excess[j, n + k] = (1.0 + real) * np.sin(out[k].imag)
            size = abs(real) + abs(excess[j, n + k]) + 2.0 * half * half
            lost[j, k] = (1.0 + real) * np.expm1(lost[j, k]) + RAISING * NODE_ROUNDING * size
    return False


@kernel
def fill_logs(values, off, lost):
    """Replace excesses by ``log(1 + excess)``, whose errors are filled in from theirs."""
    n = off.shape[1]
    for j in range(off.shape[0]):
        for k in range(n):
            excess = complex(values[j, k], values[j, n + k])
            log = log_one_plus(excess)
            left = abs(1.0 + excess)
            relative = off[j, k] / left if left > 0.0 else np.inf
            values[j, k], values[j, n + k] = log.real, log.imag
            # as in ``fill_log_moments``
            lost[j, k] = 4.0 * NODE_ROUNDING * abs(log)
            lost[j, k] += 1.1 * relative if relative < VAGUE else max(np.log1p(relative), VAGUE)
