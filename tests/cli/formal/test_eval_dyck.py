from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.evaluation.formal import dyck
from pdtools.evaluation.formal.dyck import Closed, ClosingWork, NumberedPrefix
from pdtools.evaluation.results import read_results


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards, two files of prefixes, and a model trained for two steps."""
    work = tmp_path_factory.mktemp("dyck")
    strings = "generate dyck -q --brackets 2 --depth 3 -n 40 --shards"
    prefixes = "generate dyck-prefixes -q --brackets 2 --number 4"
    shape = "--set=config.layers=1 --set=config.d_model=16 --set=config.d_ff=16 --set=train.steps=2"
    for command in (
        f"{strings} -o {work}/shards",
        f"{prefixes} --dependency 5 --depth 4 --max-length 20 -o {work}/far.tsv",
        f"{prefixes} --depths 4-5 -o {work}/deep.tsv",
        f"train {work}/shards --valid {work}/shards --config dyck {shape} -q -o {work}/run",
    ):
        assert run(command.split()) == 0
    return work


def test_a_table_and_a_folder(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    command = f"eval-formal dyck {work}/far.tsv {work}/deep.tsv --model {work}/run".split()
    command += ["--strings", str(work / "shards"), "--beam", "3", "-o", str(out)]
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert "Closing brackets by set (percent)" in printed
    assert "Against the automaton" in printed
    document, items = read_results(out)
    assert list(document["scores"]["by_set"]) == ["far", "deep"]
    assert set(document["scores"]["by_depth"]) >= {"4", "5"}
    assert document["scores"]["entropy"]["excess"] > 0
    assert document["settings"]["beam"] == 3
    assert len(items) == 8
    assert run(command) == 1  # it exists
    assert run([*command[:-2], "--json"]) == 0
    capsys.readouterr()
    assert run(["compare", str(tmp_path), "--overview"]) == 0
    assert "closing bracket, far (%)" in capsys.readouterr().out


def test_a_folder_of_prefixes_as_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"eval-formal dyck {work} --model {work}/run --beam 2 --json".split()
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["scores"]["by_set"]) == {"far", "deep"}
    assert document["counts"]["prefixes"] == 8
    assert run([*command, "--limit", "3"]) == 0
    limited = json.loads(capsys.readouterr().out)
    assert [scores["prefixes"] for scores in limited["scores"]["by_set"].values()] == [3, 3]
    assert [each["settings"]["limit"] for each in (document, limited)] == [None, 3]


def test_what_cannot_be_done(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--model", str(work / "run")]
    bad = tmp_path / "far.tsv"
    bad.write_text("prefix\tcloser\tdependency\tdepth\n(9\t)9\t1\t1\n")
    assert run(["eval-formal", "dyck", str(bad), *model]) == 1
    assert "words unknown to the model" in capsys.readouterr().err
    assert run(["eval-formal", "dyck", str(bad), str(work / "far.tsv"), *model]) == 2
    assert "files of the same name" in capsys.readouterr().err


def test_going_on_after_a_stop(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same settings; what else is looked at, strings or fewer prefixes, may change."""
    command = f"eval-formal dyck {work}/far.tsv --model {work}/run --beam 3 --quiet".split()
    out, real, done = str(tmp_path / "results"), ClosingWork.__call__, []

    def call(work: ClosingWork, chunk: Sequence[NumberedPrefix]) -> list[Closed]:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(chunk))
        return real(work, chunk)

    monkeypatch.setattr(dyck, "PREFIXES_PER_CHUNK", 1)
    with monkeypatch.context() as patched:
        patched.setattr(ClosingWork, "__call__", call)
        assert run([*command, "-o", out]) == 130
    capsys.readouterr()
    assert run([*command, "-o", out, "--resume", "--margin", "5"]) == 1
    assert "begun with other settings: margin was" in capsys.readouterr().err
    strings = ["--strings", str(work / "shards"), "--limit", "3"]
    assert run([*command, *strings, "-o", out, "--resume"]) == 0
    assert run([*command, *strings, "-o", f"{out}-plain"]) == 0
    (document, items), (wanted, rows) = read_results(out), read_results(f"{out}-plain")
    assert document["scores"] == wanted["scores"]
    assert "entropy" in wanted["scores"]
    assert items == rows
