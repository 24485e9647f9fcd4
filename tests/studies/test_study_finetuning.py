"""The study of staged finetuning, and with it examples/staged-finetuning.sh, end to end with tiny models."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from shell import Shell, script

from pdtools.data.grammar import Grammar

pytest.importorskip("transformers")

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "studies" / "finetuning"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 that has learned nothing, and a few items of the task."""
    folder = tmp_path_factory.mktemp("finetuning") / "out"
    make = script(FOLDER / "make.py")
    make.SHAPE = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    make.VOCABULARY, make.SENTENCES_OF_GRAMMAR, make.ROWS = 400, 60, 1
    make.treebank_sentences, make.LONGEST = set, 12
    make.gpt2(folder / "gpt2", 2)
    make.task(folder / "data", 36)
    return folder


@pytest.mark.parametrize(
    ("statement", "item"),
    [
        (
            "(PP (IN after) (NP (NNS wars))) (, ,) (NP-SBJ (DT the) (NN king)) (VP (VBD slept))",
            ("one", "before", "many", "one"),
        ),
        (
            "(NP-SBJ (NP (NP (NN dog) (POS 's)) (NNS friends)) (PP (IN in) (NP (NN town)))) (VP (MD may))",
            ("many", "before", "one", "one"),
        ),
        (
            "(NP-SBJ (NP (NNS men)) (SBAR (WP who) (S (NP (NN king)) (VP (VBD saw))))) (VP (VBD slept))",
            ("many", "between", "many", "one"),
        ),
        ("(NP-SBJ (NNS men)) (VP (VBD saw) (NP (NN town)))", ("many", "none", "many", "many")),
        ("(NP-SBJ (NNS men)) (VP (VBD were) (ADJP (JJ old)))", None),
        ("(NP-SBJ (NNS men)) (VP (VBP sleep))", None),
        ("(NP-SBJ (NP (NN man)) (CC and) (NP (NN dog))) (VP (VBD slept))", None),
        ("(NP-SBJ (NNP Ann)) (VP (VBD slept))", None),
        ("(VBD did) (NP-SBJ (NN man)) (VP (VB sleep))", None),
    ],
)
def test_the_number_of_the_subject(statement: str, item: tuple[str, ...] | None) -> None:
    grammar = Grammar(f"Top\n  1     (S {statement} (. .))\n", {})
    made = script(FOLDER / "make.py").item_of(grammar.sample("Top", random.Random(1)))
    assert item == (made and (made["label"], made["kind"], made["first"], made["last"]))


def test_items_of_the_task(made: Path) -> None:
    for split, number in (("train", 6), ("dev", 2)):
        items = [json.loads(line) for line in (made / f"data/{split}.jsonl").read_text().splitlines()]
        assert Counter((item["label"], item["kind"]) for item in items) == {
            (label, kind): number for label in ("one", "many") for kind in ("before", "between", "none")
        }
        assert len({item["sentence"] for item in items}) == 6 * number


def test_the_study(made: Path, tmp_path: Path) -> None:
    steps = "train.steps=1 train.warmup_steps=0 train.batch_sentences=2 train.sample_parses=0"
    shell = Shell(tmp_path, SEEDS="1", HEAD_WARMUP="1", BEAM="1", SET1=steps)
    shell.environment |= {"SET3": steps, "GPT2_STEPS": "2", "ITEMS": "36"}
    for part in ("train", "valid"):
        trees = (REPOSITORY / "data" / "treebank" / f"{part}.mrg").read_text("utf-8").splitlines()
        (tmp_path / f"{part}.mrg").write_text("\n".join(trees[:20]))
    shell.environment["PARSED"] = str(tmp_path)
    (tmp_path / "out").symlink_to(made)
    done = shell.run("sh", FOLDER / "study.sh", "out")
    assert done.returncode == 0, done.stderr
    results = json.loads((made / "results.json").read_text())
    assert [(run["arm"], run["seed"], run["items"]) for run in results["runs"]] == [
        ("plain", 1, 12),
        ("pushdown", 1, 12),
    ]
    for scored in (*results["runs"], *results["rules"].values()):
        assert scored["accuracy"] == pytest.approx(mean(scored["accuracy_by_kind"].values()))
    assert results["rules"]["first"]["accuracy_by_kind"]["between"] == 1
    assert results["rules"]["last"]["accuracy_by_kind"]["between"] < 1
    plain, pushdown = results["runs"]
    pair = results["by_seed"]["1"]
    assert pair["b"] - pair["a"] == pytest.approx(pushdown["accuracy"] - plain["accuracy"])
    assert len((made / "table.md").read_text().splitlines()) == 10  # two tables, of four rows and of one seed
    # Stage 3 goes on from stage 1, in both arms; only one has a head and tapes.
    for arm, model in (("plain", "transformer"), ("pushdown", "pushdown")):
        record = json.loads((made / "subject" / arm / "1" / "run.json").read_text())
        assert record["recipe"]["model"] == model
        assert record["initialized"]["folder"] == f"out/stage1/{arm}/1"
        assert record["initialized"]["new"] == record["initialized"]["left_out"] == []
    warmed = json.loads((made / "stage1/pushdown/1/run.json").read_text())
    assert warmed["recipe"]["train"]["head_warmup_steps"] == 1
    assert "the attachment head (random)" in warmed["initialized"]["new"]
    # The table of the script alone.
    assert "| Pushdown-GPT2 | " in (made / "staged.md").read_text()

    done = shell.run("sh", FOLDER / "study.sh", "out")
    assert done.returncode == 0, done.stderr
    assert json.loads((made / "results.json").read_text())["runs"] == results["runs"]
    # Sweeps, which find that nothing is left to do, and the report.
    assert [command[0] for command in shell.commands] == ["sweep"] * 4 + [str(FOLDER / "report.py")]
    assert shell.run("sh", FOLDER / "study.sh", "out", BEAM="2").returncode == 1
