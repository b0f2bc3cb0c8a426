"""Arrays that lie on a GPU as a source: torch, CuPy, JAX, anything that speaks DLPack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.data.source import VIEW_BYTES, Piece, Source, rows_per_block
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.ids import read_ids, refuse_duplicates

#: DLPack's numbers for memory that a CUDA device computes on: its own, and managed memory
ON_DEVICE = (2, 13)


def is_on_device(X: Any) -> bool:
    """Tell whether an array lies on a CUDA device; nothing is imported to find out."""
    where = getattr(X, "__dlpack_device__", None)
    if where is None or isinstance(X, np.ndarray):
        return False
    return int(where()[0]) in ON_DEVICE


def torch_module() -> Any:
    """Import torch, or say how to get it."""
    try:
        import torch
    except ImportError:
        raise InvalidInput(
            "a GPU is used through PyTorch, which is not installed; pip install 'perinstance[cuda]'"
        ) from None
    return torch


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTable(Source):
    """Two torch tensors on one device; a ``Source`` like any other, whose pieces are copies for the processor."""

    X: Any
    y: Any
    n_rows: int = field(init=False)
    n_features: int = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (
            ("n_rows", len(self.X)),
            ("n_features", self.X.shape[1]),
            ("has_ids", self.ids is not None),
        ):
            object.__setattr__(self, name, value)

    @property
    def device(self) -> Any:
        """Where the rows lie."""
        return self.X.device

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        step = rows_per_block(self.n_features, VIEW_BYTES if block_bytes is None else block_bytes)
        for start in range(0, self.n_rows, step):
            yield partial(self._host_block, start, min(start + step, self.n_rows))

    def _host_block(self, start: int, stop: int) -> Block:
        """Copy some rows to the processor's memory, once: they may lie there already."""
        torch = torch_module()

        def copied(one: Any) -> Any:
            there = torch.empty(one.shape, dtype=torch.float64, pin_memory=self.device.type == "cuda")
            return there.copy_(one).numpy()

        return Block(copied(self.X[start:stop]), copied(self.y[start:stop]), start)


def device_source(X: Any, y: Any, ids: Any = None, **others: Any) -> DeviceTable:
    """Make a source of arrays on a device, without a copy."""
    if any(value is not None for value in others.values()):
        raise InvalidTable(
            "an array on a device has no names; pass the features as X and the target as y, without target=, "
            "features= or a recipe"
        )
    if y is None:
        raise InvalidTable("an array on a device wants its target as y: one number per person")
    torch = torch_module()
    X = _tensor(torch, X)
    y = _tensor(torch, y) if hasattr(y, "__dlpack__") else torch.tensor(np.asarray(y))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if X.ndim != 2 or y.ndim != 1:
        raise InvalidTable(f"X must have two dimensions and y one, got {X.ndim} and {y.ndim}")
    if len(X) != len(y):
        raise InvalidTable(f"X has {len(X)} rows and y has {len(y)}; both must have one entry per person")
    if not len(X):
        raise InvalidTable("the table has no rows; there is nobody to audit")
    if not X.shape[1]:
        raise InvalidTable("the table has no features; at least one column is needed")
    names = None if ids is None else pa.chunked_array([read_ids(ids)])
    if names is not None:
        if len(names) != len(X):
            raise InvalidTable(f"X has {len(X)} rows and ids has {len(names)}; pass one id per row")
        refuse_duplicates(names)
    return DeviceTable(X, y.to(X.device), ids=names)


def _tensor(torch: Any, array: Any) -> Any:
    """Take an array as a tensor, without a copy; numbers alone."""
    found = array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)
    whole = (torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32)  # whose numbers are floats exactly
    if found.is_complex() or not (found.is_floating_point() or found.dtype in whole):
        raise InvalidTable(f"X and y must be real numbers, got {found.dtype}; convert them")
    return found
