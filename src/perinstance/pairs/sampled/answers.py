"""Epsilon, delta and the power of tests of sampled steps, alone and with other losses: never below the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LAST_SUM, NEXT_TO_ZERO, SMALLEST, UNIT
from perinstance.pairs.sampled.line_integral import ALIAS, STEP, Asked, Laid, SharedLine, epsilons, lay, profiles
from perinstance.pairs.sampled.renyi import PIECE, add_cumulants, chernoff, plain_shifts
from perinstance.pairs.sampled.step_tables import OWN, RUNGS, StepMoments, StepTables
from perinstance.pairs.sums.coordinates import LossCoordinates

#: Lines are laid again so many times, each for the epsilon that was found on the last.
ROUNDS = 4
#: The most nodes of a line, of all kinds of steps together, and of all people at a time (the first changes the width).
NODES, ALL_NODES, TERMS_AT_ONCE = 1 << 17, 1 << 23, 1 << 22
#: Tests are searched for so often, or until the slope is within so much of the level, relatively: the power is flat
#: there, and wider by about half the square of that.
SEARCHES, NEAR_LEVEL = 16, 2e-3
#: So many nodes are tried before the whole of a line (changes only speed).
NEAR = 256
#: More people than this share places that are an octave apart, and so many are answered together (speed only).
FEW, TOGETHER = 32, 1 << 15
#: Asked who are sampled less often than this, up to so many kinds of them, are given laws of their own.
SELDOM, SELDOM_KINDS = 30.0, 4096
#: Numbers of nodes that lines may end at (changes only speed).
LENGTHS = np.array([8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384] + [1 << k for k in range(9, 18)])


def epsilon_of_steps(view: LossCoordinates, delta: Floats) -> Floats:
    """Return an epsilon >= 0 with ``delta(epsilon) <= delta`` in the direction of the view, next to the least one."""
    out = np.empty(len(delta))
    for rows, levels in _together(view):
        some = view[rows]
        assert some.sampled is not None
        tables = StepTables(some.sampled, levels)
        edge, goal = largest_loss(some), delta[rows] - _outside(some, tables)
        out[rows] = edge
        known = np.flatnonzero((goal > 0.0) & some.sampled.costs)
        if not some.has_others:
            small = some.sampled.total(tables.numbers("total_variation"), tables.kinds)[:, 0] * (1.0 + FEW_ROUNDINGS)
            out[rows[small <= goal]] = 0.0
            known = known[small[known] > goal[known]]
        if known.size:
            found = _Inversion(some[known], tables, np.log(goal[known]), None).answer()[:, 0]
            out[rows[known]] = np.minimum(found, edge[known])
        lost = np.flatnonzero(np.isinf(out[rows]) & (delta[rows] > 0.0))
        if lost.size:
            c, bound = chernoff(some[lost])
            least = np.min((bound - np.log(delta[rows[lost], None]) * (1.0 - FEW_ROUNDINGS)) / c, axis=1)
            out[rows[lost]] = np.maximum(least * (1.0 + LAST_SUM), 0.0)
    return out


def profile_of_steps(view: LossCoordinates, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return delta at any real epsilon, rounded up, and ``-d delta/d epsilon``, in the direction of the view.

    ``delta_PQ(epsilon) = (1 - e^epsilon) + e^epsilon delta_QP(-epsilon)`` left of zero.
    """
    delta, slope = np.zeros(len(epsilon)), np.zeros(len(epsilon))
    right, left = np.flatnonzero(epsilon >= 0.0), np.flatnonzero(epsilon < 0.0)
    if right.size:
        delta[right], slope[right] = _profile(view[right], epsilon[right])
    if left.size:
        other, rate = _profile(view[left].swapped(), -epsilon[left])
        scale = np.exp(epsilon[left])
        slope[left] = scale * (1.0 - other - rate)
        delta[left] = (-np.expm1(epsilon[left]) + scale * other) * (1.0 + FEW_ROUNDINGS)
    return np.minimum(delta, 1.0), slope


def _profile(view: LossCoordinates, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return the same for epsilon >= 0."""
    delta, slope = np.zeros(len(epsilon)), np.zeros(len(epsilon))
    for rows, levels in _together(view):
        inside = rows[epsilon[rows] < largest_loss(view[rows])]
        if not inside.size:
            continue
        some, e = view[inside], epsilon[inside]
        assert some.sampled is not None
        tables = StepTables(some.sampled, levels)
        log, rate = _Inversion(some, tables, None, e).answer().T
        lost = np.flatnonzero(~np.isfinite(log) | (log < np.log(SMALLEST)))
        if lost.size:
            c, bound = chernoff(some[lost])
            bound = bound - c * e[lost, None] * (1.0 - FEW_ROUNDINGS)
            best = bound.argmin(axis=1)
            log[lost], rate[lost] = bound[np.arange(lost.size), best], c[best]
        log = np.minimum(log, 0.0)
        value = np.exp(log) * (1.0 + FEW_ROUNDINGS * (1.0 - log)) + _outside(some, tables)
        delta[inside] = np.clip(value, SMALLEST, 1.0)
        slope[inside] = delta[inside] * rate
    return delta, slope


def power_of_steps(view: LossCoordinates, level: Floats) -> Floats:
    """Return ``min_epsilon delta(epsilon) + e^epsilon level``; the view is that of Q over P.

    Every epsilon gives an upper bound. The least lies where ``-e^-epsilon d delta/d epsilon``, which falls, is the
    level: secant steps for its logarithm, the first as if delta fell exponentially.
    """
    best = np.where(level > 0.0, 1.0, 0.0)
    rows = np.flatnonzero((level > 0.0) & (level < 1.0))
    e, low, high = np.zeros(rows.size), np.full(rows.size, -np.inf), np.full(rows.size, np.inf)
    fall = before = excess_before = np.empty(0)
    for turn in range(SEARCHES):
        delta, slope = profile_of_steps(view[rows], e)
        best[rows] = np.minimum(best[rows], delta + np.exp(e) * level[rows] * (1.0 + FEW_ROUNDINGS))
        excess = np.log(np.maximum(slope, SMALLEST)) - e - np.log(level[rows])
        low, high = np.where(excess > 0.0, e, low), np.where(excess > 0.0, high, e)
        with np.errstate(invalid="ignore", divide="ignore"):
            fall = 1.0 + slope / delta if turn == 0 else (excess_before - excess) / (e - before)
            new = e + excess / fall
        before, excess_before = e, excess
        halved = np.where(np.isinf(high), 2.0 * e + 1.0, np.where(np.isinf(low), 2.0 * e - 1.0, 0.5 * (low + high)))
        e = np.where((new > low) & (new < high), new, halved)
        # left of zero a slope may be nothing but rounding: there the power is one
        keep = (np.abs(excess) > NEAR_LEVEL) & ((before > 0.0) | (slope > 64.0 * UNIT * np.exp(before)))
        rows = rows[keep]
        e, low, high, before, excess_before = (x[keep] for x in (e, low, high, before, excess_before))
        if not rows.size:
            break
    return np.minimum(best, 1.0)


def largest_loss(view: LossCoordinates) -> Floats:
    """Return the essential supremum of each person's loss, rounded up."""
    from perinstance.pairs.sums.saddlepoint import Losses
    from perinstance.pairs.sums.saddlepoint import largest_loss as largest_of_others

    assert view.sampled is not None
    edge = view.sampled.largest_loss()
    if view.has_others:
        others = [largest_of_others(Losses(*(part[i] for part in view.losses))) for i in range(len(edge))]
        edge = (edge + np.array(others)) * (1.0 + FEW_ROUNDINGS)
    return edge


def _outside(view: LossCoordinates, tables: StepTables) -> Floats:
    """Return what noise beyond all cells may add to delta."""
    assert view.sampled is not None
    return np.asarray(view.sampled.total(tables.numbers("tail"), tables.kinds)[:, 0] * (1.0 + FEW_ROUNDINGS))


def _together(view: LossCoordinates) -> list[tuple[NDArray[np.intp], bool]]:
    """Return who is answered together, and whether distances are put between levels: few kinds of steps at a time."""
    steps = view.sampled
    assert steps is not None
    everybody = np.arange(len(steps))
    if steps.index is None:
        return [(part, False) for part in np.split(everybody, everybody[TOGETHER::TOGETHER])]
    first = np.where(steps.steps > 0.0, steps.index, steps.rates.size).min(axis=1)
    order = np.argsort(first, kind="stable")
    kinds = steps.kinds().size
    levels = False
    if kinds > OWN:
        seldom = (steps.steps * steps.rates[steps.index]).sum(axis=1) < SELDOM
        levels = not (kinds <= SELDOM_KINDS and seldom.all())
    most = TOGETHER if levels or kinds <= OWN else max(OWN // steps.steps.shape[1], 1)
    return [(part, levels) for part in np.split(order, np.arange(most, len(order), most))]


@dataclass(slots=True)
class _Inversion:
    """Asked with the same tables, who know log delta or epsilon; the other is found, on better and better lines."""

    view: LossCoordinates
    tables: StepTables
    log_delta: Floats | None
    epsilon: Floats | None

    def answer(self) -> Floats:
        """Return epsilon, or log delta, and ``-d log delta/d epsilon`` of everybody; infinite where no line serves."""
        steps, n = self.view.sampled, len(self.view.infinite)
        assert steps is not None
        with np.errstate(invalid="ignore"):
            real = self.tables.real()
            bound = steps.total(np.where(np.isfinite(real), real, 1e301), self.tables.kinds)
        shift = plain_shifts(self.view)
        others = np.zeros((n, RUNGS.size), complex)
        if self.view.has_others:
            add_cumulants(RUNGS + 0j, self.view.losses, others, np.zeros(n))
        bound = np.where(bound < 1e300, bound + others.real, np.inf) + PIECE
        bound += 0.5 * shift[:, None] * (RUNGS**2 + RUNGS)
        given = self.log_delta if self.epsilon is None else self.epsilon
        solving = self.epsilon is None
        assert given is not None
        at = (bound - given[:, None]) / RUNGS if solving else bound - RUNGS * given[:, None]
        best = at.argmin(axis=1)
        found = np.maximum(at.min(axis=1), 0.0) if solving else np.minimum(at.min(axis=1), 0.0)
        out, slope = np.stack([np.full(n, np.inf), RUNGS[best]], axis=1), RUNGS[best]
        rows, finer = np.arange(n), np.full((n, 2), [np.inf, -1.0])
        for turn in range(ROUNDS):
            e, goal = (found, given) if solving else (given, found)
            unit = np.maximum(e, NEXT_TO_ZERO if solving else 1.0 / slope)
            people = Asked(*(np.ascontiguousarray(x[rows]) for x in (goal, e, slope, shift, unit)))
            laid = self._laid(bound[rows], people, turn)
            # whoever had a line as fine as it should be is not asked again
            asks = (laid.rung >= 0) & ((laid.width > finer[rows, 1]) | (2.5 * laid.variance < finer[rows, 0]))
            finer[rows[asks]] = np.stack([laid.variance, laid.width], axis=1)[asks]
            if not asks.any():
                break
            keys = np.stack([laid.rung, laid.width], axis=1)
            for key in np.unique(keys[asks], axis=0):
                some = np.flatnonzero(asks & (keys == key).all(axis=1))
                self._ask(rows, some, people, laid, out)
            better = np.isfinite(out[:, 0])
            found, slope = np.where(better, out[:, 0], found), np.where(better & (out[:, 1] > 0.0), out[:, 1], slope)
            rows = rows[~((out[rows, 0] == 0.0) & solving)]
            if not rows.size:
                break
        return out

    def _laid(self, bound: Floats, people: Asked, turn: int) -> Laid:
        """Lay everybody's line, with fewer nodes while epsilon is known by Chernoff's bound only."""
        n = len(bound)
        laid = Laid(np.full(n, -1), np.zeros(n, np.intp), np.ones(n), np.zeros(n), np.zeros(n))
        lay(RUNGS, bound, people, 4 if n > FEW else 1, laid)
        most = min(NODES >> max(3 - 2 * turn, 0), ALL_NODES // max(len(self.tables.laws), 1))
        more = np.maximum(laid.nodes / most, 1.0) ** 2
        return laid._replace(
            variance=np.where(more > 1.0, (laid.variance + people.shift) * more - people.shift, laid.variance),
            nodes=np.minimum(laid.nodes, most),
        )

    def _ask(self, rows: NDArray[np.intp], some: NDArray[np.intp], people: Asked, laid: Laid, out: Floats) -> None:
        """Answer people who share a line: those for whom its beginning serves, then the others."""
        c, h = float(RUNGS[laid.rung[some[0]]]), 2.0 * np.pi / STEP ** float(laid.width[some[0]])
        steps = self.view.sampled
        assert steps is not None
        for whole in (False, True):
            nodes = int(LENGTHS[min(np.searchsorted(LENGTHS, laid.nodes[some].max()), len(LENGTHS) - 1)])
            first = nodes if whole or nodes < 8 * NEAR else NEAR
            lengths = LENGTHS[first >= LENGTHS]
            table = self.tables.line(c, h, first, nodes, lengths)
            who, s2 = rows[some], laid.variance[some] + people.shift[some]
            falls = np.maximum(-steps[who].total(table.falls, self.tables.kinds), 0.0)
            falls += 0.5 * s2[:, None] * (h * lengths) ** 2
            enough = falls > (ALIAS + laid.height[some] + 3.0)[:, None]
            enough[:, -1] |= first == nodes
            cut, there = enough.argmax(axis=1), enough.any(axis=1)
            # the sum of 1/y^2 from a node on, times how small the rest of each term is
            inner = np.exp(-np.minimum(falls[np.arange(some.size), cut], 700.0)) / (h * np.pi * (lengths[cut] - 1))
            rest = inner + np.exp(-np.minimum(0.5 * s2 * (nodes * h) ** 2, 700.0)) / (h * np.pi * (nodes - 1))
            for place in np.unique(cut[there]):
                m = int(lengths[place])
                most = max(TERMS_AT_ONCE // (m * steps.kinds_each), 1)
                part = np.flatnonzero((cut == place) & there)
                for piece in np.split(part, np.arange(most, part.size, most)):
                    if piece.size:
                        last = (m, s2[piece], rest[piece])
                        asked = Asked(*(np.ascontiguousarray(x[some[piece]]) for x in people))
                        self._on_line(who[piece], (c, h), table, asked, last, out)
            some = some[~there]
            if not some.size:
                break

    def _on_line(
        self,
        rows: NDArray[np.intp],
        place: tuple[float, float],
        table: StepMoments,
        people: Asked,
        last: tuple[int, Floats, Floats],
        out: Floats,
    ) -> None:
        """Answer people on one line up to its node n; ``last`` are n, their variances and what lies beyond."""
        steps, (c, h), (n, s2, rest) = self.view.sampled, place, last
        assert steps is not None
        steps = steps[rows]
        kinds = steps.kinds()
        z = c + 1j * h * np.arange(n)
        log = self.tables.logs(table, kinds, n)
        values = np.ascontiguousarray(steps.total(log.view(np.float64), kinds)).view(np.complex128)
        steep = steps.total(np.max(np.abs(log) / np.abs(z), axis=1, keepdims=True), kinds)[:, 0]
        steep *= 4.0 + 0.5 * (kinds.size if steps.index is None else steps.kinds_each)
        if self.view.has_others:
            add_cumulants(z, self.view[rows].losses, values, steep)
        wrong = steps.total(table.wrong[np.searchsorted(self.tables.kinds, kinds)], kinds)[:, 0]
        line = SharedLine((c, h), values, s2, rest, np.where(np.isfinite(wrong), wrong, np.inf), steep)
        found = np.empty((rows.size, 2))
        (epsilons if self.epsilon is None else profiles)(line, people, found)
        found[~np.isfinite(found[:, 0])] = [np.inf, 0.0]
        better = found[:, 0] < out[rows, 0]
        out[rows[better]] = found[better]
