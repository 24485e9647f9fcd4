"""Recurrent models through the commands that train and score."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pdtools import data
from pdtools.cli.main import run
from pdtools.evaluation.perplexity.streams import evaluate_stream_perplexity
from pdtools.models import load_checkpoint
from pdtools.shards import ShardSet

Run = Callable[..., str]
SMALL = ["hidden_size=8", "embedding_size=8", "stack_vector=3", "stack_window=6", "stack_depth=6"]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> str:
        assert run([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return call


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little of the bundled treebank."""
    folder = tmp_path_factory.mktemp("treebank")
    text = data.treebank("test").read_text().strip().split("\n\n")
    (folder / "x.mrg").write_text("\n".join(text[:40]))
    trees, shards = folder / "x.trees", folder / "shards"
    assert run(["parse", str(folder / "x.mrg"), "--from", "treebank", "-o", str(trees), "--quiet"]) == 0
    assert run(["tapes", str(trees), "--tokenizer", "word", "-o", str(shards), "--quiet"]) == 0
    return shards


@pytest.mark.parametrize("stack", ["none", "stratification", "superposition", "nondeterministic"])
def test_train_and_score(command: Run, tmp_path: Path, shards: Path, stack: str) -> None:
    settings = [f"config.{setting}" for setting in [*SMALL, f"stack={stack}", "first_input=eos"]]
    settings += ["train.steps=3", "train.eval_every=3", "train.warmup_steps=0"]
    given = [argument for setting in settings for argument in ("--set", setting)]
    model = tmp_path / "run"
    command("train", shards, "--valid", shards, "--model", "rnn", "-o", model, "--quiet", *given)

    (tmp_path / "x.txt").write_text("The dogs see her .\n")
    table = command("surprisal", tmp_path / "x.txt", "--model", model, "--nats", "--quiet")
    rows = list(csv.DictReader(io.StringIO(table), delimiter="\t"))
    assert len(rows) == 6
    assert all(float(row["surprisal"]) > 0 for row in rows)

    ppl = json.loads(command("eval-ppl", shards, "--model", model, "--json", "--quiet"))
    stream = json.loads(command("eval-ppl", shards, "--model", model, "--stream", "--json", "--quiet"))
    assert ppl["counts"]["tokens"] == stream["counts"]["tokens"]
    assert ppl["scores"]["ppl_token_marginal"] == pytest.approx(
        stream["scores"]["ppl_token_marginal"], rel=0.2
    )
    several = json.loads(
        command("eval-ppl", shards, "--model", model, "--stream", "--streams", 3, "--json", "--quiet")
    )
    own = evaluate_stream_perplexity(ShardSet.open(shards), load_checkpoint(model), streams=3)
    of_each = [scores["ppl_word_marginal"] for scores in (several["scores"], own.scores, stream["scores"])]
    assert of_each[0] == pytest.approx(of_each[1], rel=1e-9)
    assert of_each[0] != pytest.approx(of_each[2], rel=1e-9)
    for kind, name in (("blimp", "eval-blimp"), ("sg", "eval-sg")):
        suites = tmp_path / kind
        suites.mkdir()
        source = min(path for path in (Path(str(data.treebank("test"))).parents[1] / kind).iterdir())
        shutil.copy(source, suites)
        output = tmp_path / name
        command(name, suites, "--model", model, "-o", output, "--quiet")
        results = json.loads((output / "results.json").read_text())
        assert results["settings"]["kind"] == "string"
    drawn = command("sample", "--model", model, "--number", 2, "--strings", "--quiet")
    assert len(drawn.splitlines()) == 2
