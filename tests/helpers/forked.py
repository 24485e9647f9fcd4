"""Scripts in processes of their own that need not import torch, as forks of one that has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import NoReturn


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
