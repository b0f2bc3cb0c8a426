"""Rigorous enclosures: Arb balls at a chosen precision, and the few linear solves a draw needs.

An Arb ball contains the exact result of the operation that made it, whatever the precision; precision decides
only how wide it is. python-flint keeps the precision in one variable per process, so work at a precision holds a lock.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from flint import arb, arb_mat, ctx, fmpq

from perinstance.errors import InvalidInput

Ball = Any  # flint.arb has no type stubs
Matrix = list[list[Ball]]

_lock = threading.RLock()


def _fresh_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that another thread of its parent held
    os.register_at_fork(after_in_child=_fresh_lock)


class Undecided(ArithmeticError):  # noqa: N818 - not an error but an answer: more precision is needed
    """An enclosure was too wide to decide; caught by ``settle``, never seen by users."""


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits; one thread at a time."""
    with _lock:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


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


def cholesky(A: Sequence[Sequence[Ball]]) -> Matrix:
    """Lower factor L of ``A = L L'`` as a list of rows; ``Undecided`` while positivity is not proved."""
    L: Matrix = []
    inverse_pivots: list[Ball] = []
    for i, a in enumerate(A):
        row: list[Ball] = []
        for j in range(i):
            s, other = a[j], L[j]
            for k in range(j):
                s = s - row[k] * other[k]
            row.append(s * inverse_pivots[j])
        s = a[i]
        for value in row:
            s = s - value * value
        if not s > 0:
            raise Undecided
        inverse_pivots.append(s.rsqrt())
        row.append(s * inverse_pivots[i])
        L.append(row)
    return L


def solve_lower(L: Matrix, b: Sequence[Ball]) -> list[Ball]:
    """``L^-1 b``."""
    x: list[Ball] = []
    for row, s in zip(L, b, strict=True):
        for k, value in enumerate(x):
            s = s - row[k] * value
        x.append(s / row[len(x)])
    return x


def solve_upper(L: Matrix, b: Sequence[Ball]) -> list[Ball]:
    """``L'^-1 b``."""
    s = list(b)
    for i in range(len(L) - 1, -1, -1):
        s[i] = s[i] / L[i][i]
        for k in range(i):
            s[k] = s[k] - L[i][k] * s[i]
    return s


def product(A: Sequence[Sequence[Ball]], v: Sequence[Ball]) -> list[Ball]:
    """``A v``."""
    return [entry for (entry,) in (arb_mat(A) * arb_mat([[value] for value in v])).tolist()]
