r"""Which line to integrate along: next to the saddle point, to an eighth of an octave, so that many people share one.

Any line gives a bound; a place next to where Chernoff's bound is best gives a sum that cancels little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.lines.other_cumulants import add_real_cumulants
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND

RUNG = 0.125  # octaves from one line to the next
LOWEST, HIGHEST = -60.0, 70.0
MANY, SAMPLE, MARGIN = 512, 48, 3
CHUNK = 8192
BLOCK = 4096
OWN_STEPS = 1 << 17


@dataclass(frozen=True, slots=True)
class Places:
    """Of each person: the place c, its octave, epsilon and log delta (of which one is given, one Chernoff's bound).

    ``found``: whether a line may go through it; ``tried``: whether anything has to be tried at all.
    """

    octave: Floats
    c: Floats
    epsilon: Floats
    log_delta: Floats
    found: NDArray[np.bool_]
    tried: NDArray[np.bool_]

    def of(self, rows: Any) -> Places:
        """Return those of some people."""
        return Places(*(getattr(self, name)[rows] for name in self.__slots__))

    def without(self, lost: NDArray[np.bool_]) -> Places:
        """Return the same, some of them not found."""
        return replace(self, found=self.found & ~lost, tried=self.tried & ~lost)


def place_of(octave: Floats, top: Floats) -> Floats:
    """Return the place ``2^octave``, squeezed below the branch point where there is one."""
    plain = 2.0**octave
    with np.errstate(divide="ignore"):
        return np.where(top > 0.0, 1.0 / ((1.0 + 1.0 / plain) * np.maximum(top, 0.0)), plain)


def branch_point(view: LossCoordinates) -> Floats:
    """Return the largest nu of each person, or 0."""
    return np.asarray(view.nu.max(axis=1, initial=0.0))


def equal_blocks(*keys: Floats, most: int = BLOCK) -> Iterator[NDArray[np.intp]]:
    """Yield the positions of people whose keys are all equal, not too many at a time: what they need stays in cache."""
    keys = tuple(key for key in keys if (key != key[0]).any()) or keys[:1]
    order = np.lexsort(keys)
    new = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
    for same in np.split(order, np.flatnonzero(new) + 1):
        for start in range(0, len(same), most):
            yield same[start : start + most]


def at_once(view: LossCoordinates) -> int:
    """Return how many of these people are answered at once: fewer where each has many steps of their own."""
    steps = view.sampled
    assert steps is not None
    return BLOCK if steps.index is None else min(max(OWN_STEPS // max(steps.steps.shape[1], 1), 1), BLOCK)


def sample_of(n: int) -> NDArray[np.intp]:
    """Return some of n people, evenly."""
    return np.linspace(0, n - 1, SAMPLE).astype(np.intp)


def cumulants_at(view: LossCoordinates, tables: LineTables, c: Floats) -> Floats:
    """Return K, K' and K'' of each person at their own place."""
    out = np.empty((len(c), 3))
    for rows in equal_blocks(c, most=at_once(view)):
        place = c[rows[0]]
        some = view[rows]
        steps = some.sampled
        assert steps is not None
        kinds = steps.kinds()
        values = np.ascontiguousarray(steps.total_of(tables.real(float(place), kinds), kinds))
        values[values >= BEYOND] = np.inf
        if some.has_others:
            add_real_cumulants(float(place), some.losses, values)
        out[rows] = values
    return out


def _too_far(K: Floats, c: Floats, goal: Floats, solving: bool) -> NDArray[np.bool_]:
    """Whether a place lies at or beyond that of the goal: a log delta (``solving``) or an epsilon.

    Of an epsilon the saddle point is meant, where ``K'(c) - 1/c - 1/(1 + c)`` exceeds it; of a log delta the place
    where Chernoff's bound of epsilon is least, ``(K(c) + s(c) - log delta)/c``, ``s = c log c - (1 + c) log(1 + c)``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _is_beyond(c * K[..., 1] - K[..., 0] if solving else K[..., 1], c, goal, solving)


def _is_beyond(height: Floats, c: Floats, goal: Floats, solving: bool) -> NDArray[np.bool_]:
    """Whether a place lies at or beyond that of the goal, from ``c K' - K`` or ``K'`` there."""
    if not solving:
        return np.asarray(~(height - 1.0 / c - 1.0 / (1.0 + c) < goal))
    return np.asarray(~(height + np.log1p(c) < -goal))


def choose(view: LossCoordinates, tables: LineTables, goal: Floats, solving: bool) -> Places:
    """Find everybody's place: for a log delta (``solving``) or for an epsilon."""
    n = len(goal)
    low, high = np.full(n, LOWEST), np.full(n, HIGHEST)
    steps = view.sampled
    assert steps is not None
    if n > MANY and steps.index is None and not view.has_others:
        _bracket(view, tables, goal, solving, low, high)
    return bisect(view, tables, goal, solving, (low, high), RUNG)


def bisect(
    view: LossCoordinates,
    tables: LineTables,
    goal: Floats,
    solving: bool,
    between: tuple[Floats, Floats],
    rung: float,
) -> Places:
    """Find everybody's place between two octaves, to a rung; the lower end of it is taken."""
    low, high = between
    top = branch_point(view)
    while True:
        open_ = np.flatnonzero(high - low > rung)
        if not open_.size:
            break
        middle = rung * np.floor((low[open_] + high[open_]) / (2.0 * rung))
        c = place_of(middle, top[open_])
        K = cumulants_at(view[open_], tables, c)
        far = _too_far(K, c, goal[open_], solving)
        high[open_] = np.where(far, middle, high[open_])
        low[open_] = np.where(far, low[open_], middle)
    c = place_of(low, top)
    K = cumulants_at(view, tables, c)
    chernoff = K[:, 0] + c * np.log(c) - (1.0 + c) * np.log1p(c)
    epsilon = (chernoff - goal) / c if solving else goal
    log_delta = goal if solving else np.minimum(chernoff - c * goal, 0.0)
    placed = (low > LOWEST) & (high < HIGHEST)
    return Places(low, c, epsilon, log_delta, placed & np.isfinite(K).all(axis=1), np.ones(len(c), dtype=bool))


def _bracket(
    view: LossCoordinates,
    tables: LineTables,
    goal: Floats,
    solving: bool,
    low: Floats,
    high: Floats,
) -> None:
    """Settle most of many people at once, on the few rungs that a sample of them needs."""
    n = len(goal)
    rows = sample_of(n)
    sample = choose(view[rows], tables, goal[rows], solving).octave
    rungs = np.arange(sample.min() - MARGIN * RUNG, sample.max() + (MARGIN + 0.5) * RUNG, RUNG)
    rungs = rungs[:: 1 + len(rungs) // 48]
    c = 2.0**rungs
    steps = view.sampled
    assert steps is not None
    found = [tables.real(float(place), steps.kinds()) for place in c]
    each = [K.over_basis for K in found if K.over_basis is not None]
    own = steps.in_basis
    if own is None or len(each) < len(found):
        own, each = steps.steps, [K.values for K in found]
    # of each kind the one number that decides, which is a sum over the steps
    table = np.stack([_decides(K, place, solving) for K, place in zip(each, c, strict=True)], axis=1)
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        height = own[part] @ table
        height[height >= BEYOND] = np.inf
        far = _is_beyond(height, c, goal[part, None], solving)
        first = far.argmax(axis=1)
        inside = far.any(axis=1) & (first > 0)
        low[part] = np.where(inside, rungs[first - 1], low[part])
        high[part] = np.where(inside, rungs[first], high[part])


def _decides(K: Floats, c: float, solving: bool) -> Floats:
    """Return ``c K' - K`` or ``K'`` of a table, beyond the noise where K is."""
    with np.errstate(over="ignore"):
        return np.where(K[:, 0] < BEYOND, c * K[:, 1] - K[:, 0] if solving else K[:, 1], BEYOND)
