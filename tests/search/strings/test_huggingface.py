"""The adapter for Hugging Face models against transformers' own loss."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from minimal_pair import judged
from toy_gpt2 import save_gpt2, transformers_losses

from pdtools.errors import PdtoolsError
from pdtools.search import SentenceScore, load_model
from pdtools.search.options import SearchOptions
from pdtools.tokenization import Sentence

pytest.importorskip("transformers")

CORPUS = [
    "The dog that chased the cats barks.",
    "  a dog  ",
    "Don't   the cats bark? \U0001f408 They do!",
    "A naïve dog",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gpt2(tmp_path_factory.mktemp("hf") / "gpt2", CORPUS)


def score(
    folder: Path, texts: list[str], *, bos: bool = True, max_batch: int | None = None
) -> list[SentenceScore]:
    search = SearchOptions(beam=1, max_batch=max_batch)
    found = list(load_model(folder, search, bos=bos).score(texts))
    assert all(isinstance(f, SentenceScore) for f in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("bos", [True, False])
def test_totals_are_transformers_own(folder: Path, bos: bool) -> None:
    losses = transformers_losses(folder, CORPUS, bos=bos)
    for text, loss, found in zip(CORPUS, losses, score(folder, CORPUS, bos=bos), strict=True):
        assert found.total == pytest.approx(-loss, rel=2e-6, abs=1e-4)
        assert not found.eos
        assert found.text == text


def test_unknown_words_are_called_so_and_tell_no_sentences_apart(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, GPT2Config, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<s>": 0, "<unk>": 1, "the": 2, "barks": 3}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="<unk>")
    fast.save_pretrained(tmp_path)
    shape = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    AutoModelForCausalLM.from_config(GPT2Config(vocab_size=4, **shape)).save_pretrained(tmp_path)
    good, bad = score(tmp_path, ["the dog barks", "the cats barks"])
    assert good.tokens == bad.tokens == ("the", "<unk>", "barks")
    assert [each.n_unknown for each in (good, *score(tmp_path, ["a dog barks", "the barks"]))] == [1, 2, 0]
    by_rounding = dataclasses.replace(bad, logprobs=bad.logprobs - 1e-7)
    assert judged(good, by_rounding).counts["ties"] == 1


def test_offsets_exclude_the_space_before_a_token(folder: Path) -> None:
    for found in score(folder, CORPUS):
        covered = {i for start, end in zip(found.starts, found.ends, strict=True) for i in range(start, end)}
        assert covered == {i for i, character in enumerate(found.text) if not character.isspace()}
        assert list(found.starts) == sorted(found.starts)
        assert list(found.words) == sorted(found.words)


def test_words_can_be_given(folder: Path) -> None:
    sentence = Sentence("Don't bark", ("Do", "n't", "bark"), (0, 2, 6), (2, 5, 10))
    (found,) = load_model(folder, SearchOptions(beam=1)).score([sentence])
    assert isinstance(found, SentenceScore)
    assert found.words[-1] == 2
    assert found.words[0] == 0


def test_without_bos_the_first_token_has_no_row(folder: Path) -> None:
    (with_bos,), (without,) = score(folder, ["The dog"]), score(folder, ["The dog"], bos=False)
    assert without.tokens == with_bos.tokens[1:]
    assert (with_bos.first_token, without.first_token) == (1, 2)


def test_what_cannot_be_scored(folder: Path) -> None:
    reasons = [
        getattr(f, "reason", None) for f in load_model(folder, SearchOptions(beam=1)).score(["", "dog"])
    ]
    assert reasons == ["no words", None]
    (alone,) = load_model(folder, SearchOptions(beam=1), bos=False).score(["d"])
    assert getattr(alone, "reason", "") == "one token, and no BOS before it"


def test_settings_say_what_is_counted(folder: Path) -> None:
    assert load_model(folder, SearchOptions(beam=1)).settings == {
        "kind": "huggingface",
        "model": "gpt2",
        "beam": None,
        "margin": None,
        "bos": True,
        "eos": False,
        "text_style": None,
        "dtype": "float32",
    }


def test_a_model_without_bos_or_eos_goes_without(tmp_path: Path) -> None:
    folder = save_gpt2(tmp_path / "plain", CORPUS, special=None)
    with pytest.raises(PdtoolsError, match="no beginning-of-sentence token"):
        load_model(folder, SearchOptions(beam=1))
    (found,) = score(folder, ["A dog"], bos=False)
    (loss,) = transformers_losses(folder, ["A dog"], bos=False)
    assert found.total == pytest.approx(-loss, rel=2e-6, abs=1e-4)
