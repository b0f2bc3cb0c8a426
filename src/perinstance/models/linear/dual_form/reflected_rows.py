"""The rows of a table with the intercept projected out.

An intercept is not penalised. A Householder reflection takes the ones to the first axis; the other n - 1 rows of the
reflected table are the whole problem, and person i's unit vector ``e_i`` becomes the reflected one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT

#: columns that are multiplied at once: a sum of all of them in some order would lose more
RUN = 128


def product(A: Floats, B: Floats) -> Floats:
    """Return ``A B'`` as a sum of products of few columns each: a term goes through ``depth`` operations at most."""
    total = A[:, :RUN] @ B[:, :RUN].T
    for start in range(RUN, A.shape[1], RUN):
        total += A[:, start : start + RUN] @ B[:, start : start + RUN].T
    return total


def depth(p: int) -> float:
    """Return how many units in the last place of ``|A||B|'`` the product over p columns loses at most."""
    return float(min(p, RUN + p // RUN + 1) + 2)


@dataclass(frozen=True, slots=True)
class ReflectedRows:
    """The rows, and the unit vectors of people in the same coordinates."""

    X: Floats  #: (m, p), m = n, or n - 1 with an intercept
    y: Floats
    units: Floats | None  #: (m, n); None is the identity
    lost: Floats | None  #: (m, p) what the reflection may have taken from X; None without one

    @classmethod
    def of(cls, X: Floats, y: Floats, intercept: bool) -> ReflectedRows:
        """Reflect by ``I - 2 v v' / v'v``, v = ones + sqrt(n) e_1, and leave the first row out."""
        if not intercept:
            return cls(X, y, None, None)
        n = len(X)
        v = np.ones(n)
        v[0] += np.sqrt(n)
        share = 2 * v / (2 * (n + np.sqrt(n)))
        units = np.eye(n) - np.outer(v, share)
        lost = HALF_UNIT * np.abs(X) + (n + 8) * HALF_UNIT * np.outer(v, share @ np.abs(X))
        return cls((X - np.outer(v, share @ X))[1:], (y - v * (share @ y))[1:], units[1:].copy(), lost[1:])

    def backward_error(self, rows: Floats, lower: Floats, d: Floats) -> Floats:
        """Return ``B d``; ``rows`` and ``lower`` are ``|X|`` and ``|L|``."""
        m, p = rows.shape
        seen = rows.T @ d
        total = depth(p) * HALF_UNIT * (rows @ seen) + 3 * (m + 2) * HALF_UNIT * (lower @ (lower.T @ d))
        if self.lost is not None:
            total += rows @ (self.lost.T @ d) + self.lost @ seen
        return np.asarray(total)
