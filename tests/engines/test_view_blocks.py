"""How a table in memory is cut, and where the numbers of its blocks are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perinstance.data.source import FEW_BYTES, SHARED_BLOCKS, VIEW_BYTES, rows_per_view


@given(st.integers(1, 10**9), st.integers(1, 3000))
def test_blocks_are_equal_neither_tiny_nor_huge_and_many_enough_to_share(n, d):
    rows = rows_per_view(n, d)
    blocks, size = -(-n // rows), 8 * n * (d + 1)
    assert rows >= 1 and rows * 8 * (d + 1) <= VIEW_BYTES + 8 * (d + 1)
    if size > SHARED_BLOCKS * FEW_BYTES and n > 10_000:
        assert blocks >= SHARED_BLOCKS * 0.99
    assert blocks <= max(1, -(-size // FEW_BYTES))
