"""The smallest eigenvalue of an exact symmetric matrix, enclosed: the center of AdaOPS's noisy eigenvalue.

Above by a Rayleigh quotient, ``lambda_min <= v'Hv / v'v`` for any v; below by a Cholesky factorisation: ``H - t I``
positive definite proves ``t < lambda_min``. Both hold for any v and t, so the guess decides only the width.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from flint import arb, arb_mat, ctx

from perinstance.checked_numbers import positive
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Rows, Undecided, dot, dyadic, inverse_factor, product
from perinstance.sampling.exact_gram import NormalEquations
from perinstance.sampling.ideal_laws import Noisy

GUARD = 64  # bits of the working precision that the proofs may lose
FARTHEST = 2  # power of two of the norm, below which every matrix is proved
ROUNDS = 16  # one is the rule; clustered small eigenvalues need a few


def noisy_eigenvalue(equations: NormalEquations, scale: float) -> Noisy:
    """Return ``lambda_min(H) + scale z``, an ideal distribution for ``draw``: two factorisations, and an iteration."""
    return Noisy([partial(smallest_eigenvalue, equations)], positive("scale", scale), work=3 * equations.d**3)


def smallest_eigenvalue(equations: NormalEquations) -> Ball:
    """Enclose ``lambda_min(H)`` to about ``||H|| 2^(64 - p)`` at working precision p; ``Undecided`` when it cannot."""
    H = equations.matrix()
    # a floating-point eigenpair, and a power of two above the spectral norm: the largest entry of a positive
    # semidefinite matrix is on its diagonal
    bits = max(int(abs(entry)).bit_length() for entry in equations.H.diagonal())
    values, vectors = np.linalg.eigh([[int(entry) / (1 << bits) for entry in row] for row in equations.H])
    unit, v = equations.exponent + bits, [arb(float(entry)) for entry in vectors[:, 0]]
    norm = dyadic(len(H), unit)
    _, W = _proved_below(H, arb(float(values[0])) * dyadic(1, unit), norm, -48)
    for _ in range(ROUNDS):
        for _ in range(4):  # the error falls by (lambda_1 - t)/(lambda_2 - t) in each step, t the shift of W
            v = [value.mid() for value in product(W.transpose(), product(W, v))]
            largest = max(abs(value) for value in v)
            v = [(value / largest).mid() for value in v]
        upper = (dot(v, product(arb_mat(H), v)) / dot(v, v)).upper()  # the Rayleigh quotient
        # where the proof does not come as close as wished, W still is a better shift
        lower, W = _proved_below(H, upper, norm, GUARD - ctx.prec)
        if upper - lower < norm * arb((1, GUARD + 1 - ctx.prec)):
            return lower.union(upper)
    raise Undecided


def _proved_below(H: Rows, t: Ball, norm: Ball, closest: int) -> tuple[Ball, Matrix]:
    """Return a number below all eigenvalues, and the factor that proves it.

    It is ``t - norm 2^e`` with the smallest e >= ``closest`` that can be proved: tried first, then bisected, because a
    cluster of tiny eigenvalues (collinear columns, but for their rounding) is only told apart by a close shift.
    """

    def proved(e: int) -> tuple[Ball, Matrix]:
        shift = (t - norm * arb((1, e))).lower()
        shifted = [[value - shift if i == j else value for j, value in enumerate(row)] for i, row in enumerate(H)]
        return shift, inverse_factor(shifted)

    try:
        return proved(closest)
    except Undecided:
        low, high = closest, FARTHEST
    found = proved(high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            found, high = proved(middle), middle
        except Undecided:
            low = middle
    return found
