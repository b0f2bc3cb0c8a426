"""Where an audit runs when nobody says: on the cluster or the GPU where its table lives, else on threads here."""

from __future__ import annotations

from perinstance.data.source import Source
from perinstance.engines.cuda import Cuda, DeviceTable
from perinstance.engines.local import Local
from perinstance.engines.protocol import Engine


def default_engine(source: Source) -> Engine:
    """Choose the GPU for arrays on one, Dask for its collections, and for Parquet when its client is active."""
    if isinstance(source, DeviceTable):
        return Cuda(str(source.device))
    if hasattr(source, "delayed_blocks"):
        from perinstance.engines.dask import Dask

        return Dask()
    if hasattr(getattr(source, "reader", None), "parts"):
        from perinstance.engines.dask.graph_runs import active_client

        if active_client() is not None:
            from perinstance.engines.dask import Dask

            return Dask()
    return Local()
