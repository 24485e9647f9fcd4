"""Who waits for whom: tabs, tables, clients that leave, models that fail, and the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import signal
import socket
from concurrent.futures import Future, ThreadPoolExecutor

from fake_answers import FakeAnswers
from serve_client import Client, served, serving

from pdtools.cli.main import run
from pdtools.serve import worker

TABLE = b"sentence\nThe dog barks.\n"


@pytest.fixture
def answers() -> FakeAnswers:
    return FakeAnswers()


@pytest.fixture
def address(answers: FakeAnswers, tmp_path: Path) -> Iterator[str]:
    with served(answers, tmp_path) as found:
        yield found
        answers.gate.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(80) as found:
        yield found


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def waiting(client: Client, pool: ThreadPoolExecutor, *texts: str, **more: Any) -> Future[list[Any]]:
    """A question whose answer is waited for in a thread, once it waits in the server."""
    told: list[Any] = []

    def ask() -> list[Any]:
        for event in client.events(*texts, **more):
            told.append(event)
        return told

    found = pool.submit(ask)
    until(lambda: told or found.done())
    return found


def test_two_tabs_and_a_table(address: str, answers: FakeAnswers, pool: ThreadPoolExecutor) -> None:
    one, two = Client(address, "one"), Client(address, "two")
    answers.gate.clear()
    table = pool.submit(lambda: list(one.events("table", table=TABLE, name="a.csv")))
    until(answers.begun.is_set)
    # Each waits for one step of the table at most; the first one of a page makes room for a newer one.
    first = waiting(one, pool, "sentence", "quick 1")
    other = waiting(two, pool, "sentence", "quick 2")
    newer = waiting(one, pool, "sentence", "quick 3")
    assert first.result(20)[-2].keys() == {"replaced"}
    assert other.running()
    answers.gate.set()
    assert table.result(20)[-3:] == [
        {"answer": {"document": {}, "packed": {}}, "bytes": len(TABLE)},
        TABLE,
        {"end": True},
    ]
    for each, text in ((other, "quick 2"), (newer, "quick 3")):
        (waits, answer, _) = each.result(20)
        assert (waits["table"], answer["answer"]["document"]["texts"]) == (True, [text])
    assert answers.events == [0, "quick 2", "quick 3", 1, 2, 3, 4]


def test_fifty_at_once_and_too_many(address: str, answers: FakeAnswers, pool: ThreadPoolExecutor) -> None:
    answers.gate.clear()
    begun = pool.submit(Client(address, "first").ask, "sentence", "slow")
    until(answers.begun.is_set)
    all_ = [
        waiting(Client(address, f"page {i}"), pool, "sentence", f"quick {i}")
        for i in range(worker.MOST_WAITING)
    ]
    assert "too many" in Client(address, "late").ask("sentence", "quick late")["error"]
    answers.gate.set()
    for i, each in enumerate(all_):
        assert each.result(20)[-2]["answer"]["document"]["texts"] == [f"quick {i}"]
    assert begun.result(20)["document"]["texts"] == ["slow"]
    assert answers.events == ["slow", *(f"quick {i}" for i in range(len(all_)))]


def test_a_client_that_leaves_ends_its_work_at_the_next_step(
    address: str, answers: FakeAnswers, pool: ThreadPoolExecutor
) -> None:
    answers.n_steps = 1_000_000
    reading, late = Client(address, "a"), Client(address, "b")
    table = reading.events("table", table=TABLE, name="a.csv")
    assert next(table)["done"] == 0
    other = late.events("table", table=TABLE, name="b.csv")
    assert next(other) == {"waits": 1, "table": True}
    other.close()
    table.close()
    # Nothing of it runs any more, and the one that waited never began.
    assert Client(address, "c").ask("sentence", "quick")["document"]["texts"] == ["quick"]
    until(lambda: _is_still(answers))
    assert answers.events.count(0) == 1


def _is_still(answers: FakeAnswers) -> bool:
    before = len(answers.events)
    time.sleep(0.1)
    return len(answers.events) == before < answers.n_steps


def test_a_model_that_fails_is_a_message(address: str, answers: FakeAnswers) -> None:
    page = Client(address)
    assert page.ask("sentence", "wrong") == {"error": "that is wrong"}
    failed = page.ask("sentence", "fails")["error"]
    assert "ZeroDivisionError" in failed
    assert "secret" not in failed
    assert "memory" in page.ask("sentence", "memory")["error"]
    assert page.ask("sentence", "fine")["document"]["texts"] == ["fine"]
    answers.said.append("no answer: ZeroDivisionError: /home/someone/secret")  # on the terminal


def test_a_page_keeps_its_table_and_who_left_takes_no_room(tmp_path: Path) -> None:
    gate, told = threading.Event(), list[dict[str, Any]]()

    def steps(text: str) -> Generator[dict[str, Any]]:
        gate.wait(20)
        yield {"done": text}

    def job(text: str, **more: Any) -> worker.Job:
        return worker.Job("page", steps(text), told.append, **more)

    working = worker.Worker(lambda line: None)
    working.ask(job("first"))
    until(lambda: not working._waiting)
    working.ask(job("table", folder=TemporaryDirectory(dir=tmp_path)))
    for _ in range(worker.MOST_WAITING):
        left = job("left")
        working.ask(left)
        working.leave(left)
    working.ask(job("last"))
    gate.set()
    until(lambda: {"done": "table"} in told)
    assert [each["done"] for each in told if "done" in each] == ["first", "last", "table"]
    assert not any("error" in each or "replaced" in each for each in told)
    assert working.stop(10)


def test_a_folder_that_is_written_yet_ends_no_worker(tmp_path: Path) -> None:
    class Busy(TemporaryDirectory[str]):
        def cleanup(self) -> None:
            raise OSError("Directory not empty")

    def steps(text: str) -> Generator[dict[str, Any]]:
        yield {"done": text}

    told: list[dict[str, Any]] = []
    working = worker.Worker(lambda line: None)
    working.ask(worker.Job("a", steps("a"), told.append, Busy(dir=tmp_path)))
    until(lambda: {"end": True} in told)
    working.ask(worker.Job("b", steps("b"), told.append))
    until(lambda: len(told) == 4)
    assert told == [{"done": "a"}, {"end": True}, {"done": "b"}, {"end": True}]
    assert working.stop(10)


@pytest.mark.linux
@pytest.mark.parametrize("asked", ["table", "sentence", "nothing"])
def test_ctrl_c_ends_it_while_a_client_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving("demo-base") as (process, address):
        page = Client(address)
        rows = [f"The {a} {b} loved the {c}." for a in ("old", "sad") for b in NOUNS for c in NOUNS]
        told = iter(page.events("table", table="\n".join(["sentence", *rows]).encode(), name="a.csv"))
        if asked != "nothing":
            assert next(told)["of"] == len(rows)
        if asked == "sentence":
            words = "The dog that chased the cats " * 60 + "barks."
            told = iter(Client(address, "b").events("sentence", words, beam=1000))
            assert next(told)["table"]
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        busy = max(1, os.getloadavg()[0] / (os.cpu_count() or 1))
        assert time.monotonic() - start < 2 * busy
        assert process.stderr is not None
        assert process.stderr.read().splitlines()[1:] == ["pdtools: interrupted"]
    assert not any(tmp_path.iterdir())


NOUNS = ["king", "queen", "judge", "doctor", "nurse", "pilot", "baker", "poet", "farmer", "singer", "guard"]


def test_what_cannot_be_served_is_said_before_models_are_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*options: str) -> str:
        capsys.readouterr()
        assert run(["serve", "--model", "demo", "--device", "cpu", "-q", *options]) == 1
        return capsys.readouterr().err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in said("--port", str(taken.getsockname()[1]))
    for everywhere in ("0.0.0.0", "0", "::0", "000.0.0.0"):
        assert "name the one address" in said("--host", everywhere)
    assert "--host nowhere.invalid" in said("--host", "nowhere.invalid")
    assert "max_batch" in said("--search", "max_batch=2")
    monkeypatch.setattr("pdtools.cli.serve.find_spec", lambda name: None)
    assert said().splitlines()[-1] == (
        "pdtools: this needs the package starlette: pip install '.[serve]' in a checkout, or"
        " 'pushdown-tools[serve]' when it is released"
    )


def test_help_loads_no_server() -> None:
    code = "import pdtools.cli.serve, sys; print({'starlette', 'uvicorn', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
