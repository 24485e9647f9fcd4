"""A page of ``pdtools serve`` without a browser: it opens the printed address, and asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

TOKEN = "a-token"


class Client:
    """One page.

    Args:
        address: the address that the command printed, with the token.
        page: the page's name.
    """

    def __init__(self, address: str, page: str = "page") -> None:
        self.origin, _, _ = address.partition("/?")
        self._page = page
        self.http = httpx.Client(
            base_url=self.origin, timeout=600, headers={"Origin": self.origin}, follow_redirects=True
        )
        self.entered = self.http.get(address)

    def question(self, kind: str, *texts: str, **more: Any) -> bytes:
        """A question as JSON."""
        return json.dumps({"page": self._page, "kind": kind, "texts": texts, **more}).encode()

    def events(self, kind: str, *texts: str, table: bytes | None = None, **more: Any) -> Iterator[Any]:
        """Ask; the events of the answer, and at last the bytes of a table."""
        question = self.question(kind, *texts, **more)
        body = question if table is None else question + b"\n" + table
        place, form = ("/ask", "json") if table is None else ("/table", "octet-stream")
        headers = {"Content-Type": f"application/{form}"}
        with self.http.stream("POST", place, content=body, headers=headers) as response:
            if response.status_code != 200:
                yield {"refused": response.status_code, "error": response.read().decode()}
                return
            blocks, held = response.iter_raw(), bytearray()
            for block in blocks:
                held += block
                while (end := held.find(b"\n")) >= 0:
                    event = json.loads(held[:end])
                    del held[: end + 1]
                    yield event
                    if (size := event.get("bytes")) is not None:
                        while len(held) < size:
                            held += next(blocks)
                        yield bytes(held[:size])
                        del held[:size]

    def ask(self, kind: str, *texts: str, **more: Any) -> Any:
        """The answer, or the event that is told instead."""
        told = [each for each in self.events(kind, *texts, **more) if isinstance(each, dict)]
        answers = [each for each in told if each.keys() & {"answer", "error", "replaced"}]
        assert len(answers) == 1, told
        return answers[0].get("answer", answers[0])


@contextmanager
def served(answers: Any, folder: Path) -> Iterator[str]:
    """Answers from a thread of this process: the first address."""
    from pdtools.serve.app import Server, server_of
    from pdtools.serve.worker import Worker

    said: list[str] = []
    worker = Worker(said.append)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        routes = Server(answers, worker, folder)
        server = server_of(routes.app(TOKEN, "127.0.0.1", port), routes.end)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/?token={TOKEN}"
        finally:
            server.should_exit = True
            thread.join()
            assert worker.stop(10)
            assert not any(folder.iterdir())
    assert said == getattr(answers, "said", [])


@contextmanager
def serving(*models: str, options: tuple[str, ...] = ()) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, at any free port; and the address that it prints."""
    command = [sys.executable, "-m", "pdtools", "serve", "--port", "0", *options]
    for each in models:
        command += ["--model", each]
    environment = {**os.environ, "DISPLAY": ""}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
