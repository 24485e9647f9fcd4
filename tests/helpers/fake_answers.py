"""Answers without a model, for the page's server and its worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.serve.questions import PageQuestion


class FakeAnswers:
    """Answers with what was asked; a table has ``steps`` steps.

    Attributes:
        events: texts of questions and numbers of a table's steps, in the order of the work.
        gate: opens all steps but those of questions that begin with ``quick``.
        said: lines that the server is to print.
    """

    def __init__(self, steps: int = 5) -> None:
        self.n_steps = steps
        self.events: list[Any] = []
        self.said: list[str] = []
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.gate.set()
        self.names = ["fake"]
        self.made: dict[str, Any] = {"code": {"version": "0"}, "inputs": {}, "time": "now"}
        search = SimpleNamespace(beam=10)
        self.models = [SimpleNamespace(settings=SimpleNamespace(search=search))]

    def steps(self, question: PageQuestion, folder: Path | None) -> Generator[dict[str, Any]]:
        if folder is not None:
            table = (folder / f"table{question.suffix}").read_bytes()
            for done in range(self.n_steps):
                self._wait()
                time.sleep(0.001)
                self.events.append(done)
                yield {"done": done, "of": self.n_steps}
            yield {"answer": {"document": {}, "packed": {}}, "file": table}
            return
        (text, *_) = question.texts
        if not text.startswith("quick"):
            self._wait()
        self.events.append(text)
        yield {}
        if text == "wrong":
            raise PdtoolsError("that is wrong")
        if text == "fails":
            raise ZeroDivisionError("/home/someone/secret")
        if text == "memory":
            raise MemoryError
        yield {"answer": {"document": {"texts": question.texts}, "packed": {}}}

    def _wait(self) -> None:
        self.begun.set()
        assert self.gate.wait(30)
