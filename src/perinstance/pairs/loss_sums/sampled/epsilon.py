"""Epsilon of sampled steps and whatever else happened to the same people, for everybody."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CHERNOFF, LAST_SUM, PROMISED, STEP_UP
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.bent_contour import invert_bent, serves
from perinstance.pairs.loss_sums.sampled.line_choice import (
    RUNG,
    Places,
    bisect,
    branch_point,
    choose,
    cumulants_at,
    place_of,
)
from perinstance.pairs.loss_sums.sampled.line_integral import ELSEWHERE, FINER, FOUND, LONGER, profile_all, solve_all
from perinstance.pairs.loss_sums.sampled.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.other_cumulants import add_cumulants_at

NODES = (40, 160, 640)
BENT_FROM = 2  # after so many lengths of a line a bent contour is tried
ROUNDS = 24
FINEST = 20  # times that a step may be halved
CLOSE = 2.0**-12  # of an octave
CHUNK = 4096
EXTRA = 28.0  # what the double step adds is e^-28 of delta, where the loss has no heavy tail


@dataclass(frozen=True, slots=True)
class Inversions:
    """What the lines gave: rows of epsilon, slack, outcome, or of log delta, rate, error, outcome."""

    rows: Floats
    spare: Floats  #: an epsilon that is known to be above, of those that were not found
    found: NDArray[np.bool_]


def edge_of(view: LossCoordinates) -> Floats:
    """Return the essential supremum of each person's loss, rounded up."""
    from perinstance.pairs.loss_sums.records import Losses
    from perinstance.pairs.loss_sums.saddlepoint import largest_loss

    steps = view.sampled
    assert steps is not None
    edge = steps.largest_loss()
    if view.has_others:
        others = [largest_loss(Losses(*(part[i] for part in view.losses))) for i in range(len(edge))]
        edge = (edge + np.array(others)) * STEP_UP
    return edge


def invert(view: LossCoordinates, tables: LineTables, places: Places, goals: Floats, solving: bool) -> Inversions:
    """Integrate along everybody's line, longer or finer or elsewhere where that is needed."""
    n = len(goals)
    out = np.full((n, 3 if solving else 4), np.inf)
    octave, top = places.octave.copy(), branch_point(view)
    depth = np.maximum(-np.where(np.isfinite(places.log_delta), places.log_delta, 0.0), 0.0) + EXTRA
    finer = np.ceil(np.log2(depth / np.pi)).astype(np.int64)
    longer = np.zeros(n, dtype=np.int64)
    open_ = np.flatnonzero(places.found)
    found, bent, moved = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n)
    spare = np.full(n, np.inf)
    for _ in range(ROUNDS):
        if not open_.size:
            break
        c = place_of(octave, top)
        keys = np.stack([octave[open_], finer[open_], longer[open_], top[open_]], axis=1)
        _kinds, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        for rows in np.split(open_[order], np.flatnonzero(np.diff(group[order])) + 1):
            first = rows[0]
            spacing = c[first] / 2.0 ** finer[first]
            for start in range(0, len(rows), CHUNK):
                some = rows[start : start + CHUNK]
                out[some] = _on_line(
                    view[some], tables, (c[first], spacing), NODES[longer[first]], goals[some], solving
                )
        outcome = out[open_, -1]
        found[open_] = outcome == FOUND
        longer[open_] += outcome == LONGER
        finer[open_] += outcome == FINER
        away = open_[outcome == ELSEWHERE]
        if away.size:
            octave[away] = _closer(view[away], tables, goals[away], octave[away], solving)
            moved[away] += 1
        for i in open_[(outcome == LONGER) & (longer[open_] >= BENT_FROM) & ~bent[open_]]:
            bent[i] = True
            row = invert_bent(view[[i]], tables, float(c[i]), goals[i], solving)
            if serves(row, solving):
                out[i], found[i] = [*row, FOUND], True
            elif solving and sum(row) < spare[i]:
                spare[i] = sum(row)
        gone = (longer >= len(NODES)) | (finer > FINEST) | (moved > 1)
        open_ = open_[~found[open_] & ~gone[open_]]
    return Inversions(out, spare, found)


def _closer(view: LossCoordinates, tables: LineTables, goals: Floats, octave: Floats, solving: bool) -> Floats:
    """Return places far closer to the saddle point, which nobody else shares."""
    goal = goals[:, 0] if solving else goals[:, 1]
    return bisect(view, tables, goal, solving, (octave - RUNG, octave + 2.0 * RUNG), CLOSE).octave


def _on_line(
    view: LossCoordinates, tables: LineTables, place: tuple[float, float], nodes: int, goals: Floats, solving: bool
) -> Floats:
    steps = view.sampled
    assert steps is not None
    kinds = steps.kinds()
    table = tables.line(place[0], place[1], nodes, kinds)
    values = np.ascontiguousarray(steps.total(table.values, kinds))
    error = values[:, :1] * table.error
    if view.has_others:
        add_cumulants_at(place[0] + 1j * place[1] * np.arange(nodes), view.losses, values, error)
    out = np.empty((len(goals), 3 if solving else 4))
    (solve_all if solving else profile_all)(np.array(place), values, error, np.ascontiguousarray(goals), out)
    return out


def chernoff_epsilon(view: LossCoordinates, tables: LineTables, places: Places, log_delta: Floats) -> Floats:
    """``(K(c) - log delta + c log c - (1 + c) log(1 + c))/c``: above epsilon for every c; the best of a few."""
    best = np.full(len(log_delta), np.inf)
    top = branch_point(view)
    for move in range(-8, 9):
        c = place_of(places.octave + move * RUNG, top)
        K = cumulants_at(view, tables, c)[:, 0]
        bound = K - log_delta + c * np.log(c) - (1.0 + c) * np.log1p(c)
        rounding = CHERNOFF * 100.0 * (10.0 + np.abs(K) + np.abs(log_delta) + c * np.abs(np.log(c)))
        best = np.fmin(best, (bound + rounding) / c)
    return np.maximum(best, 0.0)


def epsilon_of_steps(view: LossCoordinates, delta: Floats) -> Floats:
    """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta`` in the direction of the view."""
    steps = view.sampled
    assert steps is not None
    edge = edge_of(view)
    out = edge.copy()
    rows = np.flatnonzero((delta > 0.0) & steps.costs)
    if not rows.size:
        return out
    view, edge, log_delta = view[rows], edge[rows], np.log(delta[rows])
    tables = LineTables(view.sampled)  # type: ignore[arg-type]
    places = choose(view, tables, log_delta, solving=True)
    close = np.isfinite(edge) & (
        (50.0 - log_delta) / places.c < 0.1 * PROMISED * edge
    )  # to the largest loss, which is never too small
    places = replace(places, found=places.found & ~close)
    goals = np.stack([log_delta, np.maximum(places.epsilon, 0.0), edge], axis=1)
    done = invert(view, tables, places, goals, solving=True)
    with np.errstate(invalid="ignore"):
        value = np.where(done.rows[:, 0] + done.rows[:, 1] > 0.0, (done.rows[:, 0] + 1.1 * done.rows[:, 1]), 0.0)
    value *= 1.0 + LAST_SUM
    lost = np.flatnonzero(~done.found & places.found)
    value[~done.found] = np.inf
    if lost.size:
        some = Places(*(getattr(places, name)[lost] for name in Places.__slots__))
        value[lost] = np.fmin(done.spare[lost], chernoff_epsilon(view[lost], tables, some, log_delta[lost]))
    out[rows] = np.minimum(value, edge)
    return out
