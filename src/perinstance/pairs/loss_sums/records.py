"""What the kernels of this room are given and give back, by name: a person's losses, places, contours, scratch.

Their signatures are made of these records, so ``numba_compile`` stamps this file along with theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple


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
