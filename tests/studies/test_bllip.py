"""examples/bllip.sh on a folder of BLLIP's shape, whose sentences are made up, and its Slurm form."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import Recorded
from shell import Shell

from pdtools.trees import Tree, is_placeholder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TREEBANK = Path(__file__).resolve().parents[2] / "data" / "treebank"
TINY = {
    **{"FULL": "0", "MODELS": "base", "SEEDS": "1", "STEPS": "1", "EVERY": "1", "WIDTH": "8", "LAYER": "1"},
    **{"VOCABULARY": "300", "RATES": "1e-3", "BATCH": "400", "BEAM": "2"},
}
YEARS = {"1987": (1, 127), "1988": (1, 108), "1989": (10, 41)}
MODELS = ["base", "base-head", "pushdown", "plm", "plm-mask", "tg", "treereg", "scaffold"]
# BLLIP's trees have S1 on top, function tags, marks of coreference, AUX, empty nodes, and brackets as -LRB-.
TREE = """(S1 (S (NP-SBJ#1 (NP#2 (DT The) (NN dog)) (PRN (-LRB- -LRB-) (NP (NN {name})) (-RRB- -RRB-)))
      (VP (AUX is) (VP (VBN seen) (NP (-NONE- *-1)) (PP-LGS (IN by) (NP (PRP$#2 its) (NNS friends))))) (. .)))
"""
CLEAN = (
    "(S (NP (NP (DT The) (NN dog)) (PRN (-LRB- -LRB-) (PRN|<NP--RRB-> (NP (NN {name})) (-RRB- -RRB-)))) "
    "(S|<VP-.> (VP (AUX is) (VP (VBN seen) (PP (IN by) (NP (PRP$ its) (NNS friends))))) (. .)))"
)
WORDLESS = "(S1 (FRAG (-NONE- *)))\n"


def sections() -> Iterator[str]:
    """All of the corpus, in order."""
    for year, (first, last) in YEARS.items():
        for number in range(first, last + 1):
            yield f"{year}/w{year[-1]}_{number:03d}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every section: an article of one sentence and a tree without words, and one of two sentences."""
    folder = tmp_path_factory.mktemp("a corpus") / "bliip_87_89_wsj"
    for section in sections():
        (folder / section).mkdir(parents=True)
        first, second, third = (TREE.format(name=name) for name in names(section))
        (folder / section / "a.000").write_text(first + WORDLESS)
        (folder / section / "a.001").write_text(second + third)
    return folder


def names(section: str) -> list[str]:
    """Words that tell its sentences apart."""
    return [f"{section[5:]}/{number}" for number in (1, 2, 3)]


def expected(parts: list[str], first: int = 3) -> list[str]:
    return [CLEAN.format(name=name) for section in parts for name in names(section)[:first]]


def test_sections_become_the_trees_of_the_papers(corpus: Path, tmp_path: Path) -> None:
    shell = Shell(
        tmp_path, PARSER="corpus", STAGES="trees", VALID_SENTENCES="1", TEST_SENTENCES="2", FULL="0"
    )
    script = ["sh", str(EXAMPLES / "bllip.sh"), str(corpus), "out"]
    done = shell.run(*script)
    assert done.returncode == 0, done.stderr
    valid, test = ["1987/w7_001", "1988/w8_001", "1989/w9_010"], ["1987/w7_002", "1988/w8_002", "1989/w9_011"]
    train = [section for section in sections() if section not in valid + test]
    assert len(train) == 261
    own = tmp_path / "out" / "own"
    assert (own / "train.trees").read_text().splitlines() == expected(train)
    assert (own / "valid.trees").read_text().splitlines() == expected(valid, 1)
    assert (own / "test.trees").read_text().splitlines() == expected(test, 2)
    rejects = (own / "train.trees.rejects.jsonl").read_text().splitlines()
    assert len(rejects) == 261
    assert f"{corpus}/1987/w7_003/a.000" in rejects[0]

    assert (shell.run(*script).returncode, shell.commands) == (0, [])
    # Another cut of the corpus would end up under the same names.
    assert shell.run(*script, TEST_SENTENCES="3").returncode == 1


def test_parsed_again_and_studied(tmp_path: Path) -> None:
    sentences = sorted((TREEBANK / "test.mrg").read_text("utf-8").splitlines(), key=len, reverse=True)
    for part, section in (("train", "1987/w7_009"), ("valid", "1988/w8_009"), ("test", "1989/w9_012")):
        (tmp_path / "corpus" / section).mkdir(parents=True)
        # One that the parser cannot parse, whose words it does not know.
        text = "\n".join([sentences.pop(), TREE.format(name="Xyz"), sentences.pop()])
        (tmp_path / "corpus" / section / "a").write_text(text)
        (tmp_path / part).write_text(section + "\r\n")
    shell = Shell(tmp_path, **TINY, PARSER="demo", TRAIN="train", VALID="valid", TEST="test", DEVICE="cpu")
    script = ["sh", str(EXAMPLES / "bllip.sh"), "corpus", "out"]
    done = shell.run(*script)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    for part in ("train", "valid", "test"):
        own, parsed = (trees(out / folder / f"{part}.trees") for folder in ("own", "parsed"))
        words = [" ".join(tree.words) for tree in own]
        assert words[1] == "The dog -LRB- Xyz -RRB- is seen by its friends ."
        assert (out / "words" / f"{part}.txt").read_text().splitlines() == words
        assert [" ".join(tree.words) for tree in parsed] == words
        assert [is_placeholder(tree) for tree in parsed] == [False, True, False]
        assert trees(out / "study" / "trees" / f"{part}.trees") == parsed
    assert "| base LM |" in (out / "study" / "table.md").read_text()
    done = shell.run(*script)
    assert done.returncode == 0, done.stderr
    assert [Path(command[0]).name for command in shell.commands] == ["train", "report.py"]


def trees(file: Path) -> list[Tree]:
    return [Tree.from_brackets(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("folder", "settings", "message"),
    [
        ("nowhere", {}, "nowhere: no such folder"),
        (
            "",
            {},
            ": 267 sections are missing, the first is 1987/w7_003; name the folder that has 1987, 1988 and",
        ),
        (
            "{corpus}",
            {"TRAIN": "none"},
            "none: no such file, or an empty one; it would list sections for train, one",
        ),
        (
            "{corpus}",
            {"VALID": "list"},
            "1987/w7_003: a section is named twice, in one list of sections or in two",
        ),
    ],
)
def test_in_one_line(
    corpus: Path, tmp_path: Path, folder: str, settings: dict[str, str], message: str
) -> None:
    (tmp_path / "list").write_text("1987/w7_003\n")
    command = ["sh", str(EXAMPLES / "bllip.sh"), folder.format(corpus=corpus) or str(tmp_path), "out"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_every_model_and_seed_with_the_paper_s_shapes(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, SUITES="suites", BLIMP="blimp", STAGES="rates runs")
    status, lines = recorded.run("sh", str(EXAMPLES / "bllip.sh"), "corpus", "out")
    assert status == 0
    runs = [re.search(r"-o out/study/runs/(\S+)-(\d)$", line) for line in lines if line.startswith("train ")]
    assert {found.groups() for found in runs if found} == {
        (model, seed) for model in MODELS for seed in "123"
    }
    assert len(runs) == 24
    for line in lines:
        if line.startswith("train "):
            assert "--config bllip --model" in line
            assert "--set train.learning_rate=1e-4 --set train.steps=300000 " in line
    assert sum("--grid train.learning_rate=1e-4,3e-4,6e-4" in line for line in lines) == len(MODELS)
    for task, number in (("eval-sg", 24), ("eval-blimp", 24), ("eval-ppl", 24 + 3), ("eval-parse", 18 + 9)):
        assert sum(line.startswith(f"{task} ") for line in lines) == number
    assert "eval-sg suites --model out/study/runs/pushdown-1" in "\n".join(lines)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid")
def test_the_slurm_form(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    command = ["bash", str(EXAMPLES / "bllip.slurm"), "corpus", "out"]
    status, made = recorded.run(*command)
    assert status == 0
    assert [line.partition(" --")[0] for line in made] == [
        "sbatch trees data",
        "sbatch rates",
        "sbatch runs",
    ]
    assert [re.findall(r"--(?:array|dependency)=(\S+)", line) for line in made] == [
        ["0-0"],
        ["afterok:4trees", "0-7"],
        ["afterok:4rates", "0-23"],
    ]
    assert all(line.endswith("/examples/bllip.slurm corpus out") for line in made)
    assert recorded.run(*command[:3]) == (2, [])

    job = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "9", "SCRIPTS": str(EXAMPLES)}
    job |= {"MODELS": "base tg", "SEEDS": "5 6"}
    status, lines = recorded.run(*command, **job, STAGES="rates")
    assert (status, [line.split()[0] for line in lines]) == (0, ["sweep"])
    status, (trained, *_) = recorded.run(*command, **job, STAGES="runs")
    assert status == 0
    assert trained.endswith("-o out/study/runs/tg-6")
    # Slurm's signal goes to all processes: the scripts wait for pdtools to stop, and the job is queued again.
    status, lines = recorded.run(*command, **job, STAGES="runs", STOP="train")
    assert lines[1:] == ["stopped", "scontrol requeue 9_3"]
    # Trees and shards are of all models: automatic ones too.
    (recorded.folder / "srun").write_text('#!/bin/sh\necho "$MODELS" >>"$RECORD"\n')
    job |= {"SLURM_ARRAY_TASK_ID": "0"}
    for stages, models in ("trees data", "base tg"), ("rates", "base"), ("runs", "base"):
        assert recorded.run(*command, **job, STAGES=stages) == (0, [models])
