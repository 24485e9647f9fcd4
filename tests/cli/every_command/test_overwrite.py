"""What --overwrite replaces: what pdtools wrote, and never what is read."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from search_oracle import save_checkpoints

from pdtools.cli.main import run
from pdtools.cli.running import check_different, check_output_or_done
from pdtools.errors import PdtoolsError
from pdtools.jobs import Plan, job_folder

Error = Callable[[], str]
SMALL = ("config.layers=1", "config.d_model=8", "config.heads=1", "train.steps=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of every kind, and what they are made of."""
    folder = tmp_path_factory.mktemp("made")
    save_checkpoints(folder / "models")
    (folder / "x.pcfg").write_text("S -> 'a' S [0.5] | 'a' [0.5]\n")
    (folder / "lines.txt").write_text("a b c\nb a\n")
    (folder / "x.trees").write_text("(S (X a) (Y (X b) (X c)))\n(S (X b) (X a))\n")
    (folder / "x.tsv").write_text("prefix\tcloser\tdependency\tdepth\n(1\t)1\t1\t1\n")
    trees, model = str(folder / "x.trees"), str(folder / "models" / "base")
    settings = [f"--set={s}" for s in SMALL]
    for command in (
        ["tapes", trees, "--tokenizer", model, "-o", "shards"],
        ["blocks", str(folder / "lines.txt"), "--length", "4", "-o", "blocks"],
        ["parse", trees, "--from", "treebank", "--split", "0.5,0.5", "-o", "split"],
        ["eval-parse", trees, trees, "-o", "results"],
        ["train", str(folder / "shards"), *settings, "--device", "cpu", "-o", "run"],
    ):
        arguments = [*command[:-1], str(folder / command[-1]), "--quiet"]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", ["pdtools", *arguments])  # the command that provenance names
            assert run(arguments) == 0
    shutil.copytree(folder / "models" / "base", folder / "checkpoint")
    return folder


@pytest.fixture
def error(capsys: pytest.CaptureFixture[str]) -> Error:
    def one_line() -> str:
        found = capsys.readouterr().err
        assert found.count("\n") == 1, found
        return found

    return one_line


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def evaluate(made: Path, output: object, *more: str) -> int:
    trees = str(made / "x.trees")
    return run(["eval-parse", trees, trees, "-o", str(output), "--json", *more])


KINDS = {
    "shards": "the shards",
    "blocks": "the shards",
    "split": "the trees of parse --split",
    "results": "the results of eval-parse",
    "run": "the training run",
    "checkpoint": "the checkpoint",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_pdtools_wrote_is_replaced_and_named(
    kind: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--quiet"]):
        shutil.copytree(made / kind, tmp_path / "out", dirs_exist_ok=True)
        (tmp_path / "out" / ".DS_Store").write_text("of the system")
        capsys.readouterr()
        assert evaluate(made, tmp_path / "out", "--overwrite", *more) == 0
        said = capsys.readouterr().err
        assert said == ("" if more else f"replacing {KINDS[kind]} in {tmp_path / 'out'}\n")
        assert sorted(os.listdir(tmp_path / "out")) == ["items.parquet", "pdtools.json", "results.json"]
        shutil.rmtree(tmp_path / "out")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_in_the_place_of_something_else(kind: str, made: Path, tmp_path: Path, capsys: Any) -> None:
    shutil.copytree(made / kind, tmp_path / "out")
    settings = [f"--set={s}" for s in SMALL]
    command = ["train", str(made / "shards"), *settings, "--device", "cpu", "-o", str(tmp_path / "out")]
    assert run([*command, "--resume"]) == (0 if kind == "run" else 1)
    capsys.readouterr()
    assert run([*command, "--overwrite"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"replacing {KINDS[kind]}")
    assert sorted(os.listdir(tmp_path)) == [".out.lock", "out"]
    names = ["best", "last", "metrics.jsonl", "pdtools.json", "run.json", "tensorboard"]
    assert sorted(os.listdir(tmp_path / "out")) == names


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        *(("shards", "README.md"), ("blocks", "rejects.jsonl"), ("split", "train.trees")),
        *(("results", "results.json"), ("run", "best/config.json"), ("checkpoint", "tokenizer.json")),
        ("run", "last/trainer/state.json"),
    ],
)
@pytest.mark.parametrize("same_size", [False, True])
def test_a_listed_file_that_was_changed_is_not_replaced(
    kind: str, file: str, same_size: bool, made: Path, tmp_path: Path, error: Error
) -> None:
    out = Path(shutil.copytree(made / kind, tmp_path / "out"))
    data = (out / file).read_bytes()
    (out / file).write_bytes(data[:-1] + b" " if same_size and data else data + b"mine")
    before = contents(out)
    assert evaluate(made, out, "--overwrite") == 1
    assert f"holds {file}, which is not as pdtools wrote it" in error()
    assert contents(out) == before


def test_a_folder_without_its_list_is_not_replaced(made: Path, tmp_path: Path, error: Error) -> None:
    out = Path(shutil.copytree(made / "results", tmp_path / "out"))
    (out / "pdtools.json").unlink()
    before = contents(out)
    assert evaluate(made, out, "--overwrite") == 1
    assert "not a folder that pdtools wrote" in error()
    assert contents(out) == before


@pytest.mark.parametrize("kind", ["results", "run"])
@pytest.mark.parametrize(
    "place",
    [
        *("notes.txt", "deep/notes.txt", ".notes", "{first}/notes.txt"),
        *(".notes.old/notes.txt", ".notes.old", ".notes.new", ".nfs-backup/notes.txt", "{first}/.a.tmp"),
    ],
)
def test_what_holds_files_of_others_is_not_replaced(
    kind: str, place: str, made: Path, tmp_path: Path, error: Error
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made / kind, out)
    folders = [path.name for path in sorted(out.iterdir()) if path.is_dir()]
    if "{first}" in place and not folders:
        return
    notes = out / place.format(first=next(iter(folders), ""))
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("ten years")
    before = contents(out)
    assert evaluate(made, out, "--overwrite") == 1
    named = Path(place.format(first=next(iter(folders), ""))).parts
    wanted = "/".join(named) if "{first}" in place else named[0]
    assert f"{out}: holds {wanted}, which pdtools did not write there" in error()
    assert contents(out) == before


@pytest.mark.parametrize(
    "files",
    [
        ["thesis.tex"],
        ["results.json"],
        ["results.json", "items.parquet"],
        ["config.json", "model.safetensors", "tokenizer.json"],
        ["manifest.json"],
        ["run.json", "best/config.json"],
        ["train.trees"],
        ["a/b/c"],
        [".bashrc.old"],
        [".vim.old/vimrc", ".thesis.tmp"],
    ],
)
def test_folders_of_others_are_not_replaced(
    files: list[str], made: Path, tmp_path: Path, error: Error
) -> None:
    for name in files:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("{}")
    before = contents(tmp_path / "out")
    for command in (
        ["eval-parse", str(made / "x.trees"), str(made / "x.trees"), "--json"],
        ["tapes", str(made / "x.trees")],
        ["train", str(made / "shards"), "--device", "cpu"],
    ):
        assert run([*command, "-o", str(tmp_path / "out"), "--overwrite"]) == 1
        said = error()
        assert f"holds {min(files).partition('/')[0]}" in said
        assert "not a folder that pdtools wrote" in said
        assert contents(tmp_path / "out") == before


def test_an_empty_folder_is_replaced(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    assert evaluate(made, tmp_path / "out") == 1
    capsys.readouterr()
    assert evaluate(made, tmp_path / "out", "--overwrite") == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "out" / "results.json").exists()


def test_a_file_where_a_folder_goes_and_a_folder_where_a_file_goes(
    made: Path, tmp_path: Path, error: Error
) -> None:
    (tmp_path / "file").write_text("ten years")
    shutil.copytree(made / "results", tmp_path / "folder")
    for more in ([], ["--overwrite"]):
        assert evaluate(made, tmp_path / "file", *more) == 1
        assert "exists already as a file, but a folder is to be written" in error()
        assert run(["generate", "dyck", "--number", "3", "-o", str(tmp_path / "folder"), *more]) == 1
        assert "exists already as a folder, but a file is to be written" in error()
    assert (tmp_path / "file").read_text() == "ten years"
    assert contents(tmp_path / "folder") == contents(made / "results")


def test_the_current_directory_and_those_above_stay(
    made: Path, tmp_path: Path, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run" / "best")
    before = contents(tmp_path)
    for output in (".", "..", "../..", tmp_path / "run" / "best", tmp_path / "run", tmp_path / "link", "/"):
        assert evaluate(made, output, "--overwrite") == 1
        wanted = ("the current directory is not replaced", "a part of a training run", "holds the input")
        assert error().split(": ", 2)[2].startswith(wanted)
        assert contents(tmp_path) == before


def test_the_model_that_is_scored_stays(made: Path, tmp_path: Path, error: Error) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "pairs.jsonl").write_text("{}")
    before = contents(tmp_path)
    models = [
        str(tmp_path / name) for name in ("run", "run/best", "link", "link/best", "run/best/../../link")
    ]
    for model in models:
        for name in ("run", "run/best", "link", "link/best", "best/../run/best"):
            (tmp_path / "best").mkdir(exist_ok=True)
            command = ["eval-blimp", str(tmp_path / "pairs.jsonl"), "--model", model, "--overwrite"]
            assert run([*command, "-o", str(tmp_path / name)]) == 1
            assert "which would be deleted" in error()
        output = str(tmp_path / "run" / "best" / "model.safetensors")
        command = ["surprisal", str(made / "lines.txt"), "--model", model, "--overwrite"]
        assert run([*command, "-o", output]) == 1
        assert "which would be replaced" in error()
        (tmp_path / "best").rmdir()
        assert contents(tmp_path) == before
    # What a run has beside the model that is read is not for other outputs either.
    for name in ("last", "metrics.jsonl"):
        command = ["generate", "dyck", "--number", "3", "--overwrite", "-o", str(tmp_path / "run" / name)]
        assert run([*command, *(["--shards"] if name == "last" else [])]) == (1 if name == "last" else 0)


def test_results_beside_the_model_in_its_run_are_made_and_replaced(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    command = ["eval-ppl", str(made / "shards"), "--model", str(tmp_path / "run"), "--device", "cpu"]
    for more in ([], ["--overwrite"]):
        assert run([*command, "-o", str(tmp_path / "run" / "ppl"), *more, "--quiet"]) == 0
    for more in ([], ["--overwrite"]):
        assert (
            run(
                [
                    *["surprisal", str(made / "lines.txt"), "--model", str(tmp_path / "run"), *more],
                    *["-o", str(tmp_path / "run" / "s.tsv"), "--device", "cpu", "--quiet"],
                ]
            )
            == 0
        )


def test_an_input_file_stays(made: Path, tmp_path: Path, error: Error) -> None:
    place = tmp_path / "in.txt"
    place.write_text("a b c\n")
    (tmp_path / "soft.txt").symlink_to("in.txt")
    os.link(place, tmp_path / "hard.txt")
    model = ["--model", str(made / "models" / "pushdown"), "--device", "cpu"]
    for read in ("in.txt", "soft.txt", "hard.txt"):
        for written in ("in.txt", "soft.txt", "hard.txt", "in.txt/", "in.txt/.", "soft.txt//./"):
            for command in (["surprisal"], ["decode"], ["decode", "--scores"]):
                target = [] if len(command) == 1 else [f"{tmp_path}/{written}"]
                output = f"{tmp_path}/{'new.trees' if target else written}"
                given = [command[0], str(tmp_path / read), *model, *command[1:], *target, "-o", output]
                assert run([*given, "--overwrite"]) == 1
                assert "is the input" in error()
    assert sorted(os.listdir(tmp_path)) == ["hard.txt", "in.txt", "soft.txt"]
    assert place.read_text() == "a b c\n"


RUN, AS = ["--model", "{run}"], ["--as", "blimp"]
WINDOWS = ["--layout", "window", "--window", "9", "--tokenizer", "{run}"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["tapes", "{x.trees}", "--tokenizer", "{shards}", "-o", "{shards}"],
        ["tapes", "{x.trees}", "--tokenizer", "{shards}/tokenizer.json", "-o", "{shards}"],
        ["blocks", "{lines.txt}", "--tokenizer", "{shards}", "-o", "{shards}"],
        ["tapes", "{x.trees}", *WINDOWS, "--prompts", "{results}/results.json", "-o", "{results}"],
        ["parse", "{lines.txt}", "--model", "{split}/train.trees", "--split", "0.5,0.5", "-o", "{split}"],
        ["export", "{run}", "-o", "{run}"],
        ["export", "{run}", "--results", "{results}", "-o", "{results}"],
        ["parse", "{lines.txt}", "--parser", "{run}", "--split", "0.5,0.5", "-o", "{run}"],
        ["surprisal", "{x.tsv}", *RUN, "--context", "{lines.txt}", "-o", "{lines.txt}"],
        ["surprisal", "{x.tsv}", *RUN, "--words", "--frequencies", "{lines.txt}", "-o", "{lines.txt}"],
        ["surprisal", "--text=a", *RUN, "--context", "{lines.txt}", "-o", "{lines.txt}"],
        ["surprisal", "--text=a", *RUN, "--trees", "{x.trees}", "-o", "{x.trees}"],
        ["sample", "--model", "{run}", "-o", "{run}/best/config.json"],
        ["inspect", "a", "--model", "{run}", "-o", "{run}/best/config.json.svg"],
        ["train", "{shards}", "--valid", "{run}", "-o", "{run}"],
        ["train", "{shards}", "--init", "{run}/best", "-o", "{run}"],
        ["train", "{run}", "-o", "{run}"],
        ["train", "{shards}", "--treereg-shards", "{results}", "-o", "{results}"],
        ["train", "{shards}", "--config", "{results}/results.json", "-o", "{results}"],
        ["eval-formal", "cfl", "{shards}", "--model", "{run}", "-o", "{shards}"],
        ["eval-formal", "dyck", "{x.tsv}", "--model", "{run}", "--strings", "{shards}", "-o", "{shards}"],
        ["eval-formal", "task", "{x.tsv}", "--model", "{run}", "-o", "{run}"],
        ["eval-attention", "{x.tsv}", "--at", "1", "--model", "{run}", "-o", "{run}"],
        ["eval-ppl", "{shards}", "--model", "{run}", "-o", "{shards}"],
        ["eval-reading", "{x.tsv}", "--model", "{run}", "-o", "{run}"],
        ["eval-ppl", "{lines.txt}", *RUN, "--context", "{results}/results.json", "-o", "{results}"],
        ["eval-sg", "{x.tsv}", *RUN, "--context", "{results}/results.json", "-o", "{results}"],
        ["eval-blimp", "{x.tsv}", *RUN, "--context", "{results}/results.json", "-o", "{results}"],
        ["eval-benchmark", "{x.tsv}", *AS, *RUN, "--context", "{results}/results.json", "-o", "{results}"],
        ["eval-reading", "{x.tsv}", *RUN, "--context", "{results}/results.json", "-o", "{results}"],
        ["eval-sg", "{x.tsv}", "--surprisals", "{results}/items.parquet", "-o", "{results}"],
        ["eval-sg", "{x.tsv}", "--write-sentences", "{x.tsv}"],
        ["eval-blimp", "{x.tsv}", "--write-sentences", "{x.tsv}"],
        ["eval-parse", "{x.trees}", "{split}/train.trees", "-o", "{split}"],
        ["generate", "cfl", "{x.pcfg}", "-o", "{x.pcfg}"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_every_command_tells_what_it_reads(
    arguments: list[str], made: Path, tmp_path: Path, error: Error
) -> None:
    for name in ("shards", "run", "results", "split"):
        shutil.copytree(made / name, tmp_path / name)
    for name in ("x.trees", "x.tsv", "x.pcfg", "lines.txt"):
        shutil.copy(made / name, tmp_path)
    if arguments[0] == "inspect":
        os.link(tmp_path / "run/best/config.json", tmp_path / "run/best/config.json.svg")
    before = contents(tmp_path)
    filled = [a.replace("{", f"{tmp_path}/").replace("}", "") for a in arguments]
    assert run([*filled, "--overwrite"]) == 1
    assert "the input" in error()
    assert contents(tmp_path) == before


TWO_OUTPUTS = {
    "eval-reading": (["eval-reading", "{x.tsv}", "--model", "{run}"], "--table"),
    "view": (["view", "{results}"], "--figures"),
    "prompts": (["prompts", "{x.tsv}", "--task", "rte"], "--hold-out"),
    "decode": (["decode", "{lines.txt}", "--model", "{run}"], "--scores"),
}


@pytest.mark.parametrize("command", TWO_OUTPUTS)
def test_one_output_inside_of_another_is_refused_before_the_work(
    command: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, option = TWO_OUTPUTS[command]
    filled = [a.replace("{", f"{made}/").replace("}", "") for a in arguments]
    outer, inner = ("-o", option) if command != "view" else (option, "-o")
    assert run([*filled, outer, "out", inner, "out/x.svg"]) == 2
    assert "out/x.svg: inside of out, which is another output" in as_one_line(capsys)
    assert not os.listdir(tmp_path)


def as_one_line(capsys: Any) -> str:
    """What was said, without a frame around it."""
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("out", "out/x.tsv"), "out/x.tsv: inside of out,"),
        (("out/x.tsv", "out"), "out/x.tsv: inside of out,"),
        (("out/", "./out/../out/deep/x.tsv"), "inside of out/,"),
        (("link", "there/x.tsv"), "there/x.tsv: inside of link,"),
        (("there", "link/x.tsv"), "link/x.tsv: inside of there,"),
        (("out.trees", "out.trees/x.tsv"), "inside of out.trees,"),
        (("a", "b", "c", "b/x"), "b/x: inside of b,"),
        (("there/x", "link/x"), "link/x: two outputs of this name"),
        (("out", "out/."), "two outputs of this name"),
        (("out", "output.tsv", "outside/out", "link", "there.tsv", "/dev/null", "-", "-"), None),
        (("there/x.tsv", "there/y.tsv", "there/out/x.tsv"), None),
    ],
)
def test_each_output_has_its_own_place(
    outputs: tuple[str, ...], message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    if message is None:
        check_different(*outputs)
        return
    with pytest.raises(typer.BadParameter, match=message):
        check_different(*outputs)


@pytest.mark.parametrize("command", ["eval-reading", "decode"])
def test_an_output_in_the_folder_of_chunks_is_refused(
    command: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, option = TWO_OUTPUTS[command]
    filled = [a.replace("{", f"{made}/").replace("}", "") for a in arguments]
    assert run([*filled, "-o", "out", option, "out.job/x.tsv"]) == 2
    assert "inside of out.job" in as_one_line(capsys)
    assert not os.listdir(tmp_path)


def test_going_on_replaces_a_file_beside_only_where_a_run_has_begun(tmp_path: Path) -> None:
    out, rejects, plan = tmp_path / "out", tmp_path / "rejects", Plan(resume=True)
    rejects.write_text("of another run")

    def check(plan: Plan) -> None:
        beside = [str(rejects)]
        check_output_or_done(str(out), plan, folder=False, overwrite=False, inputs=[], beside=beside)

    with pytest.raises(PdtoolsError, match=r"rejects: exists already"):
        check(plan)
    with pytest.raises(KeyboardInterrupt), job_folder(out, {}, Plan()) as job:
        assert job is not None
        for number in range(2):
            job.chunks("pieces").write(number, "0a", b"done")
        raise KeyboardInterrupt
    with pytest.raises(PdtoolsError, match=r"rejects: of an unfinished run \(--resume continues it"):
        check(Plan())
    check(plan)


def test_an_output_in_the_folder_that_is_read(made: Path, tmp_path: Path, error: Error) -> None:
    """New, it harms nothing; where it would be read itself, it is not overwritten."""
    shutil.copy(made / "x.trees", tmp_path)
    command = ["parse", str(tmp_path), "--from", "treebank", "--quiet", "-o", str(tmp_path / "out.trees")]
    assert run(command) == 0
    assert run([*command, "--overwrite"]) == 1
    assert "is the input" in error()


@pytest.mark.parametrize("command", ["decode", "surprisal", "parse", "treebank"])
def test_an_archive_that_is_read_is_not_replaced(
    command: str, made: Path, tmp_path: Path, error: Error
) -> None:
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(made / "lines.txt", "deep/lines.txt")
        packed.write(made / "x.trees", "x.trees")
    before = archive.read_bytes()
    option = "--parser" if command == "parse" else "--model"
    model = [option, str(made / "models" / "pushdown")]
    arguments = ["parse", "--from", "treebank"] if command == "treebank" else [command, *model]
    (tmp_path / "link").symlink_to(archive)
    for output in (archive, tmp_path / "link"):
        assert run([*arguments, str(archive), "-o", str(output), "--overwrite"]) == 1
        assert "x.zip/" in (said := error())
        assert "which would be replaced" in said
        assert archive.read_bytes() == before
