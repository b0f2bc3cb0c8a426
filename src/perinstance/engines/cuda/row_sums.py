"""The operation "row statistics of a factor" on a device: leverage, residual and length of each row, rounded outwards.

The formulas, limits and labels are those of ``models/linear/row_statistics.py``, line by line, on torch tensors. Its
bounds hold here: each entry of ``q = x W`` and each sum over q is a sum of p products, of which any order and any use
of fused multiply-adds loses at most ``p u`` of the absolute values; quotients and roots of float64 are rounded
correctly on CUDA devices as on processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.models.linear.row_statistics import HARD, HARD_LEVERAGE, ROUGH_RESIDUAL, RowMap
from perinstance.numerics.rounding import EXACT_PARAMETER, LARGEST_SQUARE, TINY, UNDERFLOWN, UNIT


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """One entry per row, on the device; the same as ``Without``, but for a code of its own per cause."""

    leverage: Any  #: mu
    residual: Any  #: r
    length: Any | None  #: None when the fit has no norm
    share: Any | None  #: None when the fit has no norm
    code: Any  #: 0 known, ``ROUGH_RESIDUAL`` or ``HARD``


class DeviceFactor:
    """What rows are multiplied by, copied to a device once."""

    def __init__(self, rows_map: RowMap, n_features: int, device: Any) -> None:
        import torch

        def there(array: Any) -> Any:
            return torch.tensor(np.ascontiguousarray(array), dtype=torch.float64, device=device)

        W, norm = rows_map.W, rows_map.norm
        self.rows_map = rows_map
        self.inner = there(W[:n_features])
        self.offset = there(W[n_features]) if rows_map.intercept else None
        self.image = there(rows_map.image)
        self.weights = there(norm.weights) if norm is not None and norm.lift is None else None
        self.lift = there(norm.lift) if norm is not None and norm.lift is not None else None
        cost = rows_map.rounding.column_cost
        self.column_cost = None if cost is None else there(cost)

    def image_of(self, X: Any) -> Any:
        """Return ``q = x W``, of ``[x 1]`` with an intercept."""
        import torch

        return X @ self.inner if self.offset is None else torch.addmm(self.offset, X, self.inner)

    def sums(self, X: Any) -> tuple[Any, Any, Any]:
        """Return ``sum q_j^2``, ``sum q_j image_j`` and the squared length (None without a norm) of each row."""
        q = self.image_of(X)
        predicted = q @ self.image
        square = None
        if self.lift is not None:
            v = q @ self.lift
            square = v.mul_(v).sum(dim=1)
        q *= q
        if self.weights is not None:
            square = q @ self.weights
        return q.sum(dim=1), predicted, square

    def share_of_worst(self, X: Any, m: Any) -> Any:
        """Return what of the worst row's error each row has; see ``row_statistics``."""
        if self.column_cost is None:
            return 1.0
        size = X.abs() @ self.column_cost[: X.shape[1]]
        if self.offset is not None:
            size = size + self.column_cost[-1]
        return (size / m.clamp(min=TINY).sqrt()).clamp(max=1.0)


def row_answers(factor: DeviceFactor, X: Any, y: Any, inside: bool, floor: float) -> DeviceStatistics:
    """Answer for some rows: mu, r, the length and whether they are known well enough."""
    import torch

    m, predicted, square = factor.sums(X)
    part = factor.share_of_worst(X, m)
    limits = factor.rows_map.rounding
    e = y - predicted
    away = limits.leverage + part * limits.leverage_row
    root = m.sqrt() * (1.0 + away)
    lost = root * (limits.residual + part * limits.residual_row) + UNIT * e.abs()
    up = root * root
    one, infinite = torch.ones_like(up), torch.full_like(up, torch.inf)
    near = ~(m <= HARD_LEVERAGE) if inside else torch.zeros_like(m, dtype=torch.bool)
    left = torch.where(near, one, 1.0 - up) if inside else one
    rest = torch.where(left > 0.0, 1.0 / left, infinite)
    mu = torch.where(up >= 0.0, up * rest, infinite)
    along = 1.0 if inside else 1.0 + 2.5 * away * up.clamp(max=1.0)
    r = torch.copysign((e.abs() + lost) * rest * along, e)
    rough = ~(4.0 * away * rest <= EXACT_PARAMETER) | ~((m > UNDERFLOWN) & (m < LARGEST_SQUARE))
    size = torch.maximum(e.abs(), floor * mu.sqrt().clamp(max=1.0))
    code = torch.where(~(lost <= EXACT_PARAMETER * size), ROUGH_RESIDUAL, 0)
    code = torch.where(near | rough, HARD, code).to(torch.uint8)
    if square is None:
        return DeviceStatistics(mu, r, None, None, code)
    b = square.sqrt()
    m = mu / (1.0 + mu) if inside else mu
    more = 4.0 * away
    lost = m.sqrt() * (limits.length + part * limits.length_row) + b * limits.share
    below = 1.0 if inside else 1.0 + m * (one - more).clamp(min=0.0)
    length = torch.where(lost < torch.inf, (b + lost) / below, infinite)
    share = lost / b + more
    rough = ~(b * share <= EXACT_PARAMETER * b) | ~((b * b > UNDERFLOWN) & (b * b < LARGEST_SQUARE))
    return DeviceStatistics(mu, r, length, share, torch.where(rough, HARD, code).to(torch.uint8))
