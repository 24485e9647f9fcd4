"""The study of syntax, whole, on a few trees: a rate, a run, scores, the table; a second run adds nothing."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

from shell import Shell, script
from test_bllip import Recorded

REPOSITORY = Path(__file__).resolve().parents[2]
STUDY = REPOSITORY / "studies" / "syntax" / "study.sh"
GATHER = script(STUDY.with_name("gather.py"))
LEFT_OUT, CHANGES = GATHER.LEFT_OUT, GATHER.CHANGES
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
        return shell.run("sh", STUDY, "treebank", "an out", **others)

    done = study()
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "an out" / "results.json").read_text())
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
        results = json.loads((tmp_path / "an out" / "results" / "tg-1" / task / "results.json").read_text())
        assert results["counts"][LEFT_OUT[task]] == 0
    assert done.stdout == (tmp_path / "an out" / "table.md").read_text()

    again = study()
    assert (again.returncode, again.stdout) == (0, done.stdout), again.stderr
    # Suites may come later, but not others after these.
    for name in ("SUITES", "BLIMP"):
        assert study(STAGES="data", **{name: "all.zip"}).returncode == 0
        other = study(STAGES="data", **{name: "odd.zip"})
        assert other.returncode == 1
        assert f"begun with {name}=all.zip, not {name}=odd.zip: name another folder" in other.stderr


def test_halves_have_every_item_once(tmp_path: Path) -> None:
    halves = script(STUDY.with_name("halves.py"))
    item = {"conditions": []}
    suite = {
        "meta": {"name": "a"},
        "items": [{**item, "item_number": n} for n in (1, 2, 3)],
        "predictions": [],
    }
    with zipfile.ZipFile(tmp_path / "suites.zip", "w") as suites:
        suites.writestr("suites/a.json", json.dumps(suite))
        suites.writestr("suites/one.json", json.dumps({**suite, "items": suite["items"][:1]}))
    with zipfile.ZipFile(tmp_path / "blimp.zip", "w") as blimp:
        blimp.writestr("data/b.jsonl", '{"pair": "first"}\n{"pair": "second"}\n{"pair": "third"}\n')
    halves.halve_suites(tmp_path / "suites.zip", tmp_path / "out")
    halves.halve_pairs(tmp_path / "blimp.zip", tmp_path / "out")
    assert [path.parts[-3] for path in tmp_path.rglob("one.json")] == ["odd"]
    for half, numbers, pairs in ("even", [2], ["second"]), ("odd", [1, 3], ["first", "third"]):
        found = json.loads((tmp_path / "out" / half / "sg" / "a.json").read_text())
        assert found == {**suite, "items": [{**item, "item_number": n} for n in numbers]}
        lines = (tmp_path / "out" / half / "blimp" / "b.jsonl").read_text().splitlines()
        assert [json.loads(line)["pair"] for line in lines] == pairs


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
