"""The operation ``gram`` on a device: X'X, X'y and y'y by products of short runs of rows, which are then added.

Rounding. A term goes through at most as many additions as a run has rows, in whatever order the library takes them, at
most ``RUNS`` when the runs of a chunk are added, and one per chunk after that. With runs of 1024 rows that is less than
``2048 + n/1024``, the chain that ``Gram`` charges; longer runs, of 4096, are for tables where n/1024 is more than that
(with fewer rows than additions, n is a bound as well). Products of float64 on NVIDIA's matrix units are fused multiply-
adds of float64, each rounded to nearest (PTX ISA, ``mma`` with ``.f64``): half a unit per addition, as on a
processor. Reduced formats (TF32) exist for float32 alone, and nothing here is float32. Where ``cholesky_qr`` charges
what was measured instead (large tables in good condition), the sums here, by torch on a processor, were off by less
than those that it was measured on: by 1.3 ``u cond`` at most for the factor and 0.9 ``u sqrt(cond) ||y||`` for the
image, over the same kinds of tables.
"""

from __future__ import annotations

from typing import Any

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.models.linear.gram_matrix import Gram
from perinstance.numerics.array_types import Floats

#: rows of one product, in short tables and from ``LONG`` rows on, and products of one chunk at most
SHORT_RUN, LONG_RUN, LONG = 1024, 4096, 1 << 22
RUNS = 1024
#: bytes of a chunk of rows, and of the products that are added at a time
CHUNK_BYTES = 1 << 30
WIDE = 96  #: columns from which the half of X'X below the diagonal is left out; changes only speed


def device_gram(X: Any, y: Any, intercept: bool, W: Floats | None = None) -> Gram:
    """Return the statistic of rows on a device; ``X`` and ``y`` are torch tensors."""
    torch, (n, d) = torch_module(), X.shape
    p, chain = d + int(intercept), 2048.0 + n / 1024.0
    lift = None if W is None else torch.as_tensor(W, device=X.device)
    r = p if lift is None else lift.shape[1]
    run = SHORT_RUN if n < LONG else LONG_RUN
    cross: Any = 0.0
    moment: Any = 0.0
    square: Any = 0.0
    runs = min(CHUNK_BYTES // (8 * run * max(p, r)), CHUNK_BYTES // (8 * r * r), RUNS)
    step = run * max(runs, 1)
    for start in range(0, n, step):
        part = slice(start, start + step)
        Z, t = X[part].to(torch.float64), y[part].to(torch.float64)[:, None]
        Z = torch.cat([Z, torch.ones_like(t)], dim=1) if intercept else Z
        Z = Z if lift is None else Z @ lift
        half = r // 2 // 8 * 8 if r >= WIDE else 0
        below = _products(Z, slice(half, r), Z, slice(half, r), run)
        if half:  # [[A, B], [B', C]]
            above = _products(Z, slice(0, half), Z, slice(0, r), run)
            below = torch.cat([above, torch.cat([above[:, half:].T, below], dim=1)])
        everything = slice(None)
        cross = cross + below
        moment = moment + _products(Z, everything, t, everything, run)
        square = square + _products(t, everything, t, everything, run)
    return Gram(n, cross.cpu().numpy(), moment[:, 0].cpu().numpy(), float(square), chain)


def _products(A: Any, left: slice, B: Any, right: slice, run: int) -> Any:
    """Return ``A'B`` of some columns: of whole runs in one batch of products, and of the rest."""
    whole = len(A) // run * run
    total = A[whole:, left].T @ B[whole:, right]
    if whole:
        rows, others = (M[:whole].reshape(-1, run, M.shape[1]) for M in (A, B))
        total = total + (rows[:, :, left].transpose(1, 2) @ others[:, :, right]).sum(dim=0)
    return total
