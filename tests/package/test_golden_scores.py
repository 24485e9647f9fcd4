"""Stored models of each family give the scores that they gave when they were stored, compared likewise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run

SCORES = Path(__file__).parents[1] / "goldens" / "scores"
STORED: dict[str, Any] = json.loads((SCORES / "expected.json").read_text())
CPU = ("--device", "cpu", "--threads", "1", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and inputs, with shards made from these."""
    made = shutil.copytree(SCORES, tmp_path_factory.mktemp("scores") / "scores")
    tapes = ("tapes", made / "valid.trees", "--tokenizer", made / "checkpoints" / "pushdown")
    assert run([*map(str, tapes), "-o", f"{made}/shards", "--quiet"]) == 0
    return made


@pytest.fixture(scope="module")
def results(folder: Path) -> Path:
    """Two models by every evaluation of sentences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for side, name, beam in (("a", "pushdown", 4), ("b", "transformer", 1)):
            model = ("--model", f"checkpoints/{name}", "--beam", "4", *CPU)
            for kind, data in (
                *(("blimp", "pairs.jsonl"), ("sg", "suite.json")),
                *(("ppl", "shards"), ("reading", "times.tsv")),
            ):
                assert run([f"eval-{kind}", data, *model, "-o", f"results/{side}/{kind}"]) == 0
            decode = ("decode", "valid.trees", "--from", "treebank", "--model", "checkpoints/pushdown", *CPU)
            assert run([*decode, "--beam", str(beam), "-o", f"{side}.trees"]) == 0
            parse = ("eval-parse", "valid.trees", f"{side}.trees", "--unlabeled", "--binarize", "right")
            assert run([*parse, "--quiet", "-o", f"results/{side}/parse"]) == 0
    return folder / "results"


def assert_same(found: dict[str, Any], stored: dict[str, Any]) -> None:
    """Equal where numbers are stored, but for rounding; None where there is none."""
    for key, value in stored.items():
        assert found[key] == (None if value is None else pytest.approx(value, rel=1e-5, abs=1e-7)), key


@pytest.mark.parametrize("family", sorted(STORED["surprisals"]))
def test_surprisals_of_a_family(family: str, folder: Path, tmp_path: Path) -> None:
    model = ("--model", f"{folder}/checkpoints/{family}", "--beam", "4", *CPU)
    assert run(["surprisal", f"{folder}/line.txt", *model, "-o", f"{tmp_path}/s.tsv"]) == 0
    rows = [line.split("\t") for line in (tmp_path / "s.tsv").read_text().splitlines()]
    tokens, surprisals = zip(*STORED["surprisals"][family], strict=True)
    assert [row[2] for row in rows[1:]] == [*tokens]
    assert [float(row[-1]) for row in rows[1:]] == pytest.approx([*surprisals], rel=2e-6, abs=1e-4)


@pytest.mark.parametrize("kind", ["blimp", "sg"])
def test_a_comparison_item_by_item(kind: str, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["compare", f"{results}/a/{kind}", f"{results}/b/{kind}", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    found = {f"{each['level']} {each['name']}": each for each in scores if not each["is_margin"]}
    assert found.keys() == STORED["compare"][kind].keys()
    for name, stored in STORED["compare"][kind].items():
        a, b = (group["mean"] / 100 for group in found[name]["groups"])
        (pair,) = found[name]["pairs"]
        low, high = (end and end / 100 for end in pair["over_items"] or (None, None))
        assert_same({**pair, "items": found[name]["items"], "a": a, "b": b, "low": low, "high": high}, stored)


def test_main_scores_of_two_models(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["compare", f"{results}/a", f"{results}/b", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    found = {f"{each['evaluation']}: {each['score']}": each for each in scores if each["level"] == "overall"}
    for name, stored in STORED["main"].items():
        a, b = (group["mean"] for group in found[name]["groups"])
        assert_same({"a": a, "b": b}, {key: stored[key] for key in "ab"})
        if stored["p"] is not None:  # of items that are right or wrong
            assert_same(found[name]["pairs"][0], {"p": stored["p"]})


def test_a_sentence_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["show", f"{folder}/shards", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == STORED["shown"]
