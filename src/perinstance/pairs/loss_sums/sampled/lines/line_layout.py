r"""How fine and how long everybody's line is. Only how tight an answer is depends on it, never whether it is a bound.

The step h adds ``delta(epsilon + u) e^{c u} + delta(epsilon - u) e^{-c u} + ...`` with ``u = 2 pi/h``. By Chernoff's
bound at another place t, ``delta(epsilon + u) <= e^{K(t) - t (epsilon + u)}``: the step is chosen so that the best of a
few t says e^-EXTRA of delta. A line somewhat left of the saddle point sees less of a heavy tail of the loss, and may
have wider steps; the widest of a few lines is taken.

The line ends where its rest is proved to be negligible. Where it would have to be longer than ``LONGEST`` (people who
are seldom sampled: most of their loss is next to one number) they are charged with a Gaussian shift s that they did not
suffer: a profile only grows by one more release, and ``|e^{K}|`` then dies like ``e^{-s^2 y^2/2}``. It
costs about ``s^2 (1 + c)/2`` of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.lines.line_choice import (
    MANY,
    RUNG,
    Places,
    at_once,
    branch_point,
    choose,
    equal_blocks,
    place_of,
    sample_of,
)
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.lines.other_cumulants import add_real_cumulants
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps

#: The step may add so much to delta: e^-26 of it.
EXTRA = 26.0
#: The rest of a line may be so much of its first term: e^-32.
REST = 32.0
#: Rungs from the saddle point: where Chernoff's bounds are asked, and which of them a line may lie on.
MOVES = np.array([-12, -8, -6, -4, -2, -1, 0, 2, 4, 8, 13, 21])
LINES = (1, 6)
#: The first term of a line may be e^7 of delta: that much of its digits is lost.
HIGH = 7.0
#: Numbers of nodes.
LENGTHS = (12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, *(n << k for k in range(6, 17) for n in (4, 5, 6, 7)))
#: So many of them are asked first.
USUAL = 7
#: Numbers of nodes that are tried where a table of a longer line is shared.
SHORT = (8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40)
#: The most nodes of a line; one of more digits may have as many as there are lengths.
LONGEST = 4096
#: Steps are c times a power of this.
LADDER = 2.0**0.25
FINEST = 2.0**-14
#: The step where nothing tells how wide it may be.
UNKNOWN = 1.0 / 16.0
#: From so many kinds of steps on a basis of their tables is looked for.
MANY_KINDS = 32


def lay(
    view: LossCoordinates, tables: LineTables, places: Places, goals: Floats, solving: bool, high: float = HIGH
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return everybody's place in octaves, the step as a share of c, and whether it is known to be fine enough.

    Goals are log delta and epsilon; ``high`` is how many times e more than delta the first term may be.
    """
    top = branch_point(view)
    rung, share = np.empty(len(top), dtype=np.intp), np.empty(len(top))
    for rows in equal_blocks(places.octave, top, most=at_once(view)):
        t = place_of(places.octave[rows[0]] + MOVES * RUNG, np.full(len(MOVES), top[rows[0]]))
        bound = real_cumulants(view[rows], tables, t)
        bound += t * np.log(t) - (1.0 + t) * np.log1p(t)
        part_rung, part_share = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
        fill_layout(t, bound, goals[rows], solving, high, part_rung, part_share)
        rung[rows], share[rows] = part_rung, part_share
    known = share > 0.0
    share = np.where(known, share, UNKNOWN)
    share = np.clip(LADDER ** np.floor(np.log(share) / np.log(LADDER)), FINEST, 1.0)
    return places.octave + MOVES[rung] * RUNG, share, known


def over_basis(view: LossCoordinates, tables: LineTables, log_delta: Floats) -> tuple[LossCoordinates, LineTables]:
    """Return many people who share many kinds of steps, over a basis of the tables that a sample of them needs."""
    steps = view.sampled
    assert steps is not None
    if steps.index is not None or len(log_delta) <= MANY or steps.rates.size < MANY_KINDS:
        return view, tables
    rows = sample_of(len(log_delta))
    places = choose(view[rows], tables, log_delta[rows], solving=True)
    rows, places = rows[places.found], places.of(places.found)
    if not rows.size:
        return view, tables
    some = view[rows]
    goals = np.stack([places.log_delta, places.epsilon], axis=1)
    octave, share, _ = lay(some, tables, places, goals, solving=True)
    at = place_of(octave, branch_point(some))
    for same in equal_blocks(at, share):
        c = float(at[same[0]])
        place = (c, c * float(share[same[0]]))
        longest = int(lengths(some[same], tables, *place).nodes.max())
        # one length more: somebody outside of the sample needs it
        nodes = LENGTHS[min(LENGTHS.index(longest) + 1, USUAL - 1)]
        tables.line(*place, nodes, steps.kinds())
    ends = np.array([at.min(), at.max()]) * 2.0 ** (RUNG * MOVES[[0, -1]])
    based = tables.with_basis(float(ends[0]), float(ends[1]))
    if based is None or based.basis is None:
        return view, tables
    view = replace(view, sampled=steps.with_basis(based.basis.vectors))
    return view if view.has_others else view.without_others(), based


def real_cumulants(view: LossCoordinates, tables: LineTables, places: Floats) -> Floats:
    """Return K at some real places, infinite where it is."""
    steps = view.sampled
    assert steps is not None
    kinds = steps.kinds()
    found = [tables.real(float(place), kinds) for place in places]
    if steps.in_basis is not None and all(steps.fits(one) for one in found[LINES[0] : LINES[1] + 1]):
        # a place of which the basis knows nothing is not used: that makes lines finer at most
        columns = [
            np.full(steps.in_basis.shape[1], np.nan) if one.over_basis is None else one.over_basis[:, 0]
            for one in found
        ]
        K = steps.in_basis @ np.stack(columns, axis=1)
    else:
        K = steps.total(np.stack([one.values[:, 0] for one in found], axis=1), kinds)
    K[~(K < BEYOND)] = np.inf
    if view.has_others:
        for j, place in enumerate(places):
            values = np.zeros((len(K), 3))
            add_real_cumulants(float(place), view.losses, values)
            K[:, j] += values[:, 0]
    return K


@kernel
def fill_layout(places, bounds, goals, solving, high, rung, share):
    """Fill in which of the places gives the widest step without losing digits, and that step as a share of it.

    It is zero where no place further out is known to say how much a step adds.
    """
    n = places.size
    t = places
    apart = np.empty((n, n))
    for j in range(n):
        for k in range(n):
            apart[j, k] = 1.0 / abs(t[k] - t[j]) if k != j else 0.0
    height = np.empty(n)
    for i in range(bounds.shape[0]):
        bound, log_delta, epsilon = bounds[i], min(goals[i, 0], 0.0), goals[i, 1]
        best = np.inf
        for j in range(n):
            best = min(best, (bound[j] - log_delta) / t[j])
        if solving:  # Chernoff's epsilon is a little above the true one
            epsilon = max(best - 4.0 / t[LINES[1]], 0.0)
        for j in range(n):
            height[j] = bound[j] - t[j] * epsilon - log_delta
        widest = 0.0
        rung[i], share[i] = LINES[1], 0.0
        for j in range(LINES[0], LINES[1] + 1):
            if not height[j] < high + (4.0 if solving else 0.0) and j != LINES[1]:
                continue
            left, right = (EXTRA - log_delta) / t[j], np.inf
            for k in range(j):
                left = min(left, (height[k] + EXTRA) * apart[j, k])
            for k in range(j + 1, n):
                right = min(right, (height[k] + EXTRA) * apart[j, k])
            step = 2.0 * math.pi / max(left, right, 1.0 / t[j])
            if step > widest:
                widest = step
                rung[i], share[i] = j, step / t[j]


@dataclass(frozen=True, slots=True)
class LineLengths:
    """Of each person on a line: the nodes, the square of the shift that is added, the sum that is left out."""

    nodes: Floats
    shift: Floats
    rest: Floats

    def of(self, rows: np.ndarray) -> LineLengths:
        """Return those of some people."""
        return LineLengths(self.nodes[rows], self.shift[rows], self.rest[rows])


def lengths(view: LossCoordinates, tables: LineTables, c: float, spacing: float) -> LineLengths:
    """Return how long the line through c must be for each of these people, and what is added to make it end there."""
    steps = view.sampled
    assert steps is not None
    own = np.where(view.nu == 0.0, view.m2, 0.0).sum(axis=1) if view.has_others else np.zeros(len(steps))
    place = np.array([c, spacing])
    if steps.in_basis is None:
        return _by_kind(steps, tables, own, place)
    known = tables.ends(c, spacing)
    if known is None:  # the first who ask decide how long the table is that everybody shares
        found = _by_kind(steps, tables, own, place)
        last = int(min(max(found.nodes.max(), tables.longest(c, spacing)), LENGTHS[USUAL - 1]))
        beyond = _decay(tables, steps, place)[:, LENGTHS.index(last), None]
        known = tables.put_ends(c, spacing, [n for n in SHORT if n <= last], beyond)
    if not steps.fits(known):
        return _by_kind(steps, tables, own, place)
    found = _ends(steps.total_of(known, steps.kinds()), own, SHORT, place)
    more = np.flatnonzero(found.shift > 0.0)
    if more.size:
        rest = _by_kind(steps[more], tables, own[more], place)
        found.nodes[more], found.shift[more], found.rest[more] = rest.nodes, rest.shift, rest.rest
    return found


def _decay(tables: LineTables, steps: SampledSteps, place: Floats) -> Floats:
    """Return how far every kind has died beyond each of the lengths."""
    return tables.decay(float(place[0]), float(place[1]), np.array(LENGTHS) * place[1], steps.kinds())


def precise_lengths(steps: SampledSteps, tables: LineTables, c: float, spacing: float, least: float) -> LineLengths:
    """Return the same for a line of more digits, whose rest has to be e^-least and which may be far longer."""
    place = np.array([c, spacing])
    dead = steps.total(_decay(tables, steps, place), steps.kinds())
    return _ends(dead, np.zeros(len(steps)), LENGTHS, place, least)


def _by_kind(steps: SampledSteps, tables: LineTables, own: Floats, place: Floats) -> LineLengths:
    """Return how long a line must be by the decay beyond each length, summed kind by kind."""
    last = LENGTHS.index(LONGEST) + 1
    kinds, table = steps.kinds(), _decay(tables, steps, place)
    found = _ends(steps.total(np.ascontiguousarray(table[:, :USUAL]), kinds), own, LENGTHS, place)
    more = np.flatnonzero(found.shift > 0.0)
    if more.size:
        dead = steps[more].total(np.ascontiguousarray(table[:, USUAL:last]), kinds)
        rest = _ends(dead, own[more], LENGTHS[USUAL:last], place)
        found.nodes[more], found.shift[more], found.rest[more] = rest.nodes, rest.shift, rest.rest
    return found


def _ends(dead: Floats, own: Floats, lengths: tuple[int, ...], place: Floats, least: float = REST) -> LineLengths:
    """Return the first of some lengths at which the line has died, or the last one and a shift."""
    count = np.array(lengths[: dead.shape[1]], dtype=np.float64)
    found = LineLengths(*np.empty((3, len(dead))))
    fill_ends(dead, own, count, np.append(place, least), found.nodes, found.shift, found.rest)
    return found


@kernel
def fill_ends(dead, own, count, place, nodes, shift, rest):
    """Fill in the first length at which ``sum_{k >= n} e^-dead c (1 + c)/y_k^2`` is next to nothing.

    The sum is at most ``e^-dead c (1 + c)/(h^2 (n - 1))``, in units of the first term. ``dead`` holds from each length
    to the last, and the last one for all that follows. ``place`` is c, the step h and what the rest has to be.
    """
    c, spacing, least = place
    last = count.size - 1
    room = np.log(c) + np.log1p(c) - 2.0 * np.log(spacing) - np.log(count - 1.0)
    for i in range(dead.shape[0]):
        j, most = 0, dead[i, last]
        while j < last and not min(dead[i, j], most) + 0.5 * own[i] * (count[j] * spacing) ** 2 >= least + room[j]:
            j += 1
        end2 = (count[j] * spacing) ** 2
        gone = min(dead[i, j], most) + 0.5 * own[i] * end2
        shift[i] = 2.0 * max(least + room[j] - gone, 0.0) / end2
        nodes[i] = count[j]
        rest[i] = math.exp(min(room[j] - 0.999 * (gone + 0.5 * shift[i] * end2), 700.0))
