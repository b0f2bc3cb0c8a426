"""Delta of sampled steps at an epsilon, and the power of the best attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CHERNOFF, FEW_ROUNDINGS, ONE_ROUNDING, POWER_BRACKET, SMALLEST, TWO_ROUNDINGS
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.epsilon import chernoff, edge_of, invert, outside
from perinstance.pairs.loss_sums.sampled.lines.line_choice import choose
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables


class SampledProfile:
    """The profile of some people in both directions: P over Q of the view, and with P and Q exchanged.

    ``lattice``: whether lattices of losses are tried where lines are loose; they take some tenths of a second each.
    """

    __slots__ = ("_edges", "_lattice", "_tables", "_two", "_views")

    def __init__(self, view: LossCoordinates, lattice: bool) -> None:
        from perinstance.pairs.loss_sums.sampled.few_steps.answers import two_steps_each

        self._lattice = lattice
        self._views = (view, view.swapped())
        self._edges = tuple(edge_of(one) for one in self._views)
        self._two = two_steps_each(view)
        self._tables = tuple(LineTables.of(one) for one in self._views)

    def at(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """Return delta, rounded up, and ``-d delta/d epsilon``, for any real epsilon: one for each person.

        ``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)`` left of zero.
        """
        delta, slope = np.zeros(len(epsilon)), np.zeros(len(epsilon))
        for side in (0, 1):
            rows = np.flatnonzero((epsilon < 0.0) if side else (epsilon >= 0.0))
            if not rows.size:
                continue
            other, rate = self._positive(side, rows, np.abs(epsilon[rows]))
            if side:
                scale = np.exp(epsilon[rows])
                rate = scale * (1.0 - other - rate)
                other = (-np.expm1(epsilon[rows]) + scale * other) * (1.0 + ONE_ROUNDING)
            delta[rows], slope[rows] = np.minimum(other, 1.0), rate
        return delta, slope

    def _positive(self, side: int, rows: np.ndarray, epsilon: Floats) -> tuple[Floats, Floats]:
        """Return the same at epsilon >= 0."""
        delta, slope = np.zeros(len(rows)), np.zeros(len(rows))
        inside = np.flatnonzero(epsilon < self._edges[side][rows])
        if not inside.size:
            return delta, slope
        two = self._two[rows[inside]]
        for some, answer in ((inside[two], self._two_steps), (inside[~two], self._by_lines)):
            if some.size:
                delta[some], slope[some] = answer(side, rows[some], epsilon[some])
        return delta, slope

    def _two_steps(self, side: int, rows: np.ndarray, epsilon: Floats) -> tuple[Floats, Floats]:
        """Return the same for people with two steps; by lines within a rounding of the largest loss."""
        from perinstance.pairs.loss_sums.sampled.few_steps.answers import two_steps_profile

        log, rate = two_steps_profile(self._views[side][rows], epsilon).T
        delta, slope = _delta_of(log, rate)
        lost = np.flatnonzero(~np.isfinite(log))
        if lost.size:
            delta[lost], slope[lost] = self._by_lines(side, rows[lost], epsilon[lost])
        return delta, slope

    def _by_lines(self, side: int, rows: np.ndarray, e: Floats) -> tuple[Floats, Floats]:
        """Return the same for everybody else."""
        view, tables = self._views[side][rows], self._tables[side]
        places = choose(view, tables, e, solving=False)
        goals = np.stack([places.log_delta, e, self._edges[side][rows]], axis=1)
        log, rate = invert(view, tables, places, goals, solving=False, lattice=self._lattice).T
        lost = np.flatnonzero(~np.isfinite(log))
        if lost.size:
            c, K = chernoff(view[lost], tables, places.octave[lost])
            bound = K - c * e[lost, None] + CHERNOFF * c * np.abs(e[lost, None])
            best = bound.argmin(axis=1)
            log[lost], rate[lost] = bound[np.arange(lost.size), best], c[np.arange(lost.size), best]
        delta, slope = _delta_of(log, rate)
        return np.minimum(delta + outside(view), 1.0), slope


def _delta_of(log: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """Return delta, rounded up, and its slope, of their logarithms."""
    with np.errstate(under="ignore"):
        value = np.exp(np.minimum(log, 0.0)) * (1.0 + FEW_ROUNDINGS * (1.0 + np.abs(np.minimum(log, 0.0))))
    delta = np.minimum(np.maximum(value, SMALLEST), 1.0)
    return delta, delta * rate


def delta_of_steps(view: LossCoordinates, epsilon: Floats) -> Floats:
    """Return delta at epsilon, rounded up, in the direction of the view.

    Steps that lose their most, next to always, are taken out of the sum: delta of the others is asked at what is left.
    """
    out = SampledProfile(view, lattice=True).at(epsilon)[0]
    assert view.sampled is not None
    rest, constant = view.sampled.without_constants()
    rows = np.flatnonzero(constant)
    if rows.size and not view.has_others:
        left = (epsilon - constant - TWO_ROUNDINGS * (np.abs(epsilon) + constant))[rows]
        others = SampledProfile(replace(view, sampled=rest)[rows], lattice=True).at(left)[0]
        out[rows] = np.minimum(out[rows], others)
    return out


def power_of_steps(view: LossCoordinates, level: Floats) -> Floats:
    """Return ``min_epsilon delta(epsilon) + e^epsilon level``; the view is that of Q over P.

    The minimum lies where ``-e^-epsilon d delta/d epsilon`` equals the level. Every epsilon gives an upper bound.
    """
    n = len(level)
    best = np.where(level > 0.0, 1.0, 0.0)
    profile = SampledProfile(view, lattice=False)  # it is asked dozens of times
    low, high, span = np.full(n, -np.inf), np.full(n, np.inf), np.full(n, 0.5)
    e = np.zeros(n)
    inner = (level > 0.0) & (level < 1.0)
    for _ in range(60):
        delta, slope = profile.at(np.where(inner, e, 0.0))
        best = np.where(inner, np.minimum(best, delta + np.exp(e) * level), best)
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.log(np.maximum(slope, SMALLEST)) - e > np.log(level)
        low, high = np.where(above, e, low), np.where(above, high, e)
        open_ = np.isinf(low) | np.isinf(high)
        e = np.where(np.isinf(low), high - span, np.where(np.isinf(high), low + span, 0.5 * (low + high)))
        span = np.where(open_, 2.0 * span, span)
        if (~inner | (~open_ & (high - low < np.sqrt(POWER_BRACKET)))).all():
            break
    return np.minimum(best, 1.0)
