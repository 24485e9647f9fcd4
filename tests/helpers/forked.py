"""Scripts and workers in processes of their own that need not import torch, as forks of one that has."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

from warm import modules_of_commands


class _Worker(ForkServerProcess):
    """A worker with the environment of now; its server has that of its start."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._environment = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()

    def terminate(self) -> None:
        self.kill()  # as in pdtools.jobs.workers


class ForkedWorkers(ForkServerContext):
    """Workers as forks of a server that has imported what they need."""

    Process = _Worker

    def __init__(self) -> None:
        super().__init__()
        multiprocessing.set_forkserver_preload(modules_of_commands())


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Do what ``python -c SCRIPT ARGUMENTS`` does, on Linux without starting Python anew.

    Returns:
        Exit status (``-signal`` where one ended it), output and errors, as of :func:`subprocess.run`.
    """
    command = [sys.executable, "-c", script, *arguments]
    if sys.platform != "linux":
        return subprocess.run(command, capture_output=True, text=True)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            _run_and_end(script, arguments, output.fileno(), errors.fileno())
        _, status = os.waitpid(child, 0)
        for stream in (output, errors):
            stream.seek(0)
        returncode = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(command, returncode, output.read(), errors.read())


_CHANGES = {
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree"),
    *("tempfile.mkstemp", "tempfile.mkdtemp"),
}


def killed_at(operation: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do some work in a fork, which is killed just before an operation that changes files below a folder.

    Args:
        operation: the operation's number, from 0.
        folder: the folder.
        work: the work.

    Returns:
        Whether it was killed; False if it ended before.
    """
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), f"the work ended with {status}"
        return status != 0
    left, place = operation, str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        flags = arguments[2] if event == "open" else 0
        is_written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if not (is_written or event in _CHANGES) or not os.fsdecode(str(arguments[0])).startswith(place):
            return
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    try:
        sys.addaudithook(hook)
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _run_and_end(script: str, arguments: tuple[str, ...], output: int, errors: int) -> NoReturn:
    status: object = 0
    try:
        for stream, number in ((output, 1), (errors, 2)):
            os.dup2(stream, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        for handled in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(handled, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["-c", *arguments]
        exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
