"""The kernels for more columns than a warp's registers hold: X'X and X'y, leverages and predictions of a triangular W.

One block runs on each multiprocessor. In ``gram_wide`` its eight warps share out the 16 x 16 blocks of the upper half
of ``[X 1 y]'[X 1 y]``, which all stay in registers, and rows go through shared memory once; with fewer columns there
are groups of warps, each with its own rows. In ``sum_wide`` the triangle of W lies in shared memory, and a warp holds
the images of sixteen rows. Half of the multiplications of two full products are saved in both.

Rounding is what ``gram_products`` says. A term of a sum goes through at most ``run`` additions in registers, one for
each time that these are added to the group's part, and one per group at the end. ``run_rows`` chooses ``run`` such that
all together are at most ``2048 + n/1024``, which ``Gram`` is told.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.engines.cuda.compiled_kernels import SHARED_BYTES, compiled, launch, processors
from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.row_sums import DeviceFactor
from perinstance.numerics.array_types import Floats

#: columns of [X 1 y], and of W, whose sums fit the registers of a multiprocessor
WIDEST = 208
#: warps of a block that adds up X'X, and blocks of 16 x 16 that one of them can hold
WARPS, MOST_BLOCKS = 8, 12
STAGES = 4
#: parts that are added in the end, rows that are added up in registers, and from how many rows of the table on
MOST_PARTS, LONG_RUN, LONG = 900, 4096, 1 << 22
#: threads of a block that multiplies by W: fewer where each holds many sums
ROW_THREADS, MANY_TILES = 256, 15


@dataclass(frozen=True, slots=True)
class GramShape:
    """How the warps of a block share the work."""

    pairs: int
    groups: int
    each: int
    rows: int

    @classmethod
    def of(cls, width: int) -> GramShape:
        """Choose the groups that leave the fewest warps without work."""
        pairs = -(-width // 16)
        blocks = pairs * (pairs + 1) // 2
        fitting = [g for g in (1, 2, 4) if -(-blocks // (WARPS // g)) <= MOST_BLOCKS]
        groups = min(fitting, key=lambda g: (-(-blocks // (WARPS // g)) / g, g))
        return cls(pairs, groups, -(-blocks // (WARPS // groups)), 16 * groups)

    @property
    def blocks(self) -> int:
        """Blocks of 16 x 16 on and above the diagonal."""
        return self.pairs * (self.pairs + 1) // 2

    @property
    def stage(self) -> int:
        """Doubles of a stage."""
        return self.rows * (16 * self.pairs + 4)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a block takes."""
        return 8 * STAGES * self.stage


def run_rows(n: int, parts: int) -> int:
    """Return how many rows may be added up in registers, where there are so many parts in the end."""
    return LONG_RUN if n >= LONG else 2048 - parts - 64


def gram_wide(X: Any, y: Any, intercept: bool) -> Floats:
    """Return ``[X 1 y]'[X 1 y]``."""
    torch = torch_module()
    d, width = X.shape[1], X.shape[1] + int(intercept) + 1
    shape = GramShape.of(width)
    given = {"D": d, "ONES": int(intercept), "PAIRS": shape.pairs, "GROUPS": shape.groups, "EACH": shape.each}
    given |= {"ROWS": shape.rows, "STAGES": STAGES, "THREADS": 32 * WARPS, "OUT_TILES": 1}
    shared = shape.shared_bytes
    kernel = compiled("gram_wide", X.device.index or 0, ("wide_kernels",), tuple(given.items()), shared)
    count = max(1, min(processors(X.device), MOST_PARTS // shape.groups, -(-len(X) // shape.rows)))
    parts = count * shape.groups
    out = torch.zeros((parts, shape.blocks, 2, 4, 32), dtype=torch.float64, device=X.device)
    run = np.int32(run_rows(len(X), parts))
    pointers = (X.data_ptr(), y.data_ptr(), np.int64(len(X)), run, out.data_ptr())
    launch(kernel, X, count, 32 * WARPS, pointers, shared)
    return placed(out.sum(dim=0).cpu().numpy(), shape.pairs)[:width, :width]


@functools.cache
def _places(pairs: int) -> tuple[Any, Any]:
    """Return row and column of each sum: of block (p, q), tile i, entry e and lane 4 g + k."""
    p, q = np.triu_indices(pairs)
    i, e, lane = np.arange(2)[:, None, None], np.arange(4)[:, None], np.arange(32)
    g, k = lane >> 2, lane & 3
    row = 2 * g + (e >> 1) + 0 * i
    column = 2 * (2 * k + (e & 1)) + i
    return 16 * p[:, None, None, None] + row, 16 * q[:, None, None, None] + column


def placed(sums: Floats, pairs: int) -> Floats:
    """Put the kernel's sums, (blocks, 2, 4, 32), into a symmetric matrix."""
    row, column = _places(pairs)
    whole = np.zeros((16 * pairs, 16 * pairs))
    whole[row, column] = sums
    return np.triu(whole) + np.triu(whole, 1).T


def fits(factor: DeviceFactor) -> bool:
    """Tell whether ``sum_wide`` has room for the factor."""
    d, rank = factor.inner_shape
    return factor.rows_map.triangular and max(d, rank) <= WIDEST and _shared(d, rank) <= SHARED_BYTES


def _tiles(d: int, rank: int) -> tuple[int, int]:
    return -(-rank // 8), -(-d // 8)


def _shared(d: int, rank: int) -> int:
    tiles, depth = _tiles(d, rank)
    return 16 * (32 * (depth * tiles - depth * (depth - 1) // 2) + 8 * tiles)


def sum_wide(factor: DeviceFactor, X: Any, m: Any, predicted: Any) -> None:
    """Write leverage and prediction of each row."""
    d, rank = factor.inner_shape
    tiles, depth = _tiles(d, rank)
    threads = ROW_THREADS if tiles > MANY_TILES else 384
    given = {"D": d, "ONES": int(factor.rows_map.intercept), "OUT_TILES": tiles, "THREADS": threads}
    given |= {"PAIRS": 1, "GROUPS": 1, "EACH": 1, "ROWS": 8, "STAGES": 2}
    shared = _shared(d, rank)
    kernel = compiled("sum_wide", X.device.index or 0, ("wide_kernels",), tuple(given.items()), shared)
    blocks = min(processors(X.device), -(-len(X) // 16))
    fragments = factor.fragments
    pointers = (X.data_ptr(), np.int64(len(X)), fragments.data_ptr(), m.data_ptr(), predicted.data_ptr())
    launch(kernel, X, blocks, threads, pointers, shared)
