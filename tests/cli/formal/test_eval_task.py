from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.evaluation.results import read_results

SMALL = [
    f"--set={setting}"
    for setting in (
        "config.layers=1",
        "config.d_model=16",
        "config.heads=2",
        "config.d_ff=32",
        "train.steps=2",
        "train.batch_sentences=4",
    )
] + ["--threads", "1", "--device", "cpu", "-q"]


@pytest.fixture(scope="module", params=["masked", "causal"])
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("task")
    train = ["train", "--task", "sm", "--lengths", "1-5", "--config", "dcf", "-o", f"{work}/run", *SMALL]
    for command in (
        ["generate", "task", "sm", "--lengths", "6-17", "-n", "3", "-q", "-o", f"{work}/sm.tsv"],
        ["generate", "task", "rs", "--lengths", "6", "-n", "3", "-q", "-o", f"{work}/rs.tsv"],
        [*train, "--set", f"config.objective={request.param}"],
    ):
        assert run(command) == 0
    return work


def test_a_table_a_figure_and_a_folder(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure = tmp_path / "results", tmp_path / "lengths.svg"
    command = ["eval-formal", "task", str(work / "sm.tsv"), "--model", str(work / "run"), "-o", str(out)]
    assert run([*command, "--plot", str(figure), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "Task sm, " in printed
    assert "\n11-17 " in printed
    assert "<svg" in figure.read_text()
    document, items = read_results(out)
    assert len(items) == 36
    assert list(document["scores"]["by_length"]) == [str(length) for length in range(6, 18)]
    assert document["settings"]["trained_lengths"] == [1, 5]
    assert document["settings"]["formal_task"] == "sm"
    assert run(command) == 1  # it exists
    assert run(["compare", str(tmp_path), "--overview"]) == 0
    assert "sm, symbols of longer strings (%)" in capsys.readouterr().out
    masked = document["settings"]["objective"] == "masked"
    given = [*command[:-2], "--json", "--device", "cpu"]
    assert document["settings"]["dropout_seed"] is None
    assert run([*given, "--dropout", "--seed", "7"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["dropout"], settings["dropout_seed"]) == (True, 7)
    assert settings["decoding"] == ("at once" if masked else "greedy")


def test_what_cannot_be_done(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["eval-formal", "task", str(work / "rs.tsv"), "--model", str(work / "run")]) == 1
    )  # a and b are of both
    message = capsys.readouterr().err
    assert "rs.tsv:2: no pair of the task sm: y has to be" in message
    assert message.count("\n") == 1


def test_dropout_is_drawn_by_the_seed(work: Path, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((1, 1, 2, 3)):
        command = [
            "eval-formal",
            "task",
            str(work / "sm.tsv"),
            "--model",
            str(work / "run"),
            "--device",
            "cpu",
        ]
        out = tmp_path / str(number)
        assert run([*command, "--dropout", "--seed", str(seed), "-o", str(out), "-q"]) == 0
        found.append(read_results(out)[1]["predicted"].to_pylist())
    assert found[0] == found[1]
    assert found[0] not in found[2:]
