"""Pieces on the workers of a Dask cluster that is there already (``pip install 'pdtools[cluster]'``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pdtools.errors import MissingDependencyError, PdtoolsError

Item = TypeVar("Item")

# Pieces that wait for each worker, so that none runs out of work, and few are in memory here.
_WAITING = 3
_SECONDS_TO_CONNECT = 30
# How often a piece may be the one that a worker was doing when it was lost.
_LOSSES = 3


def map_on_cluster(
    function: Callable[[Item], Any],
    items: Iterable[Item],
    address: str,
    done: Callable[[Item], bool] = lambda item: False,
) -> Iterator[tuple[Item, Any]]:
    """Call a function with every item, on the workers of a cluster; those of a lost worker are done again.

    Args:
        function: what to call; pickled with each item.
        items: taken one by one, as workers get free.
        address: of the scheduler, such as ``tcp://10.0.0.1:8786``.
        done: whether an item needs no work; its result is then None.

    Yields:
        Each item with its result, in the order of the items.

    Raises:
        PdtoolsError: if there is no scheduler, or one item lost several workers; and what the function
            raises.
        MissingDependencyError: without the package ``distributed``.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise MissingDependencyError("dask.distributed", "cluster") from error
    try:
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PdtoolsError(f"--scheduler {address}: no Dask scheduler there ({error})") from error
    with client:
        under_way: deque[tuple[Item, Any]] = deque()

        def first() -> tuple[Item, Any]:
            item, future = under_way.popleft()
            try:
                return item, None if future is None else future.result()
            except KilledWorker as error:
                raise PdtoolsError(
                    f"the cluster lost {_LOSSES + 1} workers over the same piece (is there enough memory?)"
                ) from error

        for item in items:
            future = None if done(item) else client.submit(function, item, pure=False, retries=0)
            under_way.append((item, future))
            if len(under_way) >= _WAITING * max(1, len(client.scheduler_info()["workers"])):
                yield first()
        while under_way:
            yield first()
