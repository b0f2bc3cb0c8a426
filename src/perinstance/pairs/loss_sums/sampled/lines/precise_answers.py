"""Answers along lines to more digits than floats have, for people whose sum cancels too much or dies too late.

The line is laid anew for what was found along it: Chernoff's bound, by which the first one is laid, is far from the
truth where the loss has a heavy tail, and the step would add more than it should. In pairs of floats first, then in
balls of as many digits as are missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PROMISED
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.lines.ball_integral import BallLine, ball_line, moments_in_balls
from perinstance.pairs.loss_sums.sampled.lines.line_answer import NONE, LineAnswer, better, read_line
from perinstance.pairs.loss_sums.sampled.lines.line_choice import RUNG, Places, branch_point, place_of
from perinstance.pairs.loss_sums.sampled.lines.line_layout import lay, precise_lengths
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.lines.noise_balls import NotPreciseError, noise_nodes
from perinstance.pairs.loss_sums.sampled.lines.pair_integral import PairLine, pair_line
from perinstance.pairs.loss_sums.sampled.lines.pair_moments import DEPTH, moments_in_pairs
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind, noise_window
from perinstance.pairs.loss_sums.sampled.steps import share_of_work

#: Terms of moments in pairs that are summed for one line, and for one person: some 3 nanoseconds each. In balls they
#: take ten times as much for each of so many bits.
MOST_TERMS, ALTOGETHER, IN_BALLS = 1 << 29, 1 << 30, 24
#: A line that takes more than so many is tried after large losses were taken apart, which takes a second.
QUICK = 1 << 26
#: Moments that are kept for others who take the same steps.
MOST_KEPT = 1 << 22
MOST_STEPS = 2.0**24
#: As many of them as choosing the cuts of up to so many kinds takes the time of; more where sharp ones are tried, at
#: deltas below e^-50.
PLANNED, SHARP_PLANNED, SHARP, SOME_KINDS = 1 << 26, 1 << 27, -50.0, 4
#: Up to so many steps of one kind, or several, of distances up to these a lattice is as good, and faster, at deltas
#: that are not as small; below these no loss is large.
FEW, FAR, FAR_KINDS, NEXT, LEAST_RATE = 64.0, 20.0, 3.0, 0.01, 1e-8
#: Digits that are tried, one after the other, and terms: those of pairs, then those of balls of so many bits.
DIGITS = ((0, QUICK), (0, MOST_TERMS), (192, MOST_TERMS), (256, MOST_TERMS), (512, MOST_TERMS))
#: Half octaves that a line may be moved to the left.
LEFT = 16
#: The first term of a line may be e^60 of delta, and its rest e^-64 of that; in balls these shares of the bits.
HIGH, REST, HIGH_SHARE, REST_SHARE = 60.0, 64.0, 0.47, 0.6
#: What was added may be so much of epsilon: more digits are not asked for.
ENOUGH = 0.5 * PROMISED
ROUNDS = 4


@dataclass(slots=True)
class PreciseTables:
    """The moments that were summed so far, each kind's along each line, and how many terms one may still sum."""

    over: bool
    left: int = 0
    most: int = MOST_TERMS
    _known: dict[tuple[float, ...], tuple[int, Any]] = field(default_factory=dict)

    def moments(self, kinds: list[list[float]], place: tuple[float, float], nodes: int, bits: int) -> list[Any]:
        """Return the moments of some kinds at the first nodes of a line, in balls of some bits or in pairs (zero).

        Nothing is summed that takes too long.
        """
        keys = [(q, m, *place, bits) for q, m, _ in kinds]
        missing = [key for key in keys if self._known.get(key, (0, None))[0] < nodes]
        terms = nodes * sum(noise_nodes(key[0], key[1], self.over, place[0], _depth(bits)) for key in missing)
        terms *= max(bits // IN_BALLS, 1)
        if terms > min(self.left, self.most):
            raise NotPreciseError(f"{terms} terms")
        self.left -= terms
        if sum(count for count, _ in self._known.values()) > MOST_KEPT:
            self._known = {key: self._known[key] for key in keys if key in self._known}
        for key in missing:
            if bits:
                found: Any = moments_in_balls(key[0], key[1], self.over, place, nodes, bits)
            else:
                found = moments_in_pairs(key[0], key[1], self.over, place, nodes)
            self._known[key] = nodes, found
        return [self._known[key][1] for key in keys]


def answer_precisely(
    view: LossCoordinates, tables: LineTables, places: Places, goals: Floats, solving: bool
) -> tuple[Floats, Floats]:
    """Return epsilon, or the bound of log delta and minus its slope, infinite for whom no line serves; and the costs.

    Goals are log delta, epsilon (to start from, or to be asked) and the largest loss.
    """
    steps = view.sampled
    assert steps is not None
    out, cost = np.full((len(goals), 2), np.inf), np.full(len(goals), np.inf)
    served = places.found & (steps.taken <= MOST_STEPS) & (steps.steps % 1.0 == 0.0).all(axis=1)
    shared = PreciseTables(bool(steps.over))
    own = {i: steps.of_person(i) for i in np.flatnonzero(served).tolist()}
    keys = {i: table.tobytes() + goals[i].tobytes() for i, table in own.items()}
    terms = int(share_of_work({keys[i]: table for i, table in own.items()}.values()) * ALTOGETHER)
    known: dict[bytes, LineAnswer] = {}
    for i, key in keys.items() if terms else ():
        if key not in known:
            shared.left = terms
            try:
                known[key] = _answer(view[[i]], tables, places.of([i]), goals[i], solving, shared)
            except NotPreciseError:  # of a rotation: somebody else has changed the precision of all balls
                known[key] = NONE
        out[i], cost[i] = known[key][:2], known[key].cost
    return out, cost


def _answer(
    view: LossCoordinates, tables: LineTables, places: Places, goal: Floats, solving: bool, shared: PreciseTables
) -> LineAnswer:
    """Return the answer of one person: with more digits until it is good enough, or lines do not serve.

    After short lines in pairs of floats, with the person, large losses are taken apart.
    """
    found, answer = NONE, None
    for bits, shared.most in DIGITS:
        long = not bits and shared.most > QUICK
        if long and answer is not None and answer.cost < np.inf:
            continue  # it was not too long
        inside = _inside_noise(view, places, bits)
        answer = None if inside is None else _along_lines(view, tables, inside, goal, found, solving, shared, bits)
        found = better(found, answer or NONE)
        if shared.most == QUICK and shared.over and not _enough(found, solving):
            found = better(found, _with_cut(view, goal, found, solving, shared))
        if _enough(found, solving) or (answer is None and shared.most > QUICK):
            break
    return found


def _enough(found: LineAnswer, solving: bool) -> bool:
    """Return whether more digits are not worth it."""
    return found.cost < np.inf and found.cost * found.slope <= ENOUGH * (found.value if solving else 1.0)


def _with_cut(
    view: LossCoordinates, goal: Floats, found: LineAnswer, solving: bool, shared: PreciseTables
) -> LineAnswer:
    """Return the answer with large losses taken apart, if that is worth it."""
    from perinstance.pairs.loss_sums.sampled.large_losses.cut_answers import CutAnswers

    steps = view.sampled
    assert steps is not None
    kinds = [(q, m, k) for q, m, k in steps.of_person(0).T.tolist()]
    furthest = max(m if q >= LEAST_RATE else 0.0 for q, m, _ in kinds)
    sharp = min(goal[0], found.value if not solving else 0.0) < SHARP
    planned = (SHARP_PLANNED if sharp else PLANNED) * -(-len(kinds) // SOME_KINDS)
    few = steps.taken[0] <= FEW and not sharp
    nearest = (FAR if len(kinds) == 1 else FAR_KINDS) if few else NEXT
    if furthest <= nearest or shared.left < planned:
        return NONE
    shared.left -= planned
    answers = CutAnswers(kinds, min(shared.left, 4 * QUICK if few else MOST_TERMS))
    shared.left -= answers.left
    answer = answers.answer(goal, found, solving)
    shared.left += answers.left
    return answer


def _depth(bits: int) -> float:
    """Return minus the logarithm of what moments may be missed by."""
    return bits * math.log(2.0) if bits else DEPTH


def _inside_noise(view: LossCoordinates, places: Places, bits: int) -> Places | None:
    """Return a place so far to the left that the end of the noise does not cut off moments of so many digits."""
    steps = view.sampled
    assert steps is not None
    kinds = [StepKind(q, m, steps.over, 0.0) for q, m, _ in steps.of_person(0).T.tolist()]
    for k in range(LEFT):
        octave = places.octave - 4 * k * RUNG
        if all(noise_window(kind, 2.0 ** float(octave[0]), _depth(bits)).whole for kind in kinds):
            return replace(places, octave=octave)
    return None


def _along_lines(
    view: LossCoordinates,
    tables: LineTables,
    places: Places,
    goal: Floats,
    found: LineAnswer,
    solving: bool,
    shared: PreciseTables,
    bits: int,
) -> LineAnswer | None:
    """Return the answer along a line that was laid for that answer, or nothing if none serves."""
    asked, before = goal[None, :2].copy(), (0.0, np.inf)
    high = HIGH_SHARE * bits if bits else HIGH
    for _ in range(ROUNDS):
        if found.value < np.inf:
            asked[0, 1 if solving else 0] = found.value if solving else min(found.value, 0.0)
        octave, share, sure = lay(view, tables, places, asked, solving and found is NONE, high)
        c = float(place_of(octave, branch_point(view))[0])
        place = (c, c * float(share[0]))
        if sure[0] and place[0] == before[0] and place[1] >= before[1]:
            return found
        line = _line(view, tables, place, bits, shared)
        if line is None:
            return found._replace(cost=np.inf) if before[0] > 0.0 else None
        found, before = read_line(line, goal, float(asked[0, 1]), solving), place
        if found is NONE:
            return found
    return found._replace(cost=np.inf)


def _line(
    view: LossCoordinates, tables: LineTables, place: tuple[float, float], bits: int, shared: PreciseTables
) -> PairLine | BallLine | None:
    """Return the terms of one person along a line, or nothing if it does not die or takes too long."""
    steps = view.sampled
    assert steps is not None
    length = precise_lengths(steps, tables, *place, REST_SHARE * bits if bits else REST)
    if length.shift[0] > 0.0:
        return None
    nodes, rest = int(length.nodes[0]), float(length.rest[0])
    own = steps.of_person(0).T.tolist()
    try:
        moments = shared.moments(own, place, nodes, bits)
    except NotPreciseError:
        return None
    kinds = [(each, count) for each, (_, _, count) in zip(moments, own, strict=True)]
    return ball_line(kinds, place, nodes, rest, bits) if bits else pair_line(kinds, place, nodes, rest)
