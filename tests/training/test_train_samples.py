"""Sample sentences that are parsed during training: nothing else changes, and stops leave no trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from stopping import DieAfter, StopAfter, assert_same_run

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.search import SearchOptions, load_model
from pdtools.search.decoding import parse_samples
from pdtools.shards import ShardSet, ShardSettings, build_shards
from pdtools.tokenization import join_words, train_word_tokenizer
from pdtools.training import Recipe, TrainConfig, train
from pdtools.training.samples import SAMPLES, SampleParse, pick_samples, read_samples
from pdtools.trees import SourcedTree, Tree

TINY = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
SHORT = TrainConfig(
    steps=6, learning_rate=3e-3, warmup_steps=1, batch_tokens=60, eval_every=2, log_every=3, seed=5
)
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "pushdown": ("pushdown", {}),
    "treereg": ("transformer", {"treereg_layer": 1}),
    "plm": ("plm", {}),
    "tg": ("tg", {}),
}


def recipe(kind: str, **changes: Any) -> Recipe:
    model, options = OPTIONS[kind]
    return Recipe(model=model, options={**TINY, **options}, train=dataclasses.replace(SHORT, **changes))


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_with_samples_is_the_run_without(
    kind: str, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    train(toy_train, tmp_path / "plain", recipe(kind), valid=toy_valid)
    train(toy_train, tmp_path / "run", recipe(kind), valid=toy_valid, parse_samples=parse_samples)
    assert_same_run(tmp_path / "run", tmp_path / "plain")
    assert read_samples(tmp_path / "plain") == []
    records = read_samples(tmp_path / "run")
    assert [record["step"] for record in records] == [step for step in (2, 4, 6) for _ in range(3)]
    shards = ShardSet.open(toy_valid)
    assert len({record["id"] for record in records}) == 3
    assert all(record["text"] == shards.text(shards.find(record["id"])) for record in records)
    # The last ones are what the last checkpoint says of these sentences.
    loaded = load_checkpoint(tmp_path / "run" / "last")
    beam = None if kind == "treereg" else 50 if kind in ("plm", "tg") else 10
    searcher = load_model(tmp_path / "run" / "last", SearchOptions(beam=beam), parses=True)
    texts = [join_words(record["text"].split(" "), loaded.tokenizer.text_style) for record in records[-3:]]
    for record, parsed in zip(records[-3:], searcher.parse(texts), strict=True):
        joint, tree = parsed.k_best[0]  # type: ignore[union-attr]
        assert (record["tree"], record["joint"], record["reason"]) == (str(tree), joint, None)


@pytest.mark.parametrize("step", [2, 5])
def test_stops_and_kills_leave_no_trace(step: int, toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"valid": toy_valid, "parse_samples": parse_samples}
    train(toy_train, tmp_path / "whole", recipe("pushdown"), **more)
    wanted = (tmp_path / "whole" / SAMPLES).read_text()
    stop = StopAfter(step)
    train(toy_train, tmp_path / "stopped", recipe("pushdown"), listener=stop, stop=stop, **more)
    with pytest.raises(DieAfter.Dead):
        train(toy_train, tmp_path / "killed", recipe("pushdown"), listener=DieAfter(step), **more)
    # Between an evaluation and the checkpoint after it; and in the middle of a line.
    torn = tmp_path / "killed" / SAMPLES
    torn.write_text((torn.read_text() if torn.exists() else "") + '{"step": 6, "id": 0}\n{"step": 6, "i')
    assert read_samples(tmp_path / "killed")[-1] == {"step": 6, "id": 0}
    for name in ("stopped", "killed"):
        train(toy_train, tmp_path / name, recipe("pushdown"), resume=True, **more)
        assert (tmp_path / name / SAMPLES).read_text() == wanted
        assert_same_run(tmp_path / name, tmp_path / "whole")


def test_which_sentences(toy_valid: Path, window_valid: Path, window_train: Path, tmp_path: Path) -> None:
    shards = ShardSet.open(toy_valid)
    found = pick_samples(shards, range(len(shards)), 2)
    assert found == pick_samples(shards, range(len(shards)), 5)[:2]
    assert all(4 <= len(sample.text.split(" ")) <= 28 for sample in found)
    assert pick_samples(shards, range(len(shards)), 0) == []
    windows = ShardSet.open(window_valid)
    texts = {windows.text(row).split("\n")[0] for row in range(len(windows))}
    samples = pick_samples(windows, range(len(windows)), 2)
    assert {sample.text for sample in samples} <= texts
    train(window_train, tmp_path / "run", recipe("pushdown"), valid=window_valid, parse_samples=parse_samples)
    assert len(read_samples(tmp_path / "run")) == 9


def test_none_are_asked_for_or_none_can_be_had(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"valid": toy_valid, "parse_samples": parse_samples}
    train(toy_train, tmp_path / "none", recipe("pushdown", steps=2, sample_parses=0), **more)
    string = Recipe(model="transformer", options=TINY, train=dataclasses.replace(SHORT, steps=2))
    train(toy_train, tmp_path / "string", string, **more)
    assert not (tmp_path / "none" / SAMPLES).exists()
    assert not (tmp_path / "string" / SAMPLES).exists()
    # Other samples are no other run.
    train(toy_train, tmp_path / "none", recipe("pushdown", steps=2, sample_parses=1), resume=True, **more)


def test_a_parse_that_fails_stops_nothing(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    train(toy_train, tmp_path / "run", recipe("pushdown", steps=2), valid=toy_valid)
    loaded = load_checkpoint(tmp_path / "run")
    unknown, good = parse_samples(loaded, ["no such words", ShardSet.open(toy_valid).text(0)])
    assert unknown.tree is None
    assert "unknown" in (unknown.reason or "")
    assert good.reason is None
    loaded.model.check_causal = lambda: (_ for _ in ()).throw(PdtoolsError("too little memory"))  # type: ignore[method-assign]
    assert parse_samples(loaded, ["a"]) == [SampleParse(None, None, None, "too little memory")]


def test_any_sentence_of_six_to_thirty_positions_is_picked(tmp_path: Path) -> None:
    texts = [f"(S {'(N a) ' * n})" for n in range(1, 41)]
    trees = [SourcedTree(Tree.from_brackets(text), "toy", n, text) for n, text in enumerate(texts, 1)]
    tokenizer = train_word_tokenizer(["a"], unk=False)
    build_shards(trees, tokenizer, ShardSettings(), tmp_path / "shards", Rejects())
    picked = pick_samples(ShardSet.open(tmp_path / "shards"), range(40), 40)
    assert [len(sample.text.split()) + 2 for sample in picked] == list(range(6, 31))
