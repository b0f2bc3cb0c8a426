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


class LossesInPairs(NamedTuple):
    """The same with nu and m^2 as pairs of floats."""

    nu: Any
    nu_low: Any
    m2: Any
    m2_low: Any
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


class Laid(NamedTuple):
    """How a contour was laid: the place t that it goes through, its unit w, its bend and its step."""

    t: Any
    w: Any
    bend: Any
    step: Any


class Inverted(NamedTuple):
    """An inversion: ``delta = e^base (w/pi) total`` (left of 0: 1 - delta), n nodes kept, a relative error.

    ``-d log delta/d epsilon = t + w moved/total``. The nodes lie on the hyperbola of ``bend``, in steps of ``step``.
    """

    base: Any
    w: Any
    n: Any
    error: Any
    total: Any
    moved: Any
    bend: Any
    step: Any


class Profiled(NamedTuple):
    """A logarithm of delta or of 1 - delta, minus its slope in epsilon, its error, the nodes kept and their contour."""

    log: Any
    rate: Any
    error: Any
    n: Any
    laid: Any


class Tolerance(NamedTuple):
    """By how much of itself an epsilon may be above the least, and whether crowds may be answered in groups."""

    near: float = PROMISED
    groups: bool = False


EXACT = Tolerance()
