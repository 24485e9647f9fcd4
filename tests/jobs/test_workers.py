"""Functions called by other processes: order, sharing, and what happens when something goes wrong."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from multiprocessing import active_children
from typing import Any

import pytest

from pdtools.cli.running import threads_of_each
from pdtools.errors import PdtoolsError
from pdtools.jobs.workers import Workers


def map_in_order(
    function: Callable[[Any], Any], items: Iterable[Any], number: int
) -> Generator[tuple[Any, Any]]:
    with Workers(number) as processes:
        yield from processes.map_in_order(function, items)


def square(number: int) -> int:
    return number * number


def is_ok(number: int) -> bool:
    if number == 5:
        raise PdtoolsError("five")
    return True


def many_bytes(number: int) -> bytes:
    return bytes(1 << 25)


def many_bytes_or_end(number: int) -> bytes:
    if number == 3:
        threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    return bytes(1 << 28 if number == 3 else 1 << 25)


def end_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("there", [1, 2, 7])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("threads", [0, 1, 5])
def test_threads_of_each_process(
    threads: int, workers: int, there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as were asked for; else the processors that this process may use, divided by the workers."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(there)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    divided = 0 if workers == 1 else there // workers or 1
    assert threads_of_each(threads, workers) == (threads or divided)


@pytest.mark.parametrize("number", [1, 2])
def test_two_iterations_share_the_processes(number: int) -> None:
    with Workers(number) as workers:
        squares = (result for _, result in workers.map_in_order(square, range(50)))
        found = list(workers.map_in_order(square, squares))
        assert found == [(i * i, i**4) for i in range(50)]
        assert len(active_children()) == (0 if number == 1 else number)
        assert list(workers.map_in_order(is_ok, [1])) == [(1, True)]  # another function, later
    assert active_children() == []


@pytest.mark.parametrize("number", [1, 2])
def test_items_are_taken_as_processes_get_free(number: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for i in range(100):
            taken.append(i)
            yield i

    with closing(map_in_order(square, items(), number)) as results:
        for i, (item, _) in enumerate(results):
            assert item == i
            assert len(taken) <= i + 2 * number
            if i == 9:
                break
    assert active_children() == []


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_function_raises(number: int) -> None:
    with pytest.raises(PdtoolsError, match="five"):
        list(map_in_order(is_ok, range(9), number))
    assert active_children() == []


def test_a_process_that_is_killed() -> None:
    with pytest.raises(PdtoolsError, match="a worker was killed"):
        list(map_in_order(end_itself, range(9), 2))
    assert active_children() == []


def test_an_early_end_while_results_are_written() -> None:
    for _ in range(3):
        with closing(map_in_order(many_bytes, range(99), 2)) as results:
            next(results)
        assert active_children() == []


def test_a_process_that_is_killed_while_it_writes_its_result() -> None:
    with pytest.raises(PdtoolsError, match="a worker was killed"):
        list(map_in_order(many_bytes_or_end, range(9), 2))
    assert active_children() == []
