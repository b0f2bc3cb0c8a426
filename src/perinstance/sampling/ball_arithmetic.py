"""Rigorous enclosures: Arb balls at a chosen precision, and the few linear solves a draw needs.

An Arb ball contains the exact result of the operation that made it, whatever the precision; precision decides
only how wide it is (``numerics.exact_linear_algebra.ball_precision`` sets it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from flint import arb, arb_mat, fmpq

from perinstance.errors import InvalidInput

Ball = Any  # flint.arb has no type stubs
Matrix = Any  # flint.arb_mat
Rows = list[list[Ball]]

SMALL = 24  # rows that are factored entry by entry


class Undecided(ArithmeticError):  # noqa: N818 - not an error but an answer: more precision is needed
    """An enclosure was too wide to decide; caught by ``settle``, never seen by users."""


def exact(value: Any) -> Ball:
    """Enclose a number: floats and integers are exact, a ``Fraction`` is divided at the working precision.

    A function stands for an irrational number: it is called, and encloses it at the working precision.
    """
    if callable(value):
        return value()
    if isinstance(value, arb):
        return value
    if isinstance(value, (int, fmpq)):
        return arb(value)
    if isinstance(value, Fraction):
        return arb(value.numerator) / arb(value.denominator)
    if isinstance(value, Integral):  # numpy integers
        return arb(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        return arb(float(value))
    raise InvalidInput(f"a number to draw around must be finite and real, got a {type(value).__name__} that is not")


def dyadic(mantissa: int, exponent: int) -> Ball:
    """``mantissa 2^exponent``, exactly."""
    return arb((mantissa, exponent))


def inverse_factor(A: Rows) -> Matrix:
    """``W = L^-1`` of the Cholesky factorisation ``A = L L'``, so that ``A^-1 = W'W``.

    ``Undecided`` while A is not proved positive definite. Rows and columns are first scaled by powers of two, which is
    exact, so that columns of very different units lose nothing.
    """
    scales = [dyadic(1, -_exponent(row[i]) // 2) for i, row in enumerate(A)]
    scaled = [[value * (scales[i] * scales[j]) for j, value in enumerate(row)] for i, row in enumerate(A)]
    try:
        W = _inverse_factor(scaled)
    except Undecided:  # products with explicit inverses lose what substitution keeps, where A is next to singular
        W = _factor_by_entries(scaled)
    return arb_mat([[w * s for w, s in zip(row, scales, strict=True)] for row in W])


def product(M: Matrix, v: Sequence[Ball]) -> list[Ball]:
    """``M v``."""
    return (M * arb_mat(len(v), 1, list(v))).entries()


def dot(v: Sequence[Ball], w: Sequence[Ball]) -> Ball:
    """``v'w``."""
    return sum((a * b for a, b in zip(v, w, strict=True)), arb(0))


def _inverse_factor(A: Rows) -> Rows:
    """Split in halves until small: then the work is in matrix products, which Arb does fast.

    ``L21 = A21 W11'``, ``S = A22 - L21 L21'``, ``W21 = -W22 L21 W11``.
    """
    n = len(A)
    if n <= SMALL:
        return _factor_by_entries(A)
    h = n // 2
    first = _inverse_factor([row[:h] for row in A[:h]])
    W11 = arb_mat(first)
    L21 = arb_mat([row[:h] for row in A[h:]]) * W11.transpose()
    last = _inverse_factor((arb_mat([row[h:] for row in A[h:]]) - L21 * L21.transpose()).tolist())
    below = (-(arb_mat(last) * (L21 * W11))).tolist()
    zeros = [arb(0)] * (n - h)
    return [row + zeros for row in first] + [left + right for left, right in zip(below, last, strict=True)]


def _factor_by_entries(A: Rows) -> Rows:
    L: Rows = []
    W: Rows = []
    for i, a in enumerate(A):
        row: list[Ball] = []
        for j in range(i):
            s = a[j]
            for k in range(j):
                s = s - row[k] * L[j][k]
            row.append(s * W[j][j])  # W_jj = 1/L_jj
        s = a[i]
        for value in row:
            s = s - value * value
        if not s > 0:
            raise Undecided
        pivot = s.rsqrt()
        inverse = []
        for j in range(i):
            s = row[j] * W[j][j]
            for k in range(j + 1, i):
                s = s + row[k] * W[k][j]
            inverse.append(-s * pivot)
        L.append(row)
        W.append(inverse + [pivot] + [arb(0)] * (len(A) - i - 1))
    return W


def _exponent(value: Ball) -> int:
    """Return e with ``|value|`` near ``2^e``."""
    mantissa, exponent = value.mid().man_exp()
    return int(exponent) + int(abs(int(mantissa))).bit_length()
