"""Entropies, word beginnings and structure beside log-probabilities, against the definitions."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from action_oracle import action_model
from search_oracle import all_attachments, parts, row, save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2
from toy_models import loaded as in_memory

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel, load_checkpoint, save_checkpoint
from pdtools.search import SentenceScore, beam_search, load_model, next_token_logprobs
from pdtools.search.contexts import windows
from pdtools.search.families.actions import ActionFamily
from pdtools.search.families.attachments import AttachmentFamily
from pdtools.search.model import Model
from pdtools.search.next_tokens import word_beginnings
from pdtools.search.options import Context, SearchOptions
from pdtools.search.parses import ParsedScore
from pdtools.search.scores import Measure
from pdtools.tokenization import Sentence, split_spaces, train_bpe_tokenizer, train_word_tokenizer

EVERY: tuple[Measure, ...] = ("entropy", "spaces", "structure")


def one(scorer: Model, sentence: str) -> SentenceScore:
    (found,) = scorer.score([sentence])
    assert isinstance(found, SentenceScore)
    return found


def entropy(logprobs: np.ndarray) -> float:
    return float(-(np.exp(logprobs) * np.maximum(logprobs, -1e9)).sum())  # -inf: a ROOT that is given


def exhaustive(model, tokens: list[int]):
    """For each place the distribution of the next token, over every derivation of what stands before."""
    for n in range(len(tokens) + 1):
        attach = [each[:-1] for each in all_attachments(n)]
        prefix = row(tokens[:n])[:-1]
        each = next_token_logprobs(
            model, [prefix] * len(attach), [np.array(found, dtype=np.int32) for found in attach]
        )
        given, derived = parts(model, tokens[:n], [[*found, 0] for found in attach])
        joint = given[:, : n + 1].sum(1) + derived[:, : n + 1].sum(1)
        mixture = np.logaddexp.reduce(joint[:, None] + each, axis=0)
        yield mixture - np.logaddexp.reduce(mixture), joint, attach, derived


@pytest.mark.parametrize("share", [True, False])
def test_mixtures_and_structure_of_a_search_are_sums_over_all_derivations(share: bool) -> None:
    model = tiny_model()
    begins = np.array([False, True, True, True, False, True])
    strings = [[3, 4, 5, 3], [3, 4, 3], [3], [3, 4, 5], [3, 5]]  # an end comes before what goes on
    found = beam_search(
        model,
        [row(tokens) for tokens in strings],
        search=SearchOptions(beam=1000),
        word_beginnings=begins,
        structure=True,
        share_prefixes=share,
    )
    for tokens, result in zip(strings, found, strict=True):
        assert result.summaries is not None
        assert result.structure is not None
        for n, (logprobs, joint, attach, derived) in enumerate(exhaustive(model, tokens)):
            expected = [entropy(logprobs), math.log(np.exp(logprobs[begins]).sum())]
            np.testing.assert_allclose(result.summaries[n], expected, rtol=2e-6, atol=1e-5)
            if n:
                weights = np.exp(joint - np.logaddexp.reduce(joint))
                np.testing.assert_allclose(
                    result.structure[n - 1, 0], -weights @ derived[:, n], rtol=2e-6, atol=1e-5
                )
                closed = [height(each[:-1]) + 1 - height(each) for each in attach]
                np.testing.assert_allclose(result.structure[n - 1, 1], weights @ closed, rtol=2e-6, atol=1e-5)
        assert result.structure[-1].tolist() == [0, 0]


def test_what_may_follow_is_a_mixture_and_the_best_history_is_of_the_prefix() -> None:
    """Not of the string that ends after it, whose best derivation may have another history."""
    model = tiny_model(seed=1, positions="learned")
    scorer = AttachmentFamily(in_memory("pushdown", model), SearchOptions(beam=1000))
    strings = [[], [4], [3, 4, 3], [5, 5, 4, 5], [5, 3]]
    ended = beam_search(model, [row(tokens) for tokens in strings], search=SearchOptions(beam=1000))
    differ = 0
    for tokens, end, found in zip(
        strings, ended, scorer.continuations([row(tokens)[:-1] for tokens in strings]), strict=True
    ):
        *_, (logprobs, joint, attach, _) = exhaustive(model, tokens)
        np.testing.assert_allclose(found.logprobs, logprobs, rtol=2e-6, atol=1e-5)
        assert found.best is not None
        assert found.best.tolist() == attach[int(joint.argmax())]
        differ += found.best.tolist() != end.derivations[0][1][:-1].tolist()
    assert differ
    narrow = AttachmentFamily(in_memory("pushdown", model), SearchOptions(beam=2))
    for found in narrow.continuations([row(tokens)[:-1] for tokens in strings]):
        assert np.logaddexp.reduce(found.logprobs) == pytest.approx(0, abs=1e-9)


def height(attach: list[int]) -> int:
    """Constituents on the stack after these tokens, one by one."""
    stack: list[int] = []
    for k, to in enumerate(attach):
        while stack and to < k and stack[-1] >= to:
            stack.pop()
        stack.append(k)
    return len(stack)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("measures"))[0]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    corpus = ["The dog that chased the cats barks. The cat sleeps."]
    return save_gpt2(tmp_path_factory.mktemp("hf") / "gpt2", corpus, positions=24)


def test_scores_are_the_same_with_measures(folders: dict[str, Path], gpt2: Path) -> None:
    for folder, text in (
        (folders["base"], "a b c"),
        (folders["pushdown"], "a b c"),
        (folders["head"], "a b c"),
        (gpt2, "The dog barks."),
    ):
        narrow = SearchOptions(beam=2)
        plain, measured = (one(load_model(folder, narrow, measures=m), text) for m in ((), EVERY))
        np.testing.assert_allclose(plain.logprobs, measured.logprobs, rtol=2e-6, atol=1e-6)
        assert not plain.measures
        assert plain.tokens == measured.tokens
        assert plain.dropped == measured.dropped
        assert (plain.dropped or 0) > 0 or folder != folders["pushdown"]
        assert all(len(values) == len(measured.tokens) for values in measured.measures.values())
        structure = {"attachment", "closed"} if folder.name in ("pushdown", "head") else set()
        assert set(measured.measures) == {"entropy", "begins", "ends", *structure}


def test_a_string_model_says_the_entropy_of_its_distributions(folders: dict[str, Path]) -> None:
    loaded = load_checkpoint(folders["base"])
    found = one(load_model(folders["base"], measures=EVERY), "c a b")
    ids = [1, 5, 3, 4]
    prefixes = [np.array(ids[: n + 1], np.int32) for n in range(4)]
    each = next_token_logprobs(loaded.model, prefixes, [loaded.model.no_derivation(p) for p in prefixes])
    np.testing.assert_allclose(
        found.measures["entropy"], [entropy(logprobs) for logprobs in each], rtol=2e-6, atol=1e-5
    )
    begins = loaded.tokenizer.begin_words.copy()
    begins[[1, 2]] = True
    assert found.measures["ends"][:-1] == pytest.approx(
        [math.log(np.exp(logprobs[begins]).sum()) for logprobs in each[1:]], rel=2e-6, abs=1e-5
    )


@pytest.mark.parametrize("name", ["tg", "plm"])
def test_a_model_of_actions_says_what_closed_before_each_token(name: str, tmp_path: Path) -> None:
    """The brackets between a token and the one before, in the best hypothesis' text after each token."""
    tokenizer = train_word_tokenizer("abc", unk=False).with_labels(("NP", "S"))
    model = action_model(name, "relative", max_open=3)
    with torch.no_grad():  # one that likes to open and to close
        for action in (model.actions.tokens, model.actions.first_closer):
            output = model.embedding.weight[action]
            model.final_norm.bias += 6 * output / output.square().sum()
    save_checkpoint(tmp_path / "m", model, tokenizer, shards={})
    scorer = load_model(tmp_path / "m", SearchOptions(beam=50), measures=("structure",))
    assert isinstance(scorer.family, ActionFamily)
    for text in ("a b c a b", "c", "b b a"):
        (parsed,) = scorer.score_with_parses([text])
        assert isinstance(parsed, ParsedScore)
        closed = parsed.score.measures["closed"].tolist()
        trees = enumerate(parsed.incremental[:-1])
        assert closed == [*(re.split("[abc]", tree)[t].count(")") for t, tree in trees), 0]
        assert text == "c" or sum(closed) > 0


@pytest.fixture(scope="module")
def of_windows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedModel]:
    """Of windows, over words of several tokens: with trees; without, their ROOTs given or predicted."""
    tokenizer = train_bpe_tokenizer([split_spaces("ab abc c ba")], size=266, min_count=1)
    settings: dict[str, dict[str, Any]] = {
        "pushdown": {"name": "pushdown"},
        "given": {"name": "transformer", "window_roots": "given"},
        "predicted": {"name": "transformer", "window_roots": "predicted"},
    }
    found = {}
    for name, each in settings.items():
        folder = tmp_path_factory.mktemp("windows") / name
        model = tiny_model(**each, layout="window", vocab_size=tokenizer.vocab_size, max_length=40)
        save_checkpoint(folder, model, tokenizer, shards={"layout": "window", "window": 30})
        found[name] = load_checkpoint(folder)
    return found


@pytest.mark.parametrize("name", ["pushdown", "given", "predicted"])
def test_measures_after_other_sentences_are_those_of_the_sentence(
    name: str, of_windows: dict[str, LoadedModel]
) -> None:
    """Against what the whole row's distributions say, from where the sentence's ROOT stands."""
    loaded, beam = of_windows[name], SearchOptions(beam=8)
    context = Context(of="x", sentences=("ba bb ab", "c"))
    scorer = Model.of(loaded, beam, context=context, measures=EVERY)
    tokenizer, model = loaded.tokenizer, loaded.model
    before = [tokenizer.encode(split_spaces(text)).ids[:-1] for text in context.sentences]
    begins = word_beginnings(tokenizer)
    texts = ("cabc ab", "b", "ba cc ab c")
    for text, found in zip(texts, scorer.score(texts), strict=True):
        assert isinstance(found, SentenceScore)
        own = tokenizer.encode(split_spaces(text)).ids
        ids, m = np.concatenate([*before, own]), len(own) - 1
        if name == "pushdown":
            (searched,) = beam_search(
                model, [ids], search=beam, commit=True, word_beginnings=begins, structure=True
            )
            assert searched.summaries is not None
            assert searched.structure is not None
            said, built = searched.summaries[-m:], searched.structure[-m:]
            np.testing.assert_allclose(found.measures["attachment"], built[:, 0], rtol=2e-6, atol=1e-5)
            np.testing.assert_allclose(found.measures["closed"], built[:, 1], rtol=2e-6, atol=1e-5)
            assert (built[: m - 1, 0] > 0).all()
        else:
            prefixes = [ids[:length] for length in range(len(ids) - m, len(ids))]
            no_trees = [model.no_derivation(prefix) for prefix in prefixes]
            each = next_token_logprobs(model, prefixes, no_trees)
            said = np.array([[entropy(row), np.logaddexp.reduce(row[begins])] for row in each])
        tokens = own[1:]
        assert 0 < begins[tokens].sum() < m or text == "b"
        np.testing.assert_allclose(found.measures["entropy"], said[:, 0], rtol=2e-6, atol=1e-5)
        np.testing.assert_allclose(
            found.measures["begins"], np.where(begins[tokens], said[:, 1], 0), rtol=2e-6, atol=1e-5
        )
        np.testing.assert_allclose(found.measures["ends"], [*said[1:, 1], 0], rtol=2e-6, atol=1e-5)


def gpt2_logprobs(folder: Path, ids: list[int]) -> np.ndarray:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()


def begins_of(tokenizer) -> np.ndarray:
    """Tokens that begin with white space, as byte-level vocabularies write it, or end the text."""
    white = {chr(256 + byte) for byte in (*range(9, 14), *range(28, 33))}
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return np.array([name[0] in white or name == "<|endoftext|>" for name in names])


@pytest.mark.parametrize("packs", [True, False])
def test_a_hugging_face_model(gpt2: Path, packs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    from pdtools.search.families import causal

    if not packs:
        monkeypatch.setattr(causal, "PACKED_MODELS", frozenset())
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    text = "The dog barks. Über"
    ids = tokenizer(text)["input_ids"]
    logprobs = gpt2_logprobs(gpt2, [tokenizer.bos_token_id, *ids])
    found = one(load_model(gpt2, measures=EVERY), text)
    np.testing.assert_allclose(
        found.measures["entropy"], [entropy(each) for each in logprobs[:-1]], rtol=2e-6, atol=1e-4
    )
    begins = begins_of(tokenizer)
    word = np.log(np.exp(logprobs[:, begins]).sum(1))
    np.testing.assert_allclose(found.measures["ends"], word[1:], rtol=2e-6, atol=1e-4)
    expected = [word[i] if begins[token] else 0 for i, token in enumerate(ids)]
    np.testing.assert_allclose(found.measures["begins"], expected, rtol=2e-6, atol=1e-4)


def test_measures_of_a_hugging_face_model_after_other_sentences(gpt2: Path) -> None:
    """Those of the same rows of one text."""
    whole = one(load_model(gpt2, measures=EVERY), "The dog barks.\nThe cat")
    before = split_spaces("The dog barks.")
    last = split_spaces("The cat")
    sentence = Sentence(last.text, last.words, last.starts, last.ends, (before,))
    found = one(load_model(gpt2, measures=EVERY, context=Context(of="document")), sentence)
    assert 0 < len(found.tokens) < len(whole.tokens)
    for name, values in found.measures.items():
        assert len(values) == len(found.tokens)
        np.testing.assert_allclose(values[1:], whole.measures[name][1 - len(values) :], rtol=2e-6, atol=1e-4)


def test_without_bos_and_in_windows_rows_stay_with_their_tokens(gpt2: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    text = "The dog that chased the cats barks. The cat sleeps. The dog barks. The cat barks."
    whole = one(load_model(gpt2, bos=False, measures=EVERY), "The dog barks.")
    tokens = len(whole.tokens)
    assert whole.first_token == 2
    assert {len(values) for values in whole.measures.values()} == {tokens}
    reading = Context(stride=4, window=16)
    found, plain = (one(load_model(gpt2, context=reading, measures=m), text) for m in (EVERY, ()))
    assert len(found.tokens) > 16
    assert found.seen == plain.seen
    np.testing.assert_allclose(found.logprobs, plain.logprobs, rtol=2e-6, atol=1e-5)
    ids = [tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]
    begins = begins_of(tokenizer)
    said = []  # of the distribution that each token is from, and the one after the last
    for begin, end, scored in windows(len(ids) + 1, 16, 4):
        logprobs = gpt2_logprobs(gpt2, ids[begin:end])
        for values in logprobs[max(1, scored) - begin - 1 : end - 1 - begin]:
            said.append([entropy(values), math.log(np.exp(values[begins]).sum())])
    every = np.array(said)
    np.testing.assert_allclose(found.measures["entropy"], every[:-1, 0], rtol=2e-6, atol=1e-4)
    np.testing.assert_allclose(found.measures["ends"], every[1:, 1], rtol=2e-6, atol=1e-4)
    of_first = np.where(begins[ids[1:]], every[:-1, 1], 0)
    np.testing.assert_allclose(found.measures["begins"], of_first, rtol=2e-6, atol=1e-4)


def test_a_vocabulary_without_spaces_has_nothing_to_correct(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, GPT2Config, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<s>": 0, "<unk>": 1, "the": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>").save_pretrained(tmp_path)
    shape = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    AutoModelForCausalLM.from_config(GPT2Config(vocab_size=3, **shape)).save_pretrained(tmp_path)
    assert "entropy" in one(load_model(tmp_path, measures=("entropy",)), "the the").measures
    with pytest.raises(PdtoolsError, match="no token of its vocabulary begins with a space"):
        load_model(tmp_path, measures=("spaces",))
