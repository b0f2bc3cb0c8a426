"""Answers along lines to more digits than floats have, for people whose sum cancels too much or dies too late.

The line is laid anew for what was found along it: Chernoff's bound, by which the first one is laid, is far from the
truth where the loss has a heavy tail, and the step would add more than it should. In pairs of floats first, then in
balls of as many digits as are missing.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NODE_ROUNDING, PROMISED
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola_answers import answer_along_hyperbola
from perinstance.pairs.loss_sums.sampled.lines.line_choice import RUNG, Places, branch_point, place_of
from perinstance.pairs.loss_sums.sampled.lines.line_layout import LineLengths, lay, precise_lengths, real_cumulants
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.more_digits.ball_integral import BallLine, ball_line
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer, better, read_line
from perinstance.pairs.loss_sums.sampled.more_digits.many_distances import MANY
from perinstance.pairs.loss_sums.sampled.more_digits.nearby_epsilons import NearbyEpsilons
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import PairLine, pair_line
from perinstance.pairs.loss_sums.sampled.more_digits.precise_tables import ALTOGETHER, MOST_TERMS, PreciseTables
from perinstance.pairs.loss_sums.sampled.steps import MOST_STEPS, share_of_work

#: A line that takes more than so many is tried after a hyperbola, which takes some hundredths of a second a kind, and
#: after large losses were taken apart, which takes a second.
FAST, QUICK = 1 << 21, 1 << 26
#: As many of them as choosing the cuts of up to so many kinds takes the time of; more where sharp ones are tried, at
#: deltas below e^-50.
PLANNED, SHARP_PLANNED, SHARP, SOME_KINDS = 1 << 26, 1 << 27, -50.0, 4
#: Up to so many steps of one kind, or several, of distances up to these a lattice is as good, and faster, at deltas
#: that are not as small; below these no loss is large.
FEW, FAR, FAR_KINDS, NEXT, LEAST_RATE = 64.0, 20.0, 3.0, 0.01, 1e-8
#: Digits that are tried, one after the other, and terms: those of pairs, then those of balls of so many bits.
DIGITS = ((0, FAST), (0, QUICK), (0, MOST_TERMS), (192, MOST_TERMS), (256, MOST_TERMS), (512, MOST_TERMS))
#: What floats lose far along a line, a step, and may raise epsilon by, of it, about; nodes that are always in pairs.
FAR_ROUNDINGS, FAR_LOST, LEAST_NEAR, MOST_NEAR = 0.1, 0.1 * PROMISED, 1 << 11, 1 << 30
#: Half octaves that a line may be moved to the left.
LEFT = 16
#: The first term of a line may be e^60 of delta, and its rest e^-64 of that, or e^-36 of delta; in balls these shares
#: of the bits.
HIGH, REST, NOTHING, HIGH_SHARE, REST_SHARE = 60.0, 64.0, 36.0, 0.47, 0.6
#: What was added may be so much of epsilon: more digits are not asked for.
ENOUGH = 0.5 * PROMISED
ROUNDS = 6
#: Of a line that stays where it is: no other may be taken.
STAYING = -np.inf
#: The place of each line and minus its length, before it is made; at last the answer.
LineWalk = Generator[tuple[float, float, float], None, LineAnswer | None]


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
    own = {i: steps.of_person(i) for i in np.flatnonzero(served).tolist()}
    shared = PreciseTables(bool(steps.over), len(own))
    keys = {i: table.tobytes() + goals[i].tobytes() for i, table in own.items()}
    who = {key: i for i, key in keys.items()}
    known = {key: NONE for key in who}

    def person(i: int) -> tuple[LossCoordinates, LineTables, Places, Floats, bool, PreciseTables]:
        return view[[i]], tables, places.of([i]), goals[i], solving, shared

    open_ = list(who.values())
    if len(open_) > 1 and (steps.index is None or min(own[i].shape[1] for i in open_) > MANY):
        for i, found in _along_shared({i: person(i) for i in open_}, shared).items():
            known[keys[i]] = found
        open_ = [i for i in open_ if not _enough(known[keys[i]], solving)]
    shared.pot = int(share_of_work(own[i] for i in open_) * ALTOGETHER)
    last = NearbyEpsilons()
    for i in sorted(open_, key=lambda i: last.order(own[i], goals[i])):
        start = last.guess(own[i], goals[i]) if solving else NONE
        try:
            known[keys[i]] = better(known[keys[i]], _answer(*person(i), start))
        except NotPreciseError:  # of a rotation: somebody else has changed the precision of all balls
            continue
        last.put(own[i], known[keys[i]].value)
    for i, key in keys.items():
        out[i], cost[i] = known[key][:2], known[key].cost
    return out, cost


def _along_shared(people: dict[int, Any], shared: PreciseTables) -> dict[int, LineAnswer]:
    """Return answers in pairs of floats, from moments that people of the same kinds of steps share.

    Everybody goes on to their next line after those who need the same one.
    """
    shared.left, shared.most = ALTOGETHER, MOST_TERMS
    walks = {}
    for i, (view, tables, places, goal, solving, _) in people.items():
        inside = _inside_noise(view, places, 0, shared)
        if inside is not None:
            walks[i] = _walk_lines(view, tables, inside, goal, NONE, solving, shared, 0)
    found, next_ = dict.fromkeys(people, NONE), dict.fromkeys(walks, (0.0, 0.0, 0.0))
    while next_:
        for i in sorted(next_, key=lambda i: next_[i]):
            shared.left = ALTOGETHER
            try:
                next_[i] = next(walks[i])
            except StopIteration as end:
                found[i] = end.value or NONE
                del next_[i]
            except NotPreciseError:  # of a rotation: somebody else has changed the precision of all balls
                del next_[i]
    return found


def _answer(
    view: LossCoordinates,
    tables: LineTables,
    places: Places,
    goal: Floats,
    solving: bool,
    shared: PreciseTables,
    start: LineAnswer,
) -> LineAnswer:
    """Return the answer of one person: with more digits until it is good enough, or lines do not serve.

    ``start`` is a guess of it. After short lines in pairs of floats, with the person, large losses are taken apart.
    """
    found, answer = NONE, None
    shared.left = shared.pot
    for bits, shared.most in DIGITS:
        known = not bits and answer is not None and answer.cost < np.inf  # it was not too long
        inside = None if known else _inside_noise(view, places, bits, shared)
        if not known:
            answer = None
        if inside is not None:
            first = start if found is NONE else found
            answer = _to_the_end(_walk_lines(view, tables, inside, goal, first, solving, shared, bits))
        found = better(found, answer or NONE)
        if shared.most == FAST and not _enough(found, solving):
            found = better(
                found, _along_hyperbola(view, places, goal, start if found is NONE else found, solving, shared)
            )
        if shared.most == QUICK and shared.over and not _enough(found, solving):
            found = better(found, _with_cut(view, goal, found, solving, shared))
        if _enough(found, solving) or (answer is None and shared.most > QUICK):
            break
    return found


def _along_hyperbola(
    view: LossCoordinates, places: Places, goal: Floats, found: LineAnswer, solving: bool, shared: PreciseTables
) -> LineAnswer:
    """Return the answer along a hyperbola, which dies for everybody."""
    steps = view.sampled
    assert steps is not None
    c, epsilon, log_delta = float(places.c[0]), float(places.epsilon[0]), float(places.log_delta[0])
    K = c * epsilon + log_delta - (c * math.log(c) - (1.0 + c) * math.log1p(c))  # at most, of Chernoff's bound
    asked = goal.copy()
    if solving and found.value < np.inf:
        asked[1] = min(asked[1], found.value)
    return answer_along_hyperbola(steps.of_person(0), (c, K), asked, solving, shared.bounds)


def _enough(found: LineAnswer, solving: bool) -> bool:
    """Return whether more digits are not worth it."""
    return found.cost < np.inf and found.cost * found.slope <= ENOUGH * (found.value if solving else 1.0)


def _with_cut(
    view: LossCoordinates, goal: Floats, found: LineAnswer, solving: bool, shared: PreciseTables
) -> LineAnswer:
    """Return the answer with large losses taken apart, if that is worth it."""
    from perinstance.pairs.loss_sums.sampled.large_losses.cut_answers import MOST_KINDS, CutAnswers

    steps = view.sampled
    assert steps is not None
    kinds = [(q, m, k) for q, m, k in steps.of_person(0).T.tolist()]
    furthest = max(m if q >= LEAST_RATE else 0.0 for q, m, _ in kinds)
    sharp = min(goal[0], found.value if not solving else 0.0) < SHARP
    planned = (SHARP_PLANNED if sharp else PLANNED) * -(-len(kinds) // SOME_KINDS)
    few = steps.taken[0] <= FEW and not sharp
    nearest = (FAR if len(kinds) == 1 else FAR_KINDS) if few else NEXT
    if furthest <= nearest or shared.left < planned or len(kinds) > MOST_KINDS:
        return NONE
    shared.left -= planned
    answers = CutAnswers(kinds, min(shared.left, 4 * QUICK if few else MOST_TERMS))
    shared.left -= answers.left
    answer = answers.answer(goal, found, solving)
    shared.left += answers.left
    return answer


def _inside_noise(view: LossCoordinates, places: Places, bits: int, shared: PreciseTables) -> Places | None:
    """Return a place so far to the left that the end of the noise does not cut off moments of so many digits."""
    steps = view.sampled
    assert steps is not None
    rates, distances, _ = steps.of_person(0)
    own = [(q, distances[rates == q]) for q in np.unique(rates).tolist()]
    ends = [(q, float(m)) for q, some in own for m in (some.min(), some.max())]
    for k in range(LEFT):
        octave = places.octave - 4 * k * RUNG
        if all(shared.whole(q, m, 2.0 ** float(octave[0]), bits) for q, m in ends):
            return replace(places, octave=octave)
    return None


def _to_the_end(walk: LineWalk) -> LineAnswer | None:
    """Return the answer along a line that was laid for that answer, or nothing if none serves."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            answer: LineAnswer | None = end.value
            return answer


def _walk_lines(
    view: LossCoordinates,
    tables: LineTables,
    places: Places,
    goal: Floats,
    found: LineAnswer,
    solving: bool,
    shared: PreciseTables,
    bits: int,
) -> LineWalk:
    """Yield the place of each line, and minus its length, before it is made, and return the answer along the last.

    The first is laid for what is known or guessed, ``found``; no answer is returned before a line was made. If a line
    cannot be laid where it should be, it stays where it was and is made finer.
    """
    asked, before, last = goal[None, :2].copy(), (0.0, np.inf, 0.0, 0), places.octave
    high = HIGH_SHARE * bits if bits else HIGH
    for _ in range(ROUNDS):
        if found.value < np.inf:
            asked[0, 1 if solving else 0] = found.value if solving else min(found.value, 0.0)
        octave, share, sure = lay(view, tables, places, asked, solving and found is NONE, high)
        c = float(place_of(octave, branch_point(view))[0])
        place = (c, c * float(share[0]))
        length, near = _length(view, tables, place, asked[0], bits)
        longer = length.nodes[0] > before[2] or near > before[3]
        if sure[0] and place[0] == before[0] and place[1] >= before[1] and not longer:
            return found
        yield *place, -float(length.nodes[0])
        line = _line(view, place, length, near, bits, shared)
        if line is not None:
            found, last = read_line(line, goal, float(asked[0, 1]), solving), octave
            before = *place, float(length.nodes[0]), near
            if found is NONE or (solving and found.value == 0.0):
                return found
        elif before[0] == 0.0:
            return None
        elif high == STAYING:
            break
        else:
            places, high = replace(places, octave=last), STAYING
    return found._replace(cost=np.inf)


def _length(
    view: LossCoordinates, tables: LineTables, place: tuple[float, float], asked: Floats, bits: int
) -> tuple[LineLengths, int]:
    """Return how long one person's line has to be, and from which node on floats do.

    The rest may be so much of delta, by Chernoff's bound at the place; what floats may lose is as good as lost by one
    step, and counts as ``c (1 + c)/(h^2 n)`` of that from the node n on.
    """
    steps, (c, spacing) = view.sampled, place
    assert steps is not None
    log_delta, epsilon = asked.tolist()
    K = float(real_cumulants(view, tables, np.array([c]))[0, 0])
    above = K - c * epsilon + math.log(spacing / (c * (1.0 + c))) - min(log_delta, 0.0)
    least = min(max(above, 0.0) + NOTHING, REST_SHARE * bits if bits else REST)
    lost = FAR_ROUNDINGS * NODE_ROUNDING * steps.taken[0] * c * (1.0 + c) / spacing**2 * math.exp(min(above, REST))
    allowed = FAR_LOST * c * epsilon
    near = max(lost / allowed, LEAST_NEAR) if lost < MOST_NEAR * allowed else MOST_NEAR
    return precise_lengths(steps, tables, c, spacing, least), 1 << math.ceil(math.log2(near))


def _line(
    view: LossCoordinates, place: tuple[float, float], length: LineLengths, near: int, bits: int, shared: PreciseTables
) -> PairLine | BallLine | None:
    """Return the terms of one person along a line, or nothing if it does not die or takes too long."""
    steps = view.sampled
    assert steps is not None
    if length.shift[0] > 0.0:
        return None
    nodes, rest = int(length.nodes[0]), float(length.rest[0])
    try:
        own = shared.at_points(steps.of_person(0), place, nodes, bits)
        moments = shared.moments(own.kinds.T.tolist(), place, nodes, min(near, nodes), bits)
        kinds = zip(moments, own.kinds[2].tolist(), strict=True)
        return ball_line(list(kinds), place, nodes, rest, bits) if bits else pair_line(kinds, place, nodes, rest, own)
    except NotPreciseError:
        return None
