"""The demo's two models, made at the same time: what ends one ends the other, and the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "demo.sh"
STUB = """#!/bin/sh
case "$*" in
    *"$FAILING"*) sleep 0.2; echo "pdtools: no space left" >&2; exit 3 ;;
    train*) echo $$ >> "$PROCESSES"; exec sleep 60 ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Commands that do nothing, but for one that fails, and trainings that take a minute."""
    (tmp_path / "pdtools").write_text(STUB)
    (tmp_path / "pdtools").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PROCESSES": f"{tmp_path}/processes", "FAILING": "none"}


def trainings(environment: dict[str, str]) -> list[int]:
    path = Path(environment["PROCESSES"])
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_both_trainings(
    number: int, status: int, environment: dict[str, str], tmp_path: Path
) -> None:
    command = ["sh", SCRIPT, tmp_path / "out"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
    with subprocess.Popen(command, env=environment, start_new_session=True) as demo:
        until = time.monotonic() + 30
        while len(trainings(environment)) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        (os.killpg if number == signal.SIGINT else os.kill)(demo.pid, number)  # as a terminal does, or kill
        assert demo.wait(30) == status
    assert not any(map(lives, trainings(environment)))
