"""Every kind of model of windows through the commands: suites, perplexity, parses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from window_oracle import window_attachments, window_joints

from pdtools import data
from pdtools.cli.main import run
from pdtools.evaluation.sg.suites import SuiteFiles
from pdtools.models import load_checkpoint
from pdtools.search import beam_search, load_model
from pdtools.search.inputs import read_inputs
from pdtools.search.options import DOCUMENT, Context, SearchOptions
from pdtools.search.parses import Parsed
from pdtools.shards import ShardSet
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
def trained(request: pytest.FixtureRequest, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A folder of its own each time: a worker that takes over tests of another may come to a kind twice.
    output = tmp_path_factory.mktemp("trained") / f"run-{request.param}"
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


@pytest.fixture(scope="module")
def pushdown(shards: Path) -> Path:
    output = shards / "only-pushdown"
    assert train(shards / "windows", output, "pushdown") == 0
    return output


def test_perplexities_count_every_token_and_the_end_of_every_sentence(
    pushdown: Path, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, rows = load_checkpoint(pushdown).model, ShardSet.open(shards / "windows")
    found = results(capsys, "eval-ppl", shards / "windows", "--model", pushdown, "--beam", "200", *CPU)
    counts = found["counts"]
    assert (counts["windows"], counts["sentences"], counts["words"]) == (len(rows), 18, 66 + 18)
    assert counts["tokens"] == counts["words"]
    ids = [np.append(rows.tokens(i), model.eos_id) for i in range(len(rows))]
    total = sum(result.marginal for result in beam_search(model, ids, search=SearchOptions(beam=200)))
    ppl = np.exp(-total / counts["tokens"])
    assert found["scores"]["ppl_token_marginal"] == pytest.approx(ppl, rel=1e-5)
    assert found["scores"]["ppl_token_joint"] >= found["scores"]["ppl_token_marginal"]


def test_parses_are_whole_trees(
    pushdown: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokens = load_checkpoint(pushdown).model, ShardSet.open(shards / "windows").tokens(0)[:4].tolist()
    derivations = list(window_attachments([3]))
    joints = np.sum([part.sum(1) for part in window_joints(model, tokens, derivations)], axis=0)
    trees = {
        1: "(X (X (XX the) (XX dog)) (XX barks))",  # the second word attaches to the first
        2: "(X (XX the) (X (XX dog) (XX barks)))",
    }
    capsys.readouterr()
    best = ["--beam", "8", "--k-best", "2", "--scores", tmp_path / "scores.tsv", "-q"]
    assert done("decode", "--text", "the dog barks", "--model", pushdown, *best, *CPU) == 0
    order = np.argsort(-joints)
    assert capsys.readouterr().out == trees[derivations[order[0]][2]] + "\n"
    header, *lines = [line.split("\t") for line in (tmp_path / "scores.tsv").read_text().splitlines()]
    found = [float(line[header.index("joint")]) for line in lines]
    assert found == pytest.approx(joints[order].tolist(), rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("more", [[], ["--workers", "2"]])
def test_sentences_of_prompts_are_parsed_after_the_earlier_ones(
    more: list[str], pushdown: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [("the dog barks.", "cats sleep."), ("cats sleep near the dog.", "the cats sleep.")]
    rows = [{"sentence1": a, "sentence2": b, "label": "entailment"} for a, b in items]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompts, trees, scores = (tmp_path / name for name in ("p.jsonl", "best.trees", "scores.tsv"))
    assert done("prompts", tmp_path / "x.jsonl", "--task", "rte", "-o", prompts, "-q") == 0
    best = ["--beam", "4", "--k-best", "2", "--scores", scores, "-o", trees, "-q", *more]
    assert done("decode", prompts, "--from", "parts", "--model", pushdown, *best, *CPU) == 0
    sentences = [line.sentence for line in read_inputs([str(prompts)], "parts", "ptb")]
    assert [bool(sentence.before) for sentence in sentences].count(False) == len(items) < len(sentences)
    found = pd.read_csv(scores, sep="\t")
    search, document = SearchOptions(beam=4), Context(of=DOCUMENT)
    alone = list(load_model(pushdown, search, parses=True).parse(sentences, k_best=2))
    after = list(load_model(pushdown, search, context=document, parses=True).parse(sentences, k_best=2))
    lines = trees.read_text().splitlines()
    for number, (line, one, other) in enumerate(zip(lines, after, alone, strict=True), start=1):
        assert isinstance(one, Parsed)
        assert isinstance(other, Parsed)
        own = found[found["id"] == number]
        assert own.joint.tolist() == pytest.approx([joint for joint, _ in one.k_best], rel=2e-6, abs=1e-5)
        assert own.tree.tolist() == [str(tree) for _, tree in one.k_best]
        assert line == own.tree.iloc[0]
        assert (abs(one.marginal - other.marginal) > 1e-3) == bool(sentences[number - 1].before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layout", "window"], "needs --window"),
        (["--window", "8"], "are for --layout window"),
        (["--documents", "file"], "are for --layout window"),
    ],
)
def test_options_of_windows_go_together(
    options: list[str], message: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert done("tapes", shards / "a.trees", "-o", tmp_path / "other", *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("model", ["plm", "rnn"])
def test_models_of_sentences_do_not_read_windows(
    model: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert done("train", shards / "windows", "-o", tmp_path / "run", "--model", model, *CPU) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
