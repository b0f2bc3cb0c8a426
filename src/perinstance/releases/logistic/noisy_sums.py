"""The only openings through which private logistic regression sees confidential rows; each look is charged.

``ExactSums`` is what ``fit`` uses: integer-exact sums of clipped rows, draws on a public grid. ``SimulatedSums``
answers with numpy's floating-point noise, for experiments; what it answers is not private and never published.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.releases.base.row_sums import products
from perinstance.releases.logistic.bounded_slope_loss import SLOPE_BITS, slopes
from perinstance.releases.promises.window import ExactWindow
from perinstance.sampling import FixedRows, Noisy, draw

HALF = 20  # bits: integers below 2^40 are cut into two halves
CHUNK = 1 << 12  # rows whose products of halves, below 2^40 each, float64 adds exactly


class SumWindow(Protocol):
    """What private logistic regression asks about rows with ``||x|| <= B``. ``scale`` is a standard deviation."""

    @property
    def d(self) -> int:
        """Number of columns: public."""

    def gram(self, scale: float) -> Floats:
        """``X'X + E``, symmetric; ``scale`` on the diagonal, ``scale / sqrt(2)`` off it."""

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        """``sum_i slope(x_i'theta, s_i) x_i + scale z``: one person moves it by at most ``B/2``."""


class ExactSums:
    """Exact sums over clipped rows, exact draws. There is no seed."""

    def __init__(self, rows: FixedRows) -> None:
        self._rows = rows
        self._gram = ExactWindow(rows)

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._rows.X.shape[1]

    def gram(self, scale: float) -> Floats:
        """``X'X + E``."""
        return self._gram.gram(scale)

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        """``sum_i slope(x_i'theta, s_i) x_i + scale z``.

        A slope is a function of the row and of theta alone.
        """
        slope = slopes(products(self._rows.X, theta), np.sign(self._rows.y))
        return draw(Noisy(self._exact_sum(slope), scale)).values

    def _exact_sum(self, slope: Floats) -> list[Fraction]:
        """``X'slope`` as rational numbers: both are integers below 2^40 times a public power of two."""
        grid = self._rows.x_grid
        totals = np.full(self.d, 0, dtype=object)
        for start in range(0, len(slope), CHUNK):
            X = self._rows.X[start : start + CHUNK] / grid
            s = np.ldexp(slope[start : start + CHUNK], SLOPE_BITS)
            x_high, s_high = np.trunc(np.ldexp(X, -HALF)), np.trunc(np.ldexp(s, -HALF))
            x_low, s_low = X - np.ldexp(x_high, HALF), s - np.ldexp(s_high, HALF)
            for x, of_x in ((x_high, HALF), (x_low, 0)):
                for t, of_t in ((s_high, HALF), (s_low, 0)):
                    part = (x.T @ t).astype(np.int64)  # integers below 2^52: exact in whatever order they are added
                    totals = totals + (part.astype(object) << (of_x + of_t))
        unit = Fraction(grid) / 2**SLOPE_BITS
        return [int(total) * unit for total in totals]


class SimulatedSums:
    """Floating-point noise of a seeded generator: for experiments and benchmarks only, **not private**."""

    def __init__(self, X: Floats, sign: Floats, rng: np.random.Generator, gram: Floats | None = None) -> None:
        self._X, self._sign, self._rng = X, sign, rng
        self._G = X.T @ X if gram is None else gram

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._X.shape[1]

    def gram(self, scale: float) -> Floats:
        """``X'X + E``."""
        Z = self._rng.standard_normal((self.d, self.d))
        return self._G + scale * (Z + Z.T) / 2.0

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        """``sum_i slope(x_i'theta, s_i) x_i + scale z``."""
        noise = scale * self._rng.standard_normal(self.d)
        return self._X.T @ slopes(self._X @ theta, self._sign) + noise
