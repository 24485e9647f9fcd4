"""Training with a structural scaffold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from toy_language import WORDS

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.models.scaffold import ScaffoldLM
from pdtools.search import load_model
from pdtools.search.families.unsearched import string_logprobs
from pdtools.shards import ShardSet, ShardSettings, TokenizerSettings, shards_from_files
from pdtools.training import Recipe, TrainConfig, train

OPTIONS = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "scaffold": "past"}
CONFIG = TrainConfig(
    steps=60, learning_rate=3e-3, warmup_steps=5, batch_tokens=120, eval_every=20, log_every=20, seed=1
)


@pytest.fixture(scope="module")
def trained(toy_train: Path, toy_valid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaffold") / "run"
    train(toy_train, folder, Recipe(model="sclm", options=OPTIONS, train=CONFIG), valid=toy_valid)
    return folder


def test_runs_of_the_training_shards_are_learned(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    valid = [line for line in lines if line["kind"] == "valid"]
    assert valid[-1]["loss"] < valid[0]["loss"]
    assert valid[-1]["scaffold_accuracy"] > valid[0]["scaffold_accuracy"] > 0
    assert valid[-1]["ppl_token_joint"] is None  # runs are no part of p(x, y)
    model = load_checkpoint(trained).model
    assert isinstance(model, ScaffoldLM)
    assert model.config.runs[0] == ""
    assert "(S (NP" in model.config.runs


def test_afterwards_it_is_a_plain_language_model(
    trained: Path, toy_valid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", str(trained), "--device", "cpu", "-q"]
    assert run(["eval-ppl", str(toy_valid), *model, "-o", str(tmp_path / "ppl")]) == 0
    results = json.loads((tmp_path / "ppl" / "results.json").read_text())
    assert results["settings"]["marginal"] == "exact: tokens do not depend on the tree"
    assert results["scores"]["ppl_token_joint"] is None
    assert run(["surprisal", "--text", " ".join(WORDS[:2]), *model]) == 0
    assert run(["sample", "--strings", "--number", "2", *model]) == 0
    capsys.readouterr()
    assert run(["decode", "--text", WORDS[0], *model]) == 1
    assert "cannot parse" in capsys.readouterr().err


def test_runs_of_ones_own_are_refused(toy_train: Path, tmp_path: Path) -> None:
    recipe = Recipe(model="sclm", options={**OPTIONS, "runs": ["(S"]}, train=CONFIG)
    with pytest.raises(PdtoolsError, match="runs is taken from the training shards"):
        train(toy_train, tmp_path / "run", recipe)


@pytest.mark.parametrize("scaffold", ["next", "past"])
def test_strings_in_one_pass_and_their_continuations(scaffold: str, toy_train: Path, tmp_path: Path) -> None:
    recipe = Recipe(model="sclm", options={**OPTIONS, "scaffold": scaffold}, train=replace(CONFIG, steps=2))
    train(toy_train, tmp_path / "run", recipe)
    loaded = load_checkpoint(tmp_path / "run")
    ids = [ShardSet.open(toy_train).tokens(row) for row in range(4)]
    apart = string_logprobs(loaded, ids, share_prefixes=False)
    for one, other in zip(apart, string_logprobs(loaded, ids, share_prefixes=True), strict=True):
        assert one == pytest.approx(other, rel=2e-6, abs=1e-4)
    (following,) = load_model(tmp_path / "run").continuations([ids[0][:3]])
    assert following.logprobs[ids[0][3]] == pytest.approx(apart[0][2], rel=2e-6, abs=1e-4)


def test_shards_without_labels(tmp_path: Path) -> None:
    (tmp_path / "x.trees").write_text(f"(S (NP (N {WORDS[0]})) (VP (V {WORDS[1]})))\n")
    making = TokenizerSettings(min_count=1)
    shards_from_files([str(tmp_path / "x.trees")], making, ShardSettings(), tmp_path / "shards", Rejects())
    recipe = Recipe(model="sclm", options=OPTIONS, train=CONFIG)
    with pytest.raises(PdtoolsError, match="model sclm needs labelled constituents"):
        train(tmp_path / "shards", tmp_path / "run", recipe)
