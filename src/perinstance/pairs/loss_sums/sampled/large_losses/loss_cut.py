r"""Where the noise of a step is divided into that of small and of large losses.

The noise x counts as small with the weight ``rho = Phi((t - x)/s)``, as large with ``1 - rho``. Both are entire, and
off the real line ``|rho(x + i h)| <= e^{h^2/(2 s^2)} rho(x)``, the same for ``1 - rho``: integrate ``e^{-u^2}`` towards
infinity along a line parallel to the real one.

The noise ends as softly: all of it counts with ``sigma = Phi((t' - x)/s')`` too, ``1 - sigma`` is charged to delta in
full, and ``int (1 - sigma) phi = Phi(-t'/sqrt(1 + s'^2))``. Moments would see nothing else otherwise, and a sharp end
has a transform that does not die.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CELL_SUM
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.noise_cells import HIGHEST, WIDEST

FIRST = -14.0  # below it, no loss is worth a cell
WIDTH = 0.1  # of a cell at most
MOST_CELLS = 12_000.0  # times how fine they are
RISE = 2.8  # widths of the cut that the noise may be moved off the real line
LARGEST = 700.0
END = 0.1  # width of the end of the noise, s'
PAST = 8.0  # widths of a cut that it may lie beyond t'
BEYOND = 4.0  # from t' up to where noise is looked at: sigma is e^-800 there


@dataclass(frozen=True, slots=True)
class LossCut:
    """A person's steps of one kind, and the cut: its loss above ``log(1 - q)``, how soft it is, times m; and t'."""

    q: float
    m: float
    steps: float
    level: float
    soft: float
    last: float

    @property
    def place(self) -> float:
        """Return t, not far beyond t': there is nothing."""
        if not self.level > 0.0:
            raise NotPreciseError("a cut at a loss that is not above zero")
        log = math.log(math.expm1(self.level)) if self.level < LARGEST else self.level
        place = (log - math.log(self.q) + math.log1p(-self.q)) / self.m + 0.5 * self.m
        return min(place, self.last + PAST * self.width)

    @property
    def width(self) -> float:
        """Return s."""
        return self.soft / self.m

    @property
    def highest(self) -> float:
        """Return how far off the real line the noise may be moved: w has no zero up to twice of it."""
        return min(HIGHEST, WIDEST / self.m, RISE * self.width)

    @property
    def height(self) -> float:
        """Return how far off the real line the noise is summed up, to its end."""
        return min(self.highest, RISE * END)

    @property
    def growth(self) -> float:
        """Return the exponent by which weights may grow up to twice that height."""
        return 2.0 * self.height**2 * (self.width**-2 + END**-2)

    @property
    def end(self) -> float:
        """Return the end of the noise that counts."""
        return self.last + BEYOND

    @property
    def log_outside(self) -> float:
        """Return the logarithm of the probability that one of all steps has noise beyond, rounded up."""
        away, near = (log_ndtr(-x / math.hypot(1.0, END)) for x in (self.last, self.last - self.m))
        log = float(np.logaddexp(away, math.log(self.q) + near)) + math.log(2.0 * self.steps)
        return log + CELL_SUM * (1.0 + abs(log))

    def log_odds(self, x: Floats) -> Floats:
        """Return the logarithm of ``q e^{mx - m^2/2}/(1 - q)``."""
        return self.m * x - 0.5 * self.m**2 + math.log(self.q) - math.log1p(-self.q)

    def loss(self, x: Floats) -> Floats:
        """Return ``log w(x) - log(1 - q)``."""
        return np.logaddexp(0.0, self.log_odds(x))

    def log_small(self, x: Floats) -> Floats:
        """Return ``log rho``."""
        return np.asarray(log_ndtr((self.place - x) / self.width))

    def log_large(self, x: Floats) -> Floats:
        """Return ``log (1 - rho)``."""
        return np.asarray(log_ndtr((x - self.place) / self.width))

    def log_inside(self, x: Floats) -> Floats:
        """Return ``log sigma``."""
        return np.asarray(log_ndtr((self.last - x) / END))

    def log_beyond(self, x: Floats) -> Floats:
        """Return ``log (1 - sigma)``."""
        return np.asarray(log_ndtr((x - self.last) / END))

    def bends(self, x: Floats) -> Floats:
        """Return how much ``log (rho sigma)`` bends to the left of some places, or more."""
        found = np.zeros(len(x))
        for place, width in ((self.place, self.width), (self.last, END)):
            away = (place - x) / width
            least = 2.0 * np.exp(-0.5 * np.minimum(away, 40.0) ** 2) * (1.0 + away)  # v^2 e^{-v^2/2} falls beyond this
            found += np.where(away > 2.0, np.minimum(least, 1.0), 1.0) / width**2
        return found

    def cells(self, steep: float, fine: float) -> Floats:
        """Return where cells of the noise begin and end, finer where small losses, times an order, or the cut is steep.

        ``steep`` is that order times the level; ``fine`` what the exponent may change by in a cell, about, and more
        where it lies far below its largest value.
        """
        place, width = self.place, self.width
        near = np.concatenate(
            [at + wide * np.linspace(-16.0, 16.0, 200) for at, wide in ((place, width), (self.last, END))]
        )
        x = np.concatenate([np.linspace(FIRST, self.end, 4000), near[(near > FIRST) & (near < self.end)]])
        x = np.unique(x)
        share = np.exp(-np.logaddexp(0.0, -self.log_odds(x)))
        height = steep / self.level * self.loss(x) + self.log_small(x) + self.log_inside(x) - 0.5 * x * x
        behind = np.maximum(x - place, 0.0) / width**2 + np.maximum(x - self.last, 0.0) / END**2
        slope = self.m * (1.0 + steep / self.level * share) + np.abs(x) + behind
        density = 1.0 / WIDTH + self.m / fine + slope / np.maximum(fine, 0.25 * (height.max() - height))
        density += np.where(np.abs(x - place) < 6.0 * width, 0.5 / (fine * width), 0.0)
        count = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(x))])
        if not count[-1] * fine < MOST_CELLS:
            raise NotPreciseError(f"{count[-1]:g} cells")
        return np.interp(np.linspace(0.0, count[-1], int(count[-1]) + 2), count, x)


def log_total(logs: Floats) -> Floats:
    """Return the logarithm of the sum along the last axis."""
    top = np.maximum(logs.max(axis=-1), -1e300)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))
