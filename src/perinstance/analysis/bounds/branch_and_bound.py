"""Branch and bound: the largest loss over a region, as a bracket.

A landscape bounds the loss over cells (boxes of parameters) and finds people in them. Cells whose bound is below the
best person found (but for the tolerance) are settled; the others are split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.bounds.monotone_losses import loss_upper, objective_below, objective_rough
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import VANISHING
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.release import Mechanism


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search: nobody is above ``upper``; ``where`` is a person (or a data set) at ``attained``."""

    upper: float
    attained: float
    where: Floats


@dataclass(frozen=True, slots=True)
class Bracket:
    """Nobody is above ``epsilon``; the person (x, y) loses at least ``attained``."""

    epsilon: float
    attained: float
    x: Floats
    y: float
    kind: Kind = "upper"


class Landscape(Protocol):
    """Losses over cells: column j is ``cells[0, j] <= first <= cells[1, j]``, ``cells[2, j] <= second <= ..``."""

    delta: float
    mechanism: Mechanism

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """How to halve each parameter: at the geometric mean, at the arithmetic one, or (None) never."""

    def parameters(self, cells: Floats) -> tuple[Floats, ...]:
        """Bound the mechanism's parameters in each cell; see ``loss_upper``."""

    def explore(self, cells: Floats) -> Found:
        """Look for somebody with a large loss in (or near) these cells."""


def search(
    landscape: Any, cells: Floats, start: Found, *, tolerance: float, rounds: int = 40, most: int = 4000
) -> Found:
    """Split cells until every bound is at most ``1 + tolerance`` times a loss that was found, or patience ends."""
    best, settled, delta, family = start, 0.0, landscape.delta, landscape.mechanism.family
    for step in range(rounds):
        parameters = landscape.parameters(cells)
        objective = family == "objective"
        guess = objective_rough(*parameters, delta) if objective else loss_upper(family, parameters, delta)
        found = landscape.explore(cells if step == 0 else cells[:, _promising(guess)])
        if found.attained > best.attained:
            best = found
        level = max(best.attained, VANISHING) * (1 + tolerance)
        done = guess <= level
        settled = max(settled, float(guess[done].max(initial=0.0)))
        close = ~done
        if objective and close.any():  # the rough bound was not the last word
            done[close] = objective_below(*(one[close] for one in parameters), delta, level)
            if done[close].any():
                settled = level
        cells, guess = cells[:, ~done], guess[~done]
        if not cells.shape[1] or cells.shape[1] > most:
            break
        for axis, geometric in enumerate(landscape.geometric):
            if geometric is not None:
                cells = _halved(cells, axis, geometric)
    rest = float(loss_upper(family, landscape.parameters(cells), delta).max()) if cells.shape[1] else 0.0
    return replace(best, upper=max(settled, rest, best.attained))


def _promising(guess: Floats) -> NDArray[np.intp]:
    """Pick the cells of the largest bounds, and some of all others: a rough bound may mislead."""
    order = np.argsort(-guess)
    return np.unique(np.concatenate([order[:8], order[:: max(1, len(order) // 8)]]))


def _halved(cells: Floats, axis: int, geometric: bool) -> Floats:
    low, high = cells[2 * axis], cells[2 * axis + 1]
    middle = np.sqrt(low * high) if geometric else 0.5 * (low + high)
    left, right = cells.copy(), cells.copy()
    left[2 * axis + 1], right[2 * axis] = middle, middle
    return np.concatenate([left, right], axis=1)


def grid(*edges: Floats) -> Floats:
    """Return all cells between neighbouring edges of each parameter.

    >>> grid(np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0]))
    array([[0., 1.],
           [1., 2.],
           [5., 5.],
           [6., 6.]])
    """
    starts = np.meshgrid(*(e[:-1] for e in edges), indexing="ij")
    ends = np.meshgrid(*(e[1:] for e in edges), indexing="ij")
    return np.array([side.ravel() for pair in zip(starts, ends, strict=True) for side in pair])
