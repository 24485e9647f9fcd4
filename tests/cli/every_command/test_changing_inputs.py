"""Inputs that change while a command reads them: nothing is made of two versions, and nobody is misled."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from search_oracle import save_checkpoints
from view_pages import write_run

from pdtools.cli import console
from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.files import Unchanged, unchanged_inputs, watch_inputs
from pdtools.files.outputs import atomic_text
from pdtools.provenance import fingerprint
from pdtools.report.view import page


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A model, sentences, trees, shards, minimal pairs."""
    folder = tmp_path / "inputs"
    save_checkpoints(folder)
    (folder / "run").mkdir()
    shutil.copytree(folder / "pushdown", folder / "run" / "best")
    (folder / "lines.txt").write_text("a b c\nb a\n")
    (folder / "x.trees").write_text("(S (X a) (Y (X b) (X c)))\n(S (X b) (X a))\n")
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.write(folder / "lines.txt", "lines.txt")
        archive.write(folder / "x.trees", "x.trees")
    pair = '{"UID": "u", "pairID": "1", "sentence_good": "a", "sentence_bad": "b", "field": "f", '
    (folder / "pairs.jsonl").write_text(pair + '"linguistics_term": "l"}\n')
    tapes = ["tapes", f"{folder}/x.trees", "--tokenizer", f"{folder}/base", "-o", f"{folder}/shards"]
    assert run([*tapes, "--quiet"]) == 0
    return folder


def append(file: Path) -> None:
    with open(file, "a") as stream:
        stream.write("\n")


def replace(file: Path) -> None:
    new = file.with_name("new")
    shutil.copy2(file, new)
    os.replace(new, file)


def rewrite(file: Path) -> None:
    before = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


CHANGES = [append, replace, rewrite, Path.unlink]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_is_named(change: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("text")
    noted = Unchanged([file, tmp_path / "missing", "-"])
    noted.check()
    file.read_text()
    os.utime(file, ns=(1, file.stat().st_mtime_ns))  # it was read
    noted.check()
    change(file)
    with pytest.raises(InputError, match=r"in\.txt: changed while the command was running"):
        noted.check()


def test_folders_are_known_by_what_is_read_of_them(inputs: Path) -> None:
    """A change of any of these files is noticed, and gives another fingerprint."""
    downloaded = inputs / "downloaded"
    downloaded.mkdir()
    for name in ("config.json", "pytorch_model.bin", "tokenizer.json"):
        (downloaded / name).write_text("{}")
    ours = ("config.json", "model.safetensors", "tokenizer.json")
    for folder, files in (
        ("run", tuple(f"best/{name}" for name in ours)),
        ("base", ours),
        ("shards", ("manifest.json", "tokenizer.json")),
        ("downloaded", tuple(path.name for path in downloaded.iterdir())),
    ):
        for name in files:
            before, noted = fingerprint(inputs / folder), Unchanged([inputs / folder])
            append(inputs / folder / name)
            with pytest.raises(InputError, match=rf"{name}: changed while the command was running"):
                noted.check()
            assert fingerprint(inputs / folder) != before


def test_no_output_appears_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("text")
    with pytest.raises(InputError, match=r"in\.txt: changed"), unchanged_inputs():
        watch_inputs([tmp_path / "in.txt"])
        with atomic_text(tmp_path / "out") as stream:
            stream.write("x")
            append(tmp_path / "in.txt")
    assert os.listdir(tmp_path) == ["in.txt"]
    with atomic_text(tmp_path / "out") as stream:  # no command runs: nothing is watched
        stream.write("x")


COMMANDS = {
    "surprisal": (["surprisal", "{lines.txt}", "--model", "{run}"], "lines.txt"),
    "surprisal, model": (["surprisal", "{lines.txt}", "--model", "{run}"], "run/best/model.safetensors"),
    "surprisal, printed": (["surprisal", "{lines.txt}", "--model", "{run}", "-o", "-"], "lines.txt"),
    "decode": (["decode", "{lines.txt}", "--model", "{run}"], "lines.txt"),
    "surprisal, archive": (["surprisal", "{x.zip}", "--model", "{run}"], "x.zip"),
    "parse": (["parse", "{x.trees}", "--from", "treebank"], "x.trees"),
    "parse --split": (["parse", "{x.trees}", "--from", "treebank", "--split", "0.5,0.5"], "x.trees"),
    "parse --parser": (["parse", "{lines.txt}", "--parser", "{pushdown}"], "pushdown/config.json"),
    "tapes": (["tapes", "{x.trees}"], "x.trees"),
    "tapes, arcs": (["tapes", "{x.trees}"], "x.trees.arcs"),
    "tapes, sentences": (["tapes", "{x.trees}", "--text-style", "raw"], "x.trees.text"),
    "eval-blimp": (["eval-blimp", "{pairs.jsonl}", "--model", "{base}"], "pairs.jsonl"),
    "eval-ppl": (["eval-ppl", "{shards}", "--model", "{base}"], "shards/manifest.json"),
    "eval-parse": (["eval-parse", "{x.trees}", "{lines.txt}"], "x.trees"),
}


@pytest.mark.parametrize("more", [[], ["--figures", "{figures}"]])
def test_runs_in_training_are_viewed(
    more: list[str], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Their checkpoints and records change all the time; as the model of sentences, a run must stay."""
    write_run(tmp_path / "a", 8)
    shutil.copytree(inputs / "pushdown", tmp_path / "a" / "best")
    real = page.render

    def render(*arguments: Any) -> Any:
        for name in ("metrics.jsonl", "best/model.safetensors"):
            append(tmp_path / "a" / name)
        return real(*arguments)

    monkeypatch.setattr(page, "render", render)
    view = ["view", *(each.format(figures=tmp_path / "figures") for each in more), "--device", "cpu", "-q"]
    assert run([*view, str(tmp_path / "a"), "-o", str(tmp_path / "runs.html")]) == 0, capsys.readouterr().err
    shutil.copytree(inputs / "pushdown", tmp_path / "a" / "best", dirs_exist_ok=True)
    text = ["view", "--model", str(tmp_path / "a"), "--text", "a b", "--device", "cpu", "-q"]
    assert run([*text, "-o", str(tmp_path / "x.html")]) == 1
    assert "changed while the command was running" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_notice(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The change comes while items are gone through, when all has been read."""
    arguments, changed = COMMANDS[name]
    real = console.progress

    def progress(items: Any, **options: Any) -> Iterator[Any]:
        yield from real(items, **options)
        append(inputs / changed)

    for module in ("parse", "decode", "surprisal", "console"):
        monkeypatch.setattr(f"pdtools.cli.{module}.progress", progress)
    if name.startswith("tapes"):  # which counts instead
        beside = {"tapes, arcs": "0-1 1-2 1-3\n0-1 1-2\n", "tapes, sentences": "a b c\nb a\n"}
        if name in beside:
            (inputs / changed).write_text(beside[name])

        def describe(file: str) -> dict[str, str]:
            append(inputs / changed)
            return {}

        monkeypatch.setattr("pdtools.shards.writer._describe_source", describe)
    if name == "eval-parse":
        shutil.copy(inputs / "x.trees", inputs / "lines.txt")
    filled = [a.replace("{", f"{inputs}/").replace("}", "") for a in arguments]
    filled += [] if "-o" in filled else ["-o", str(tmp_path / "out")]
    if "--model" in filled:
        filled += ["--device", "cpu"]
    capsys.readouterr()
    assert run([*filled, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert f"{inputs / changed}" in error
    assert "changed while the command was running" in error
    assert error.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path.name not in ("inputs", "out.job")]
