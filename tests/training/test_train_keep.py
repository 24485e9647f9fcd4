"""Checkpoints that ``train.keep_at`` keeps: when, what they hold, and that nothing else changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from search_oracle import tiny_model
from stopping import DieAfter, StopAfter, assert_same_run, metrics

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.provenance import provenance
from pdtools.shards import ShardSet
from pdtools.training import Recipe, Sentences, TrainConfig, train
from pdtools.training.batches import BatchLimits
from pdtools.training.masking import Masking
from pdtools.training.streams import Stream

TINY = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
SHORT = TrainConfig(
    steps=8, learning_rate=3e-3, warmup_steps=1, batch_tokens=60, eval_every=3, log_every=1, seed=5
)


def recipe(*keep_at: str, **changes: int) -> Recipe:
    return Recipe(options=TINY, train=dataclasses.replace(SHORT, keep_at=keep_at, **changes))


def kept(run: Path) -> dict[int, bytes]:
    folders = run.glob("step-*")
    return {int(f.name.removeprefix("step-")): (f / "model.safetensors").read_bytes() for f in folders}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, toy_train: Path, toy_valid: Path) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    train(toy_train, run, recipe(), valid=toy_valid)
    return run


def steps_of_words(run: Path, shards: ShardSet, words: int) -> int:
    """The step in which a run had read so many words: the log counts tokens, the corpus both."""
    counts = shards.manifest["counts"]
    tokens = words * (counts["tokens"] + counts["sentences"]) / counts["words"]
    return min(r["step"] for r in metrics(run) if r["kind"] == "train" and r["tokens"] >= tokens)


def test_steps_and_words_are_kept(plain: Path, toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    run, shards = tmp_path / "run", ShardSet.open(toy_train)
    words = [int(share * shards.manifest["counts"]["words"]) for share in (0.1, 0.9)]
    expected = {2, 8, *(steps_of_words(plain, shards, number) for number in words)}
    assert len(expected) == 4
    points = [f"{number} words" for number in words]
    train(toy_train, run, recipe("2 steps", "8steps", *points, "99M words", "99 steps"), valid=toy_valid)
    assert_same_run(run, plain)
    found = kept(run)
    assert found.keys() == expected
    assert found[8] == (run / "last" / "model.safetensors").read_bytes()
    train(toy_train, tmp_path / "two", recipe(), valid=toy_valid, stop=(stop := StopAfter(2)), listener=stop)
    assert found[2] == (tmp_path / "two" / "last" / "model.safetensors").read_bytes()
    assert sorted(path.name for path in (run / "step-2").iterdir()) == sorted(
        path.name for path in (run / "best").iterdir()
    )
    assert load_checkpoint(run / "step-2").config["step"] == 2


@pytest.mark.parametrize("step", [2, 4, 7])
@pytest.mark.parametrize("dies", [False, True])
def test_a_stopped_run_keeps_the_same(
    step: int, dies: bool, plain: Path, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    run, wanted = tmp_path / "run", recipe("1 steps", "4 steps", "0.15k words", "7 steps")
    train(toy_train, tmp_path / "whole", wanted, valid=toy_valid)
    if dies:
        with pytest.raises(DieAfter.Dead):
            train(toy_train, run, wanted, valid=toy_valid, listener=DieAfter(step))
    else:
        train(toy_train, run, wanted, valid=toy_valid, stop=(stop := StopAfter(step)), listener=stop)
    train(toy_train, run, wanted, valid=toy_valid, resume=True)
    assert kept(run) == kept(tmp_path / "whole")
    assert_same_run(run, plain)


def test_it_may_change_in_between_and_is_no_other_training(
    plain: Path, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stop = StopAfter(3)
    train(toy_train, run, recipe("2 steps"), valid=toy_valid, stop=stop, listener=stop)
    train(toy_train, run, recipe("5 steps"), valid=toy_valid, resume=True)
    assert kept(run).keys() == {2, 5}
    assert_same_run(run, plain)
    training = [
        provenance({"model": folder})["inputs"]["model"]["training"]
        for folder in (run / "last", run / "step-5", plain / "last")
    ]
    assert training == [training[0]] * 3
    train(toy_train, run, recipe("3 steps"), valid=toy_valid, overwrite=True)
    assert kept(run).keys() == {3}


def test_a_number_of_words_may_be_reached_exactly(
    plain: Path, toy_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sentences, "words_per_token", 1.0)
    read = {r["step"]: r["tokens"] for r in metrics(plain) if r["kind"] == "train"}
    train(toy_train, tmp_path / "run", recipe(f"{read[2]} words", f"{read[3] + 1} words", steps=4))
    assert kept(tmp_path / "run").keys() == {2, 4}


@pytest.mark.parametrize("point", ["5", "0 steps", "-1 steps", "1.5 steps", "words", "1G words", "1m words"])
def test_what_is_no_such_point_is_refused(point: str) -> None:
    with pytest.raises(PdtoolsError, match=r"train\.keep_at: .* must be such as '500 steps' or '1M words'"):
        recipe(point)


@pytest.mark.parametrize(
    ("point", "words"),
    [("2.01M words", 2_010_000), ("1.001k words", 1001), ("0.29M words", 290_000), ("15k words", 15_000)],
)
def test_shares_of_a_unit_are_whole_numbers(point: str, words: int) -> None:
    """In binary floating point, 2.01 million is 2009999.9999999998."""
    assert recipe(point).train.kept_at("words") == {words}
    assert recipe(point).train.kept_at("steps") == frozenset()


@pytest.mark.parametrize("layout", ["sentence", "window"])
@pytest.mark.parametrize("model", ["transformer", "pushdown"])
def test_the_tokens_of_a_pass_are_the_words_of_the_corpus(
    model: str, layout: str, toy_train: Path, window_train: Path
) -> None:
    """Some models of windows predict a ROOT after each sentence, others none."""
    shards = ShardSet.open(toy_train if layout == "sentence" else window_train)
    data = Sentences(shards, tiny_model(model, layout=layout), rejects=Rejects())
    tokens = sum(int(batch.predicted().sum()) for batch in data.in_order(BatchLimits(sentences=8)))
    assert tokens * data.words_per_token == pytest.approx(shards.manifest["counts"]["words"])


def test_masked_models_and_streams_read_all_words(toy_train: Path) -> None:
    shards = ShardSet.open(toy_train)
    words = shards.manifest["counts"]["words"]
    for share, rounding in ((0.5, 0.1), (1.0, 1e-9)):  # of each row's tokens a whole number is hidden
        masking = Masking(tokenizer=shards.tokenizer, share=share)
        masked = Sentences(shards, tiny_model(), rejects=Rejects(), masking=masking)
        tokens = sum(int(batch.predicted().sum()) for batch in masked.in_order(BatchLimits(sentences=8)))
        assert tokens * masked.words_per_token == pytest.approx(words, rel=rounding)
    stream = Stream(shards)
    assert (len(stream.tokens) - 1) * stream.words_per_token == pytest.approx(words)


def test_checkpoints_say_how_many_words_they_have_read(
    plain: Path, toy_train: Path, toy_valid: Path, tmp_path: Path
) -> None:
    counts = ShardSet.open(toy_train).manifest["counts"]
    ratio = counts["words"] / (counts["tokens"] + counts["sentences"])
    read = {r["step"]: r["tokens"] * ratio for r in metrics(plain) if r["kind"] == "train"}
    assert load_checkpoint(plain / "last").config["words"] == round(read[8])
    points = ["2 steps", f"{round(read[3]) + 1} words", f"{round(read[3]) + 2} words", "9M words"]
    train(toy_train, tmp_path / "run", recipe(*points), valid=toy_valid)
    second, fourth = (load_checkpoint(tmp_path / "run" / name).trained for name in ("step-2", "step-4"))
    assert second == {"step": 2, "words": round(read[2])}
    reached = [round(read[3]) + 1, round(read[3]) + 2]
    assert fourth == {"step": 4, "words": round(read[4]), "kept_at_words": reached}
    found = provenance({"model": tmp_path / "run" / "step-4"})["inputs"]["model"]
    assert (found["step"], found["words"]) == (4, round(read[4]))
