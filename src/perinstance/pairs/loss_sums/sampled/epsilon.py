"""Epsilon of sampled steps and whatever else happened to the same people, for everybody."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    CHERNOFF,
    LAST_SUM,
    NODE_ROUNDING,
    PROMISED,
    PROMISED_ABSOLUTE,
    SMALLEST,
    STEP_UP,
)
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.records import EXACT, Tolerance
from perinstance.pairs.loss_sums.sampled.like_people import crowd_of, grouped
from perinstance.pairs.loss_sums.sampled.lines.line_choice import (
    RUNG,
    Places,
    at_once,
    branch_point,
    choose,
    equal_blocks,
    place_of,
)
from perinstance.pairs.loss_sums.sampled.lines.line_integral import profile_all, solve_all
from perinstance.pairs.loss_sums.sampled.lines.line_layout import (
    LineLengths,
    lay,
    lengths,
    over_basis,
)
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.lines.other_cumulants import add_cumulants_at
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, StepKind
from perinstance.pairs.loss_sums.sampled.noise_cells import DEPTH, LOG_OUTSIDE, noise_window
from perinstance.pairs.loss_sums.sampled.steps import IN_FULL

#: Where a line costs more than this share of what epsilon may be above a lattice of losses is tried. Costs are told to
#: first order: of a thousandth of epsilon they are a tenth of what they should be where delta hardly depends on it.
LATTICE, COARSELY = 0.5, 0.05
#: People with up to so many steps are not inverted along a straight line that takes too long: nodes of the noise, and
#: these times the nodes of the line. They have other bounds.
FEW = 64.0
MOST_NOISE, LARGEST_WORK, CHERNOFF_NOISE = 3e5, 1e8, 1e6
#: Nodes of a line that pairs of floats are not faster for.
SHORT = 256.0
#: Nodes of the longest line where less than all digits are asked for: by a few people, who have lattices too, or more.
MEDIUM, LONG, A_FEW = 1024.0, 16384.0, 64
#: Rungs from the place of a line on which Chernoff's bound is asked too.
RUNGS = (-8, -4, -2, 0, 2, 4, 8)


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


def outside(view: LossCoordinates) -> Floats:
    """Return what the noise that is left out may add to delta (``noise_cells.py``), rounded up."""
    assert view.sampled is not None
    return np.maximum(view.sampled.taken * np.exp(LOG_OUTSIDE + 60.0) * np.exp(-60.0), SMALLEST)


def invert(
    view: LossCoordinates,
    tables: LineTables,
    places: Places,
    goals: Floats,
    solving: bool,
    lattice: bool = True,
    tolerance: Tolerance = EXACT,
) -> Floats:
    """Integrate along everybody's line: epsilon, or the bound of log delta and minus its slope; infinite if it fails.

    Goals are log delta, epsilon (to start from, or to be asked) and the largest loss. Where that costs more than it
    may, ``tolerance`` of epsilon, the same in pairs of floats is tried, before lines that are long, then a lattice of
    losses. People who are too many for that, with one kind of step each, are answered in groups if that may be.
    """
    near = tolerance.near
    precisely = lattice and not view.has_others
    most = SHORT if precisely else np.inf
    if precisely and near > PROMISED:
        most = MEDIUM if len(goals) <= A_FEW else LONG
    out, cost = _invert_straight(view, tables, places, goals, solving, most)
    again = np.flatnonzero(places.tried & ~_fine(out, cost, goals, solving, near))
    if precisely and again.size > (A_FEW if near > PROMISED else 0):
        from perinstance.pairs.loss_sums.sampled.more_digits.precise_answers import answer_precisely

        crowd = crowd_of(view, again, goals[:, 0]) if tolerance.groups else again[:0]
        if crowd.size:
            found = _of_groups(view[crowd], goals[crowd])
            out[crowd] = np.where(found[:, :1] < out[crowd, :1], found, out[crowd])
            places = places.without(np.isin(np.arange(len(out)), crowd) & np.isfinite(out[:, 0]))
            again = np.setdiff1d(again, crowd)
        for some in _in_parts(view, again, tolerance):
            _improve(out, cost, some, answer_precisely(view[some], tables, places.of(some), goals[some], solving))
        long = np.flatnonzero(places.found & np.isinf(out[:, 0]))
        if long.size:
            rest = (view[long], tables, places.of(long), goals[long], solving, np.inf)
            _improve(out, cost, long, _invert_straight(*rest))
        again = np.flatnonzero(places.tried & ~_fine(out, cost, goals, solving, near))
    if lattice and again.size:
        from perinstance.pairs.loss_sums.sampled.lattice.answers import answer_on_lattice

        for some in _in_parts(view, again, tolerance):
            bounds = np.stack([out[some, 0], cost[some] * (1.0 if solving else out[some, 1])], axis=1)
            better = answer_on_lattice(view[some], goals[some], bounds, solving, near)
            out[some] = np.where(better[:, :1] < out[some, :1], better, out[some])
    return out


def _in_parts(view: LossCoordinates, rows: NDArray[np.intp], tolerance: Tolerance) -> Iterator[NDArray[np.intp]]:
    """Yield some people at a time, who are given all the work that an answer may take; all where they may share it."""
    steps = view.sampled
    assert steps is not None
    if tolerance.groups or steps.index is None:
        yield rows
        return
    before = np.cumsum((steps.steps[rows] > 0.0).sum(axis=1))
    yield from np.split(rows, np.searchsorted(before, np.arange(IN_FULL, int(before[-1]), IN_FULL), side="right"))


def _of_groups(view: LossCoordinates, goals: Floats) -> Floats:
    """Return the same for people who are too many, each with the answer of a group of like ones."""
    view, goal, which = grouped(view, goals[:, 0])
    tables = LineTables.of(view)
    places = choose(view, tables, goal, True)
    goals = np.stack([places.log_delta, np.maximum(places.epsilon, 0.0), edge_of(view)], axis=1)
    return invert(view, tables, places, goals, True)[which]


def _improve(out: Floats, cost: Floats, rows: NDArray[np.intp], found: tuple[Floats, Floats]) -> None:
    """Take what is better for some people."""
    better = found[0][:, 0] < out[rows, 0]
    out[rows[better]], cost[rows[better]] = found[0][better], found[1][better]


def _fine(out: Floats, cost: Floats, goals: Floats, solving: bool, near: float) -> NDArray[np.bool_]:
    """Return for whom what was added is small enough: of epsilon, or of what delta takes to fall by a factor of e."""
    worth = out[:, 0] if solving else np.maximum(goals[:, 1], 1.0 / np.maximum(out[:, 1], SMALLEST))
    most = (COARSELY if near > PROMISED else LATTICE) * near * worth
    return np.isfinite(out[:, 0]) & ((cost <= most + PROMISED_ABSOLUTE) | (worth == 0.0))


def _invert_straight(
    view: LossCoordinates,
    tables: LineTables,
    places: Places,
    goals: Floats,
    solving: bool,
    most: float,
) -> tuple[Floats, Floats]:
    """Integrate along straight lines of up to so many nodes; returns the same and by how much epsilon grows, about."""
    out, cost = np.full((len(goals), 2), np.inf), np.where(places.found, np.inf, 0.0)
    rows = np.flatnonzero(places.found)
    if not rows.size:
        return out, cost
    places = places.of(rows)
    view, goals = (view, goals) if rows.size == len(goals) else (view[rows], goals[rows])
    octave, share, known = lay(view, tables, places, goals, solving)
    at = place_of(octave, branch_point(view))
    for some in equal_blocks(at, share, most=at_once(view)):
        c = float(at[some[0]])
        place = (c, c * float(share[some[0]]))
        people = view[some]
        noise = _noise_nodes(people, c)
        if noise > MOST_NOISE:
            continue
        length = lengths(people, tables, *place)
        for part in equal_blocks(-length.nodes):  # the longest first: shorter tables are the beginning of its own
            nodes = length.nodes[part[0]]
            if noise * nodes > LARGEST_WORK or nodes > most:
                continue
            same = people if len(part) == len(some) else people[part]
            found = np.empty((len(part), 3))
            _on_line(same, tables, place, length.of(part), goals[some[part]], solving, found)
            out[rows[some[part]]] = found[:, :2]
            charged = 0.5 * length.shift[part] * (1.0 + c) + found[:, 2]
            cost[rows[some[part]]] = np.where(known[some[part]], charged, np.inf)
    return out, cost


def _noise_nodes(view: LossCoordinates, c: float) -> float:
    """Return over how many nodes of the noise a moment of people with a few steps is summed up; else zero.

    A few seldom steps next to their largest loss may ask for a c of a billion, and for as many nodes.
    """
    steps = view.sampled
    assert steps is not None
    if steps.taken.max() > FEW:
        return 0.0
    kinds = steps.kinds()
    return float(most_noise(steps.rates[kinds], steps.distances[kinds], steps.over, c))


@kernel
def most_noise(rates, distances, over, c):
    """Return the most nodes of the noise that a moment of order c of any of some kinds takes."""
    most = 0.0
    for j in range(rates.size):
        window = noise_window(StepKind(rates[j], distances[j], over, 0.0), c)
        most = max(most, (window.high - window.low) * DEPTH / (2.0 * math.pi * window.theta))
    return most


def _on_line(
    view: LossCoordinates,
    tables: LineTables,
    place: tuple[float, float],
    length: LineLengths,
    goals: Floats,
    solving: bool,
    out: Floats,
) -> None:
    """Answer for people who share a line and its length."""
    steps = view.sampled
    assert steps is not None
    kinds = steps.kinds()
    nodes, c = int(length.nodes[0]), place[0]
    table = tables.line(*place, nodes, kinds)
    values = np.ascontiguousarray(steps.total_of(table.values, kinds))
    first, more, share = _known(values[:, 0]), np.empty((0, 0)), table.error_for(steps)
    if table.uneven:
        more, share = steps.total(table.lost, kinds), np.zeros(nodes)
    if view.has_others or length.shift.any():
        y = place[1] * np.arange(nodes)
        more = more if more.size else np.zeros((len(values), nodes))
        if view.has_others:
            add_cumulants_at(c + 1j * y, view.losses, values, more)
        half = 0.5 * length.shift[:, None]  # s^2 (z^2 + z)/2
        values[:, :nodes] += half * (c * c + c - y * y)
        values[:, nodes:] += half * ((2.0 * c + 1.0) * y)
        more += 8.0 * NODE_ROUNDING * half * (c * c + c + y * y + (2.0 * c + 1.0) * y)
    run = solve_all if solving else profile_all
    run(np.array(place), values, first, share, more, length.rest, np.ascontiguousarray(goals), out)


def _known(K: Floats) -> Floats:
    """Return what everybody's errors are relative to: ``K(c)``, which is above zero or else not known at all."""
    return np.where((K > 0.0) & np.isfinite(K), K, np.inf)


def chernoff(view: LossCoordinates, tables: LineTables, octave: Floats) -> tuple[Floats, Floats]:
    """Return places and ``K + c log c - (1 + c) log(1 + c)`` there, rounded up, at a few rungs for each person.

    ``(1 - e^-x)_+ <= e^{cx} c^c/(1 + c)^{1 + c}``, so delta is at most the exponential of that, less c epsilon.
    """
    top = branch_point(view)
    places = np.stack([place_of(octave + move * RUNG, top) for move in RUNGS], axis=1)
    out = np.empty(places.shape)
    for j in range(len(RUNGS)):
        for rows in equal_blocks(places[:, j], most=at_once(view)):
            c = float(places[rows[0], j])
            some = view[rows]
            if _noise_nodes(some, c) > CHERNOFF_NOISE:
                out[rows, j] = np.inf
                continue
            assert some.sampled is not None
            kinds = some.sampled.kinds()
            table = tables.line(c, c, 1, kinds)
            values = np.ascontiguousarray(some.sampled.total_of(table.values, kinds))
            error = _known(values[:, :1]) * table.error_for(some.sampled)
            if some.has_others:
                add_cumulants_at(np.array([c + 0j]), some.losses, values, error)
            K = values[:, 0] + error[:, 0]
            rounding = 8.0 * CHERNOFF * (8.0 + np.abs(values[:, 0]) + c * (1.0 + abs(np.log(c))))
            known = (values[:, 0] > 0.0) & (K < BEYOND)  # not beyond the noise, nor lost in its error
            K = np.where(known, K, 0.0) + c * np.log(c) - (1.0 + c) * np.log1p(c)
            out[rows, j] = np.where(known, K + rounding, np.inf)
    return places, out


def epsilon_of_steps(view: LossCoordinates, delta: Floats, tolerance: Tolerance = EXACT) -> Floats:
    """Return an epsilon >= 0 with ``delta(epsilon) <= delta`` in the direction of the view, next to the least one.

    Two steps and nothing else are integrated over the noise, everybody else's losses are inverted along lines.
    """
    from perinstance.pairs.loss_sums.sampled.few_steps.answers import two_steps_each, two_steps_epsilon

    out = edge_of(view)
    two = two_steps_each(view) & (delta > 0.0)
    for rows, answer in ((np.flatnonzero(two), two_steps_epsilon), (np.flatnonzero(~two), _epsilon_by_lines)):
        if 0 < rows.size == len(out):  # views of everybody are not copied
            out = answer(view, delta, out, tolerance)
        elif rows.size:
            out[rows] = answer(view[rows], delta[rows], out[rows], tolerance)
    steps = view.sampled
    assert steps is not None
    rest, constant = steps.without_constants()
    rows = np.flatnonzero(constant)
    if rows.size and not view.has_others:
        others = epsilon_of_steps(replace(view, sampled=rest)[rows], delta[rows], tolerance)
        out[rows] = np.minimum(out[rows], (others + constant[rows]) * STEP_UP)
    return out


def _epsilon_by_lines(view: LossCoordinates, delta: Floats, edge: Floats, tolerance: Tolerance) -> Floats:
    """Return the same by inversion along lines."""
    steps = view.sampled
    assert steps is not None
    out = edge.copy()
    inside = delta * (1.0 - LAST_SUM) - outside(view)
    rows = np.flatnonzero((inside > 0.0) & steps.costs)
    if not rows.size:
        return out
    view, edge, log_delta = (
        (view, edge, np.log(inside))
        if rows.size == len(edge)
        else (
            view[rows],
            edge[rows],
            np.log(inside[rows]),
        )
    )
    view, tables = over_basis(view, LineTables.of(view), log_delta)
    places = choose(view, tables, log_delta, solving=True)
    # where the largest loss itself is close enough nothing is inverted: it is never too small
    close = np.isfinite(edge) & ((50.0 - log_delta) / places.c < 0.1 * PROMISED * edge)
    places = places.without(close)
    goals = np.stack([log_delta, np.maximum(places.epsilon, 0.0), edge], axis=1)
    value = invert(view, tables, places, goals, solving=True, tolerance=tolerance)[:, 0] * (1.0 + LAST_SUM)
    value[~np.isfinite(value)] = np.inf
    lost = np.flatnonzero(np.isinf(value) & ~close)
    if lost.size:
        c, K = chernoff(view[lost], tables, places.octave[lost])
        rounding = 8.0 * CHERNOFF * np.abs(log_delta[lost, None])
        value[lost] = np.maximum(np.min((K - log_delta[lost, None] + rounding) / c, axis=1) * (1.0 + LAST_SUM), 0.0)
    out[rows] = np.minimum(value, edge)
    return out
