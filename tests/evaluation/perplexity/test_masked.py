"""Perplexity of masked models against one row at a time with every word hidden."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from search_oracle import tiny_model

from pdtools.errors import InputError
from pdtools.evaluation.perplexity.masked import HiddenTokens, evaluate_masked_perplexity
from pdtools.evaluation.results import ITEMS
from pdtools.files import Rejects
from pdtools.models import LoadedModel, collate, load_checkpoint, save_checkpoint
from pdtools.shards import ShardSet, ShardSettings, build_shards
from pdtools.tokenization import train_word_tokenizer
from pdtools.training import masking
from pdtools.training.masking import Masking, evaluation_draw
from pdtools.training.shard_input import Sentences
from pdtools.trees import SourcedTree, Tree

LENGTHS = (3, 1, 6, 4, 8)  # words; the last is too long for the model
EVERY = HiddenTokens(mask_share=1.0, masking="mask")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShardSet, LoadedModel]:
    folder = tmp_path_factory.mktemp("masked")
    tokenizer = train_word_tokenizer("abcd", text_style="ptb")
    rng = np.random.default_rng(0)
    texts = [f"(S {' '.join(f'(X {word})' for word in rng.choice([*'abcd'], n))})" for n in LENGTHS]
    sourced = [SourcedTree(Tree.from_brackets(text), "toy", i, text) for i, text in enumerate(texts, 1)]
    build_shards(sourced, tokenizer, ShardSettings(), folder / "shards", Rejects())
    shards = ShardSet.open(folder / "shards")
    model = tiny_model(
        "transformer",
        vocab_size=tokenizer.vocab_size,
        max_length=8,
        positions="learned",
        objective="masked",
        layout="sentence",
    )
    save_checkpoint(folder / "model", model, tokenizer, shards=shards.manifest["settings"])
    return shards, load_checkpoint(folder / "model")


def test_training_validates_on_the_tokens_that_are_hidden_here(
    world: tuple[ShardSet, LoadedModel],
) -> None:
    """Whatever rows the model cannot take."""
    shards, loaded = world
    short = tiny_model(
        "transformer",
        vocab_size=loaded.tokenizer.vocab_size,
        max_length=7,
        positions="learned",
        objective="masked",
        layout="sentence",
    )
    masked = Masking(tokenizer=loaded.tokenizer, share=0.5)
    rows = Sentences(shards, short, rejects=Rejects("skip"), masking=masked)
    assert rows.rows.tolist() == [0, 1, 3]  # without those of 6 and 8 words
    found = rows.batch(np.arange(3))
    packed = short.pack([(shards.tokens(row), short.derivation_of(shards, row)) for row in (0, 1, 3)])
    wanted = masked.apply(packed, [0, 1, 3], evaluation_draw(0))
    assert torch.equal(found.predicted(), wanted.predicted())
    assert torch.equal(found.tokens, wanted.tokens)
    others = masked.apply(packed, [0, 1, 2], evaluation_draw(0))
    assert not torch.equal(found.tokens, others.tokens)


def one_by_one(shards: ShardSet, loaded: LoadedModel) -> list[float]:
    """Σ log p of the words of each row that fits, all of them read as the mask."""
    found = []
    for i, n in enumerate(LENGTHS[:-1]):
        tokens = shards.tokens(i)
        batch = collate([(tokens, np.arange(n + 2))], loaded.tokenizer.pad_id)
        hidden, scored = batch.tokens.clone(), torch.zeros_like(batch.tokens, dtype=torch.bool)
        hidden[0, 1 : n + 1], scored[0, 1 : n + 1] = loaded.tokenizer.mask_id, True
        masked = dataclasses.replace(batch, tokens=hidden, targets=batch.tokens, scored=scored)
        with torch.inference_mode():
            found.append(float(loaded.model.forward_parts(masked).token_logprobs.double().sum()))
    return found


@pytest.mark.parametrize(("draws", "max_batch"), [(1, None), (3, 1), (2, 2)])
def test_every_word_hidden(
    world: tuple[ShardSet, LoadedModel], draws: int, max_batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, loaded = world
    sizes: list[int] = []
    forward_parts = loaded.model.forward_parts
    monkeypatch.setattr(
        loaded.model, "forward_parts", lambda batch: sizes.append(len(batch.tokens)) or forward_parts(batch)
    )
    rejects = Rejects("skip")
    hidden = dataclasses.replace(EVERY, mask_draws=draws)
    results = evaluate_masked_perplexity(shards, loaded, hidden=hidden, max_batch=max_batch, rejects=rejects)
    assert max_batch is None or set(sizes) <= {*range(1, max_batch + 1)}
    monkeypatch.undo()
    items = {row["id"]: row for row in results.table(ITEMS).to_pylist()}
    wanted = one_by_one(shards, loaded)
    ids = [int(i) for i in shards.ids[:-1]]
    assert [items[i]["tokens"] for i in ids] == [draws * n for n in LENGTHS[:-1]]
    assert [items[i]["masked"] for i in ids] == pytest.approx(
        [draws * each for each in wanted], rel=2e-6, abs=1e-4
    )
    total = sum(LENGTHS[:-1])
    assert results.scores == {"ppl_token_masked": pytest.approx(math.exp(-sum(wanted) / total), rel=1e-5)}
    assert results.counts == {"sentences": 4, "sentences_left_out": 1, "tokens": draws * total}
    assert (results.settings["mask_share"], results.settings["mask_draws"]) == (1.0, draws)
    assert [record["reason"] for record in rejects] == ["longer than the model: 8 tokens, at most 6"]


def test_each_draw_hides_other_tokens(
    world: tuple[ShardSet, LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, loaded = world

    def found(draws: int) -> np.ndarray:
        hidden = HiddenTokens(mask_share=0.3, masking="mask", mask_draws=draws)
        results = evaluate_masked_perplexity(shards, loaded, hidden=hidden, rejects=Rejects("skip"))
        return results.table(ITEMS).column("masked").to_numpy()

    three, of_each = found(3), []
    for first in range(3):
        monkeypatch.setattr(masking, "evaluation_draw", lambda number, first=first: evaluation_draw(first))
        of_each.append(found(1))
    assert three == pytest.approx(sum(of_each), rel=2e-6, abs=1e-4)
    assert not np.allclose(of_each[0], of_each[1], atol=1e-3)


def test_what_is_hidden_is_what_was_asked_for(world: tuple[ShardSet, LoadedModel]) -> None:
    shards, loaded = world

    def found(hidden: HiddenTokens | None) -> dict[str, float | None]:
        results = evaluate_masked_perplexity(shards, loaded, hidden=hidden, rejects=Rejects("skip"))
        return {**results.scores, "tokens": results.counts["tokens"]}

    assert found(None) == found(HiddenTokens())
    assert found(None)["tokens"] == 4  # one of each row, at least
    assert found(HiddenTokens(mask_share=0.5))["tokens"] == 2 + 1 + 3 + 2
    as_bert, as_mask = (found(HiddenTokens(mask_share=1.0, masking=each)) for each in ("bert", "mask"))
    assert as_bert["tokens"] == as_mask["tokens"]
    assert as_bert["ppl_token_masked"] != as_mask["ppl_token_masked"]


def test_rows_that_are_all_too_long_have_no_perplexity(
    world: tuple[ShardSet, LoadedModel], tmp_path: Path
) -> None:
    shards, loaded = world
    text = f"(S {' '.join(['(X a)'] * 9)})"
    tree = SourcedTree(Tree.from_brackets(text), "toy", 1, text)
    build_shards([tree], shards.tokenizer, ShardSettings(), tmp_path / "long", Rejects())
    with pytest.raises(InputError, match="no row that the model can score"):
        evaluate_masked_perplexity(ShardSet.open(tmp_path / "long"), loaded, rejects=Rejects("skip"))
