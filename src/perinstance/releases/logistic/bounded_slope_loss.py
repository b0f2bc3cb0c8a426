r"""The loss of ``PrivateLogisticRegression``: its minimum is at the true log odds, and its slope never exceeds 1/2.

With s = +1 or -1 the class and m = s eta the margin of a score eta = x'theta,

    l(m) = exp(-m)/2  for m >= 0,      (1 - m)/2  for m < 0,      0 <= -l'(m) = exp(-max(m, 0))/2 <= 1/2.

It is convex, and it is logistic regression with other weights: the slope in eta is ``w (p - [s = 1])``, p the logistic
function of eta and ``w = 1/(2 max(p, 1 - p))``, so it is zero on average where p is the probability of s = +1.

Why this one: noise is as large as the largest slope, and the estimate moves by noise over curvature. Every loss of this
kind, with any ``w(eta) > 0``, has the slope bound ``sup w max(p, 1 - p)`` and the average curvature ``w p (1 - p)``. At
a given slope bound the largest w is the one above, at every eta: the curvature is ``min(p, 1 - p)/2`` under a bound of
1/2; the logistic loss itself, scaled to the same bound, has ``p (1 - p)/2``, down to half of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats

#: the largest slope
SLOPE = 0.5
#: slopes are multiples of ``2^-SLOPE_BITS``, a public grid; truncation never makes one steeper
SLOPE_BITS = 40
_FARTHEST = 64.0  # beyond this margin a slope is below the grid
_LOG2 = math.log(2.0)
_TERMS = 14  # of the series of exp on [-log(2)/2, log(2)/2]: the next is below 1e-17


def slopes(eta: Floats, sign: Floats) -> Floats:
    """Return ``-dl/deta`` of each row, on the public grid: ``s exp(-max(s eta, 0))/2``; a row of sign 0 has none.

    The answer to a row depends on nothing but the row: every operation below is correctly rounded, cell by cell,
    whereas the rounding of a library's exp may depend on where in an array a cell stands.
    """
    margin = np.clip(sign * eta, 0.0, _FARTHEST)
    size = np.trunc(np.ldexp(_decay(margin), SLOPE_BITS - 1))
    return sign * np.ldexp(size, -SLOPE_BITS)


def _decay(a: Floats) -> NDArray[np.float64]:
    """``exp(-a)`` for ``0 <= a``, at most 1, by sums and products of floats alone."""
    halvings = np.rint(a / _LOG2)
    rest = halvings * _LOG2 - a
    series = np.ones_like(a)
    for k in range(_TERMS, 0, -1):
        series = 1.0 + rest * series / k
    return np.minimum(np.ldexp(series, -halvings.astype(np.int64)), 1.0)
