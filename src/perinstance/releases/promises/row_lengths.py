"""How long a row is, as a whole number: how often the declared bound of its squared norm can be halved.

It is a logarithm that every machine agrees on: squares are added one column after the other, each operation rounded
once, and compared with powers of two of the bound. So it is a function of the row alone.
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats

HALVINGS = 8  # at most: a row of a sixteenth of the bound


def halvings(rows: Floats, bound: float) -> Floats:
    """Return ``h - 4`` for every row: h halvings of ``bound^2`` are still no shorter than the row, 0 <= h <= 8.

    >>> halvings(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), 2.0).tolist()
    [-4.0, -3.0, 4.0]
    """
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += column * column
    steps = np.ldexp(bound * bound, -np.arange(1, HALVINGS + 1))
    return (squares[:, None] <= steps).sum(axis=1) - float(HALVINGS // 2)
