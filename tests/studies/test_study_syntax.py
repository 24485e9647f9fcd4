"""The study of syntax, whole, on a few trees: a rate, a run, scores, the table; a second run adds nothing."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path

from shell import Shell, script
from test_bllip import Recorded

REPOSITORY = Path(__file__).resolve().parents[2]
STUDY = REPOSITORY / "studies" / "syntax" / "study.sh"
LEFT_OUT = script(STUDY.with_name("gather.py")).LEFT_OUT
SETTINGS = {
    **{"MODELS": "tg", "SEEDS": "1", "STEPS": "2", "EVERY": "1", "WIDTH": "8", "BATCH": "400"},
    **{"VOCABULARY": "300", "RATES": "1e-3 2e-3", "TUNE_STEPS": "10", "PAIRS": "1", "SENTENCES": "2"},
    **{"JOBS": "1", "BEAM": "2", "ACTION_MARGIN": "2", "LAYER": "1"},
}


def test_the_study(tmp_path: Path) -> None:
    trees = (REPOSITORY / "data" / "treebank" / "train.mrg").read_text("utf-8").splitlines()[:60]
    (tmp_path / "treebank").mkdir()
    (tmp_path / "treebank" / "a.mrg").write_text("\n".join(trees) + "\n")
    shell = Shell(tmp_path, **SETTINGS)

    def study(**others: str) -> subprocess.CompletedProcess[str]:
        return shell.run("sh", STUDY, "treebank", "out", **others)

    done = study()
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    (cell,) = found["runs"]
    assert (cell["model"], cell["seed"], cell["steps"]) == ("tg", 1, 2)
    assert cell["rate"] in {"1e-3", "2e-3"}
    scores = cell["scores"]
    assert scores["joint"] >= scores["marginal"]
    assert scores["joint"] > scores["given"] > 1
    assert cell["evaluations"] == ["ppl", "parse", "labeled"]
    assert 0 <= scores["f1"] <= 100
    assert "Transformer Grammar, seed" not in "".join(found["missing"])
    for task in cell["evaluations"]:
        results = json.loads((tmp_path / "out" / "results" / "tg-1" / task / "results.json").read_text())
        assert results["counts"][LEFT_OUT[task]] == 0
    assert done.stdout == (tmp_path / "out" / "table.md").read_text()

    again = study()
    assert (again.returncode, again.stdout) == (0, done.stdout), again.stderr
    other = study(STEPS="3")
    assert other.returncode == 1
    assert "name another folder" in other.stderr


def test_the_late_model_s_settings_are_arguments_of_their_own(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, **SETTINGS, STAGES="runs")
    (tmp_path / "pdtools").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >>"$RECORD"\n')
    (tmp_path / "out" / "rates").mkdir(parents=True)
    (tmp_path / "out" / "rates" / "late").write_text("1e-3\n")
    status, arguments = recorded.run("sh", str(STUDY), "treebank", "out", MODELS="late")
    assert status == 0
    settings = {after for before, after in itertools.pairwise(arguments) if before == "--set"}
    assert {"config.pushdown_layers=last 1", "config.head_reads=prefix", "config.d_model=8"} <= settings
    assert arguments[arguments.index("--model") + 1] == "pushdown"
    assert "out/runs/late-1" in arguments
    for command in ("eval-ppl", "decode"):
        of_command = arguments[arguments.index(command) :]
        assert of_command[of_command.index("--beam") + 1] == "2"


def test_attention_is_measured_again_when_there_are_more_runs(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, SUITES="suites", STAGES="table")

    def asked(*runs: str) -> list[list[str]]:
        """Which models are looked at, call by call, when these runs are there too."""
        for run in runs:
            (tmp_path / "out" / "runs" / run).mkdir(parents=True)
            (tmp_path / "out" / "results" / run / "sg").mkdir(parents=True)
            (tmp_path / "out" / "results" / run / "sg" / "results.json").write_text('{"number_src": 0.5}')
        status, lines = recorded.run("sh", str(STUDY), "treebank", "out")
        assert status == 0
        assert all(line.startswith("eval-attention suites --model ") for line in lines)
        return [re.findall(r"--model out/runs/(\S+)", line) for line in lines]

    assert asked() == []
    assert asked("base-1", "base-head-1", "tg-1") == [["base-1"]]
    (tmp_path / "out" / "runs" / "pushdown-1").mkdir()  # SG is not done yet
    assert asked() == []
    assert asked("pushdown-2") == [["base-1", "pushdown-2"]]
