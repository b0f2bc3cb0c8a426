"""What the kernels of this room are given and give back, by name: a person's losses, places, contours, scratch.

Their signatures are made of these records, so ``numba_compile`` stamps this file along with theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perinstance.numerics.rounding import PROMISED


class Losses(NamedTuple):
    """The independent losses of one person; of everybody, with one more axis in front.

    Gaussian coordinates (nu, v, m^2, levels), Laplace distances and how often each occurs.
    """

    nu: Any
    v: Any
    m2: Any
    levels: Any
    lap: Any
    count: Any


class LinePlace(NamedTuple):
    """A place t on the real line, and its distance ``a = 1 - t top`` to the branch point of the largest nu."""

    t: Any
    a: Any
    top: Any


class ContourScratch(NamedTuple):
    """Room for the nodes of a contour and their weights, and how many exponentials half the Laplace losses may make."""

    where: Any
    weight: Any
    terms: Any


class Inverted(NamedTuple):
    """An inversion: ``delta = e^base (w/pi) total`` (left of 0: 1 - delta), n nodes kept, a relative error.

    ``-d log delta/d epsilon = t + w moved/total``.
    """

    base: Any
    w: Any
    n: Any
    error: Any
    total: Any
    moved: Any


class Profiled(NamedTuple):
    """A logarithm of delta or of 1 - delta, minus its slope in epsilon, its error, and the contour.

    n nodes were kept, from which epsilon can be moved (0: it cannot), around the place t in units w.
    """

    log: Any
    rate: Any
    error: Any
    n: Any
    t: Any
    w: Any


class Tolerance(NamedTuple):
    """By how much of itself an epsilon may be above the least, and whether crowds may be answered in groups."""

    near: float = PROMISED
    groups: bool = False


EXACT = Tolerance()
