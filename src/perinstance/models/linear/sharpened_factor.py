"""A small table's factor, sharpened: ``W'HW`` in balls, from sums with 32 digits, and one step towards the identity.

In floats the bound of what a factor lost grows with the number of rows; here it does not, so that the people of a small
table are charged a few units in the last place, whatever the table.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from flint import arb, arb_mat

from perinstance.folds.sweep import Sweep
from perinstance.models.linear.sums_in_pairs import ColumnSizes, PairedGram, column_sizes, paired_gram
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import UNIT

#: bits: the sums have 104
PRECISION = 160


def sharpened(sweep: Sweep, penalty: Floats, intercept: bool, W: Floats) -> tuple[Floats, Floats, float, float]:
    """Return W, ``W'X'y`` and bounds of the errors of both: ``||W'HW - I||`` and that of the vector."""
    sizes: ColumnSizes = sweep.fold(partial(column_sizes, intercept=intercept))
    sums: PairedGram = sweep.fold(partial(paired_gram, intercept=intercept, exponents=sizes.exponents))
    p = len(W)
    with working_precision(PRECISION):
        balls = sums.balls(sizes.exponents)
        H = arb_mat([[balls[i, j] + (arb(penalty[i]) if i == j else 0) for j in range(p)] for i in range(p)])
        moment = arb_mat([[balls[i, p]] for i in range(p)])
        seen, _ = _seen(H, W)
        step = np.triu(seen, 1) + np.diag(np.diag(seen)) / 2
        W = W - W @ step
        seen, radius = _seen(H, W)
        error = float(np.linalg.norm(np.abs(seen) + radius))
        exact = arb_mat([[arb(v) for v in column] for column in W.T.tolist()]) * moment
        image = np.array([float(exact[j, 0].mid()) for j in range(p)])
        off = [float((exact[j, 0] - arb(image[j])).abs_upper()) for j in range(p)]
    return W, image, error, float(np.linalg.norm(off))


def _seen(H: arb_mat, W: Floats) -> tuple[Floats, Floats]:
    """Return ``W'HW - I`` and its radius."""
    p = len(W)
    lift = arb_mat([[arb(v) for v in row] for row in W.tolist()])
    product = lift.transpose() * (H * lift)
    middle, radius = np.empty((p, p)), np.empty((p, p))
    for i in range(p):
        for j in range(p):
            entry = product[i, j] - int(i == j)
            middle[i, j] = float(entry.mid())
            radius[i, j] = float(entry.rad()) + abs(middle[i, j]) * UNIT
    return middle, radius
