"""``pdtools sweep``."""

from __future__ import annotations

import itertools
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import killed_at, run_script

from pdtools.cli import sweep as command
from pdtools.cli.main import run

SMALL = [
    argument
    for setting in ("config.stack=none", "config.hidden_size=4", "train.steps=6", "train.eval_every=3")
    for argument in ("--set", setting)
] + ["--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``train-1``, ``train-2``, ``valid-1`` and ``valid-2``."""
    folder = tmp_path_factory.mktemp("data")
    for role, number in (("train", 40), ("valid", 20)):
        for seed in (1, 2):
            command = ["generate", "cfl", "marked-reversal", "--lengths", "5-9", "--number", str(number)]
            output = ["--seed", str(seed), "--shards", "-q", "-o", str(folder / f"{role}-{seed}")]
            assert run([*command, *output]) == 0
    return folder


def arguments(data: Path, output: Path, *more: str) -> list[str]:
    folders = [str(data / "train-{train.seed}"), "--valid", str(data / "valid-{train.seed}")]
    grid = ["--config", "cfl", "--grid", "train.seed=1,2"]
    return ["sweep", *folders, *grid, "-o", str(output), *SMALL, *more]


@pytest.mark.linux
def test_killed_at_each_operation_up_to_the_first_checkpoint(data: Path, tmp_path: Path) -> None:
    for operation in itertools.count(step=3):  # its runs are those of pdtools train
        folder = tmp_path / f"{operation}"
        folder.mkdir()
        begin = partial(run, arguments(data, folder / "runs", "--quiet", "--set", "train.steps=1"))
        if not killed_at(operation, folder, begin) or list(folder.glob("runs/*/last")):
            break
        assert begin() == 0
        assert len(list(folder.glob("runs/*/best"))) == 2
        assert not list(folder.glob("runs/*/.*"))
    assert operation > 10


def test_a_table_the_best_first(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = ["--grid", "train.learning_rate=1e-9,0.05", "--name", "lr{train.learning_rate}-{train.seed}"]
    assert run(arguments(data, tmp_path, *rates, "--at-once", "4")) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["run", "validation", "loss", "best", "step", "steps", "status"]
    assert [line.split()[0][:6] for line in lines[1:]] == ["lr0.05", "lr0.05", "lr1e-9", "lr1e-9"]
    losses = [float(line.split()[1]) for line in lines[1:]]
    assert losses == sorted(losses)
    assert captured.err.count(": starting\n") == captured.err.count(": finished at step 6, best ") == 4
    for name in ("lr0.05-1", "lr1e-9-2"):
        recipe = json.loads((tmp_path / name / "run.json").read_text())["recipe"]
        assert recipe["train"]["seed"] == int(name[-1])
    assert run(arguments(data, tmp_path, *rates, "--quiet")) == 0  # nothing is left to do
    again = capsys.readouterr()
    assert (again.out, again.err) == (captured.out, "")


def test_the_table_has_the_best_step_of_a_run_that_stopped_early(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each = ["--set", "train.eval_every=1", "--set", "train.patience=2", "--set", "train.warmup_steps=0"]
    rates = ["--grid", "train.learning_rate=0.001,9", "--name", "{train.learning_rate}-{train.seed}"]
    assert run(arguments(data, tmp_path, *rates, *each)) == 0
    captured = capsys.readouterr()
    for line in captured.out.splitlines()[1:]:
        name, *cells = line.split(maxsplit=4)
        state = json.loads((tmp_path / name / "last/trainer/state.json").read_text())
        loss = f"{state['best_loss']:.4f}"
        status = "stopped early" if name.startswith("9") else "finished"
        assert cells == [loss, str(state["best_step"]), str(state["step"]), status]
        assert (state["step"] == state["best_step"] + 2 < 6) == name.startswith("9")
        said = f"{name}: finished at step {state['step']}, best {loss} at step {state['best_step']}\n"
        assert said in captured.err


class _Bar:
    """A bar that counts."""

    def __init__(self, total: int, unit: str) -> None:
        self.total, self.done = total, 0
        self.lines: list[str] = []

    def update(self, steps: int) -> None:
        self.done += steps

    def write(self, line: str, file: Any) -> None:
        self.lines.append(line)

    def close(self) -> None:
        pass


def test_a_bar_ends_with_the_steps_of_all_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where runs stopped early, or had ended or begun before."""
    bars: list[_Bar] = []

    def open_bar(total: int, unit: str) -> _Bar:
        bars.append(_Bar(total, unit))
        return bars[-1]

    monkeypatch.setattr(command, "shows_bars", lambda: True)
    monkeypatch.setattr(command, "open_bar", open_bar)
    each = ["--set", "train.eval_every=1", "--set", "train.patience=2", "--set", "train.warmup_steps=0"]
    early = ["--grid", "train.learning_rate=0.001,9"]
    for more in (early, early, ["--grid", "train.learning_rate=0.001,9,0.002"]):
        assert run(arguments(data, tmp_path, *each, *more)) == 0
    assert [each.done for each in bars] == [each.total for each in bars] == [24, 24, 36]
    for bar, begun in zip(bars, (4, 0, 2), strict=True):
        assert sum(line.endswith(": starting") for line in bar.lines) == begun
        assert len(bar.lines) == begun + bar.total / 6


def test_json_and_a_failure(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [each.replace("seed=1,2", "seed=1,3,2") for each in arguments(data, tmp_path, "--json", "-q")]
    assert run(command) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [run["status"] for run in found] == ["finished", "finished", "failed"]
    assert found[0]["best"]["loss"] <= found[1]["best"]["loss"]
    assert (found[2]["settings"], found[2]["best"]) == ({"train.seed": "3"}, None)
    assert "train-3: no such folder" in found[2]["reason"]
    assert captured.err.count("seed=3: failed: ") == 1  # also when quiet


def test_sentences_that_are_too_long_may_be_excluded(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(data / "train-1"), "--valid", str(data / "valid-1"), "-o", str(tmp_path)]
    settings = ["config.positions=learned", "config.max_length=9", "train.steps=1"]
    sweep = ["sweep", *folders, "--config", "tiny", "--model", "transformer", "--grid", "train.seed=1"]
    sweep += ["--threads", "1", "--device", "cpu", *(a for setting in settings for a in ("--set", setting))]
    assert run([*sweep, "--json"]) == 1
    assert "--on-error skip excludes such sentences" in json.loads(capsys.readouterr().out)[0]["reason"]
    assert run([*sweep, "--on-error", "skip"]) == 0
    assert (tmp_path / "seed=1" / "rejects.jsonl").stat().st_size > 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_all_runs_and_the_same_command_continues(
    number: int, status: int, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
import signal, sys
from pdtools.cli import main
from pdtools.training.loop import TrainingLoop
number = int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
learn = TrainingLoop.learn
signals = [number]
def signalled(self, *arguments):
    learn(self, *arguments)
    if self.state.step == 4 and signals:
        signal.raise_signal(signals.pop())
TrainingLoop.learn = signalled
main.main()
"""
    command = arguments(data, tmp_path / "runs", "--at-once", "2")
    stopped = run_script(script, str(int(number)), *command)
    assert stopped.returncode == status, stopped.stderr
    assert stopped.stderr.count(": stopped after step 4, best ") == 2
    assert "the same command continues the sweep" in stopped.stderr
    assert stopped.stdout.count("stopped") == 2
    assert run(command) == 0
    captured = capsys.readouterr()
    assert captured.err.count(": resuming from step 4\n") == 2
    assert captured.out.count("finished") == 2
