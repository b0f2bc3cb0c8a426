"""AdaSSP's first look: how many people there are, where their labels and columns lie, and how widely.

One vector of totals is released, in units: ``n``, ``sum v`` and ``sum (v^2 - 1/2)`` of the label and, in a box, the
same two sums of every column. One person moves ``(u, u^2 - 1/2)`` by ``sqrt(u^4 + 1/4) <= sqrt(5/4)``, where
``(u, u^2)`` would move by ``sqrt(2)``; with ``||u|| <= radius`` all columns together move by at most
``sqrt(radius^2 + d/4)``. What is made of the totals is post-processing: where the estimate starts, where residuals are
clipped, and in a box the coordinates in which the rest is asked. A total that is lost in its noise is not believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.promises.calibration import noise_scale
from perinstance.releases.promises.standard_frame import StandardFrame

LABEL_SHARE = 0.1  # of the squared move of all columns that the label's two totals have, and n has; at least 1
BELIEVED = 3.0  # standard deviations of noise from which on a total counts
CLIP = 0.6  # residuals are clipped at this part of the labels' spread
WIDEST_CLIP, NARROWEST_CLIP = 0.25, 0.02  # of the label's half range
NARROWEST = 0.05  # variance of a column in units, below which it is not spread out further
NORM = 0.8  # rows are clipped at the root of this part of their mean squared norm
LIGHT = 0.5  # of a column's weight that the ones have, where a look has placed the intercept
SHORTEST = 0.5  # squared norm at which they are clipped at least


@dataclass(frozen=True, slots=True)
class Look:
    """What is asked, and at what distance: public, before any data."""

    columns: int  #: how many columns are looked at: all of a box, none of a ball
    intercept: bool
    radius: float
    n_public: int | None
    distance: float

    @property
    def label_weight(self) -> float:
        """By which the totals of the label, and n, are multiplied before noise is added."""
        return math.sqrt(max(LABEL_SHARE * self._columns_square, 1.0))

    @property
    def _columns_square(self) -> float:
        return self.radius**2 + self.columns / 4.0 if self.columns else 0.0

    @property
    def sensitivity(self) -> float:
        """How far one person moves the weighted totals, rounded up."""
        label = self.label_weight**2 * (1.25 + (self.n_public is None))
        return math.sqrt(self._columns_square + label) * STEP_UP

    def scales(self) -> Floats:
        """Return the noise of every total."""
        scale = noise_scale(self.sensitivity, self.distance)
        label = math.nextafter(scale / self.label_weight, math.inf)
        return np.array([label] * (3 - (self.n_public is not None)) + [scale] * (2 * self.columns))

    def squares(self, units: Floats, y: Floats) -> Floats:
        """Return how far each person moves the weighted totals, squared, in parts of the sensitivity's square."""
        label = self.label_weight**2 * (y**4 + 0.25 + (self.n_public is None))
        columns = (units[:, : self.columns] ** 4 + 0.25).sum(axis=1)
        return (label + columns) / self.sensitivity**2


@dataclass(frozen=True, slots=True)
class Opening:
    """What follows from the look. Public."""

    n: float | None  #: about how many people, if that is believed
    start: float  #: of the intercept, in units of the label
    clip: float  #: of residuals, in units of the label's half range
    frame: StandardFrame | None  #: the coordinates of the rest; None: as they are


def opening(look: Look, totals: Floats) -> Opening:
    """Read the totals."""
    scales = look.scales()
    if look.n_public is None:
        n, noise_n = float(totals[0]), float(scales[0])
        totals, scales = totals[1:], scales[1:]
    else:
        n, noise_n = float(look.n_public), 0.0
    believed = n > BELIEVED * noise_n
    start, clip, frame = 0.0, WIDEST_CLIP, None
    if believed:
        noise = float(scales[0]) / n
        start = float(_believed_means(totals[:1] / n, noise)[0]) if look.intercept else 0.0
        variance = max(float(totals[1]) / n + 0.5 - start**2, 0.0) + noise
        clip = min(max(CLIP * math.sqrt(variance), NARROWEST_CLIP), WIDEST_CLIP)
    if look.columns:
        sums, squares = totals[2 : 2 + look.columns], totals[2 + look.columns :]
        frame = _frame(look, sums / n, squares / n + 0.5, float(scales[-1]) / n) if believed else _as_it_is(look)
    return Opening(n if believed else None, start, clip, frame)


def _frame(look: Look, means: Floats, squares: Floats, noise: float) -> StandardFrame:
    """Standardise the columns; without an intercept they keep their zero."""
    center = _believed_means(means, noise) if look.intercept else np.zeros(look.columns)
    variance = squares - center**2
    kept = np.clip(variance, min(max(NARROWEST, noise / 2.0), 1.0), 1.0)
    norm2 = float((np.clip(variance, 0.0, kept) / kept).sum() + noise / kept.min() * math.sqrt(look.columns))
    farthest = float(((1.0 + np.abs(center)) ** 2 / kept).sum())  # no row in the box is longer
    radius = math.sqrt(min(max(NORM * norm2, SHORTEST), farthest))
    return _with_weight(look, center, np.sqrt(kept), radius)


def _as_it_is(look: Look) -> StandardFrame:
    return _with_weight(look, np.zeros(look.columns), np.ones(look.columns), look.radius)


def _with_weight(look: Look, center: Floats, spread: Floats, radius: float) -> StandardFrame:
    return StandardFrame(center, spread, radius, LIGHT * radius / math.sqrt(look.columns) if look.intercept else 0.0)


def _believed_means(means: Floats, noise: float) -> Floats:
    """Shrink means toward zero, to nothing within the noise; they lie in [-1, 1]."""
    with np.errstate(divide="ignore"):
        kept = np.maximum(0.0, 1.0 - (BELIEVED * noise / means) ** 2)
    return np.clip(np.where(means == 0.0, 0.0, means * kept), -1.0, 1.0)
