"""Streams: every token once, in order; runs that are stopped and resumed; evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pdtools.errors import PdtoolsError
from pdtools.evaluation.perplexity.streams import evaluate_stream_perplexity
from pdtools.files import Rejects
from pdtools.models import Batch, build_model, load_checkpoint, make_config
from pdtools.shards import ShardSet
from pdtools.shards.build import blocks_from_files
from pdtools.training import Ranks, Recipe, TrainConfig, read_recipe, train
from pdtools.training.streams import Stream

IDS = {"vocab_size": 9, "pad_id": 0, "root_id": 1, "eos_id": 2}
MODEL = {"hidden_size": 8, "embedding_size": 6, "first_input": "eos", "stack_window": 5, "stack_symbols": 2}


def recipe(stack: str = "nondeterministic", **train_options: Any) -> Recipe:
    options = {
        "optimizer": "sgd",
        "batches": "stream",
        "batch_sentences": 4,
        "batch_tokens": 28,
        "steps": 16,
        "learning_rate": 1.0,
        "warmup_steps": 0,
        "schedule": "plateau",
        "decay": 0.5,
        "decay_patience": 1,
        "eval_every": 5,
        "log_every": 5,
    }
    config = TrainConfig(**{**options, **train_options})
    return Recipe(model="rnn", options={**MODEL, "stack": stack}, train=config)


@pytest.mark.parametrize(("streams", "length"), [(1, 7), (3, 5), (4, 1000), (50, 3)])
def test_every_token_is_predicted_once_after_the_one_before(
    toy_train: Path, streams: int, length: int
) -> None:
    shards = ShardSet.open(toy_train)
    text = np.concatenate([shards.tokens(i)[1:] for i in range(len(shards))])
    batches = Stream(shards).cut(streams, length)
    assert [batch.continues for batch in batches] == [False, *[True] * (len(batches) - 1)]
    assert all(batch.tokens.shape == (streams, length) for batch in batches[:-1])
    read = torch.cat([batch.tokens for batch in batches], 1)
    targets = torch.cat([batch.targets for batch in batches], 1)
    scored = torch.cat([batch.predicted() for batch in batches], 1)
    assert targets[scored].tolist() == text.tolist()
    assert read[scored].tolist() == [shards.tokenizer.eos_id, *text[:-1].tolist()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "last" / "model.safetensors")


@pytest.mark.parametrize("stack", ["none", "superposition", "stratification", "nondeterministic"])
def test_a_stopped_run_goes_on_to_the_same_weights(
    toy_train: Path, toy_valid: Path, tmp_path: Path, stack: str
) -> None:
    # Without a limit of depth these stacks would grow with the text.
    chosen = recipe(stack)
    chosen = Recipe(model="rnn", options={**chosen.options, "stack_depth": 4}, train=chosen.train)
    report = train(toy_train, tmp_path / "whole", chosen, valid=toy_valid)
    assert report["finished"] == "steps"
    calls = iter(range(1000))
    stopped = train(toy_train, tmp_path / "parts", chosen, valid=toy_valid, stop=lambda: next(calls) == 7)
    assert stopped["finished"] is None
    assert 0 < stopped["step"] < 16
    resumed = train(toy_train, tmp_path / "parts", chosen, valid=toy_valid, resume=True)
    assert resumed["step"] == 16
    assert resumed["best"]["loss"] == report["best"]["loss"]
    expected, found = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_evaluation_reads_the_whole_text_and_leaves_training_alone(toy_train: Path, toy_valid: Path) -> None:
    torch.manual_seed(0)
    from pdtools.models import RecurrentConfig, RecurrentLM

    tokenizer = ShardSet.open(toy_train).tokenizer
    ids = {key: getattr(tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")}
    model = RecurrentLM(RecurrentConfig(**ids, **MODEL))
    batches = Stream(ShardSet.open(toy_train)).cut(2, 6)
    model.train()
    expected = [model.loss(batch).sums["token_nll"].item() for batch in batches[:4]]
    found = []
    for batch in batches[:4]:
        model.train()
        found.append(model.loss(batch).sums["token_nll"].item())
        model.eval()
        with torch.no_grad():
            for other in Stream(ShardSet.open(toy_valid)).cut(3, 5):
                model.loss(other)
    assert found == expected


def test_perplexity_of_a_stream(toy_train: Path, toy_valid: Path, tmp_path: Path) -> None:
    report = train(toy_train, tmp_path / "run", recipe(batch_sentences=1, batch_tokens=9), valid=toy_valid)
    loaded = load_checkpoint(tmp_path / "run")
    results = evaluate_stream_perplexity(ShardSet.open(toy_valid), loaded)
    assert results.scores["ppl_token_marginal"] == pytest.approx(
        report["best"]["ppl_token_given_trees"], rel=1e-5
    )
    assert results.settings["log_base"] == "nats"
    table = results.tables["items"].to_pydict()
    mean = -sum(table["marginal"]) / sum(table["tokens"])
    assert results.scores["ppl_token_marginal"] == pytest.approx(np.exp(mean))


def test_chunks_of_any_length_give_the_same_perplexity(
    toy_train: Path, toy_valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(toy_train, tmp_path / "run", recipe(steps=3), valid=toy_valid)
    shards, loaded = ShardSet.open(toy_train), load_checkpoint(tmp_path / "run")
    cut, lengths = Stream.cut, []

    def watched(stream: Stream, streams: int, length: int) -> list[Batch]:
        lengths.append(length)
        return cut(stream, streams, length)

    monkeypatch.setattr(Stream, "cut", watched)
    long = evaluate_stream_perplexity(shards, loaded, streams=4)
    monkeypatch.setattr("pdtools.evaluation.perplexity.streams._LENGTH", 4)
    monkeypatch.setattr("pdtools.evaluation.perplexity.streams._SHORTEST", 3)
    short = evaluate_stream_perplexity(shards, loaded, streams=4)
    assert lengths == [128, 3]
    assert short.scores == pytest.approx(long.scores)


def test_blocks_of_a_text_are_the_stream_of_its_sentences(toy_train: Path, tmp_path: Path) -> None:
    sentences = ShardSet.open(toy_train)
    lines = [sentences.text(row) for row in range(len(sentences))]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    blocks_from_files(
        [str(tmp_path / "text.txt")], sentences.tokenizer, tmp_path / "blocks", Rejects("fail"), length=7
    )
    blocks = ShardSet.open(tmp_path / "blocks")
    assert Stream(blocks).tokens.tolist() == Stream(sentences).tokens.tolist()
    # An epoch of either reads the words of the text, which checkpoints record (``words``).
    read = [(len(each.tokens) - 1) * each.words_per_token for each in map(Stream, (sentences, blocks))]
    assert read == pytest.approx([len(" ".join(lines).split())] * 2)
    found = {}
    for name, shards in (("sentences", sentences), ("blocks", blocks)):
        report = train(shards.folder, tmp_path / f"by {name}", recipe(steps=3), valid=shards.folder)
        loaded = load_checkpoint(tmp_path / f"by {name}")
        one, four = (evaluate_stream_perplexity(shards, loaded, streams=number) for number in (1, 4))
        # Training reads the validation text in four streams, too.
        valid = report["best"]["ppl_token_given_trees"]
        assert four.scores["ppl_token_marginal"] == pytest.approx(valid, rel=1e-5)
        assert one.scores["ppl_token_marginal"] != pytest.approx(valid, rel=1e-5)
        found[name] = [
            each.scores[f"ppl_{unit}_marginal"]
            for each in (one, four)
            for unit in ("token", "word", "word_without_eos")
        ]
    assert found["blocks"] == pytest.approx(found["sentences"])
    assert found["blocks"][1] != pytest.approx(found["blocks"][2])
    assert blocks.text_sha256() == sentences.text_sha256()
    trained_on_blocks = evaluate_stream_perplexity(sentences, loaded, streams=4)
    assert trained_on_blocks.scores == pytest.approx(four.scores)


def test_what_has_no_streams_is_refused(toy_train: Path, tmp_path: Path) -> None:
    chosen = recipe()
    with pytest.raises(PdtoolsError, match="model rnn"):
        train(toy_train, tmp_path / "run", Recipe(model="transformer", train=chosen.train))
    endless = Recipe(model="rnn", options={**MODEL, "stack_window": 0}, train=chosen.train)
    with pytest.raises(PdtoolsError, match="needs model rnn with a limited stack"):
        train(toy_train, tmp_path / "run", endless)
    source = Stream(ShardSet.open(toy_train)).source(chosen.train)
    with pytest.raises(PdtoolsError, match="one process"):
        source.take(Ranks(rank=0, size=2))
    with pytest.raises(PdtoolsError, match="number of streams"):
        TrainConfig(batches="stream", batch_tokens=4, batch_sentences=8)


def test_the_recipe_for_the_penn_treebank() -> None:
    """Appendix D; learning rate and clipping threshold are drawn."""
    chosen = read_recipe("ptb-rnn")
    config = chosen.train
    assert (config.batches, config.optimizer, config.schedule) == ("stream", "sgd", "plateau")
    assert (config.batch_sentences, config.batch_tokens) == (32, 32 * 35)
    assert (config.decay, config.decay_patience, config.patience) == (pytest.approx(1 / 1.5), 1, 2)
    assert (config.warmup_steps, config.weight_decay) == (0, 0)
    assert 1 <= config.learning_rate <= 100
    assert 0.0112 <= config.clip <= 1.12
    assert chosen.options["stack_window"] == 35
    assert (chosen.options["hidden_size"], chosen.options["embedding_size"]) == (256, 256)
    assert (chosen.options["initial_output"], chosen.options["initial_range"]) == ("uniform", 0.05)


def test_the_recipe_for_context_free_languages() -> None:
    """Section 4 and appendix B."""
    chosen = read_recipe("cfl")
    config = chosen.train
    assert (config.batches, config.optimizer, config.schedule) == ("stored", "adamw", "plateau")
    assert (config.batch_sentences, config.normalize, config.clip) == (10, "sentence", 5)
    assert (config.decay, config.decay_patience, config.patience) == (0.9, 5, 10)
    assert (config.warmup_steps, config.weight_decay) == (0, 0)
    assert (config.steps, config.eval_every) == (200_000, 1000)
    assert chosen.options["hidden_size"] == 20
    model = build_model("rnn", make_config("rnn", {**chosen.options, **IDS}))
    hidden = model.get_parameter("hidden_weight")
    assert hidden.abs().max() <= 0.1 < 1.05 * hidden.abs().max()
