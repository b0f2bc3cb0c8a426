"""How the CUDA kernels of many columns lay out their sums and factors, replayed here by plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.engines.cuda.gram_products import chain
from perinstance.engines.cuda.row_sums import FEW_COLUMNS, DeviceFactor
from perinstance.engines.cuda.wide_kernels import (
    MOST_BLOCKS,
    MOST_PARTS,
    WARPS,
    WIDEST,
    GramShape,
    placed,
    run_rows,
)
from perinstance.models.linear.row_statistics import RowMap, RowRounding

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")

NOTHING = RowRounding(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)


def test_every_width_has_its_blocks():
    for width in range(FEW_COLUMNS + 1, WIDEST + 1):
        shape = GramShape.of(width)
        assert 16 * shape.pairs >= width > 16 * (shape.pairs - 1)
        assert shape.each <= MOST_BLOCKS and shape.each * (WARPS // shape.groups) >= shape.blocks
        assert shape.rows % (16 * shape.groups) == 0 and shape.shared_bytes <= 227 << 10


def test_no_term_goes_through_more_additions_than_are_charged():
    for parts in (1, 2, 132, 264, MOST_PARTS):
        for n in (1, 1000, 100_000, 300_000, 1 << 22, 10**7, 10**9):
            rows, run = -(-n // parts), run_rows(n, parts) + 15  # sums are put away after whole stages
            inside = min(rows, run)
            assert inside + -(-rows // run) + parts <= chain(n) or n <= chain(n)


def test_sums_find_their_places():
    """Lane 4 g + k has entries (g, 2 k), (g, 2 k + 1), (g + 8, 2 k), (g + 8, 2 k + 1) of each 16 x 8 product."""
    pairs = 5
    S = np.random.default_rng(0).normal(size=(16 * pairs, 16 * pairs))
    S = S + S.T
    sums = np.empty((pairs * (pairs + 1) // 2, 2, 4, 32))
    blocks = [(p, q) for p in range(pairs) for q in range(p, pairs)]
    for b, (p, q) in enumerate(blocks):
        for lane in range(32):
            g, k = divmod(lane, 4)
            for tile in range(2):
                for e, (row, column) in enumerate([(g, 2 * k), (g, 2 * k + 1), (g + 8, 2 * k), (g + 8, 2 * k + 1)]):
                    # row i of A is column 16 p + 2 (i % 8) + i // 8; column j of tile t is 16 q + 2 j + t
                    sums[b, tile, e, lane] = S[16 * p + 2 * (row % 8) + row // 8, 16 * q + 2 * column + tile]
    np.testing.assert_array_equal(placed(sums, pairs), S)


@pytest.mark.parametrize(("d", "intercept"), [(3, False), (20, True), (50, False), (65, True), (100, False)])
def test_fragments_are_the_factor(d, intercept):
    rng = np.random.default_rng(d)
    p = d + intercept
    W, image = np.triu(rng.normal(size=(p, p))), rng.normal(size=p)
    factor = DeviceFactor(RowMap(W, image, None, intercept, NOTHING, True), d, torch.device("cpu"))
    found = factor.fragments.numpy()
    tiles, depth = -(-p // 8), -(-d // 8)
    order = [(s, j) for j in range(tiles) for s in range(depth)]
    if p > FEW_COLUMNS:
        order = [(s, j) for s in range(depth) for j in range(s, tiles)]
    seen = np.zeros((8 * depth, 8 * tiles))
    for at, (s, j) in enumerate(order):
        for lane in range(32):
            g, k = divmod(lane, 4)
            seen[8 * s + 2 * k : 8 * s + 2 * k + 2, 8 * j + g] = found[64 * at + 2 * lane : 64 * at + 2 * lane + 2]
    np.testing.assert_array_equal(seen[:d, :p], W[:d])
    ends = found[64 * len(order) :].reshape(2, -1)
    np.testing.assert_array_equal(ends[1, :p], image)
    np.testing.assert_array_equal(ends[0, :p], W[d] if intercept else np.zeros(p))
