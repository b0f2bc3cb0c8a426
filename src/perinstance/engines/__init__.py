"""Where folds and maps run: threads of this machine, or a cluster."""

from __future__ import annotations

from perinstance.engines.local import Local, LocalSweep
from perinstance.engines.protocol import Engine, Progress, TableSweep

__all__ = ["Engine", "Local", "LocalSweep", "Progress", "TableSweep"]
