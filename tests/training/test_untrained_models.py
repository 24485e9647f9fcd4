"""A checkpoint that was never trained is scored, but not in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_sets import condition, suite_of, write_pairs

from pdtools.cli.main import run
from pdtools.formal.transduction_training import TaskInput
from pdtools.formal.transductions import make_task
from pdtools.models import load_checkpoint
from pdtools.training import Recipe, TrainConfig, train

WARNING = "step 0"
OPTIONS = {"layers": 1, "d_model": 8, "heads": 2, "d_ff": 16}


@pytest.fixture(scope="module")
def folders(toy_train: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``untrained``: a run that was stopped before its first step; ``trained``: after it."""
    folder = tmp_path_factory.mktemp("runs")
    recipe = Recipe(model="pushdown", options=OPTIONS, train=TrainConfig(steps=2))
    train(toy_train, folder / "untrained", recipe, stop=lambda: True)
    asked = iter([False, True])
    train(toy_train, folder / "trained", recipe, stop=lambda: next(asked, True))
    return {name: folder / name / "last" for name in ("untrained", "trained")}


def test_a_checkpoint_knows_its_step(folders: dict[str, Path]) -> None:
    steps = {name: load_checkpoint(folder).config["step"] for name, folder in folders.items()}
    assert steps == {"untrained": 0, "trained": 1}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((each, "untrained") for each in ("surprisal", "parses", "decode", "parse", "sample")),
        *((each, "untrained") for each in ("eval-blimp", "eval-sg", "eval-ppl")),
        ("surprisal", "trained"),
    ],
)
def test_scores_of_no_training_are_marked(
    command: str,
    name: str,
    folders: dict[str, Path],
    toy_train: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = load_checkpoint(folders[name]).tokenizer
    a, b = (words.token_text(i) for i in range(words.vocab_size - 2, words.vocab_size))
    blimp = write_pairs(tmp_path / "p.jsonl", [(f"{a} {b}", f"{b} {a}")])
    suite = tmp_path / "suite.json"
    conditions = [condition("x", f"{a} {b}"), condition("y", b)]
    suite.write_text(json.dumps(suite_of(conditions, formula="(1;%x%) > (1;%y%)")))
    out = str(tmp_path / "out")
    arguments = {
        "surprisal": ["surprisal", "--text", a, "-o", out],
        "parses": ["surprisal", "--text", a, "-o", out, "--parses"],
        "decode": ["decode", "--text", f"{a} {b}", "-o", out],
        "parse": ["parse", "--text", f"{a} {b}", "-o", out],
        "sample": ["sample", "-n", "1", "-o", out, "--max-tokens", "3"],
        "eval-blimp": ["eval-blimp", str(blimp), "-o", out],
        "eval-sg": ["eval-sg", str(suite), "-o", out],
        "eval-ppl": ["eval-ppl", str(toy_train), "--no-marginal"],
    }[command]
    option = "--parser" if command == "parse" else "--model"
    assert run([*arguments, option, str(folders[name]), "--device", "cpu", "--json", "--quiet"]) == 0
    printed, error = capsys.readouterr()
    settings = json.loads(printed)["settings"]
    assert (WARNING in settings.get("warning", "")) == (name == "untrained")
    assert (WARNING in error) == (name == "untrained")
    assert error.count("\n") <= 1


def test_answers_of_no_training_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe(model="transformer", options=OPTIONS, train=TrainConfig(steps=1, batch_sentences=2))
    data: Any = TaskInput(make_task("rs"), range(1, 5))
    train(data, tmp_path / "run", recipe, stop=lambda: True)
    pairs = str(tmp_path / "rs.tsv")
    assert run(["generate", "task", "rs", "--lengths", "2-3", "-n", "2", "-o", pairs, "--quiet"]) == 0
    model = ["--model", str(tmp_path / "run/last")]
    assert run(["eval-formal", "task", pairs, *model, "--json", "--quiet"]) == 0
    printed, error = capsys.readouterr()
    assert WARNING in json.loads(printed)["settings"]["warning"]
    assert WARNING in error
