"""How work reaches the cluster: one client's futures where there is one, else Dask's scheduler of this process.

Work that fails for reasons outside the table (a disk that stumbles) is tried again; what the table is refused for is
an answer like any other and is not. Everything here can be computed again when a worker dies: nothing is scattered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from perinstance.errors import ClusterTrouble

RETRIES = 2  #: of a partition whose work failed by itself
KEPT_SHARE = 0.3  #: of the workers' memory may hold decoded partitions between passes; beyond it they spill to disk


def active_client() -> Any | None:
    """Return the client that Dask would use; None where no cluster is in use."""
    import sys

    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def shared(value: Any) -> Any:
    """Put what every task needs where it goes to each worker once, and can be had again when one dies."""
    client = active_client()
    return value if client is None else client.submit(lambda: value, pure=False)


def kept(parts: list[Any], size: int | None) -> list[Any]:
    """Keep decoded partitions in the workers' memory when there is ample room for ``size`` bytes (None: not known)."""
    client = active_client()
    if client is None or size is None:
        return parts
    with typed_errors():
        workers = client.scheduler_info()["workers"].values()
    if size > KEPT_SHARE * sum(worker.get("memory_limit") or 0 for worker in workers):
        return parts
    return list(client.persist(parts))


def result(delayed: Any) -> Any:
    """Compute one thing."""
    client = active_client()
    if client is None:
        return delayed.compute()
    with typed_errors():
        return client.compute(delayed, retries=RETRIES).result()


def results(count: int, task: Callable[[int], Any], ahead: int) -> Generator[Any, None, None]:
    """Yield the results of ``task(0), task(1), ..`` in order; at most ``ahead`` are under way or wait here."""
    client = active_client()
    if client is None:
        import dask

        for start in range(0, count, ahead):
            yield from dask.compute(*(task(k) for k in range(start, min(start + ahead, count))))
        return
    waiting: deque[Any] = deque()
    begun = 0
    try:
        while begun < count or waiting:
            with typed_errors():
                while begun < count and len(waiting) < ahead:
                    waiting.append(client.compute(task(begun), retries=RETRIES))
                    begun += 1
                found = waiting.popleft().result()
            yield found
    finally:
        for future in waiting:
            future.cancel()


@contextmanager
def typed_errors() -> Iterator[None]:
    """Say what became of the cluster, in words that carry no cell."""
    from asyncio import CancelledError as StoppedError
    from concurrent.futures import CancelledError

    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as trouble:
        raise ClusterTrouble(
            f"workers died again and again at one partition (last: {trouble.last_worker.address}); most often its "
            "blocks do not fit into a worker's memory: use smaller partitions, or workers with more memory"
        ) from None
    except (CancelledError, StoppedError, CommClosedError, ClosedClientError, TimeoutError) as trouble:
        raise ClusterTrouble(
            f"the cluster gave the work up ({type(trouble).__name__}): its scheduler restarted, or the client was "
            "closed; nothing was published, start the audit again"
        ) from None
