"""``treebank.sh`` on three parts of Turkish PUD: from dependencies to perplexities and F1, twice."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from shell import Shell

import pdtools.data

SCRIPT = pdtools.data.scripts() / "treebank.sh"
MEMBER = "UD_Turkish-PUD/tr_pud-ud-test.conllu"
PARTS = {"train": 160, "valid": 20, "test": 20}


def test_turkish(tmp_path: Path, test_data: Path) -> None:
    file = test_data / "benchmarks" / "treebanks" / "ud_pud6.zip"
    if not file.exists():
        pytest.skip(f"no {file}")
    with zipfile.ZipFile(file) as archive:
        sentences = iter(archive.read(MEMBER).decode().strip().split("\n\n"))
    for part, count in PARTS.items():
        some = [next(sentences) for _ in range(count)]
        (tmp_path / f"{part}.conllu").write_text("\n\n".join(some) + "\n\n")
    settings = {"FROM": "conllu", "BINARIZE": "head", "STYLE": "raw", "MODELS": "transformer pushdown"}
    settings |= {"SEEDS": "1", "CONFIG": "tiny", "VOCABULARY": "400", "BEAM": "5"}
    smallest = "config.layers=1 config.d_model=16 config.d_ff=16 train.steps=3"
    shell = Shell(tmp_path, **settings, SETTINGS=smallest)
    command = ("sh", SCRIPT, *(f"{part}.conllu" for part in PARTS), "out")
    done = shell.run(*command)
    assert done.returncode == 0, done.stderr
    results = tmp_path / "out" / "results"
    found = {str(each.parent.relative_to(results)) for each in results.rglob("results.json")}
    assert found == {"transformer-1/ppl", "pushdown-1/ppl", "pushdown-1/parse", "right-branching/parse"}
    parse = json.loads((results / "pushdown-1" / "parse" / "results.json").read_text())
    assert parse["counts"]["scored"] == PARTS["test"]
    assert 0 < parse["scores"]["f1"] < 100
    floor = json.loads((results / "right-branching" / "parse" / "results.json").read_text())
    assert floor["counts"]["scored"] == PARTS["test"]
    assert 0 < floor["scores"]["f1"] < 50
    words = {
        json.loads((results / name / "ppl" / "results.json").read_text())["counts"]["words"]
        for name in ("transformer-1", "pushdown-1")
    }
    assert len(words) == 1
    again = shell.run(*command)
    assert again.returncode == 0, again.stderr
    assert {each[0] for each in shell.commands} == {"train", "compare"}
    assert shell.run("sh", SCRIPT, "train.conllu").returncode == 2
