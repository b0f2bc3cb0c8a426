"""Means of columns, and how far each person is from them: no digit is lost to columns far from zero.

The sums are exact, so the mean is known as a pair of floats ``theta + low`` but for ``error``, which is below
``2^-53 |low|``. For a float x the difference ``(x - theta) - low`` has a relative error of at most three halves of a
unit: where ``x - theta`` is small it is exact (Sterbenz), and where it is not, low is nothing beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import pieces
from perinstance.folds.exact_column_sums import UNIT_BITS, ColumnSums
from perinstance.models.interface import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import Charged, charge
from perinstance.numerics.rounding import SMALLEST, UNIT

#: Norms between these have squares that neither overflow nor lose digits; others are scaled by a power of two.
SMALL, LARGE = 2.0**-450, 2.0**500
RESCALING = 600  # that power


@dataclass(frozen=True, slots=True, repr=False)
class MeanFit(ConfidentialFit):
    """Confidential: how many people there are, and the mean of each column."""

    n_people: int
    theta: Floats  #: the mean, rounded once
    low: Floats  #: what that rounding lost, rounded once
    error: Floats  #: no less than what the second rounding lost
    units: tuple[int, ...] = ()  #: the sums, in units of ``2^-1074``


def fit_means(sums: ColumnSums) -> MeanFit:
    """Divide exact sums by the number of rows."""
    one = max(sums.n, 1) << UNIT_BITS
    theta, low, error = (np.empty(len(sums.units)) for _ in range(3))
    for j, total in enumerate(sums.units):
        theta[j] = total / one  # integers are divided with one rounding
        rest = total - _times(one, theta[j])
        low[j] = rest / one
        rest -= _times(one, low[j])
        error[j] = math.nextafter(abs(rest) / one, math.inf) if rest else 0.0
    return MeanFit(sums.n, theta, low, error, sums.units)


def _times(one: int, value: float) -> int:
    """``one * value``, a whole number: one is a multiple of every float's denominator."""
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * (one // denominator)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Norms of people's differences from a centre: ``norm 2^exponent``, but for the share ``rounding``."""

    norm: Floats
    exponent: NDArray[np.int64] | None  #: None is zero, for everybody
    rounding: float
    error: float  #: absolute, of every norm

    @property
    def size(self) -> Floats:
        """The norms as floats; the largest may be infinite."""
        with np.errstate(over="ignore", under="ignore"):
            return self.norm if self.exponent is None else np.ldexp(self.norm, self.exponent)

    def over(self, divisor: float, scale: float) -> Charged:
        """Divide by two numbers > 0 and charge what was lost. Zero is said only where it is zero."""
        mantissa, power = math.frexp(scale)  # scaled once, at the end: nothing on the way leaves the range of floats
        with np.errstate(over="ignore", under="ignore"):
            value = self.norm / divisor
            if self.exponent is None and abs(power) < 400:
                value /= scale
            else:
                value = np.ldexp(value / mantissa, (0 if self.exponent is None else self.exponent) - power)
            error = np.nextafter(np.ldexp(np.nextafter(self.error / divisor / mantissa, np.inf), -power), np.inf)
            error = error if self.error > 0 else 0.0
            lost = value * self.rounding
            lost += error + SMALLEST
            lost[self.norm == 0] = error
        return charge(value, lost)


def gaps_from_zero(X: NDArray, order: int) -> Gaps:
    """Return the norms of x."""
    zero = np.zeros(X.shape[1])
    return gaps_from_mean(MeanFit(0, zero, zero, zero), X, order)


def gaps_from_mean(fit: MeanFit, X: NDArray, order: int) -> Gaps:
    """Return the norms (l1 or l2) of ``x - mean``."""
    theta, low = fit.theta, fit.low
    norm, exponent = np.empty(len(X)), None
    for run in pieces(X, X.shape[1]):
        norm[run] = _norms(X[run], theta, low, order, 0)
    small, large = np.flatnonzero(norm < SMALL), np.flatnonzero(~(norm <= LARGE))
    if len(small) or len(large):  # in other units; norms that are small are zero mostly
        exponent = np.zeros(len(X), dtype=np.int64)
        for rows, power in ((small, RESCALING), (large, -RESCALING)):
            norm[rows], exponent[rows] = _norms(X[rows], theta, low, order, power), -power
    # of a norm: the differences three halves of a unit, the sum of d terms half a unit each, root and divisions
    rounding = (len(theta) + 10) * UNIT
    return Gaps(norm, exponent, rounding, math.fsum(fit.error))  # the l1 norm of errors, no less than the other


def _norms(X: NDArray, theta: Floats, low: Floats, order: int, power: int) -> Floats:
    """Norms of ``2^power ((x - theta) - low)``, column by column: the same order of sums for one row and for many."""
    total = np.zeros(len(X))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for j in range(X.shape[1]):
            x = X[:, j].astype(np.float64)
            if power < 0:  # before the difference, which might overflow; others are small only where it cancels
                gap = (np.ldexp(x, power) - np.ldexp(theta[j], power)) - np.ldexp(low[j], power)
            else:
                gap = np.ldexp((x - theta[j]) - low[j], power)
            total += gap * gap if order == 2 else np.abs(gap)
    return np.sqrt(total) if order == 2 else total
