"""The looks that AdaSSP and AdaOPS begin with: how many people, where labels lie and how widely, how long rows are.

One vector of totals is released, in units: ``n``, ``sum v`` and ``sum (v^2 - 1/2)`` of the label and, in a box,
``sum (h - 4)``, where h counts how often the declared bound of ``||u||^2`` can be halved before the row is longer, at
most 8 times. One person moves ``(v, v^2 - 1/2)`` by ``sqrt(v^4 + 1/4) <= sqrt(5/4)``, where ``(v, v^2)`` would move by
``sqrt(2)``, and the halvings by at most 4, a mean of logarithms that few people suffice for. What is made of the
totals is post-processing: where the estimate starts, where residuals are clipped, how long a row commonly is. A total
that is lost in its noise is not believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.base.row_sums import HALVINGS, halvings
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.promise import noise_scale
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows
from perinstance.sampling.fixed_point import shortened

BELIEVED = 3.0  # standard deviations of noise from which on a total counts
WIDEST_CLIP, NARROWEST_CLIP = 0.2, 0.02  # of the label's half range; in between, the labels' standard deviation
COMMON_LENGTH, COMMON_SPREAD = -1.0, 0.5  # of log(||u|| / bound): what is thought before anything is seen
HALVING = math.log(2.0) / 2.0  # of a squared norm, as a step of log ||u||
SHORTEST_LENGTH = -(HALVINGS + 1) * HALVING  # shorter rows are not told apart


@dataclass(frozen=True, slots=True, eq=False)
class StandardFrame:
    """A centre and a spread for every column; rows are clipped to ``radius``. ``weight``: of the ones, 0 for none.

    Where rows are shortened ``whole``, their ones are too, to ``x_bound``: the Gram matrix then weighs long rows down.
    """

    center: Floats
    spread: Floats
    radius: float
    weight: float
    whole: bool = False

    @classmethod
    def of_box(cls, box: DeclaredBox) -> StandardFrame:
        """Return the coordinates in which rows are as they are."""
        columns = len(box.columns)
        return cls(np.zeros(columns), np.ones(columns), box.radius, box.weight)

    @property
    def d(self) -> int:
        """Number of columns, that of ones included."""
        return len(self.center) + bool(self.weight)

    @property
    def x_bound(self) -> float:
        """The largest norm of a clipped row, the column of ones included; rounded up."""
        return math.sqrt(self.radius**2 + self.weight**2) * STEP_UP

    def knows_ones(self, n: float | None) -> bool:
        """Tell whether the square of the ones follows from a number of people that is public or was looked at."""
        return bool(self.weight) and n is not None and not self.whole

    def gram_sensitivity(self, ones_known: bool) -> float:
        """Return how far one person moves the part of the Gram matrix that is released, rounded up."""
        longest = self.x_bound if self.whole else self.radius
        return math.sqrt(float(self.gram_squares(longest**2, ones_known))) * STEP_UP

    def gram_squares(self, norms2: Any, ones_known: bool) -> Any:
        """Return the squared move by rows of these squared lengths: with their ones where ``whole``, else without."""
        if self.whole:
            return norms2**2
        return norms2**2 + 2.0 * self.weight**2 * norms2 + (0.0 if ones_known else self.weight**4)

    def free_rows(self, rows: FixedRows) -> Floats:
        """Return rows as long as they are, one rounded operation after the other; those of absent people are zero."""
        return self._with_ones((rows.X[:, : len(self.center)] - self.center) / self.spread, rows.present)

    def clipped_rows(self, rows: FixedRows) -> Floats:
        """Return rows that are clipped in integers: whole, or but for their ones."""
        free = self.free_rows(rows)
        if self.whole:
            return shortened(free, self.x_bound)
        return self._with_ones(shortened(free[:, : len(self.center)], self.radius), rows.present)

    def in_units(self, theta: Floats, weight: float) -> Floats:
        """Return the coefficients of rows in units, whose column of ones has this weight."""
        slopes = theta[: len(self.center)] / self.spread
        if not self.weight:
            return slopes
        first = float(theta[-1]) * self.weight - math.fsum(slopes * self.center)
        return np.append(slopes, first / weight)

    def _with_ones(self, columns: Floats, present: NDArray[np.bool_]) -> Floats:
        ones = np.full((len(columns), int(bool(self.weight))), self.weight)
        return np.where(present[:, None], np.column_stack([columns, ones]), 0.0)


@dataclass(frozen=True, slots=True)
class Look:
    """What is asked, and at what distance: public, before any data."""

    columns: int  #: of a box; 0 for a ball, whose rows are not looked at
    bound: float  #: of the norm of a row, without the ones
    intercept: bool
    n_public: int | None
    distance: float

    @property
    def sensitivity(self) -> float:
        """How far one person moves the totals, halvings in units of 4; rounded up."""
        return math.sqrt(1.25 + (self.n_public is None) + (self.columns > 0)) * STEP_UP

    def scales(self) -> Floats:
        """Return the noise of every total."""
        scale = noise_scale(self.sensitivity, self.distance)
        boxed = [scale * (HALVINGS // 2)] if self.columns else []  # a power of two: exact
        return np.array([scale] * (3 - (self.n_public is not None)) + boxed)

    def moves(self, rows: FixedRows) -> Floats:
        """Return what each person adds to every total; absent people (a missing cell) count nowhere."""
        y = rows.y
        totals = [np.ones(len(y))] * (self.n_public is None) + [y, y * y - 0.5]
        if self.columns:
            totals.append(halvings(rows.X[:, : self.columns], self.bound))
        return np.where(rows.present[:, None], np.column_stack(totals), 0.0)


@dataclass(frozen=True, slots=True)
class Opening:
    """What follows from the look. Public."""

    n: float | None  #: about how many people, if that is believed
    start: float  #: of the intercept, in units of the label
    clip: float  #: of residuals, in units of the label's half range
    length: float  #: of a common row, in units; of a ball, the bound
    doubt: float  #: standard deviation of the length's logarithm


def opening(look: Look, totals: Floats) -> Opening:
    """Read the totals."""
    scales = look.scales()
    if look.n_public is None:
        n, noise_n = float(totals[0]), float(scales[0])
        totals, scales = totals[1:], scales[1:]
    else:
        n, noise_n = float(look.n_public), 0.0
    log_length, doubt = COMMON_LENGTH, COMMON_SPREAD
    if n <= BELIEVED * noise_n:
        return Opening(None, 0.0, WIDEST_CLIP, look.bound * math.exp(log_length), doubt)
    noise = float(scales[0]) / n
    start = float(believed_means(totals[:1] / n, noise)[0]) if look.intercept else 0.0
    variance = max(float(totals[1]) / n + 0.5 - start**2, 0.0) + noise
    clip = min(max(math.sqrt(variance), NARROWEST_CLIP), WIDEST_CLIP)
    if look.columns:
        seen = -(float(totals[2]) / n + HALVINGS / 2 + 0.5) * HALVING  # half a step, because halvings are whole
        error = float(scales[2]) / n * HALVING
        doubt = COMMON_SPREAD * error / math.hypot(COMMON_SPREAD, error)
        log_length = seen + (COMMON_LENGTH - seen) * (doubt / COMMON_SPREAD) ** 2
    return Opening(n, start, clip, look.bound * math.exp(min(max(log_length, SHORTEST_LENGTH), 0.0)), doubt)


def believed_means(means: Floats, noise: float) -> Floats:
    """Shrink means toward zero, to nothing within the noise; they lie in [-1, 1]."""
    with np.errstate(divide="ignore"):
        kept = np.maximum(0.0, 1.0 - (BELIEVED * noise / means) ** 2)
    return np.clip(np.where(means == 0.0, 0.0, means * kept), -1.0, 1.0)


LONGER = 1.4  # rows are shortened to this many times the common length
SHORTER = 0.8  # rows of the frame are clipped at the root of this part of their mean squared norm
SHORTEST = 0.5  # squared norm at which they are clipped at least
FLATTEST = 0.2  # part of the mean variance, below which a column is not spread out further
ROUGH = 0.1  # error of a logarithm of lengths by itself: a common length is no root of a mean square


@dataclass(frozen=True, slots=True)
class ColumnLook:
    """What is asked of columns, and at what distance: public."""

    columns: int
    intercept: bool
    bound: float  #: of the norm of rows in the box
    distance: float

    def frame(self, length: float) -> StandardFrame:
        """Return the rows that are asked about: shortened, otherwise as they are."""
        plain = np.zeros(self.columns), np.ones(self.columns)
        return StandardFrame(*plain, radius=min(LONGER * length, self.bound), weight=0.0)

    def scales(self, frame: StandardFrame) -> Floats:
        """Return the noise of every total: half of the squared distance for the sums, half for the squares."""
        sums = frame.radius * STEP_UP
        squares = sums * min(sums, 1.0) * STEP_UP
        part = self.distance * math.sqrt(0.5) if self.intercept else self.distance
        first = [noise_scale(sums, part)] * self.columns if self.intercept else []
        return np.array(first + [noise_scale(squares, part)] * self.columns)

    def moves(self, rows: FixedRows, frame: StandardFrame) -> Floats:
        """Return what each person adds to every total: columns of shortened rows, and their squares."""
        X = frame.clipped_rows(rows)
        return np.column_stack([X, X * X]) if self.intercept else X * X


def standardised(look: ColumnLook, found: Opening, frame: StandardFrame, totals: Floats) -> StandardFrame:
    """Read the totals; without an intercept columns keep their zero."""
    assert found.n is not None
    scales, d = look.scales(frame), look.columns
    means, squares = totals[:-d] / found.n, totals[-d:] / found.n
    center = believed_means(means, float(scales[0]) / found.n) if look.intercept else np.zeros(d)
    noise = float(scales[-1]) / found.n
    seen = squares - center**2
    # the mean variance is known twice: from the first look, and from the squares
    before = max(found.length**2 / d - float(np.mean(center**2)), found.length**2 / d / 8.0)
    weights = np.array([(2.0 * (found.doubt + ROUGH) * before) ** -2.0, d / noise**2])
    mean = max(float(weights @ [before, seen.mean()] / weights.sum()), found.length**2 / d / 8.0)
    differ = max(float(np.var(seen)) - noise**2, 0.0)
    shrunk = mean + (seen - mean) * (differ / (differ + noise**2))
    kept = np.clip(shrunk, min(max(FLATTEST * mean, noise), 1.0), 1.0)
    norm2 = float(np.clip(shrunk / kept, 0.0, 1.0).sum())
    return with_weight(look, center, np.sqrt(kept), math.sqrt(max(SHORTER * norm2, SHORTEST)))


def common(look: ColumnLook, found: Opening) -> StandardFrame:
    """Return the frame where nothing is believed: all columns alike."""
    spread = found.length / math.sqrt(look.columns)
    return with_weight(
        look, np.zeros(look.columns), np.full(look.columns, spread), math.sqrt(max(SHORTER * look.columns, SHORTEST))
    )


def with_weight(look: ColumnLook, center: Floats, spread: Floats, radius: float) -> StandardFrame:
    """Return the frame with a column of ones that weighs what a column weighs on average."""
    return StandardFrame(center, spread, radius, radius / math.sqrt(look.columns) if look.intercept else 0.0)


def coordinates(look: ColumnLook, found: Opening, window: Window) -> tuple[Floats, StandardFrame]:
    """Look at the columns of a box, and return the frame of the rest; where n is not believed it cannot be read."""
    if found.n is None:
        return np.empty(0), common(look, found)
    asked = look.frame(found.length)
    totals = window.sums(partial(look.moves, frame=asked), look.scales(asked))
    return totals, standardised(look, found, asked, totals)
