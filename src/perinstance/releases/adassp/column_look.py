"""AdaSSP's second look, in a box: where columns lie and how widely, among rows that are no longer than the first says.

Released are ``sum u`` (with an intercept) and ``sum u^2`` of every column, of rows shortened to a radius r that the
first look suggests. One person moves ``u`` by at most r and ``u^2`` by at most ``r min(r, 1)``, because
``|u_j| <= 1``. So totals of d columns cost what rows really are, not what the corners of the box would be. What follows
is a frame: post-processing. Spreads that differ less than their noise are taken to be one spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.adassp.first_look import Opening, believed_means
from perinstance.releases.base.row_sums import squared_lengths
from perinstance.releases.promises.calibration import noise_scale
from perinstance.releases.promises.standard_frame import StandardFrame

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

    def squares(self, frame: StandardFrame, rows: Floats) -> Floats:
        """Return each person's squared distance, of rows that are shortened already."""
        scales = self.scales(frame)
        moved = squared_lengths(rows**2) / scales[-1] ** 2
        return moved + squared_lengths(rows) / scales[0] ** 2 if self.intercept else moved


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
