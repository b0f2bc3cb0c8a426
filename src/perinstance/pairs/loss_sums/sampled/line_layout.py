r"""How fine and how long everybody's line is. Only how tight an answer is depends on it, never whether it is a bound.

The step h adds ``delta(epsilon + u) e^{c u} + delta(epsilon - u) e^{-c u} + ...`` with ``u = 2 pi/h``. By Chernoff's
bound at another place t, ``delta(epsilon + u) <= e^{K(t) - t (epsilon + u)}``: the step is chosen so that the best of a few
t says e^-EXTRA of delta.

The line ends where its rest is proved to be negligible. Where it would have to be longer than ``LONGEST`` (people who
are seldom sampled: most of their loss is next to one number) they are charged with a Gaussian shift s that they did not
suffer: a profile only grows by one more release, and ``|e^{K}|`` then dies like ``e^{-s^2 y^2/2}``. It
costs about ``s^2 (1 + c)/2`` of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.line_choice import Places, cumulants_around
from perinstance.pairs.loss_sums.sampled.line_tables import LineTables

#: The step may add so much to delta: e^-27 of it.
EXTRA = 27.0
#: The rest of a line may be so much of its first term: e^-32.
REST = 32.0
#: Places, in octaves from c, whose Chernoff bounds are compared; zero is left out.
MOVES = np.array([-1.0, -0.375, 0.375, 0.625, 1.0, 1.625, 2.625])
#: Numbers of nodes.
LENGTHS = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
LONGEST = LENGTHS[-1]
#: Steps are c times a power of this.
LADDER = 2.0**0.25
FINEST = 2.0**-14


def spacings(view: LossCoordinates, tables: LineTables, places: Places, epsilon: Floats, log_delta: Floats) -> Floats:
    """Return everybody's step, as a share of c."""
    c = places.c
    t, K = cumulants_around(view, tables, places.octave, MOVES)
    depth = EXTRA - np.minimum(log_delta, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound = K - t * epsilon[:, None] + t * np.log(t) - (1.0 + t) * np.log1p(t) + depth[:, None]
        each = np.where(np.isfinite(bound), bound, np.inf) / np.abs(t - c[:, None])
    right = np.min(each[:, MOVES > 0.0], axis=1)
    left = np.minimum(np.min(each[:, MOVES < 0.0], axis=1), depth / c)
    reach = np.maximum(np.maximum(left, right), 1.0 / c)
    share = np.where(np.isfinite(reach), 2.0 * np.pi / (reach * c), 0.25)
    return np.clip(LADDER ** np.floor(np.log(share) / np.log(LADDER)), FINEST, 1.0)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of each person on a line: the nodes, the square of the shift that is added, the sum that is left out."""

    nodes: np.ndarray
    shift: Floats
    rest: Floats

    def of(self, rows: np.ndarray) -> Lengths:
        """Return those of some people."""
        return Lengths(self.nodes[rows], self.shift[rows], self.rest[rows])


def lengths(view: LossCoordinates, tables: LineTables, c: float, spacing: float) -> Lengths:
    """Return how long the line through c must be for each of these people, and what is added to make it end there."""
    steps = view.sampled
    assert steps is not None
    kinds = steps.kinds()
    count = np.array(LENGTHS)
    ends = count * spacing
    dead = steps.total(tables.decay(c, spacing, ends, kinds), kinds)
    if view.has_others:
        dead = dead + 0.5 * np.where(view.nu == 0.0, view.m2, 0.0).sum(axis=1)[:, None] * ends**2
    # sum_{k >= n} c (1 + c)/y_k^2 <= c (1 + c)/(h^2 (n - 1)), in units of the first term
    room = np.log(c) + np.log1p(c) - 2.0 * np.log(spacing) - np.log(count - 1.0)
    open_ = np.maximum(REST + room - dead, 0.0)
    first = np.where((open_ == 0.0).any(axis=1), (open_ == 0.0).argmax(axis=1), len(count) - 1)
    pick = np.arange(len(dead))
    shift = 2.0 * open_[pick, first] / ends[first] ** 2
    dead = dead[pick, first] + 0.5 * shift * ends[first] ** 2
    with np.errstate(under="ignore"):
        rest = np.exp(np.minimum(room[first] - 0.999 * dead, 700.0))
    return Lengths(count[first], shift, rest)
