"""Sums over the rows of a table on a device, of which it is known how many additions a term goes through.

Rows are taken in chunks, a chunk in runs. A term goes through at most as many additions as its run has rows in the
product of the run, whatever order the library takes; products of runs are added in pairs, pairs of pairs and so on, as
are chunks. Each addition, fused with a product or not, loses at most half a unit of what it gives, so a sum is off by
at most ``chain u/2`` times the sum of the absolute values (to first order, which is where chains of a thousand are).
Products of float64 on NVIDIA's matrix units are fused multiply-adds of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.numerics.array_types import Floats

#: rows of one product for sums of matrices, and for sums of vectors: those are charged to people, and take little room
RUN, SHORT_RUN = 1024, 128
#: products of matrices of one chunk at most
RUNS = 512
#: bytes of one temporary of a chunk
CHUNK_BYTES = 1 << 28


def rows_of_chunk(width: int) -> int:
    """Return how many rows are worked on at a time when the widest temporary has so many columns."""
    return RUN * max(1, min(RUNS, CHUNK_BYTES // (8 * RUN * max(width, 1))))


def chain(n: int, width: int, run: int) -> float:
    """Return how many additions a term of a sum over n rows goes through at most, in runs of so many rows."""
    rows = rows_of_chunk(width)
    runs, parts = -(-min(n, rows) // run), -(-n // rows)
    return float(min(n, run + runs.bit_length() + 1 + 2 * parts.bit_length()))


class PairedSum:
    """A sum of tensors that come one by one, in pairs of equal numbers of them: few additions for each."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []

    def add(self, part: Any) -> None:
        """Take the next one; k of them go through ``log2 k`` additions each."""
        rank = 0
        while self._parts and self._parts[-1][0] == rank:
            part = self._parts.pop()[1] + part
            rank += 1
        self._parts.append((rank, part))

    @property
    def total(self) -> Any:
        """The sum; what is left are less than ``log2 k + 1`` parts."""
        found = self._parts[-1][1]
        for _, part in reversed(self._parts[:-1]):
            found = part + found
        return found

    def on_host(self) -> Floats:
        """Return the sum as an array of the host."""
        return np.array(self.total.cpu().numpy(), dtype=np.float64)


def chunks(X: Any, y: Any, width: int) -> Iterator[tuple[Any, Any]]:
    """Hand out rows and targets in float64, some rows at a time."""
    torch = torch_module()
    step = rows_of_chunk(width)
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        yield X[part].to(torch.float64), y[part].to(torch.float64)


def all_finite(*tensors: Any) -> bool:
    """Tell whether all numbers are finite, without a temporary as large as a table."""
    torch = torch_module()
    rows = (part for one in tensors for part in one.split(rows_of_chunk(one[:1].numel())))
    return all(bool(torch.isfinite(part).all()) for part in rows)


def cross(A: Any, B: Any, run: int) -> Any:
    """Return ``A'B``, a sum over the rows of one chunk."""
    whole = len(A) // run * run
    total = A[whole:].T @ B[whole:]
    if whole:
        left, right = (M[:whole].reshape(-1, run, M.shape[1]) for M in (A, B))
        total = _in_pairs(left.transpose(1, 2) @ right) + total
    return total


def total(v: Any, run: int) -> Any:
    """Return the sum of the entries of a vector of one chunk."""
    whole = len(v) // run * run
    rest = v[whole:].sum()
    return _in_pairs(v[:whole].reshape(-1, run).sum(dim=1)) + rest if whole else rest


def _in_pairs(parts: Any) -> Any:
    """Add tensors that lie behind each other: the first half to the second, until one is left."""
    torch = torch_module()
    while (half := len(parts) // 2) > 0:
        rest = parts[2 * half :]
        parts = parts[:half] + parts[half : 2 * half]
        parts = torch.cat([parts, rest]) if len(rest) else parts
    return parts[0]


def row_squares(x: Any) -> Any:
    """Return the squared length of each row, added in pairs: what it loses hardly grows with the columns."""
    return _in_pairs(x.square().T)


def there(array: Any, like: Any) -> Any:
    """Copy numbers of the host to where a tensor is, in float64."""
    torch = torch_module()
    return torch.tensor(array, dtype=torch.float64, device=like.device)


def predictor(x: Any, theta: Any, intercept: bool) -> Any:
    """``x theta``, of ``[x 1]`` with an intercept; theta may be several columns."""
    return x @ theta[:-1] + theta[-1] if intercept else x @ theta


def weighted(x: Any, w: Any, intercept: bool) -> Any:
    """Return the rows, of ``[x 1]`` with an intercept, each times a number."""
    torch = torch_module()
    if not intercept:
        return x * w[:, None]
    out = torch.empty((x.shape[0], x.shape[1] + 1), dtype=torch.float64, device=x.device)
    torch.mul(x, w[:, None], out=out[:, :-1])
    out[:, -1] = w
    return out


def weighted_total(x: Any, w: Any, intercept: bool) -> Any:
    """Return ``sum_i w_i x_i`` of one chunk, of ``[x 1]`` with an intercept, in short runs."""
    torch = torch_module()
    sums = cross(x, w[:, None], SHORT_RUN)[:, 0]
    return torch.cat([sums, total(w, SHORT_RUN)[None]]) if intercept else sums
