"""Sums over the rows of a table on a device, of which it is known how many additions a term goes through.

Rows are taken in chunks, a chunk in runs of ``RUN`` rows. A term goes through at most ``RUN`` additions in the product
of its run, whatever order the library takes, at most ``RUNS`` when the products of a chunk are added, one for the rows
that are left over, and one per chunk. Each addition, fused with a product or not, loses at most half a unit of what it
gives; so a sum is off by at most ``chain u/2`` times the sum of the absolute values (to first order, which is where
chains of a few thousand are). Products of float64 on NVIDIA's matrix units are fused multiply-adds of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perinstance.engines.cuda.device_tables import torch_module

#: rows of one product, and products of one chunk at most
RUN, RUNS = 1024, 512
#: bytes of one temporary of a chunk
CHUNK_BYTES = 1 << 28


def rows_of_chunk(width: int) -> int:
    """Return how many rows are worked on at a time when the widest temporary has so many columns."""
    return RUN * max(1, min(RUNS, CHUNK_BYTES // (8 * RUN * max(width, 1))))


def chain(n: int, width: int) -> float:
    """Return how many additions a term of a sum over n rows goes through at most."""
    return float(min(n, RUN + RUNS + 2 + n // rows_of_chunk(width) + 1))


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


def cross(A: Any, B: Any) -> Any:
    """Return ``A'B``, a sum over rows."""
    whole = len(A) // RUN * RUN
    total = A[whole:].T @ B[whole:]
    if whole:
        left, right = (M[:whole].reshape(-1, RUN, M.shape[1]) for M in (A, B))
        total = total + (left.transpose(1, 2) @ right).sum(dim=0)
    return total


def total(v: Any) -> Any:
    """Return the sum of the entries of a vector."""
    whole = len(v) // RUN * RUN
    return v[whole:].sum() + v[:whole].reshape(-1, RUN).sum(dim=1).sum()


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
    """Return ``sum_i w_i x_i``, of ``[x 1]`` with an intercept."""
    torch = torch_module()
    sums = cross(x, w[:, None])[:, 0]
    return torch.cat([sums, total(w)[None]]) if intercept else sums
