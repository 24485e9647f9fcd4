"""Checkpoints in transformers' Auto classes: logits against our own scorers, peers' numbers against ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from action_oracle import action_model
from search_oracle import save_checkpoints, tiny_model

import pdtools
from pdtools import data
from pdtools.errors import PdtoolsError
from pdtools.models import RecurrentConfig, build_model, load_checkpoint, save_checkpoint
from pdtools.search import SentenceScore, load_model
from pdtools.search.options import SearchOptions

transformers = pytest.importorskip("transformers")
hf = pytest.importorskip("pdtools.hf")

SHARDS = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
TEXTS = ["a b c", "c", "b b a a"]
SENTENCES = ["The dog that chased the cats barks.", "The poet didn't see the cats.", "Who barks?"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    found, tokenizer = save_checkpoints(folder)
    tokenizer = tokenizer.with_labels(["NP", "VP"])
    save_checkpoint(folder / "tg", action_model("tg", "relative"), tokenizer, shards=SHARDS)
    special = {"vocab_size": tokenizer.vocab_size, "pad_id": 0, "root_id": 1, "eos_id": 2}
    recurrent = build_model("rnn", RecurrentConfig(**special, hidden_size=8))
    save_checkpoint(folder / "rnn", recurrent, tokenizer, shards=SHARDS)
    gilt = tiny_model("gilt", vocab_size=tokenizer.vocab_size, feature_width=6)
    save_checkpoint(folder / "gilt", gilt, tokenizer, shards=SHARDS)
    return {**found, **{name: folder / name for name in ("tg", "rnn", "gilt")}}


def load(folder: Path, **options: Any) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        ("base", "right"),
        ("head", "left"),
        ("pushdown", "right"),
        ("pushdown", "left"),
        ("tg", "left"),
        ("rnn", "left"),
    ],
)
def test_logits_are_what_our_scorers_expect(folders: dict[str, Path], kind: str, side: str) -> None:
    model, tokenizer = load(folders[kind], beam=50)
    assert isinstance(model, hf.PdtoolsForCausalLM)
    whole = [text + tokenizer.eos_token for text in TEXTS]
    batch = tokenizer(whole, return_tensors="pt", padding=True, padding_side=side)
    logits = model(**batch).logits
    scorer = load_model(folders[kind], SearchOptions(beam=50))
    for row, found, mask in zip(logits, scorer.next_tokens(TEXTS), batch["attention_mask"], strict=True):
        own = row[mask == 1][:-1].double().detach().numpy()
        finite = np.maximum(found.logprobs, np.finfo(np.float32).min)
        np.testing.assert_allclose(own, finite, rtol=2e-6, atol=1e-5)
        assert not row[mask == 0].any()
    surprisals = pdtools.load(folders[kind], beam=50).surprisal(TEXTS, nats=True).surprisal
    chosen = logits[:, :-1].gather(2, batch["input_ids"][:, 1:, None])[:, :, 0]
    real = (batch["attention_mask"] * (batch["input_ids"] != 1))[:, 1:].bool()
    assert (-chosen[real]).tolist() == pytest.approx(surprisals.tolist(), rel=2e-6, abs=1e-5)


def test_logits_of_strings_are_the_models_own_and_have_gradients(folders: dict[str, Path]) -> None:
    model, tokenizer = load(folders["base"])
    batch = tokenizer(TEXTS[:1], return_tensors="pt")
    out = model(**batch, labels=batch["input_ids"])
    ours = load_checkpoint(folders["base"]).model
    ids = batch["input_ids"][0].numpy().astype(np.int32)
    expected = ours.position_logprobs(ours.pack([(ids, ours.no_derivation(ids))]))[0, 1:]
    assert torch.equal(out.logits[0, :-1], expected)
    assert out.loss.item() == pytest.approx(
        -expected.gather(1, batch["input_ids"][0, 1:, None]).mean().item()
    )
    out.loss.backward()
    assert model.lm.embedding.weight.grad.abs().sum() > 0


def test_rows_without_root_and_without_a_mask(folders: dict[str, Path]) -> None:
    """As lm-evaluation-harness gives them: no beginning-of-sentence, zeros on the right."""
    model, _ = load(folders["pushdown"])
    whole = model(torch.tensor([[1, 3, 4, 5, 2]])).logits[0]
    bare = model(torch.tensor([[3, 4, 5, 0, 0]])).logits[0]
    torch.testing.assert_close(bare[:3], whole[1:4])
    after_the_end = model(torch.tensor([[1, 3, 4, 5, 2, 0, 0]])).logits[0]
    torch.testing.assert_close(after_the_end[:5], whole)
    assert not after_the_end[4:].any()
    with pytest.raises(PdtoolsError, match="goes on after its end-of-sentence"):
        model(torch.tensor([[1, 3, 2, 4]]))


KINDS = ["base", "head", "pushdown", "tg", "rnn", "gilt"]


@pytest.mark.parametrize("kind", KINDS)
def test_padding_needs_no_mask(folders: dict[str, Path], kind: str) -> None:
    """On either side, also if a mask of ones says that it is none; not in a text."""
    model, _ = load(folders[kind], beam=50)
    ids = torch.tensor([[0, 0, 0, 1, 3, 4, 5], [0, 1, 4, 4, 3, 0, 0], [1, 3, 4, 5, 2, 0, 0]])
    with torch.no_grad():
        expected = model(ids, attention_mask=(ids != 0).long()).logits
        for mask in (None, torch.ones_like(ids)):
            torch.testing.assert_close(model(ids, attention_mask=mask).logits, expected)
        alone = model(ids[:1, 3:]).logits
        torch.testing.assert_close(expected[:1, 3:], alone)
        with_nothing = torch.cat([ids, torch.zeros_like(ids[:1])])  # a row of padding alone
        torch.testing.assert_close(model(with_nothing).logits[:3], expected)
        assert not expected[ids == 0].any()
        for mask in (None, torch.ones(1, 5, dtype=torch.int64)):
            with pytest.raises(PdtoolsError, match="padding tokens in a text"):
                model(torch.tensor([[1, 3, 0, 4, 0]]), attention_mask=mask)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", [6, -1, 2**32 + 3])
def test_tokens_that_the_model_does_not_have(folders: dict[str, Path], kind: str, token: int) -> None:
    model, _ = load(folders[kind], beam=50)
    with pytest.raises(IndexError, match=f"token {token} is none of the model's 6"):
        model(torch.tensor([[1, 3, token, 4]]))
    hidden = model(torch.tensor([[1, 3, token]]), attention_mask=torch.tensor([[1, 1, 0]]))
    assert hidden.logits.isfinite().all()  # what a mask hides is not read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"use_cache": True}, {"num_beams": 2}])
def test_generation_asks_for_no_layers(folders: dict[str, Path], kind: str, options: dict[str, Any]) -> None:
    """A cache of transformers has a number of layers, which our configurations do not tell."""
    model, tokenizer = load(folders[kind], beam=5)
    assert not hasattr(model.config, "num_hidden_layers")
    begun = tokenizer(["a b", "c"], padding=True, padding_side="left", return_tensors="pt")
    made = model.generate(**begun, max_new_tokens=2, do_sample=False, **options)
    assert torch.equal(made[:, : begun["input_ids"].shape[1]], begun["input_ids"])
    # Transformers 5 makes a cache unless the configuration of generation says not to.
    model.generation_config.use_cache = True
    again = model.generate(**begun, max_new_tokens=2, do_sample=False, **options)
    assert torch.equal(made, again)


def test_what_a_beam_drops_is_missing_from_logits(folders: dict[str, Path]) -> None:
    narrow, tokenizer = load(folders["pushdown"], beam=1)
    batch = tokenizer("b b a a c<eos>", return_tensors="pt")
    mass = narrow(**batch).logits.exp().sum(-1)[0, :-1]
    assert mass[0].item() == pytest.approx(1, rel=2e-6, abs=1e-5)
    assert (mass[2:] < 0.999).any()
    wide, _ = load(folders["pushdown"])
    assert wide.config.beam == hf.BEAM
    assert wide(**batch).logits.exp().sum(-1)[0, :-1].tolist() == pytest.approx([1] * 6, rel=2e-6, abs=1e-5)


def test_a_margin_drops_what_the_scorer_drops_and_is_saved(folders: dict[str, Path], tmp_path: Path) -> None:
    model, tokenizer = load(folders["pushdown"], beam=40, margin=0.5)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = "b b a a c"
    (found,) = load_model(folders["pushdown"], SearchOptions(beam=40, margin=0.5)).next_tokens([text])
    assert (np.exp(found.logprobs).sum(1)[2:] < 0.999).any()
    own, config = hf.PdtoolsForCausalLM.from_pretrained, hf.PdtoolsConfig.from_pretrained(folders["pushdown"])
    ours = own(folders["pushdown"], beam=40, margin=0.5)
    given = own(folders["pushdown"], config=config, beam=40, margin=0.5)
    wide = own(tmp_path, margin=None)  # what is given goes before what was saved, also if it is none
    assert (wide.config.beam, wide.config.margin) == (40, None)
    for each in (model, load(tmp_path)[0], ours, given):
        assert (each.config.beam, each.config.margin) == (40, 0.5)
        logits = each(**tokenizer(text + "<eos>", return_tensors="pt")).logits[0, :-1].double()
        np.testing.assert_allclose(logits.detach().numpy(), found.logprobs, rtol=2e-6, atol=1e-5)


def test_words_are_split_as_ours_and_unknown_ones_are_refused(folders: dict[str, Path]) -> None:
    ours = load_checkpoint(data.model("demo")).tokenizer
    tokenizer = transformers.AutoTokenizer.from_pretrained(data.model("demo"))
    found = tokenizer('Emma said, "The dog didn\'t bark."')
    words = ["Emma", "said", ",", "``", "The", "dog", "did", "n't", "bark", ".", "''"]
    assert found["input_ids"] == [1, *(ours.vocabulary[word] for word in words)]
    assert tokenizer.decode(found["input_ids"], skip_special_tokens=True) == " ".join(words)
    assert tokenizer.convert_ids_to_tokens(found["input_ids"])[1:] == words
    assert tokenizer.tokenize('"The dog') == ["``", "The", "dog"]
    with pytest.raises(PdtoolsError, match="unknown words.*zebra"):
        tokenizer("The zebra barks.")


def test_generation_and_saving(folders: dict[str, Path], tmp_path: Path) -> None:
    model, tokenizer = load(folders["pushdown"])
    begun = tokenizer(
        ["a b", "c"], add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
    )
    made = model.generate(**begun, max_new_tokens=3, do_sample=False)
    assert made.shape[1] <= 5
    assert torch.equal(made[:, :2], begun["input_ids"])
    first = model(begun["input_ids"][:1]).logits[0, -1].argmax()
    assert made[0, 2] == first
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    again, tokenizer_again = load(tmp_path / "saved")
    assert torch.equal(again(begun["input_ids"]).logits, model(begun["input_ids"]).logits)
    assert tokenizer_again("a b") == tokenizer("a b")
    assert load_checkpoint(tmp_path / "saved").tokenizer == load_checkpoint(folders["pushdown"]).tokenizer


def test_what_is_saved_has_its_training(tmp_path: Path) -> None:
    folder = Path(data.model("demo"))
    hf.PdtoolsForCausalLM.from_pretrained(folder).save_pretrained(tmp_path)
    saved, demo = load_checkpoint(tmp_path), load_checkpoint(folder)
    assert saved.trained == demo.trained != {}
    assert (saved.config["shards"], saved.described) == (demo.config["shards"], demo.described)


def test_models_that_do_not_say_what_follows_are_refused(tmp_path: Path) -> None:
    windows, _ = save_checkpoints(tmp_path, window=16)
    with pytest.raises(PdtoolsError, match="windows whose trees end sentences"):
        load(windows["pushdown"])
    model, tokenizer = load(windows["base"])  # of strings: the ROOT of the next sentence ends one
    batch = tokenizer("a b" + tokenizer.eos_token, return_tensors="pt")
    logits = model(**batch).logits[0]
    (score,) = load_model(windows["base"]).score(["a b"])
    assert isinstance(score, SentenceScore)
    chosen = [logits[i, token].item() for i, token in enumerate(batch["input_ids"][0, 1:])]
    assert chosen == pytest.approx(score.logprobs.tolist(), rel=2e-6, abs=1e-5)
    assert logits.exp().sum(-1)[:3].tolist() == pytest.approx(
        [1] * 3, rel=2e-6, abs=1e-5
    )  # the end is there once
    masked = tiny_model("transformer", objective="masked", positions="learned")
    save_checkpoint(tmp_path / "masked", masked, load_checkpoint(windows["base"]).tokenizer, shards=SHARDS)
    with pytest.raises(PdtoolsError, match="masked"):
        hf.PdtoolsForCausalLM.from_pretrained(tmp_path / "masked")


@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({"dtype": "bfloat16"}, torch.bfloat16),
        ({"dtype": torch.float64, "device_map": {"": "cpu"}}, torch.float64),
        ({"torch_dtype": torch.float64, "device_map": "cpu"}, torch.float64),
        ({"dtype": "auto", "device_map": {}}, torch.float32),
    ],
)
def test_types_and_devices_of_weights(
    folders: dict[str, Path], options: dict[str, Any], dtype: torch.dtype
) -> None:
    assert hf._device({"": "cuda:1"}) == hf._device("cuda:1") == "cuda:1"
    plain = hf.PdtoolsForCausalLM.from_pretrained(folders["base"])
    model = hf.PdtoolsForCausalLM.from_pretrained(folders["base"], **options)
    weights = {parameter.dtype for parameter in model.lm.parameters()}
    assert weights == {dtype}
    tokens = torch.tensor([[1, 3, 4]])
    near = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(model(tokens).logits.float(), plain(tokens).logits, atol=near, rtol=near)


@pytest.fixture(scope="module")
def ours() -> Any:
    return pdtools.load("demo", beam=hf.BEAM).surprisal(SENTENCES, nats=True)


def test_minicons_says_what_we_say(ours: Any) -> None:
    minicons = pytest.importorskip("minicons.scorer", reason="minicons is not installed")
    theirs = minicons.IncrementalLMScorer(str(data.model("demo")), "cpu")
    totals = theirs.sequence_score(SENTENCES, reduction=lambda values: -values.sum().item(), eos_token=True)
    assert totals == pytest.approx(ours.groupby("sentence_id").surprisal.sum().tolist(), rel=2e-6, abs=1e-4)
    tokens = [row for sentence in theirs.token_score(SENTENCES, surprisal=True) for row in sentence[1:]]
    before_the_end = ours[ours.token != "<eos>"]
    assert [token for token, _ in tokens] == before_the_end.token.tolist()
    assert [value for _, value in tokens] == pytest.approx(
        before_the_end.surprisal.tolist(), rel=2e-6, abs=1e-4
    )
