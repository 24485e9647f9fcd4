"""A process that has imported torch and forks for every command: most take less time than the import.

    python warm.py FOLDER [MODULE ...]

Modules: those imported instead of what our commands need; ``python`` is then of use alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import socket
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

IMPORTED = (
    *("torch._dynamo", "nltk", "pandas", "pyarrow.parquet", "tokenizers"),
    *("pdtools.cli.main", "pdtools.training", "pdtools.formal", "pdtools.parsers.in_chunks"),
    *("pdtools.search.kinds", "pdtools.search.model"),
    *("pdtools.search.decoding", "pdtools.report.evaluations", "pdtools.evaluation.external"),
    *("pdtools.evaluation.formal.dyck", "pdtools.evaluation.parsing.record"),
)
# Called as pdtools, or as python with a script: hands command and streams over, and ends as it did.
CLIENT = f"""#!{sys.executable} -IS
import json, os, socket, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
if name == "python" and not (arguments and arguments[0].endswith(".py")):
    os.execv(sys.executable, [sys.executable, *arguments])
if "COMMANDS" in os.environ:
    with open(os.environ["COMMANDS"], "a") as file:
        print(json.dumps(arguments), file=file)
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))
    socket.send_fds(server, [b"streams"], [0, 1, 2])
    server.sendall(json.dumps([name, arguments, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(8) or 255))
"""


def modules_of_commands() -> list[str]:
    """Modules that most commands need, and take long to import."""
    return [*IMPORTED, *(["benepar.parse_chart"] if find_spec("benepar") else [])]


def serve(folder: Path, *modules: str) -> None:
    """Answer the commands of ``folder`` until standard input is closed."""
    for module in modules or modules_of_commands():
        import_module(module)
    if not modules:
        import_module("pdtools.cli.main")
    os.fsync = lambda descriptor: None  # as in conftest.py
    for name in ("pdtools", "python"):
        (folder / name).write_text(CLIENT)
        (folder / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([0, listener], [], [])
            if 0 in readable:
                return
            with contextlib.suppress(ChildProcessError):  # there is none
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                answer(client)
            client.close()


def answer(client: socket.socket) -> None:
    """Do what the client was called for, in its folder, with its streams and environment."""
    _, streams, _, _ = socket.recv_fds(client, len(b"streams"), 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with client.makefile() as text:
        name, arguments, folder, environment = json.load(text)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if name == "python":
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        status = status_of(lambda: runpy.run_path(arguments[0], run_name="__main__"))
    else:
        from pdtools.cli import entry

        sys.argv = [name, *arguments]
        status = status_of(entry)
    sys.stdout.flush()
    client.sendall(str(status).encode())
    os._exit(status)


def status_of(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *sys.argv[2:])
