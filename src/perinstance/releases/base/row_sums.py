"""Sums over the columns of a row whose bits follow from the row alone.

numpy adds the columns of a table one after the other, or pairwise, or in pieces of a buffer, depending on how many rows
there are and how they lie; a matrix product has orders of its own. A length that decides how much of somebody's row is
used, or what they are charged, would then depend on who else is there. Here columns are added one after the other,
each operation rounded once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import pieces
from perinstance.numerics.array_types import Floats

HALVINGS = 8  # at most: a row of a sixteenth of the bound


def squared_lengths(rows: NDArray) -> Floats:
    """Return ``||x||^2`` of each row in float64; it loses at most one unit in the last place per column.

    >>> squared_lengths(np.array([[3.0, 4.0], [0.0, 2.0]])).tolist()
    [25.0, 4.0]
    """
    squares = np.zeros(len(rows))
    with np.errstate(over="ignore", under="ignore"):
        for run in pieces(rows, rows.shape[1]):
            part = squares[run]
            for column in rows[run].T:
                wide = np.asarray(column, dtype=np.float64)
                part += wide * wide
    return squares


def lengths(rows: NDArray) -> Floats:
    """Return ``||x||`` of each row; the squares must neither overflow nor underflow."""
    return np.sqrt(squared_lengths(rows))


def products(rows: NDArray, theta: Floats) -> Floats:
    """Return ``x'theta`` of each row."""
    sums = np.zeros(len(rows))
    for run in pieces(rows, rows.shape[1]):
        part = sums[run]
        for column, coefficient in zip(rows[run].T, theta, strict=True):
            part += column * coefficient
    return sums


def halvings(rows: Floats, bound: float) -> Floats:
    """Return ``h - 4`` for every row: h halvings of ``bound^2`` are still no shorter than the row, 0 <= h <= 8.

    It is a logarithm that every machine agrees on, because squares are compared with powers of two of the bound.

    >>> halvings(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), 2.0).tolist()
    [-4.0, -3.0, 4.0]
    """
    steps = np.ldexp(bound * bound, -np.arange(1, HALVINGS + 1))
    return (squared_lengths(rows)[:, None] <= steps).sum(axis=1) - float(HALVINGS // 2)
