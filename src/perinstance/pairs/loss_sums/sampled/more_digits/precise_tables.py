"""Moments of more digits, kept for those who take the same steps, and how many terms may still be summed for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola_line import HyperbolaTables
from perinstance.pairs.loss_sums.sampled.more_digits.ball_integral import moments_in_balls
from perinstance.pairs.loss_sums.sampled.more_digits.many_distances import ManyDistances, PointSteps
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError, noise_nodes
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import DEPTH, moments_in_pairs
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind, noise_window

#: Terms of moments in pairs that are summed for one line, and for one person: some 3 nanoseconds each. In balls they
#: take ten times as much for each of so many bits.
MOST_TERMS, ALTOGETHER, IN_BALLS = 1 << 29, 1 << 30, 24
#: Moments in floats are so many times as fast.
FAR_SPEED = 8.0
#: As many more for each so many kinds of steps: other ways take longer as well.
EACH_KINDS = 16.0
#: Moments that are kept for others who take the same steps.
MOST_KEPT = 1 << 22


@dataclass(slots=True)
class PreciseTables:
    """The moments that were summed so far, each kind's along each line, and how many terms one may still sum.

    ``bounds`` are those of moments along hyperbolas; ``people`` is how many may share what was summed; ``pot`` how many
    terms everybody may sum who is answered alone; ``_kept`` how many moments are known.
    """

    over: bool
    people: int = 1
    pot: int = 0
    left: int = 0
    most: int = MOST_TERMS
    bounds: HyperbolaTables = field(init=False)
    _many: ManyDistances | None = None
    _known: dict[tuple[float, ...], tuple[int, int, Any]] = field(default_factory=dict)
    _kept: int = 0
    _whole: dict[tuple[float, ...], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bounds = HyperbolaTables(self.over)

    def whole(self, q: float, m: float, c: float, bits: int) -> bool:
        """Return whether moments of order c to so many digits lie within the noise."""
        key = (q, m, c, bits)
        if key not in self._whole:
            self._whole[key] = bool(noise_window(StepKind(q, m, self.over, 0.0), c, _depth(bits)).whole)
        return self._whole[key]

    def at_points(self, own: Floats, place: tuple[float, float], nodes: int, bits: int) -> PointSteps:
        """Return the steps of one person, in pairs of floats those of the points of pieces where there are many."""
        if bits:
            return PointSteps(np.vstack([own, np.zeros((1, own.shape[1]))]), None)
        self._many = self._many or ManyDistances(self.over, self.people)
        return self._many.at_points(own, lambda q, m: self.whole(q, m, place[0], bits), place, nodes)

    def moments(
        self, kinds: list[list[float]], place: tuple[float, float], nodes: int, near: int, bits: int
    ) -> Iterator[Any]:
        """Yield the moments of some kinds at the first nodes of a line, in balls of some bits or in pairs (zero).

        In pairs up to the node ``near``. Nothing is summed that takes too long, nor kept that is too large.
        """
        keys: list[tuple[float, ...]] = [(q, m, *place, bits) for q, m, *_ in kinds]
        missing = [key for key in keys if not self._serves(key, nodes, near)]
        far = nodes - near if not bits else 0
        each = (nodes - far + far / FAR_SPEED) * max(bits // IN_BALLS, 1)
        terms = each * sum(noise_nodes(key[0], key[1], self.over, place[0], _depth(bits)) for key in missing)
        terms = int(terms / (1.0 + len(kinds) / EACH_KINDS))
        if terms > min(self.left, self.most):
            raise NotPreciseError(f"{terms} terms")
        self.left -= terms
        if self._kept > MOST_KEPT:
            self._known = {key: self._known[key] for key in keys if key in self._known}
            self._kept = sum(count for count, *_ in self._known.values())
        return self._each(keys, place, nodes, near, bits)

    def _serves(self, key: tuple[float, ...], nodes: int, near: int) -> bool:
        """Return whether moments are known that are as long, and as long in pairs."""
        count, precise, _ = self._known.get(key, (0, 0, None))
        return count >= nodes and precise >= near

    def _each(
        self, keys: list[tuple[float, ...]], place: tuple[float, float], nodes: int, near: int, bits: int
    ) -> Iterator[Any]:
        keep = nodes * len(keys) <= MOST_KEPT
        for key in keys:
            if self._serves(key, nodes, near):
                yield self._known[key][2]
                continue
            if bits:
                found: Any = moments_in_balls(key[0], key[1], self.over, place, nodes, bits)
            else:
                found = moments_in_pairs(key[0], key[1], self.over, place, nodes, near)
            if keep:
                self._kept += nodes - self._known.get(key, (0,))[0]
                self._known[key] = nodes, near, found
            yield found


def _depth(bits: int) -> float:
    """Return minus the logarithm of what moments may be missed by."""
    return bits * math.log(2.0) if bits else DEPTH
