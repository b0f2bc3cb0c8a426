r"""Delta of independent sampled steps from a lattice of losses, never below the truth.

With the person, ``delta(epsilon) = E_P[(L - e^epsilon)_+]``; without, ``E_P[(1 - e^epsilon L)_+]``; L is the product of
the steps' likelihood ratios. As functions of the ratio of one step, the others fixed, both are convex.

**Why it is a bound.** In every cell of a lattice of losses the law of a step's ratio is moved to the two ends of the
cell so that its mean stays. By Jensen's inequality that only raises the expectation of a convex function, step by step.
Then all losses lie on one lattice, and their sums are convolutions of positive numbers: nothing cancels, whatever delta
is, and the transform of the loss need not die. Between two points the bound is linear in ``e^epsilon``.

- Above the last point, one beyond the epsilon asked for less what all others lose at least, the function is linear
  with the person: probability and mean are all that matters (``loss_sums.py``). Without the person it is zero there.
- Below the first point, some nine standard deviations out, the loss is raised to it with the person; without, where it
  is chosen further out, its probability is added to delta as if it told everything.
- The points that are meant are off by roundings (``step_spread.py``): with the person masses are moved up by as much.
  Without, ``L >= e^-off L'`` for the ones that are computed with, so that ``delta(epsilon + off) <= delta'(epsilon)``;
  off is a share of the sum of the losses: ``e^{(1 - share) g}`` grows with g, so sums above the last point stay there.
  What the sum of the least points and the last point are off is charged in the same way, with the person as
  ``delta(epsilon + off) <= e^off delta'(epsilon)``.
- Masses, profiles and sums are positive, and rounded up where they are made.

How much it raises delta goes with the square of the spacing: what is left above the truth falls by four when the points
are doubled. Each step adds its part; most of that is taken back (``potential_lowering.py``). Seldom steps lose next to
nothing, and rarely much: near the least loss points are finer (``step_levels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NOT_ZERO, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import StepLaw, log_upper, make_step
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum
from perinstance.pairs.loss_sums.sampled.lattice.loss_sums import (
    LARGEST,
    added,
    after,
    ended,
    excesses,
    folded,
    shortfalls,
)
from perinstance.pairs.loss_sums.sampled.lattice.moment_orders import find_order
from perinstance.pairs.loss_sums.sampled.lattice.potential_lowering import UNEVEN, WORTH, factor_masses
from perinstance.pairs.loss_sums.sampled.lattice.step_levels import SpreadStep, finer_levels
from perinstance.pairs.loss_sums.sampled.lattice.step_spread import above_least
from perinstance.pairs.loss_sums.sampled.lattice.sum_windows import LossWindow, begun, repeated

FIRST = -7.0  # with the person: the noise at the first point
LATER = 0.05  # of a window: the mean of a sum up to which it begins at the least value
NARROW = 0.5  # of everything: a window that is worth it
SPARE = 64  # points for the roundings of beginnings to points
MANY = 1 << 14  # steps whose roundings are taken back
ALLOWED = 32.0  # without: minus the logarithm of the share of delta that the rest below it may be
FEW_KINDS = 16  # that are all in memory before it is known what lowering them saves


@dataclass(frozen=True, slots=True)
class Kinds:
    """The steps of one person: what each kind is, how many of it there are, where its lattice starts and at which x.

    Kinds that lose least come first. ``least`` is the sum of the starts, ``edge`` minus the sum of the least losses,
    ``left`` the logarithm of the probability below the first points. ``windows`` are where sums of each kind begin.
    """

    laws: tuple[StepLaw, ...]
    times: tuple[int, ...]
    starts: tuple[float, ...]
    first: float
    least: float
    edge: float
    left: float
    windows: tuple[LossWindow, ...]

    @classmethod
    def of(cls, table: Floats, sign: float, log_delta: float) -> Kinds:
        """Read a table with a column for each kind: rate, distance, how many; log delta is about what is asked for."""
        table = table[:, np.argsort(-table[2] * np.log1p(-table[0]), kind="stable")]
        laws = tuple(make_step(q, m, sign) for q, m in table[:2].T.tolist())
        times = tuple(int(n) for n in table[2])
        first, left = FIRST, -np.inf
        if sign < 0.0:
            first = -math.sqrt(2.0 * (ALLOWED + math.log(sum(times)) - log_delta))
            left = log_upper(-first) + math.log(sum(times)) * (1.0 + UNIT) + 4e3 * UNIT
        starts = tuple(above_least(first, law) for law in laws)
        least = sum(n * start for n, start in zip(times, starts, strict=True))
        edge = -sum(n * law.log_p for n, law in zip(times, laws, strict=True))
        deep = math.sqrt(2.0 * (ALLOWED + math.log(sum(times))))  # standard deviations below its mean
        pairs = zip(laws, starts, strict=True)
        windows = tuple(LossWindow.of(law, start, first, deep) for law, start in pairs) if sign > 0.0 else ()
        return cls(laws, times, starts, first, least, edge, left, windows)

    @property
    def sign(self) -> float:
        """+1 with the person, -1 without."""
        return float(self.laws[0].sign)

    def table(self) -> Floats:
        """Return the kinds as rows: logarithms of rate and its complement, distance, how many."""
        columns = [(law.log_q, law.log_p, law.m, float(n)) for law, n in zip(self.laws, self.times, strict=True)]
        return np.array(columns)

    def place(self, epsilon: float) -> float:
        """Return how far above its least point the sum of the losses is at an epsilon."""
        return self.edge + self.sign * epsilon - self.least


class LatticeBound:
    """Bounds of log delta at the points of one lattice, from its first on; the last of them is at a given epsilon."""

    __slots__ = ("_averaged", "_beyond", "_found", "_halves", "_kinds", "_off", "_profile", "first", "last", "lattice")

    def __init__(self, kinds: Kinds, epsilon: float, points: int) -> None:
        width = kinds.place(epsilon)
        windows, room = _windows(kinds, width)
        self.first = 0
        self.last = points - 2 if room == width else round(width / room * (points - SPARE))  # one more for averages
        spacing = width / self.last
        order = find_order(kinds.table(), np.array(kinds.starts), kinds.first, width)
        finer = finer_levels(kinds.laws, kinds.times, kinds.starts, points, spacing)
        many = kinds.sign > 0.0 and sum(kinds.times) > MANY
        self.lattice = Lattice(spacing, order, points, kinds.sign, finer, many)
        self._kinds = kinds
        self._found: dict[int, float] = {}
        self._beyond: tuple[Floats, Floats] | None = None
        self._halves: tuple[LossSum, LossSum] | None = None
        self._off = 8.0 * UNIT * (kinds.edge + kinds.least + width + spacing)
        pairs = zip(kinds.laws, kinds.starts, strict=True)
        steps: Iterable[SpreadStep] = (SpreadStep(law, start, kinds.first, self.lattice) for law, start in pairs)
        self._averaged = True
        if len(kinds.laws) <= FEW_KINDS:
            steps = list(steps)
            self._averaged = sum(n * step.saved for n, step in zip(kinds.times, steps, strict=True)) > WORTH
        try:
            one, two, share = _in_two(steps, self._averaged, kinds.times, windows, self.lattice)
        except OverflowError:
            return
        if kinds.sign < 0.0:  # sums above the last do not count, and shares of all losses are a share of their sum
            self._off += share * (kinds.least + width + spacing)
        self.first = one.first + two.first
        if self.first + one.masses.size < self.last + 2:
            return
        self._halves = one, two
        if kinds.sign > 0.0:
            self._beyond, self._profile = excesses(one, self.lattice), excesses(two, self.lattice)[0]
        else:
            self._profile = shortfalls(two, self.lattice)

    def epsilon(self, j: int) -> float:
        """Return the epsilon at a point, rounded up by all that its place may be off."""
        kinds = self._kinds
        return kinds.sign * (kinds.least + self.lattice.spacing * j - kinds.edge) + self._off

    def log_delta(self, j: int) -> float:
        """Return the logarithm of a bound of delta there, averaged if potentials are lowered; infinite if not known."""
        here = self._of_sums(j)
        if not self._averaged or j == self.first or not here < np.inf:  # at the first point the mean alone counts
            return here
        before, behind = self._of_sums(j - 1) - here, self._of_sums(j + 1) - here
        if not max(before, behind) < LARGEST:
            return np.inf
        below, above = factor_masses(self.lattice.spacing, self._kinds.sign)
        return (
            here + math.log1p(below * math.expm1(before) + above * math.expm1(behind)) + 16.0 * UNIT * (1.0 + abs(here))
        )

    def _of_sums(self, j: int) -> float:
        """Return the logarithm of a bound of delta of the sums as they are on the lattice."""
        if j not in self._found:
            self._found[j] = self._folded(j)
        return self._found[j]

    def _folded(self, j: int) -> float:
        if self._halves is None:
            return np.inf
        one, two = self._halves
        place = j - self.first
        total = folded(one.masses, self._profile, place + 1)
        if self._beyond is not None:
            total += after(self._beyond[0][place], self._beyond[1][place], two, self.lattice)
        if j == 0 and self._beyond is None:
            return self._kinds.left
        if not total < np.inf:
            return np.inf
        lattice = self.lattice
        parts = (one.log_scale, two.log_scale, -lattice.order * (lattice.spacing * j))
        log = math.log(total + NOT_ZERO) + sum(parts) + UNIT * (8.0 + 4.0 * sum(abs(part) for part in parts))
        if self._beyond is not None:
            log += self.epsilon(j) + self._off + 4.0 * UNIT * abs(self.epsilon(j))
        return float(np.logaddexp(log, self._kinds.left)) + 4.0 * UNIT * (1.0 + abs(log))


def _windows(kinds: Kinds, width: float) -> tuple[list[LossWindow], float]:
    """Return the windows of sums of each kind, and how far the longest reaches; none if that is not far less."""
    if kinds.sign > 0.0:
        parts = list(zip(kinds.windows, kinds.times, strict=True))
        if len(parts) == 1:  # in two halves
            ((window, times),) = parts
            parts = [(window, times // 2), (window, times - times // 2)]
        room = width - sum(window.begins(times) for window, times in parts)
        windows = [replace(window, least=LATER * room) for window in kinds.windows]
        room += max(replace(window, least=LATER * room).raised(times) for window, times in parts)
        if 0.0 < room < NARROW * width:
            return windows, room
    return [LossWindow()] * len(kinds.laws), width


def _in_two(
    steps: Iterable[SpreadStep], lowered: bool, times: tuple[int, ...], windows: list[LossWindow], lattice: Lattice
) -> tuple[LossSum, LossSum, float]:
    """Return two sums whose sum is everything: the last convolution is not needed as a whole; and the largest share.

    Sums that lose about as much as each other are added: what is small is moved to coarser points whenever something
    large is added to it, by up to a spacing, and few moves of sums add less than many moves of their parts.
    """
    sums: list[LossSum] = []
    share = 0.0
    for step, k, window in zip(steps, times, windows, strict=True):
        if not math.isfinite(step.log_scale):
            raise OverflowError("too far out for floats")
        share = max(share, step.share)
        law = step.loss(lowered and step.share < UNEVEN)
        if len(times) == 1:
            one = two = repeated(law, k // 2, lattice, window)
            if k % 2:
                two = begun(added(one, law, lattice), int(window.begins(k - k // 2) / lattice.spacing), lattice)
            sums = [one, two]
        else:
            sums.append(repeated(law, k, lattice, window))
        while len(sums) > 2 and sums[-2].mean <= sums[-1].mean:
            sums.append(added(sums.pop(), sums.pop(), lattice))
    while len(sums) > 2:
        sums.append(added(sums.pop(), sums.pop(), lattice))
    one, two = sums
    if one is two:
        return one, two, share
    return ended(one, two.masses.size, lattice), ended(two, one.masses.size, lattice), share
