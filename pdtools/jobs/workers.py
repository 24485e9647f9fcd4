"""Parallel map: a function on many items, in one process, several, or a cluster's, with results in order."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from pdtools.errors import MissingDependencyError, PdtoolsError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Items queued for each worker, so that none runs out of work, and few are in memory.
_WAITING, _WAITING_ON_CLUSTER = 2, 3
_SECONDS_TO_CONNECT = 30
_MOST_ON_WINDOWS = 61  # processes that one can wait for there
_SECONDS_TO_LOOK = 5.0


class _Process(SpawnProcess):
    def terminate(self) -> None:
        self.kill()  # SIGTERM, which the pool sends after one process was killed, is ignored


class _Context(SpawnContext):
    # Spawned: a fork would copy the locks of threads that it doesn't copy.
    Process = _Process


class Workers(AbstractContextManager["Workers"]):
    """Processes that call functions, one function after another or several at the same time.

    They start with the first item, and end with the ``with`` block; there are none if the number is 1.

    Args:
        number: number of processes; 1: only the calling process.
    """

    def __init__(self, number: int = 1) -> None:
        self.number = min(number, _MOST_ON_WINDOWS) if sys.platform == "win32" else number
        self._functions = 0
        self._pool: ProcessPoolExecutor | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kill=error is not None)

    def map_in_order(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[tuple[Item, Result], None, None]:
        """Call a function with every item.

        The items may come out of another such iteration: then both share the processes. An iteration that
        ends early, by an error or because it is closed, ends the processes before anything else happens.

        Args:
            function: the function to call; with several processes, pickled once, and loaded once by each.
            items: taken one by one, as processes get free.

        Yields:
            Each item with its result, in the order of the items, whatever the number of processes.

        Raises:
            PdtoolsError: if a process was killed; and errors of the function.
        """
        if self.number == 1:
            for item in items:
                yield item, function(item)
            return
        under_way: deque[tuple[Item, Future[Result]]] = deque()
        pool, file = self._start(), self._keep(function)
        try:
            for item in items:
                under_way.append((item, pool.submit(_call, file, item)))
                if len(under_way) >= _WAITING * self.number:
                    yield _first(under_way, pool)
            while under_way:
                yield _first(under_way, pool)
        except BaseException as error:
            self._end(kill=True)  # nobody waits for their results
            if isinstance(error, BrokenProcessPool):
                raise PdtoolsError("a worker was killed (is there enough memory for --workers?)") from error
            raise

    def _start(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pdtools-")
            self._pool = ProcessPoolExecutor(
                self.number, _Context(), initializer=_prepare, initargs=(self._folder.name,)
            )
        return self._pool

    def _keep(self, function: Callable[[Any], Any]) -> str:
        """The file from which the processes load a function, pickled."""
        assert self._folder is not None
        path = Path(self._folder.name, str(self._functions))
        path.write_bytes(pickle.dumps(function, protocol=pickle.HIGHEST_PROTOCOL))
        self._functions += 1
        return str(path)

    def _end(self, *, kill: bool) -> None:
        """Wait until no process is left."""
        if self._pool is not None:
            if kill:
                for process in list((self._pool._processes or {}).values()):
                    process.kill()
                # Else the pool's threads wait for the rest of a killed process's data.
                pool: Any = self._pool
                pool._result_queue._writer.close()
                if sys.version_info < (3, 11, 5):  # newer pools do it themselves
                    pool._call_queue._reader.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        if self._folder is not None:
            self._folder.cleanup()


def _first(under_way: deque[tuple[Item, Future[Result]]], pool: ProcessPoolExecutor) -> tuple[Item, Result]:
    item, future = under_way.popleft()
    while not wait([future], timeout=_SECONDS_TO_LOOK).done:
        # The pool does not see this itself if the process was killed in the middle of a result.
        if not all(process.is_alive() for process in list((pool._processes or {}).values())):
            raise BrokenProcessPool
    return item, future.result()


# --- in the processes -------------------------------------------------------------------------


def _prepare(folder: str) -> None:
    # Ctrl-C and a scheduler's SIGTERM go to all processes, as Ctrl-Break does on Windows; this one ends when
    # the first one does, however that ends.
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()


def _end_with_parent(folder: str) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _call(file: str, item: Any) -> Any:
    return _function(file)(item)


@cache
def _function(file: str) -> Callable[[Any], Any]:
    loaded: Callable[[Any], Any] = pickle.loads(Path(file).read_bytes())
    return loaded


# --- on the workers of a running Dask cluster (the extra ``cluster``) --------------------------


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
                while len(under_way) >= _WAITING_ON_CLUSTER * max(1, len(workers)):
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
