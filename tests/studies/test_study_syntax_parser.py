"""Trees that a parser gives: the parser that is trained for it, and the model that learns from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell, script
from test_study_syntax import SETTINGS, STUDY
from toy_benepar import toy_trees

pytest.importorskip("benepar")


def test_a_model_of_automatic_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trees = [tree.pformat(margin=10**9) for tree in toy_trees(60, seed=1)]
    folder = tmp_path / "treebank"
    folder.mkdir()
    for part, some in (("train", trees[:40]), ("valid", trees[40:50]), ("test", trees[50:])):
        (folder / f"{part}.trees").write_text("\n".join(some) + "\n")
    module = script(STUDY.parents[1] / "benepar_parser.py")
    bad = ["(DT the)", "(NP the (NN dog))", f"(X {'(XX a) ' * 101})"]
    (tmp_path / "labeled").write_text("\n".join([*trees[:40], *bad]) + "\n")
    examples = module.read(str(tmp_path / "labeled"))
    assert len(examples) == 40
    parser = module.train(examples, steps=3, width=32, rate=1e-3, seed=1)
    module.save(parser, tmp_path / "parser.pt")

    settings = {**SETTINGS, "MODELS": "pushdown-auto", "STEPS": "1", "RATES": "1e-3", "SENTENCES": ""}
    shell = Shell(tmp_path, **settings, AUTO_PARSER="parser.pt")
    done = shell.run("sh", STUDY, "treebank", "out")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    words = [" ".join(tree.leaves()) for tree in toy_trees(40, seed=1)]
    assert (out / "trees" / "train.words").read_text().splitlines() == words
    (trained,) = (command for command in shell.commands if command[0] == "train")
    assert trained[1:4] == ["out/shards/train-auto", "--valid", "out/shards/valid-auto"]
    (parsed,) = (command for command in shell.commands if command[0] == "decode")
    assert parsed[1] == "out/trees/test.trees"
    found = json.loads((out / "results.json").read_text())
    assert {run["model"]: run["evaluations"] for run in found["runs"]} == {
        "pushdown-auto": ["ppl", "particles", "parse"],
        "benepar": ["parse", "labeled"],
    }
    for task in ("parse", "labeled"):
        counts = json.loads((out / "results" / "benepar-1" / task / "results.json").read_text())["counts"]
        assert (counts["sentences"], counts["errors"]) == (10, 0)
    assert "no runs of base LM" in found["missing"][0]
    assert not any("benepar" in line and "seed" in line for line in found["missing"])
    read = json.loads((out / "runs" / "pushdown-auto-1" / "run.json").read_text())
    assert read["recipe"]["model"] == "pushdown"
