"""Where folds and maps run: threads of this machine, a cluster, or a GPU."""

from __future__ import annotations

from perinstance.engines.cuda import Cuda
from perinstance.engines.local import Local, LocalSweep
from perinstance.engines.protocol import Engine, Progress, TableSweep

__all__ = ["Cuda", "Engine", "Local", "LocalSweep", "Progress", "TableSweep"]
