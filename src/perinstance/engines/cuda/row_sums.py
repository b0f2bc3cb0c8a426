"""The operation "row statistics of a factor" on a device: leverage, residual and length of each row, rounded outwards.

The formulas, limits and labels are those of ``models/linear/row_statistics.py``, line by line, on torch tensors. Its
bounds hold here: each entry of ``q = x W`` and each sum over q is a sum of p products, of which any order and any use
of fused multiply-adds loses at most ``p u`` of the absolute values; quotients and roots of float64 are rounded
correctly on CUDA devices as on processors.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.models.linear.row_statistics import HARD, HARD_LEVERAGE, ROUGH_RESIDUAL, RowMap
from perinstance.numerics.array_types import Floats
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
    """What rows are multiplied by, copied to a device: the parts of a ``RowMap``, None for those that it has not."""

    def __init__(self, rows_map: RowMap, n_features: int, device: Any) -> None:
        self.rows_map, self.device = rows_map, device
        self.inner_shape = (n_features, rows_map.W.shape[1])
        self.triangular = not np.tril(rows_map.W[:n_features], -1).any()
        norm, cost = rows_map.norm, rows_map.rounding.column_cost
        weights = norm.weights if norm is not None and norm.lift is None else None
        self.inner, self.image = self._there(rows_map.W[:n_features]), self._there(rows_map.image)
        self.offset = self._there(rows_map.W[n_features] if rows_map.intercept else None)
        self.weights, self.lift = self._there(weights), self._there(None if norm is None else norm.lift)
        self.column_cost = self._there(cost)

    def _there(self, array: Floats | None) -> Any:
        double = torch_module().float64
        return None if array is None else torch_module().tensor(array, dtype=double, device=self.device)

    @property
    def plain(self) -> bool:
        """Whether leverage and residual are all that is asked, with the same limits for every row."""
        return self.rows_map.norm is None and self.column_cost is None

    @functools.cached_property
    def fragments(self) -> Any:
        """W in the order in which the lanes of the kernels read it, and behind it offset and image.

        A tile (s, j) is rows 8 s to 8 s + 7 and columns 8 j to 8 j + 7, and comes j by j; lane 4 g + k has of it rows
        2 k and 2 k + 1 of column g.
        """
        d, rank = self.inner_shape
        tiles, depth = -(-rank // 8), -(-d // 8)
        W, ends = np.zeros((8 * depth, 8 * tiles)), np.zeros((2, 8 * tiles))
        W[:d, :rank] = self.rows_map.W[:d]
        if self.rows_map.intercept:
            ends[0, :rank] = self.rows_map.W[d]
        ends[1, :rank] = self.rows_map.image
        cut = W.reshape(depth, 4, 2, tiles, 8).transpose(3, 0, 4, 1, 2)  # [j, s, g, k, i]
        return self._there(np.concatenate([cut.reshape(-1), ends.reshape(-1)]))

    def sums(self, X: Any) -> tuple[Any, Any, Any]:
        """Return ``sum q_j^2``, ``sum q_j image_j`` and the squared length (None without a norm) of each row."""
        q = X @ self.inner if self.offset is None else torch_module().addmm(self.offset, X, self.inner)
        predicted = q @ self.image
        square = None if self.lift is None else (q @ self.lift).square_().sum(dim=1)
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
    torch = torch_module()
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
