"""Where folds and maps run: threads of this machine, a cluster, or a GPU."""

from perinstance.data.source import Source
from perinstance.engines.cuda import Cuda, DeviceTable
from perinstance.engines.local import Local, LocalSweep
from perinstance.engines.protocol import Engine, Progress, TableSweep

__all__ = ["Cuda", "Engine", "Local", "LocalSweep", "Progress", "TableSweep", "default_engine"]


def default_engine(source: Source) -> Engine:
    """Choose the GPU for arrays on one, Dask for its collections, and for Parquet when its client is active."""
    if isinstance(source, DeviceTable):
        return Cuda(str(source.device))
    from perinstance.engines.dask import Dask, active_client

    in_parts = hasattr(getattr(source, "reader", None), "parts")
    if hasattr(source, "delayed_blocks") or (in_parts and active_client() is not None):
        return Dask()
    return Local()
