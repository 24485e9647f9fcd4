"""What holds for every command: help, version, exit codes, light imports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import every_command

from pdtools.cli import main

COMMANDS = [*every_command()]
HEAVY = ("torch", "benepar", "stanza", "pyarrow", "pandas", "nltk", "numpy", "transformers", "tokenizers")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command.split(), "--help"]) == 0
    usage, text = capsys.readouterr().out.split("\n", 1)
    assert usage.startswith(f"Usage: pdtools {command} ")
    assert text.strip().split("\n\n")[1].startswith("  Example:\n")  # after what the command does
    example = text[text.index("\n  Example:\n") :].split("\n\n")[0]
    commands = [line for line in example.split("\n")[2:] if not line.startswith(" " * 8)]
    assert commands
    assert all(line.startswith("    ") for line in commands)
    assert f"pdtools {command} " in f"{commands[0]} "


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_names_every_model(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from pdtools.models.registry import MODELS

    assert main.run([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    names = re.search(r"--model NAME (pushdown \(default\).*?)\.", text)
    assert names is not None
    assert sorted(names[1].replace(" (default)", "").split(", ")) == sorted(MODELS)


@pytest.mark.parametrize("words", [[], ["train"], ["generate", "cfl"]])
def test_help_is_a_command_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*words, "--help"]) == 0
    expected = capsys.readouterr().out
    assert main.run(["help", *words]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("command", ["eval-blimp", "eval-sg", "eval-benchmark"])
def test_strings_are_read_after_a_file_only(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([command, "--help"]) == 0
    assert re.findall(r"--context (\S+)", capsys.readouterr().out) == ["FILE"]


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("inspect a --model demo --search max_batch=2", 1, "sentences are read one by one here"),
        ("view --text a --model demo -o p.html --search max_batch=2", 1, "sentences are read one by one"),
        ("view results -o p.html --search word_beam=2", 2, "--search needs a --model"),
        ("view results -o p.html --beam 2", 2, "--beam needs a --model"),
        ("eval-formal cfl shards --margin 2", 2, "--margin needs a --model"),
    ],
)
def test_a_search_where_there_is_none(
    command: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(command.split()) == status
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_quiet_inspection(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["inspect", "the dog barks .", "--model", "demo", "--beam", "2", "-q"]) == 0
    captured = capsys.readouterr()
    assert "[the dog]" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen_and_a_half(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main.run([*command.split(), "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 80


def test_five_groups_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    sections = capsys.readouterr().out.split("\n\n")[3:]
    groups = {
        lines.partition(":\n")[0]: re.findall(r"^  ([\w-]+) ", lines, re.MULTILINE) for lines in sections
    }
    assert list(groups) == list(main.SECTIONS)
    commands = [each for names in groups.values() for each in names]
    assert set(commands) == {name.split()[0] for name in COMMANDS}
    assert len(set(commands)) == len(commands)
    assert "eval-sg" in groups["Evaluation"]


COMPLETED = {
    "pdtools eval-p": {"eval-parse", "eval-ppl"},
    "pdtools generate ": {"dyck", "dyck-prefixes", "cfl", "task"},
    "pdtools train --conf": {"--config"},
    "pdtools config show eng": {"english"},
    "pdtools surprisal x --model eng": {"english", "english-base"},
    "pdtools parse x --from ": {
        *("text", "tokens", "parts", "treebank", "penn-historical", "export", "tiger-xml", "discbracket"),
        *("conllu", "conllu-enhanced", "sdp"),
    },
}


# In one shell all lines; in the others names of commands, with help beside them.
LINES = [*(("bash", line) for line in COMPLETED), ("zsh", "pdtools generate "), ("fish", "pdtools generate ")]


@pytest.mark.parametrize(("shell", "line"), LINES)
def test_completion(shell: str, line: str) -> None:
    words = line.split(" ")
    asked = {
        "_PDTOOLS_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = _started([], asked)
    assert done.returncode == 0
    name = r'"([^"]+)"(?::"[^"]*")?' if shell == "zsh" else r"^(\S+)"
    offered = set(re.findall(name, done.stdout, re.MULTILINE))
    assert offered == COMPLETED[line], done.stdout


@pytest.mark.linux
def test_completion_in_bash(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(_started([], {"_PDTOOLS_COMPLETE": "source_bash"}).stdout)
    (tmp_path / "pdtools").write_text(f'#!/bin/sh\nexec {sys.executable} -m pdtools "$@"\n')
    (tmp_path / "pdtools").chmod(0o755)
    keys = (
        "COMP_WORDS=(pdtools generate dyck-); COMP_CWORD=2; _pdtools_completion pdtools; echo ${COMPREPLY[@]}"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "-c", f". {tmp_path}/script; {keys}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dyck-prefixes"]


def _started(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pdtools", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.mark.parametrize(
    "command",
    [
        ["config", "keys"],  # much: the pipe is closed while it prints
        ["--version"],  # little: when Python ends
        ["surprisal", "--text", "the aunt chased the nurse .", "--model", "demo", "-q", "--beam", "2"],
    ],
)
def test_a_reader_that_has_enough(command: list[str]) -> None:
    """As in ``pdtools … | head -1``: no words about it, and the status that SIGPIPE would give."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "pdtools", *command], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.stderr, done.returncode) == ("", 141)


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["no-such-command"]) == 2
    assert main.run(["parse", "--no-such-option"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("device", ["mps", "gpu", "cuda:99"])
def test_an_unusable_device_is_one_line(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["sample", "--model", "./none", "--device", device]) == 1
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
        monkeypatch.setattr(main, "_commands", lambda *arguments, **options: wanted())
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

    monkeypatch.setattr(main, "_commands", lambda *arguments, **options: broken())
    with pytest.raises(RuntimeError, match="another error"):
        main.run(["show"])


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys, pdtools.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(find_spec("sklearn") is not None, reason="nltk imports scikit-learn, which needs scipy")
def test_a_surprisal_loads_only_what_it_needs() -> None:
    arguments = ["surprisal", "--text", "the dog sees the cat", "--model", "demo", "--quiet"]
    code = f"import sys; from pdtools.cli.main import run; run({arguments}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "torch" in modules
    assert not modules & {"pandas", "scipy.sparse", "scipy.stats", "sympy", "transformers"}


@pytest.mark.linux
def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    arguments = ["parse", "-", "--from", "treebank", "-o", str(tmp_path / "out.trees")]
    code = "from pdtools.cli import entry; entry()"
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"(S (A a))\n" * 30_000)
        process.stdin.flush()
        assert list(tmp_path.iterdir())  # it is writing
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    assert list(tmp_path.iterdir()) == []


DATA = Path(__file__).parents[3] / "data"
JSON_AND_DATA = "--json prints a report on standard output: give the data a file with -o"
TWO_FORMS = "--json and --latex both print on standard output: give only one"
NO_FOLDER = "name a folder for the results with -o"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("decode --text a --model demo --json", JSON_AND_DATA),
        ("sample --model demo --json", JSON_AND_DATA),
        ("prompts a.tsv --task rte --json", JSON_AND_DATA),
        ("generate dyck -n 3 --json", JSON_AND_DATA),
        (f"eval-blimp {DATA}/blimp --write-sentences - --json", JSON_AND_DATA),
        (f"eval-sg {DATA}/sg --model demo -o out --json --latex", TWO_FORMS),
        ("compare a b --json --latex", TWO_FORMS),
        (f"eval-blimp {DATA}/blimp --model demo", NO_FOLDER),
    ],
)
def test_two_things_have_two_places(
    command: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A report and the data, or a table in two forms, are not printed one after the other."""
    monkeypatch.chdir(tmp_path)
    Path("a.trees").write_text("(S (A a))\n")
    Path("a.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n")
    assert main.run(command.split()) == 2
    out, error = capsys.readouterr()
    assert (out, " ".join(error.split()).count(said)) == ("", 1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.trees", "a.tsv"]
