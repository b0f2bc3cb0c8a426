"""What rounding may have taken from a person's number is added to it, and decides the label: the one place for both.

Whoever computes a movement, leverage or residual (linear, mean, kernel and smooth models, groups, outsiders and
insiders alike) bounds what was lost, absolutely, and asks here. The answer is never below ``value``'s true
counterpart, and it is ``exact`` only if at most ``EXACT_SHARE`` of it was charged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import EXACT_SHARE

#: codes of labels, as `perinstance.pairs` keeps them in columns
EXACT, UPPER, ESTIMATE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Charged:
    """Numbers rounded away from zero, and whether that took too much to call them exact."""

    value: Floats
    kind_code: NDArray[np.uint8]  #: 0 exact, 1 upper


@kernel
def charged_too_much(value, lost):  # pragma: no cover - compiled
    """Tell whether ``|value| + lost`` is only an upper bound; a NaN is one."""
    return not lost <= EXACT_SHARE * abs(value)


def charge(value: ArrayLike, lost: ArrayLike) -> Charged:
    """Add ``lost`` (absolute, at least zero) to each ``|value|``, keeping its sign, and label the sum.

    A value of infinity stays, and is exact where nothing was lost: whoever says so knows that the estimate does not
    exist without the person. A NaN says nothing, so the answer is an upper bound of infinity.
    """
    value, lost = np.asarray(value, dtype=np.float64), np.asarray(lost, dtype=np.float64)
    lost = np.where(np.isnan(value) | np.isnan(lost), np.inf, lost)
    value = np.nan_to_num(value, nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        raised = np.where(lost > 0, np.nextafter(np.abs(value) + lost, np.inf), np.abs(value))
        upper = ~(lost <= EXACT_SHARE * np.abs(value)) | (np.isinf(raised) & (lost > 0))
    return Charged(np.copysign(raised, value), np.where(upper, UPPER, EXACT).astype(np.uint8))
