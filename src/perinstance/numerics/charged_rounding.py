"""What rounding may have taken from a person's number is added to it, and decides the label: the one place for both.

Whoever computes a movement, leverage or residual (linear, mean, kernel and smooth models, groups, outsiders and
insiders alike) bounds what was lost, absolutely, and asks here. The answer is never below ``value``'s true
counterpart, and it is ``exact`` only if it is at most ``EXACT_SHARE`` above: twice what was charged, since the value
may have been too large by as much already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import EXACT_PARAMETER, EXACT_SHARE, SMALLEST, TINY, UNIT

#: codes of labels, as `perinstance.pairs` keeps them in columns
EXACT, UPPER, ESTIMATE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Charged:
    """Numbers rounded away from zero, and whether that took too much to call them exact."""

    value: Floats
    kind_code: NDArray[np.uint8]  #: 0 exact, 1 upper


@kernel
def charged_too_much(value, lost):  # pragma: no cover - compiled
    """Tell whether ``|value| + lost`` is only an upper bound; a NaN is one, and so is what left the range of floats."""
    return not 2.0 * lost <= EXACT_SHARE * abs(value) or (lost > 0.0 and not TINY <= abs(value) < np.inf)


def parameters_too_rough(value: Floats, lost: Floats) -> NDArray[np.bool_]:
    """Tell the same of one of the parameters that a loss is made of, which may count twice and among others."""
    return np.asarray(~(lost <= EXACT_PARAMETER * np.abs(value)))


def charge(value: ArrayLike, lost: ArrayLike) -> Charged:
    """Add ``lost`` (absolute, at least zero) to each ``|value|``, keeping its sign, and label the sum.

    A value of infinity stays, and is exact where nothing was lost: whoever says so knows that the estimate does not
    exist without the person. One that overflowed has lost something, and is an upper bound; a NaN says nothing, and the
    answer is an upper bound of infinity.
    """
    value, lost = np.asarray(value, dtype=np.float64), np.asarray(lost, dtype=np.float64)
    shape = np.broadcast_shapes(value.shape, lost.shape)
    # copies: whoever asks whether a broadcast array can be written is warned
    value, lost = (part if part.shape == shape else np.full(shape, part) for part in (value, lost))
    raised, codes = np.empty(shape), np.empty(shape, dtype=np.uint8)
    _charge_each(np.ravel(value), np.ravel(lost), raised.reshape(-1), codes.reshape(-1))
    return Charged(raised, codes)


def in_units(value: Floats, unit: float, kind_code: NDArray[np.uint8]) -> Charged:
    """Divide by the scale of the noise; what underflows is the smallest float above zero, and an upper bound."""
    with np.errstate(over="ignore", under="ignore"):
        found = value / unit
    lost = (found < TINY) & (value > 0.0)
    codes = np.where(lost, np.maximum(kind_code, np.uint8(UPPER)), kind_code)
    return Charged(np.where(lost, found + SMALLEST, found), codes)


@kernel
def _charge_each(value, lost, raised, codes):  # pragma: no cover - compiled
    for i in range(len(value)):
        size, most = abs(value[i]), abs(value[i]) + lost[i]
        most = size if lost[i] == 0.0 else most + most * UNIT + SMALLEST  # at least the next float
        upper = charged_too_much(value[i], lost[i]) or (lost[i] > 0.0 and most == np.inf)
        raised[i] = math.copysign(np.inf if np.isnan(most) else most, value[i])
        codes[i] = UPPER if upper else EXACT


def raised_from_underflow(values: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Return numbers that are not below the normal floats where they are positive in truth, and zero elsewhere.

    Squares of what is shorter than 1e-154 keep few digits, or none: a divergence of zero would say that nothing was
    lost.
    """
    return np.where(positive, np.maximum(values, TINY), 0.0)
