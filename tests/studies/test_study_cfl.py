"""The study of context-free languages, end to end on a few strings; and its report."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from shell import script
from test_studies import REPOSITORY, study

from pdtools.inspection.recurrent import StackRunView
from pdtools.models import build_model, count_parameters, make_config
from pdtools.training import read_recipe

FOLDER = REPOSITORY / "studies" / "cfl"
SMALL = {
    "LANGUAGES": "marked-reversal",
    "MODELS": "jm rns",
    "EPOCHS": "2",
    "STRINGS": "20",
    "PER_LENGTH": "1",
    "WATCHED": "1",
    "JOBS": "1",
}


def test_a_watched_run_that_is_stopped_says_so_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = script(FOLDER / "watch.py")
    asked = []

    def train(*_: Any, stop: Any, **options: Any) -> None:
        asked.append((options["resume"], stop()))
        os.kill(os.getpid(), signal.SIGTERM)  # as at a wall-time
        asked.append(stop())

    monkeypatch.setattr(watch, "train", train)
    with pytest.raises(SystemExit) as ended:
        watch.main(tmp_path / "data", tmp_path / "run", 2, [])
    assert ended.value.code == 128 + signal.SIGTERM
    assert asked == [(True, False), True]


@pytest.mark.slow
def test_the_study(tmp_path: Path) -> None:
    done = study("cfl", tmp_path, "out", **SMALL)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    table = (out / "table.md").read_text()
    assert table.strip() in done.stdout
    assert "| NS+S+U (RNS), paper | ≤ 0.05 |" in table
    assert {path.name for path in out.glob("*.svg")} == {
        "figure-1-marked-reversal.svg",
        "figure-2-marked-reversal.svg",
        "figure-3-rns-everywhere.svg",
        "figure-3-rns-reached.svg",
    }
    results = json.loads((out / "results.json").read_text())
    cells = results["scores"]["marked-reversal"]
    assert set(cells) == {"jm", "rns"}
    assert cells["jm"]["run"] == "size20-lr0.005-1"
    assert cells["rns"]["steps"] == [2, 4]
    assert list(cells["rns"]["test_by_length"]) == [str(n) for n in range(41, 100, 2)]
    assert len(results["actions"]["rns"]) == 1

    # A second run does nothing twice; a lost result is made again; other settings are refused.
    kept = out / "runs" / "marked-reversal" / "rns" / "lr0.005-1" / "metrics.jsonl"
    (lost,) = (out / "results" / "marked-reversal" / "jm").iterdir()
    before = kept.stat().st_mtime_ns
    for path in lost.iterdir():
        path.unlink()
    lost.rmdir()
    again = study("cfl", tmp_path, "out", **{**SMALL, "MODELS": "jm"})
    assert again.returncode == 0, again.stderr
    assert kept.stat().st_mtime_ns == before
    assert (lost / "results.json").exists()
    assert (out / "table.md").read_text() == table
    other = study("cfl", tmp_path, "out", **{**SMALL, "WATCHED": "2"})
    assert other.returncode == 1
    assert (
        "begun with STRINGS=20 PER_LENGTH=1 WATCHED=1, not STRINGS=20 PER_LENGTH=1 WATCHED=2" in other.stderr
    )

    # More epochs; what they find is tested.
    longer = study("cfl", tmp_path, "out", **{**SMALL, "MODELS": "rns", "EPOCHS": "3"})
    assert longer.returncode == 0, longer.stderr
    cell = json.loads((out / "results.json").read_text())["scores"]["marked-reversal"]["rns"]
    assert cell["steps"] == [2, 4, 6]
    assert cell["test_by_length"]
    assert "Epochs of the best: 2, 3." in longer.stdout

    # More restarts and learning rates, side by side.
    wider = {**SMALL, "MODELS": "jm", "RESTARTS": "1 2", "RATES": "0.005 0.01"}
    done = study("cfl", tmp_path, "out", **wider)
    assert done.returncode == 0, done.stderr
    cell = json.loads((out / "results.json").read_text())["scores"]["marked-reversal"]["jm"]
    assert set(cell["runs"]) == {f"size20-lr{rate}-{seed}" for rate in ("0.005", "0.01") for seed in (1, 2)}


def write(path: Path, *records: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_the_best_run_is_that_with_the_lowest_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Restarts have other validation strings, and so another bound."""
    report = script(FOLDER / "report.py")
    runs = {
        "lr0.005-1": (1, [0.9, 0.6], "patience"),
        "lr0.01-1": (1, [0.8, 0.7], "steps"),
        "lr0.005-2": (2, [0.64], "steps"),
        "lr0.01-2": (2, [0.1], None),  # not finished
    }
    write(tmp_path / "settings", {"EPOCHS": 2})
    for restart, bound in ((1, 0.5), (2, 0.55)):
        write(tmp_path / f"data/dyck/bound-{restart}/results.json", {"scores": {"bound": bound}})
    for name, (_, losses, finished) in runs.items():
        folder = tmp_path / "runs" / "dyck" / "ns" / name
        write(
            folder / "metrics.jsonl",
            {"kind": "train", "step": 1, "loss": 9.0},
            *({"kind": "valid", "step": step, "loss": loss} for step, loss in enumerate(losses, 1)),
        )
        write(folder / "last/trainer/state.json", {"finished": finished, "seconds": 1.0})
    report.print_best(tmp_path)
    assert capsys.readouterr().out == "dyck ns lr0.005-2 lr0.005-2-1\n"
    best = report.best_run(tmp_path, "dyck", "ns")
    assert best.best == pytest.approx(0.09)
    report.write_report(tmp_path)
    cell = json.loads((tmp_path / "results.json").read_text())["scores"]["dyck"]["ns"]
    valid = {name: run["valid"] for name, run in cell["runs"].items()}
    assert valid == pytest.approx({"lr0.005-1": 0.1, "lr0.005-2": 0.09, "lr0.01-1": 0.2})
    assert cell["runs"]["lr0.005-1"]["last_step"] == 2
    lines = capsys.readouterr().out.splitlines()
    assert "| NS | 0.090 |" in lines
    assert "| NS | - / - |" in lines
    assert "| LSTM | - |" in lines
    assert "| the training strings' distribution | - / - |" in lines
    assert "Runs of a cell that the best on validation was chosen of: 3. Epochs of the best: 1." in lines
    assert '{"EPOCHS": 2}' in lines
    report.print_curves(tmp_path, "dyck", "ns")
    curves = json.loads(capsys.readouterr().out)["scores"]["dyck"]["ns"]
    assert curves["lr0.005-1"] == {
        "finished": "patience",
        "steps": [1, 2],
        "valid_by_step": pytest.approx([0.4, 0.1]),
    }
    assert curves["lr0.01-2"]["finished"] is None


def test_the_published_numbers_of_parameters() -> None:
    """Of marked reversal: three symbols, <pad>, <root> and <eos>."""
    stacks = [
        ["stack=none"],
        *(["stack=" + kind, "stack_vector=20"] for kind in ("stratification", "superposition")),
        *(
            [f"stack_unnormalized={unnormalized}", f"stack_states_in_reading={states}"]
            for unnormalized in ("false", "true")
            for states in ("false", "true")
        ),
    ]
    sizes = {"vocab_size": 6, "pad_id": 0, "root_id": 1, "eos_id": 2}
    found = []
    for settings in stacks:
        recipe = read_recipe("cfl", settings=[f"config.{setting}" for setting in settings])
        model = build_model(recipe.model, make_config(recipe.model, {**recipe.options, **sizes}))
        found.append(f"{count_parameters(model):,}")
    assert f"| parameters | {' | '.join(found)} |" in (REPOSITORY / "studies/cfl/README.md").read_text()


def test_before_and_behind_the_middle() -> None:
    def view(text: str, run: str, tops: list[list[float]]) -> StackRunView:
        kinds = {"u": "push", "r": "replace", "o": "pop"}
        return StackRunView(
            tokens=text.split(" "),
            surprisal=[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0],
            stack="nondeterministic",
            actions=("push", "replace", "pop"),
            shares=[],
            tops=tops,
            run=[(kinds[letter], 0, []) for letter in run],
        )

    rest = [[0.0, 1.0]] * 3
    found = script(FOLDER / "middle.py").summary(
        [
            view("0 1 1 1 1 0", "uuuoou", [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8], *rest]),
            view("0 1 0 0 1 0", "uruoru", [[1.0, 0.0], [0.7, 0.3], [0.4, 0.6], *rest]),
        ]
    )
    assert found["pushes"] == pytest.approx(5 / 6)
    assert found["pops"] == pytest.approx(3 / 4)
    assert found["top"] == {"0 1": [0.6, 0.4], "1 0": [0.4, 0.6], "1 1": [0.2, 0.8]}
    assert found["nats"] == [0.693, 1.386, 0, 0, 0, 0, 2.079]


def test_restarts_are_listed_one_after_the_other() -> None:
    first = {"dyck": {"rns": {"runs": {"lr0.005-1": {"valid": 0.003}}}, "jm": {"runs": {}}}}
    more = {"dyck": {"rns": {"runs": {f"lr0.005-{i}": {"valid": i / 100} for i in (10, 2, 5)}}}}
    curves = {"dyck": {"rns": {"lr0.005-3": {"valid_by_step": [0.5, 0.25, 0.375]}}}}
    table = script(FOLDER / "report.py").restarts_table(*({"scores": each} for each in (first, curves, more)))
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    assert rows == [["dyck", "NS+S+U (RNS)", "3 of 5", "0.003, 0.020, 0.250, 0.050, 0.100"]]


def test_the_difference_of_a_perfect_model() -> None:
    found = script(FOLDER / "report.py").perfect_by_length([39, 40, 42, 80, 82])
    assert found == {n: pytest.approx(math.log(3) / (n + 1)) for n in (40, 42, 80)}


def test_actions_that_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = script(FOLDER / "watch.py")

    def inspect_run(loaded: None, text: str) -> StackRunView:
        """An automaton that pushes up to the marker, and then does the right thing by a quarter."""
        tokens = text.split(" ")
        middle = tokens.index("#")
        shares = [[1.0, 0.0, 0.0]] * (middle + 1) + [[0.5, 0.25, 0.25]] * middle
        return StackRunView(
            tokens=tokens,
            surprisal=[],
            stack="nondeterministic",
            actions=("push", "replace", "pop"),
            shares=shares,
            shares_everywhere=[[0.0, 0.25, 0.75]] * len(tokens),
        )

    monkeypatch.setattr(watch, "inspect_run", inspect_run)
    found = watch.correct_actions(None)
    assert found["reached"] == pytest.approx([1.0] * 30 + [0.0] + [0.25] * 30)
    assert found["everywhere"] == pytest.approx([0.0] * 30 + [0.25] + [0.75] * 30)
