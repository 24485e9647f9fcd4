"""Two runs for one output: whichever comes second is refused, whatever the first has got to by then."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from search_oracle import save_checkpoints, tiny_model
from toy_prompts import toy_prompts

from pdtools.cli.main import run
from pdtools.files import outputs
from pdtools.jobs import folder as job_folders
from pdtools.models import save_checkpoint
from pdtools.shards import ShardSet


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, sentences, trees, shards, minimal pairs, running text, prefixes of strings, and prompts."""
    folder = tmp_path_factory.mktemp("inputs")
    save_checkpoints(folder)
    (folder / "lines.txt").write_text("a b c\nb a\n")
    (folder / "x.trees").write_text("(S (X a) (Y (X b) (X c)))\n(S (X b) (X a))\n")
    pair = '{"UID": "u", "pairID": "1", "sentence_good": "a", "sentence_bad": "b", "field": "f", '
    (folder / "pairs.jsonl").write_text(pair + '"linguistics_term": "l"}\n')
    (folder / "prefixes.tsv").write_text("prefix\tcloser\tdependency\tdepth\n(1\t)1\t1\t1\n")
    rows = ["item\tword_number\tword\tsubject\ttime"]  # words of one letter, and of two with a space
    rows += [f"{i // 12}\t{i % 12}\t{('a', 'b c', 'b')[i % 7 % 3]}\ts\t{300 + i * i % 31}" for i in range(36)]
    (folder / "times.tsv").write_text("\n".join(rows) + "\n")
    (folder / "rte.jsonl").write_text('{"sentence1": "a", "sentence2": "b", "label": "entailment"}\n')
    prompts = ShardSet.open(toy_prompts(folder / "prompts", 4, 1))
    settings = prompts.manifest["settings"]
    reader = tiny_model(vocab_size=prompts.tokenizer.vocab_size, max_length=25, layout="window")
    save_checkpoint(folder / "reader", reader, prompts.tokenizer, shards=settings)
    tapes = ["tapes", f"{folder}/x.trees", "--tokenizer", f"{folder}/base", "-o", f"{folder}/shards"]
    assert run([*tapes, "--quiet"]) == 0
    return folder


MODEL = "--model {pushdown} --device cpu"
NOT_IN_CHUNKS = {
    "generate dyck": "generate dyck --number 20",
    "generate dyck --shards": "generate dyck --number 20 --shards",
    "generate dyck-prefixes": "generate dyck-prefixes --depths 3-4 --number 4",
    "generate task": "generate task rs --lengths 4 --number 2",
    "sample": "sample MODEL --number 2 --max-tokens 4",
    "blocks": "blocks {lines.txt} --length 8",
    "eval-parse": "eval-parse {x.trees} {x.trees}",
    "eval-blimp --write-sentences": "eval-blimp {pairs.jsonl}",
    "prompts": "prompts {rte.jsonl} --task rte --no-split-sentences",
}
IN_CHUNKS = {
    "parse": "parse {x.trees} --from treebank",
    "parse --split": "parse {x.trees} --from treebank --split 0.5,0.5",
    "tapes": "tapes {x.trees}",
    "decode": "decode {lines.txt} MODEL",
    "surprisal": "surprisal {lines.txt} MODEL",
    "eval-blimp": "eval-blimp {pairs.jsonl} MODEL",
    "eval-ppl": "eval-ppl {shards} MODEL",
    "eval-dyck": "eval-formal dyck {prefixes.tsv} MODEL",
    "eval-reading": "eval-reading {times.tsv} MODEL --beam 2 --spillover 0 --samples 100",
    "eval-classify": "eval-classify {prompts} --model {reader} --device cpu --samples 9",
}
Other = Callable[[], None]


@pytest.fixture(params=["file", "folder"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Other:
    """The end of another run, which makes the same output."""

    def make() -> None:
        out = tmp_path / "out"
        if request.param == "folder":
            out.mkdir()
            out = out / "results.json"
        out.write_text("of the other run")

    return make


def content(output: Path) -> str:
    return (output / "results.json" if output.is_dir() else output).read_text()


def command(name: str, inputs: Path, output: Path) -> list[str]:
    option = "--write-sentences" if name.endswith("--write-sentences") else "-o"
    words = {**NOT_IN_CHUNKS, **IN_CHUNKS}[name].replace("MODEL", MODEL).split()
    filled = [word.replace("{", f"{inputs}/").replace("}", "") for word in words]
    return [*filled, option, str(output), "--quiet"]


@pytest.mark.parametrize("name", NOT_IN_CHUNKS)
def test_what_another_run_has_made_meanwhile_is_kept(
    name: str,
    other: Other,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = outputs._temporary

    @contextlib.contextmanager
    def temporary(final: Path) -> Iterator[Path]:
        with real(final) as found:
            if final == tmp_path / "out":
                other()
            yield found

    monkeypatch.setattr(outputs, "_temporary", temporary)
    assert run(command(name, inputs, tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert "exists already: another process has made it meanwhile" in error
    assert error.count("\n") == 1
    assert content(tmp_path / "out") == "of the other run"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("name", IN_CHUNKS)
def test_a_run_in_chunks_that_waited_for_another(
    name: str,
    other: Other,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = job_folders._alone

    @contextlib.contextmanager
    def alone(*arguments: object) -> Iterator[None]:
        other()  # between the first look at the output and the lock
        with real(*arguments):  # type: ignore[arg-type]
            yield

    monkeypatch.setattr(job_folders, "_alone", alone)
    assert run(command(name, inputs, tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path / 'out'}: exists already" in error
    assert error.count("\n") == 1
    assert content(tmp_path / "out") == "of the other run"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")
@pytest.mark.parametrize("name", ["generate dyck --shards", "tapes"])
def test_two_processes_at_once(name: str, inputs: Path, tmp_path: Path) -> None:
    for turn in range(4):
        output = tmp_path / str(turn)
        children = []
        for _ in range(2):
            child = os.fork()
            if not child:
                try:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                    os._exit(run(command(name, inputs, output)))
                finally:
                    os._exit(70)
            children.append(child)
        status = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(status) == [0, 1]
        assert len(ShardSet.open(output))
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["blocks", "eval-formal cfl", "eval-formal dyck", "eval-parse"])
def test_a_folder_with_the_input_in_it_is_not_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No more than a glance is taken at an input, so none needs to make sense."""
    file = tmp_path / "folder" / "in"
    file.parent.mkdir()
    content = "(S (X a))\n" if name == "eval-parse" else "a\n"
    file.write_text(content)
    model = [] if name in ("blocks", "eval-parse") else ["--model", "run"]
    read = [str(file), str(file)] if name == "eval-parse" else [str(file)]
    assert run([*name.split(), *read, *model, "-o", str(file.parent), "--overwrite"]) == 1
    assert "holds the input" in capsys.readouterr().err
    assert file.read_text() == content
