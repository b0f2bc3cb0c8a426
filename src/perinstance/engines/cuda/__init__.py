"""A GPU: rows that lie on it or stream over, sums and row statistics there, in float64 (read ``engine.py`` first).

``device_tables`` takes arrays that lie on a device, ``transfers`` brings blocks over and answers back, ``catalogue``
says which steps have an operation there: ``newton_sums`` (X'X, smooth fits) and
``row_losses`` (leverage, residual and epsilon of every row, by ``row_sums``). They are written for torch, which also
runs them on a processor; ``kernels`` has some of them in CUDA (the ``.cu`` files), one reading of X each, where CuPy
can compile it. Steps without an operation there are walked by threads of the processor, over blocks that come back.
"""

from perinstance.engines.cuda.device_tables import DeviceTable, device_source, is_on_device
from perinstance.engines.cuda.engine import Cuda, CudaSweep

__all__ = ["Cuda", "CudaSweep", "DeviceTable", "device_source", "is_on_device"]
