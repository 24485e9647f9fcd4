"""Chunks on the workers of a running Dask cluster (the extra ``cluster``)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pdtools.errors import MissingDependencyError, PdtoolsError

Item = TypeVar("Item")

# Chunks queued for each worker, so that none runs out of work, and few are in memory here.
_WAITING = 3
_SECONDS_TO_CONNECT = 30


@dataclass(slots=True)
class _UnderWay(Generic[Item]):
    item: Item
    future: Any  # None once the result is here
    result: Any = None


def map_on_cluster(
    function: Callable[[Item], Any],
    items: Iterable[Item],
    address: str,
    *,
    done: Callable[[Item], bool] = lambda item: False,
    keep: Callable[[Item, Any], Any] = lambda item, result: result,
) -> Iterator[tuple[Item, Any]]:
    """Call a function with every item on a cluster's workers; items of a lost worker are done again.

    Args:
        function: the function to call; it goes to a worker with every item.
        items: taken one by one, as workers get free.
        address: the scheduler's, such as ``tcp://10.0.0.1:8786``.
        done: whether an item needs no work; its result is then None.
        keep: called here with each item and its result as it arrives, in any order; its return value
            replaces the result.

    Yields:
        Each item with its result, in the order of the items.

    Raises:
        PdtoolsError: if there is no scheduler, or it is lost, or one item lost several workers; and what the
            function raises.
        MissingDependencyError: without the package ``distributed``.
    """
    try:
        from distributed import Client, KilledWorker, wait
        from distributed.comm import CommClosedError
    except ImportError as error:
        raise MissingDependencyError("dask.distributed", "cluster") from error
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # real errors are raised
    try:
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PdtoolsError(f"--scheduler {address}: no Dask scheduler there ({error})") from error
    under_way: deque[_UnderWay[Item]] = deque()

    def first() -> tuple[Item, Any]:
        """The first item and its result; other results are taken while waiting for it."""
        while under_way[0].future is not None:
            waiting = [entry for entry in under_way if entry.future is not None]
            with client.as_current():
                wait([entry.future for entry in waiting], return_when="FIRST_COMPLETED")
            for entry in waiting:
                if entry.future.done():
                    entry.result = keep(entry.item, entry.future.result())
                    entry.future = None
        entry = under_way.popleft()
        return entry.item, entry.result

    with client:
        try:
            for item in items:
                future = None if done(item) else client.submit(function, item, pure=False)
                under_way.append(_UnderWay(item, future))
                workers = client.scheduler_info(n_workers=-1)["workers"]  # some versions tell only five
                while len(under_way) >= _WAITING * max(1, len(workers)):
                    yield first()
            while under_way:
                yield first()
        except KilledWorker as error:
            raise PdtoolsError(
                "the cluster lost several workers over the same chunk (is there enough memory?)"
            ) from error
        except (CommClosedError, CancelledError, TimeoutError) as error:
            raise PdtoolsError(f"--scheduler {address}: the connection was lost") from error
        except ImportError as error:
            raise PdtoolsError(f"a worker of the cluster lacks what this needs: {error}") from error
