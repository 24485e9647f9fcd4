"""What holds for every command: help, version, exit codes, light imports."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pdtools import __version__
from pdtools.cli import main

COMMANDS = [command.name for command in main.app.registered_commands]
HEAVY = ("torch", "benepar", "pyarrow", "pandas", "nltk", "numpy", "transformers", "tokenizers")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"pdtools {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([command, "--help"]) == 0
    usage, text = capsys.readouterr().out.split("\n", 1)
    assert usage.startswith(f"Usage: pdtools {command} ")
    example = text[text.index("\n  Example:\n") :].split("\n\n")[0]
    commands = [line for line in example.split("\n")[2:] if not line.startswith(" " * 8)]
    assert commands
    assert all(line.startswith("    ") and f"pdtools {command} " in line for line in commands)


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["no-such-command"]) == 2
    assert main.run(["parse", "--no-such-option"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("device", ["mps", "gpu", "cuda:99"])
def test_an_unusable_device_is_one_line(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["sample", "--model", "none", "--device", device]) == 1
    error = capsys.readouterr().err
    assert f"--device {device}: " in error
    assert error.count("\n") == 1
    assert len(error) < 200


def test_a_lack_of_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy
    import torch

    def lacking(wanted: Callable[[], object]) -> None:
        monkeypatch.setattr(main, "app", lambda *arguments, **options: wanted())
        assert main.run(["show"]) == 1
        message = capsys.readouterr().err
        assert message.startswith("pdtools: not enough memory: compute less at a time")
        assert message.count("\n") == 1

    # Much more than any machine has.
    lacking(lambda: torch.empty(1 << 50))
    lacking(lambda: torch.empty(1 << 62))
    lacking(lambda: numpy.empty(1 << 55))

    def broken() -> None:
        raise RuntimeError("another error")

    monkeypatch.setattr(main, "app", lambda *arguments, **options: broken())
    with pytest.raises(RuntimeError, match="another error"):
        main.run(["show"])


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys, pdtools.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    arguments = ["parse", "-", "--from", "treebank", "-o", str(tmp_path / "out.trees")]
    code = "from pdtools.cli import entry; entry()"
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"(S (A a))\n" * 100_000)
        process.stdin.flush()
        assert list(tmp_path.iterdir())  # it is writing
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    assert list(tmp_path.iterdir()) == []
