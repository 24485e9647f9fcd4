"""What is shown on a terminal of work that goes on: how many of how many of what, and the time left."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from pdtools.cli import console
from pdtools.cli.main import run
from pdtools.files import count_lines
from pdtools.trees import count_trees

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"
TREES = TREE * 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "gold.trees").write_text(TREES)
    (folder / "text.txt").write_text("the dog barks\n" * 6 + "\n" + "the dog\n" * 5)
    (folder / "text.txt.gz").write_bytes(gzip.compress(b"the dog barks\n" * 12))
    assert run(["tapes", str(folder / "gold.trees"), "-o", str(folder / "shards"), "-q"]) == 0
    small = ["config.layers=1", "config.d_model=8", "config.heads=2", "config.d_ff=8", "train.steps=2"]
    options = [word for setting in small for word in ("--set", setting)] + ["--device", "cpu", "-q"]
    assert run(["train", str(folder / "shards"), "-o", str(folder / "run"), *options]) == 0
    return folder


@pytest.fixture
def shown(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """Runs a command at a terminal, and gives the last state of each line that it shows there."""
    monkeypatch.chdir(data)
    monkeypatch.setenv("COLUMNS", "80")

    def call(command: str) -> str:
        capsys.readouterr()
        with monkeypatch.context() as patched:
            patched.setattr(console.sys.stderr, "isatty", lambda: True, raising=False)
            assert run(command.split()) == 0
        return "\n".join(line.split("\r")[-1] for line in capsys.readouterr().err.split("\n"))

    return call


@pytest.mark.parametrize(
    ("command", "unit"),
    [
        ("decode text.txt --model run --beam 2 -o {new}", "sentences"),
        ("decode text.txt.gz --model run --beam 2 -o {new}", "sentences"),
        ("decode gold.trees --from treebank --model run --beam 2 -o {new}", "sentences"),
        ("surprisal text.txt --model run --beam 2 -o {new}", "sentences"),
        ("parse gold.trees --from treebank -o {new}", "trees"),
        ("parse text.txt --parser run --beam 2 -o {new}", "trees"),
        ("tapes gold.trees -o {new}", "trees"),
        ("blocks text.txt -o {new}", "lines"),
        ("eval-parse gold.trees gold.trees", "sentences"),
        ("eval-ppl shards --model run --beam 2", "sentences"),
        ("sample --model run -n 12 --max-tokens 3 -o {new}", "strings"),
        ("generate dyck -n 12 -o {new}", "strings"),
        ("train shards --device cpu --set train.steps=12 --set config.layers=1 -o {new}", "steps"),
    ],
)
def test_every_long_command_shows_unit_total_and_time_left(
    command: str, unit: str, shown: object, tmp_path: Path
) -> None:
    text = shown(command.format(new=tmp_path / "new"))  # type: ignore[operator]
    assert re.search(rf"\b12/12 {unit} \|.*\| \d\d:\d\d, \d\d:\d\d left, .* {unit}/s", text), text


def test_passes_have_names(shown: object, tmp_path: Path) -> None:
    for command, last in (
        (f"tapes gold.trees -o {tmp_path / 'a'}", "tapes"),
        (f"blocks text.txt -o {tmp_path / 'b'}", "blocks"),
    ):
        text = shown(command)  # type: ignore[operator]
        assert re.search(r"^tokenizer: 12/12 ", text, re.MULTILINE)
        assert re.search(rf"^{last}: 12/12 ", text, re.MULTILINE)


def test_of_a_pipe_only_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.sys.stderr, "isatty", lambda: True, raising=False)
    shown = console.progress(iter(range(3)), total=lambda: count_lines(["-"]), label="sentences")
    assert list(shown) == [0, 1, 2]
    assert re.fullmatch(
        r"3 sentences, \d\d:\d\d, .* sentences/s", capsys.readouterr().err.split("\r")[-1].strip()
    )


def test_nothing_is_counted_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    def total() -> int:
        raise AssertionError

    assert list(console.progress([1, 2], total=total, label="trees")) == [1, 2]
    with console.counter("tapes", total=total, label="trees") as seen:
        seen(2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\nb", 3), ("x" * (1 << 20), 1)]
)
def test_lines_are_counted(text: str, number: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text)
    (tmp_path / "b.gz").write_bytes(gzip.compress(text.encode()))
    assert count_lines([str(tmp_path / "a"), str(tmp_path / "b.gz")]) == 2 * number


def test_trees_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TREES)
    (tmp_path / "b").write_text("( (S\n  (A a)\n\n  (B b)) )\n\n" + TREE)
    assert count_trees([str(tmp_path / "a"), str(tmp_path / "b")]) == 14
    (tmp_path / "c").write_text("(S (A a)")
    assert count_trees([str(tmp_path / "a"), str(tmp_path / "c")]) is None
