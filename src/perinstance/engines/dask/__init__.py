"""A cluster: the same folds and maps over partitions that live in Dask, on whatever scheduler is active.

``tables`` are Dask arrays and data frames, and Parquet that the workers read themselves; ``engine`` walks over either
and says what went wrong there. Dask is optional: ``pip install perinstance[dask]``.
"""

from perinstance.engines.dask.engine import Dask, DaskSweep, active_client, result, results
from perinstance.engines.dask.tables import DaskTable, dask_by_person, dask_source, is_dask, partition_labels, zeros_for

__all__ = [
    "Dask",
    "DaskSweep",
    "DaskTable",
    "active_client",
    "dask_by_person",
    "dask_source",
    "is_dask",
    "partition_labels",
    "result",
    "results",
    "zeros_for",
]
