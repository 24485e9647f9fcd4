"""``pdtools serve``: a page on one's own machine that answers what is typed."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Annotated, Any

import typer

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.jobs.devices import pick_device

from .console import message, set_quiet
from .options import BeamOptions, ModelNames, Threads, command


@command("Open a page where sentences are typed, and models answer.")
def serve(
    model: ModelNames,
    beam: BeamOptions,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8765,
    device: str = "auto",
    threads: Threads = 0,
    quiet: Annotated[bool, typer.Option(is_eager=True, callback=set_quiet)] = False,
) -> None:
    """Open a page where sentences, pairs and tables are typed or dropped, and models answer.

    \b
    Example:
      pdtools serve --model english --model english-base

    Models are loaded once. The page shows what pdtools view shows of a sentence or a pair, the next tokens
    after a beginning, and a table's surprisals as pdtools surprisal gives them. Ctrl-C ends it. Only this
    machine reaches it, with the key that the printed address has.

    Search:
        search_settings (--search KEY=N): Action models: word_beam, fast_track. Repeatable.

    Output:
        host (ADDRESS): Let others on the network of this address in, who have the printed address.
        port: The port; 0: any free one.
        quiet (-q): No messages but the address.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingDependencyError(package, extra="serve")
    from pdtools.search.model import ModelSettings

    search = beam.search_of_one
    search.check_number()
    device = pick_device(device, threads)
    asked = [
        ModelSettings(model_dir=os.path.abspath(each), search=search, device=device, threads=threads)
        for each in dict.fromkeys(model)
    ]
    with _socket(host, port) as listening:
        from pdtools.serve.app import run

        address = listening.getsockname()
        shown = f"[{host}]" if ":" in host else host
        if host not in ("127.0.0.1", "localhost", "::1"):
            message(f"--host {host}: all who reach this address and have the key below can ask the models")

        def ready(token: str) -> None:
            url = f"http://{shown}:{address[1]}/?token={token}"
            print(url, flush=True)
            if sys.stderr.isatty() and (sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY")):
                webbrowser.open(url)

        try:
            run(asked, listening, host, ready, message)
        except (KeyboardInterrupt, SystemExit) as end:  # torch and the models would take seconds to end
            message("pdtools: interrupted")
            os._exit(end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else 130)


def _socket(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        PdtoolsError: if there is no such address here, or the port is taken.
    """
    found: Any = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if ip_address(str(address[0]).partition("%")[0]).is_unspecified:
            raise PdtoolsError(f"--host {host}: name the one address by which others reach this machine")
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)
        return found
    except OSError as error:
        if found is not None:
            found.close()
        raise PdtoolsError(
            f"--host {host} --port {port}: {error.strerror} (--port 0 takes a free one)"
        ) from error
