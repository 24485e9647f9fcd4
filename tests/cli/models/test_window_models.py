"""Every kind of model of windows through the commands: suites, perplexity, parses of TreeReg."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pdtools import data
from pdtools.cli.main import run
from pdtools.evaluation.sg.suites import SuiteFiles
from pdtools.trees import Tree

TREES = (
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"
    "(S (NP (NNS cats)) (VP (VBP sleep)))\n"
    "(S (NP (DT the) (NNS cats)) (VP (VBP sleep) (PP (IN near) (NP (DT the) (NN dog)))))\n"
)
SETTINGS = ("layers=1", "d_model=16", "heads=2", "d_ff=32")
TRAIN = ("steps=6", "warmup_steps=1", "batch_tokens=80", "eval_every=3")
KINDS = {
    "base": ("transformer", ()),
    "given": ("transformer", ("window_roots=given",)),
    "head": ("transformer", ("attachment_head=true",)),
    "pushdown": ("pushdown", ()),
    "treereg": ("transformer", ("treereg_layer=1", "treereg_share=0.5")),
}
CPU = ["--device", "cpu", "--threads", "1"]


def done(*arguments: str | Path) -> int:
    return run([str(each) for each in arguments])


def train(shards: Path, output: Path, kind: str, *more: str | Path) -> int:
    model, own = KINDS[kind]
    settings = [f"config.{each}" for each in (*SETTINGS, *own)] + [f"train.{each}" for each in TRAIN]
    settings += ["train.treereg_every=2"]
    given = [part for setting in settings for part in ("--set", setting)]
    return done("train", shards, "-o", output, "--config", "small", "--model", model, *given, *CPU, *more)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``windows``, ``single`` (a sentence in each window) and ``sentences``."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "a.trees").write_text(TREES * 6)
    windows = ["--layout", "window", "--window"]
    assert done("tapes", folder / "a.trees", "-o", folder / "windows", *windows, "20", "--quiet") == 0
    for name, options in (("single", [*windows, "7"]), ("sentences", [])):
        (folder / "b.trees").write_text(TREES.splitlines(keepends=True)[2] * 4)
        made = ["-o", folder / name, "--tokenizer", folder / "windows", *options, "--quiet"]
        assert done("tapes", folder / "b.trees", *made) == 0
    return folder


def test_a_window_is_shown_with_its_trees(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, "show", shards / "windows", "0")
    lines = found["text"].split("\n")
    assert lines[:2] == ["the dog barks", "cats sleep"]
    assert found["trees"][:2] == ["(X (X (XX the) (XX dog)) (XX barks))", "(X (XX cats) (XX sleep))"]
    assert len(found["trees"]) == len(lines) == 4
    assert (found["tree"], found["document"]) == (None, 0)
    assert [each["word"] for each in found["tokens"][:7]] == [
        None,
        "the",
        "dog",
        "barks",
        None,
        "cats",
        "sleep",
    ]
    assert done("show", shards / "windows", "0") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("0: the dog barks\ncats sleep\n")
    assert all(tree in printed for tree in found["trees"])
    assert done("show", shards / "windows", "--words") == 0
    sentences_of_trees = [" ".join(Tree.from_brackets(tree).words) for tree in TREES.splitlines()] * 6
    assert capsys.readouterr().out.splitlines() == sentences_of_trees


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, shards: Path) -> Path:
    output = shards / f"run-{request.param}"
    assert train(shards / "windows", output, request.param, "--valid", shards / "windows") == 0
    return output


def results(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    assert done(*arguments, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def search(trained: Path) -> list[str]:
    """A beam that holds every derivation of the sentences here, for models that search."""
    return ["--beam", "200"] if trained.name in ("run-head", "run-pushdown") else []


def test_suites(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searches = ["--beam", "3"] if search(trained) else []
    found = results(capsys, "eval-sg", data.sg(), "--model", trained, "-o", tmp_path / "sg", *searches, *CPU)
    suites = list(SuiteFiles(data.sg()))
    assert found["counts"]["items"] == sum(len(suite.items) for suite in suites)
    assert found["scores"]["by_suite"].keys() == {suite.name for suite in suites}
    # The regions of a condition are those of a sentence by itself, without its end.
    rows = pq.read_table(tmp_path / "sg/strings.parquet").to_pylist()
    assert all(math.isfinite(row["bits"]) for row in rows)
    condition = suites[0].items[0].conditions[0]
    regions = sum(row["bits"] for row in rows[: len(condition.regions)])
    text = ["--text", condition.text, "--model", trained, *searches, *CPU]
    capsys.readouterr()
    assert done("surprisal", *text) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert regions == pytest.approx(sum(float(line[-1]) for line in lines[:-1]), rel=1e-4)


def test_windows_of_one_sentence_are_scored_as_sentences(
    trained: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = results(capsys, "eval-ppl", shards / "single", "--model", trained, *search(trained), *CPU)
    assert (found["counts"]["windows"], found["counts"]["sentences"], found["counts"]["tokens"]) == (4, 4, 28)
    sentence = ["--text", "the cats sleep near the dog", "--nats"]
    assert done("surprisal", *sentence, "--model", trained, *search(trained), *CPU) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line[2] for line in lines] == ["the", "cats", "sleep", "near", "the", "dog", "<eos>"]
    total = sum(float(line[-1]) for line in lines)
    assert found["scores"]["ppl_token_marginal"] == pytest.approx(math.exp(total / 7), rel=1e-4)


def test_treereg_of_windows(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "run"
    capsys.readouterr()
    assert train(shards / "windows", output, "treereg", "--valid", shards / "windows") == 0
    assert "treereg" in capsys.readouterr().err
    records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert all(record["treereg_loss"] > 0 for record in records)
    assert all(0 <= record["treereg_accuracy"] <= 1 for record in records)
    text = ["--text", "the cats sleep near the dog"]
    assert done("decode", *text, "--model", output, *CPU) == 0
    decoded = Tree.from_brackets(capsys.readouterr().out.strip())
    assert decoded.words == ("the", "cats", "sleep", "near", "the", "dog")
    assert len(decoded.labels) == 5
    assert done("parse", *text, "--parser", output, *CPU) == 0
    assert Tree.from_brackets(capsys.readouterr().out.strip()) == decoded


def test_treereg_shards_beside(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside = ["--treereg-shards", shards / "sentences"]
    assert train(shards / "windows", tmp_path / "one", "treereg", *beside) == 0
    capsys.readouterr()
    assert (
        train(shards / "sentences", tmp_path / "two", "treereg", "--treereg-shards", shards / "single") == 1
    )
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "windows are for models that learn from windows" in told[0]
