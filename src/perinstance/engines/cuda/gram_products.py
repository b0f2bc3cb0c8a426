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

from perinstance.models.linear.gram_matrix import Gram
from perinstance.numerics.array_types import Floats

#: rows of one product, in short tables and from ``LONG`` rows on, and products of one chunk at most
SHORT_RUN, LONG_RUN, LONG = 1024, 4096, 1 << 22
RUNS = 1024
#: bytes of a chunk of rows, and of the products that are added at a time
CHUNK_BYTES = 1 << 30
#: columns from which the half of X'X below the diagonal is left out
WIDE = 96


def chain(n: int) -> float:
    """Return how many additions a term goes through at most, here and in the CUDA kernels."""
    return 2048.0 + n / 1024.0


def device_gram(X: Any, y: Any, intercept: bool, W: Floats | None = None) -> Gram:
    """Return the statistic of rows on a device; ``X`` and ``y`` are torch tensors."""
    import torch

    from perinstance.engines.cuda import fused_kernels

    n, d = X.shape
    if W is None:
        found = fused_kernels.gram_sums(X, y, intercept)
        if found is not None:
            return _from_sums(n, d + int(intercept), found)
    lift = None if W is None else torch.as_tensor(W, device=X.device)
    r = d + int(intercept) if W is None else W.shape[1]
    cross = torch.zeros((r, r), dtype=torch.float64, device=X.device)
    moment = torch.zeros(r, dtype=torch.float64, device=X.device)
    square = torch.zeros((), dtype=torch.float64, device=X.device)
    run = SHORT_RUN if n < LONG else LONG_RUN
    step = _rows(run, d, r)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        Z, t = X[part].to(torch.float64), y[part].to(torch.float64)
        square += _total(t[:, None], t, run)[0]
        if lift is not None:
            Q = Z @ lift[:d]
            Z = Q + lift[d] if intercept else Q
        inner = Z.shape[1]
        sums, aims = _runs(Z, t, run)
        cross[:inner, :inner] += sums
        moment[:inner] += aims
        if lift is None and intercept:
            ones = torch.ones(len(t), dtype=torch.float64, device=X.device)
            total = _total(Z, ones, run)
            cross[d, :d] += total
            cross[:d, d] += total
            cross[d, d] += len(t)
            moment[d] += _total(t[:, None], ones, run)[0]
    return Gram(n, cross.cpu().numpy(), moment.cpu().numpy(), float(square), chain(n))


def _rows(run: int, d: int, r: int) -> int:
    """Return how many rows a chunk has: neither they nor the products of their runs take more memory than allowed."""
    runs = min(CHUNK_BYTES // (8 * run * max(d, r)), CHUNK_BYTES // (8 * r * r), RUNS)
    return int(run * max(runs, 1))


def _runs(Z: Any, t: Any, run: int) -> tuple[Any, Any]:
    """Return ``Z'Z`` and ``Z't``: of whole runs in one batch of products, and of the rest."""
    import torch

    whole = len(Z) // run * run
    rest = Z[whole:]
    cross = rest.T @ rest
    if whole:
        parts, r = Z[:whole].reshape(-1, run, Z.shape[1]), Z.shape[1]
        turned = parts.transpose(1, 2)
        if r < WIDE:
            cross = cross + (turned @ parts).sum(dim=0)
        else:  # [[A, B], [B', C]]
            half = r // 2 // 8 * 8
            upper = (turned[:, :half] @ parts).sum(dim=0)
            lower = (turned[:, half:] @ parts[:, :, half:]).sum(dim=0)
            cross = cross + torch.cat([upper, torch.cat([upper[:, half:].T, lower], dim=1)])
    return cross, _total(Z, t, run)


def _total(Z: Any, t: Any, run: int) -> Any:
    """Return ``Z't``."""
    whole = len(Z) // run * run
    moment = Z[whole:].T @ t[whole:]
    if whole:
        parts, aims = Z[:whole].reshape(-1, run, Z.shape[1]), t[:whole].reshape(-1, run, 1)
        moment = moment + (parts.transpose(1, 2) @ aims).sum(dim=0)[:, 0]
    return moment


def _from_sums(n: int, p: int, sums: Floats) -> Gram:
    """Take apart ``[X 1 y]'[X 1 y]``."""
    return Gram(n, sums[:p, :p].copy(), sums[:p, p].copy(), float(sums[p, p]), chain(n))
