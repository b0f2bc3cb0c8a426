"""A GPU: rows that lie on it or stream over, products and inversions there, in float64 (read ``engine.py`` first).

``device_tables`` takes arrays that lie on a device, ``transfers`` brings blocks over, and the operations are in
``gram_products`` (X'X and X'y), ``row_sums`` (row statistics of a factor), ``epsilons`` (epsilon at a delta),
``linear_losses`` (all of it for a block; ``loss_chunks`` takes the answers back) and ``operations`` (the other models).
They are written for torch, which also runs them on a processor; ``fused_kernels`` and, for more columns,
``wide_kernels`` have the same in CUDA, one reading of X each, where CuPy can compile it (``compiled_kernels``, of the
files in ``sources``).
"""

from __future__ import annotations

from perinstance.engines.cuda.device_tables import DeviceTable, device_source, is_on_device
from perinstance.engines.cuda.engine import Cuda, CudaSweep

__all__ = ["Cuda", "CudaSweep", "DeviceTable", "device_source", "is_on_device"]
