"""``data/scripts/treebank.sh``, installed with the package, on the bundled treebank; and its Slurm form."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import Recorded
from shell import Shell

import pdtools.data
from pdtools.trees import Tree, unbinarize
from pdtools.trees import binarize as right_factored

SCRIPT = pdtools.data.scripts() / "treebank.sh"
SMALL = {
    **{"MODELS": "head pushdown", "SEEDS": "1 2", "CONFIG": "tiny", "VOCABULARY": "300", "BEAM": "2"},
    "SETTINGS": "config.layers=1 config.d_model=16 config.heads=2 config.d_ff=16 train.steps=2",
}
RUNS = [f"{model}-{seed}" for model in ("head", "pushdown") for seed in (1, 2)]


def test_from_a_treebank_to_a_table(tmp_path: Path) -> None:
    trees = pdtools.data.treebank("train").read_text("utf-8").splitlines()
    (tmp_path / "mine.mrg").write_text("\n".join([*trees[:150], "(S (NP broken)", *trees[150:200]]))
    (tmp_path / "suites").mkdir()
    shutil.copy(pdtools.data.sg() / "mini_npz.json", tmp_path / "suites")
    shutil.copytree(pdtools.data.blimp(), tmp_path / "pairs")
    shell = Shell(tmp_path, **SMALL, BLIMP="pairs", SUITES="suites", LIMIT="1")
    done = shell.run("sh", SCRIPT, "mine.mrg", "out")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert "broken" in (out / "trees" / "rejects.jsonl").read_text()
    assert sorted(folder.name for folder in (out / "runs").glob("[!.]*")) == sorted(RUNS)
    scores = {run: {folder.name for folder in (out / "results" / run).iterdir()} for run in RUNS}
    parsing = {run: {"parse"} if run.startswith(("pushdown", "head")) else set() for run in RUNS}
    assert scores == {run: {"ppl", "blimp", "sg"} | parsing[run] for run in RUNS}
    table = (out / "table.txt").read_text()
    assert table == done.stdout
    assert re.search(r"^pushdown +2 ", table, re.MULTILINE)
    assert re.search(r"^pushdown, upper bound at beam 2\b", table, re.MULTILINE)
    assert re.search(r"^right-branching +1 ", table, re.MULTILINE)
    again = shell.run("sh", SCRIPT, "mine.mrg", "out")
    assert again.returncode == 0, again.stderr
    assert {command[0] for command in shell.commands} == {"train", "compare"}
    assert again.stdout == table
    assert shell.run("sh", SCRIPT, "mine.mrg").returncode == 2


HEADS = {"a": 2, "b{i}": 0, "c": 2, "d": 2}
CONLLU = "".join(f"{k}\t{word}\t_\tX\t_\t_\t{HEADS[word]}\t_\t_\t_\n" for k, word in enumerate(HEADS, 1))


@pytest.mark.parametrize("binarize", ["head", "left", "none", "right"])
def test_a_perfect_parser_has_100(binarize: str, tmp_path: Path) -> None:
    """By the script's own commands; models of attachments give binary trees, Transformer Grammars do not."""
    (tmp_path / "mine.conllu").write_text("\n".join(CONLLU.format(i=i) for i in range(200)))
    out = tmp_path / "out"
    environment = {"FROM": "conllu", "BINARIZE": binarize, "VOCABULARY": "300", "STAGES": "trees"}
    shell = Shell(tmp_path, **environment)
    done = shell.run("sh", SCRIPT, "mine.conllu", "out")
    assert done.returncode == 0, done.stderr
    commands = [" ".join(command) for command in shell.commands if command[0] == "eval-parse"]
    (tmp_path / "recorded").mkdir()
    environment |= {"STAGES": "runs", "MODELS": "head pushdown tg", "SEEDS": "1"}
    _, lines = Recorded(tmp_path / "recorded").run("sh", str(SCRIPT), "mine.conllu", "out", **environment)
    commands += [line.partition(" --left-out")[0] for line in lines if line.startswith("eval-parse")]
    assert len(commands) == 4
    test = [Tree.from_brackets(line) for line in (out / "trees" / "test.trees").read_text().splitlines()]
    binary = [right_factored(tree) for tree in test] if binarize == "none" else test
    for name in ("head-1", "pushdown-1", "tg-1", "right-branching"):
        perfect = [unbinarize(tree) for tree in test] if name == "tg-1" else binary
        unlabelled = [replace(tree, labels=("X",) * len(tree.labels)) for tree in perfect]
        (tmp_path / "perfect.trees").write_text("".join(f"{tree}\n" for tree in unlabelled))
        (command,) = (one for one in commands if f"parsed/{name}.trees" in one)
        gold, _, *options = command.partition(" -o ")[0].split()[1:]
        done = shell.run("pdtools", "eval-parse", gold, "perfect.trees", *options, "-o", name)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / name / "results.json").read_text())["scores"]["f1"] == 100
    floor = json.loads((out / "results" / "right-branching" / "parse" / "results.json").read_text())
    wanted = {"right": 100, "none": 100, "head": 200 / 3, "left": 100 / 3}[binarize]
    assert floor["scores"]["f1"] == pytest.approx(wanted)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid")
def test_the_slurm_form(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    command = ["bash", str(SCRIPT.with_suffix(".slurm")), "mine.mrg", "out"]
    status, made = recorded.run(*command)
    assert status == 0
    assert [line.split()[1] for line in made] == ["trees", "runs", "table"]
    assert [re.findall(r"--(?:array|dependency)=(\S+)", line) for line in made] == [
        ["0-0"],
        ["afterok:4trees", "0-8"],
        ["afterok:4runs", "0-0"],
    ]
    assert ["--gpus=1" in line for line in made] == [False, True, False]
    assert [re.findall(r"--time=(\S+)", line) for line in made] == [["1:00:00"], ["8:00:00"], ["1:00:00"]]
    asked = {"GPU": "--gres=gpu:a100:1", "TIME": "2:00:00", "MEM": "8G", "CPUS": "2"}
    _, (_, made_of_two, _) = recorded.run(*command, **asked)
    assert "--time=2:00:00 --gres=gpu:a100:1 --cpus-per-task=2 --mem=8G" in made_of_two
    assert recorded.run(*command[:3]) == (2, [])
    assert recorded.run("sh", *command[1:]) == (0, made)
    assert recorded.run(*command, DRY="1") == (0, [])
    job = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "9", "SCRIPTS": str(SCRIPT.parent)}
    job |= {"MODELS": "transformer tg", "SEEDS": "5 6", "STAGES": "runs"}
    status, lines = recorded.run(*command, **job)
    assert status == 0
    assert [line.split()[0] for line in lines] == ["train", "eval-ppl", "decode", "eval-parse"]
    assert lines[0].endswith("-o out/runs/tg-6")
    status, lines = recorded.run(*command, **job, STOP="train")
    assert lines[1:] == ["stopped", "scontrol requeue 9_3"]
