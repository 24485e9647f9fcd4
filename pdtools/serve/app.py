"""The page's server: who gets in, what goes in and out, and how it ends."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pdtools.errors import PdtoolsError
from pdtools.report.view.page import Page, inline_json, render
from pdtools.report.view.vega import javascript
from pdtools.search.model import ModelSettings
from pdtools.serve import questions
from pdtools.serve.answers import Answers, load
from pdtools.serve.questions import MOST_BYTES, MOST_JSON, PageQuestion, read_question
from pdtools.serve.worker import FULL, Job, Worker

T = TypeVar("T")

LOCAL = ("127.0.0.1", "localhost", "[::1]")
_JSON, _BYTES = "application/json", "application/octet-stream"
_MOST_SECONDS = 120  # for a body to arrive
_BLOCK = 1 << 16
_SWITCH_SECONDS = 0.0005
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY.format(scripts="'none'"),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_REFUSED = "Open the address that pdtools serve printed when it began: it has the key to this page.\n"
# A browser that follows a link of another site keeps the cookie to itself; the page's own visit has it.
_AGAIN = """<!doctype html><meta charset="utf-8"><title>pdtools serve</title><p>{refused}</p>
<script nonce="{nonce}">location.replace("/?again" + location.hash);</script>
"""


class Guard:
    """Refuses requests of other sites and other people, and what is neither JSON nor bytes.

    Args:
        app: answers the others.
        token: the key: in the first address, then in a cookie.
        host: the name or address that ``--host`` gave.
        port: the port, which keeps the cookies of several servers apart.
    """

    def __init__(self, app: ASGIApp, token: str, host: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {*LOCAL, f"[{host}]" if ":" in host else host.lower()}
        self.cookie = f"pdtools-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer: ASGIApp = self._refusal(request) or self._app
        await answer(scope, receive, guarded)

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that does not get in; to the first address, the way to the page."""
        hosts = request.headers.getlist("host")
        name, _, port = (hosts[0] if len(hosts) == 1 else "").lower().rpartition(":")
        if not port.isdecimal():
            name = hosts[0].lower() if hosts else ""
        if len(hosts) != 1 or name not in self._hosts:
            return PlainTextResponse("This name is not one of pdtools serve.\n", 421)
        origin = request.headers.get("origin")
        is_post = request.method == "POST"
        if (is_post or origin is not None) and origin != f"http://{hosts[0]}":
            return PlainTextResponse("Another site has no business here.\n", 403)
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and (
            is_post or request.headers.get("sec-fetch-mode") != "navigate"
        ):
            return PlainTextResponse("Another site has no business here.\n", 403)
        is_first = request.method == "GET" and request.scope["path"] == "/"
        given = parse_qs(request.url.query).get("token")
        if is_first and given:
            if len(given) != 1 or not self._is_key(given[0]):
                return PlainTextResponse(_REFUSED, 403)
            found = RedirectResponse("/", 303)
            found.set_cookie(self.cookie, self._token, httponly=True, samesite="strict", path="/")
            return found
        if not self._is_key(request.cookies.get(self.cookie, "")):
            if is_first and request.url.query != "again":
                nonce = secrets.token_urlsafe(16)
                return _html(_AGAIN.format(refused=_REFUSED, nonce=nonce), nonce, 403)
            return PlainTextResponse(_REFUSED, 403)
        if is_post and request.headers.get("content-type") not in (_JSON, _BYTES):
            return PlainTextResponse(f"Questions are {_JSON}, tables {_BYTES}.\n", 415)
        return None


def _html(text: str, nonce: str, status: int = 200) -> Response:
    policy = _POLICY.format(scripts=f"'nonce-{nonce}'")
    return Response(text, status, {"Content-Security-Policy": policy}, "text/html; charset=utf-8")


class Server:
    """The routes.

    Args:
        answers: the models.
        worker: does the work.
        folder: a private folder, for tables while they are read.
    """

    def __init__(self, answers: Answers, worker: Worker, folder: Path) -> None:
        self.answers, self.worker, self._folder = answers, worker, folder
        self.told: set[Callable[[dict[str, Any]], object]] = set()  # for each job that somebody listens to

    def end(self) -> None:
        """Let nobody listen any more."""
        for tell in list(self.told):
            tell({"error": "pdtools serve has ended", "end": True})

    def app(self, token: str, host: str, port: int) -> ASGIApp:
        """The routes behind their guard."""
        routes = [
            Route("/", self._page),
            Route("/charts.js", self._charts),
            Route("/ask", self._ask, methods=["POST"]),
            Route("/table", self._table, methods=["POST"]),
        ]
        found = Starlette(routes=routes, exception_handlers={Exception: self._failed})
        return Guard(found, token, host, port)

    async def _failed(self, request: Request, error: Exception) -> Response:
        self.worker.say(f"no answer: {type(error).__name__}: {error}")
        return PlainTextResponse(
            f"pdtools serve failed ({type(error).__name__}): the terminal says more", 500
        )

    async def _page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        limits = {
            name: getattr(questions, name) for name in ("MOST_CHARS", "MOST_CONTEXT", "MOST_BEAM", "SUFFIXES")
        }
        page = Page(
            kind="serve",
            title="pdtools serve",
            document={
                "models": self.answers.names,
                "beam": self.answers.models[0].settings.search.beam,
                "limits": limits,
                "live": True,
            },
            scripts=("stack", "drawings", "sentences", "stimuli"),
        )
        return _html(render(page, self.answers.made, nonce), nonce)

    async def _charts(self, request: Request) -> Response:
        try:
            return Response(await asyncio.to_thread(javascript), media_type="text/javascript")
        except PdtoolsError as error:
            return PlainTextResponse(str(error), 503)

    async def _ask(self, request: Request) -> Response:
        data = _joined(_blocks(request, _JSON, MOST_JSON))
        try:
            question = read_question(await _arrived(data), table=False)
        except PdtoolsError as error:
            return PlainTextResponse(str(error), 400)
        return _Events(self, question, None)

    async def _table(self, request: Request) -> Response:
        folder = tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True)
        try:
            if self.worker.is_full:
                raise PdtoolsError(FULL)
            data = _received(_blocks(request, _BYTES, MOST_BYTES + MOST_JSON), Path(folder.name))
            return _Events(self, await _arrived(data), folder)
        except BaseException as error:
            folder.cleanup()
            if isinstance(error, PdtoolsError):
                return PlainTextResponse(str(error), 400)
            raise


async def _arrived(coming: Awaitable[T]) -> T:
    """Wait for what is read of a body, as long as it may take.

    Raises:
        PdtoolsError: if it takes longer, or whoever sends it leaves.
    """
    try:
        return await asyncio.wait_for(coming, _MOST_SECONDS)
    except asyncio.TimeoutError as error:
        raise PdtoolsError(f"the question took longer than {_MOST_SECONDS} seconds to arrive") from error
    except ClientDisconnect as error:
        raise PdtoolsError("the question broke off") from error


async def _blocks(request: Request, form: str, most: int) -> AsyncIterator[bytes]:
    """The body of a question as it comes, as long as it is within a limit.

    Raises:
        PdtoolsError: if it is longer, or of another form.
    """
    if request.headers.get("content-type") != form:
        raise PdtoolsError(f"this question has to be {form}")
    too_long = PdtoolsError(f"a question has at most {most:,} bytes")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 15 or int(declared) > most:
        raise too_long
    n = 0
    async for block in request.stream():
        n += len(block)
        if n > most:
            raise too_long
        yield block


async def _joined(blocks: AsyncIterator[bytes]) -> bytes:
    return b"".join([block async for block in blocks])


async def _received(blocks: AsyncIterator[bytes], folder: Path) -> PageQuestion:
    """Read a table's question, the first line of the body, and write the rest into a folder."""
    head, question = b"", None
    with open(folder / "table", "wb") as stream:
        async for block in blocks:
            if question is None:
                head += block
                if b"\n" not in head:
                    if len(head) > MOST_JSON:
                        break
                    continue
                line, _, block = head.partition(b"\n")
                question = read_question(line, table=True)
            stream.write(block)
        size = stream.tell()
    if question is None:
        raise PdtoolsError("this is no question")
    if size > MOST_BYTES:
        raise PdtoolsError(f"a table has at most {MOST_BYTES:,} bytes, not {size:,}")
    (folder / "table").rename(folder / f"table{question.suffix}")
    return question


class _Events(Response):
    """Lines of JSON, one for each event of a job, as they come; then the bytes of the file that one names.

    Args:
        server: its worker does the job.
        question: the question.
        folder: the private folder of its table.
    """

    def __init__(
        self, server: Server, question: PageQuestion, folder: tempfile.TemporaryDirectory[str] | None
    ) -> None:
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._server, self._question, self._folder = server, question, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(event: dict[str, Any]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(events.put_nowait, event)

        folder = None if self._folder is None else Path(self._folder.name)
        steps = self._server.answers.steps(self._question, folder)
        job = Job(self._question.page, steps, tell, self._folder)
        gone = asyncio.ensure_future(_disconnected(receive))
        self._server.told.add(tell)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._server.worker.ask(job)
            while not gone.done():
                coming = asyncio.ensure_future(events.get())
                await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    break
                event = coming.result()
                data = event.pop("file", None)
                line = inline_json(event | ({} if data is None else {"bytes": len(data)})).encode() + b"\n"
                await _send(send, line + (data or b""), more="end" not in event)
                if "end" in event:
                    break
        finally:
            gone.cancel()
            self._server.told.discard(tell)
            self._server.worker.leave(job)


async def _send(send: Send, data: bytes, *, more: bool) -> None:
    for start in range(0, len(data), _BLOCK):
        is_last = start + _BLOCK >= len(data)
        body = data[start : start + _BLOCK]
        await send({"type": "http.response.body", "body": body, "more_body": more or not is_last})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def run(
    settings: Sequence[ModelSettings],
    listening: socket.socket,
    host: str,
    ready: Callable[[str], object],
    say: Callable[[str], object],
) -> None:
    """Load models, and answer until the process is interrupted.

    Args:
        settings: the models.
        listening: a socket.
        host: the name or address that it was bound to.
        ready: told the token, when pages are answered.
        say: prints a line.

    Raises:
        PdtoolsError: if a model cannot be loaded.
        KeyboardInterrupt: after Ctrl-C.
    """
    # A model gives way to Python after each of its many operations: to a table's thread not for long.
    sys.setswitchinterval(_SWITCH_SECONDS)
    answers = Answers(load(settings))
    token = secrets.token_urlsafe(24)
    worker = Worker(say)
    with tempfile.TemporaryDirectory(prefix="pdtools-serve-", ignore_cleanup_errors=True) as folder:
        server = Server(answers, worker, Path(folder))
        app = server.app(token, host, listening.getsockname()[1])
        ready(token)
        try:
            server_of(app, server.end).run(sockets=[listening])
        finally:
            worker.stop(0.3)


def server_of(app: ASGIApp, ending: Callable[[], object]) -> uvicorn.Server:
    """A server that says nothing of requests; ``ending`` is called when a signal ends it, whoever listens."""

    class Ending(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            ending()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="critical",  # a request cancelled at the end is no error
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=0,
    )
    return Ending(config)
