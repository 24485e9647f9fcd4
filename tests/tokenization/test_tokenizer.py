"""Vocabularies: training, encoding, storage, and tokenizers made elsewhere."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import InputError, PdtoolsError
from pdtools.tokenization import (
    EOS,
    PAD,
    ROOT,
    UNK,
    Sentence,
    Tokenizer,
    UnknownWordError,
    join_words,
    split_spaces,
    split_words,
    train_bpe_tokenizer,
    train_word_tokenizer,
)

WORDS = ["the", "dog", "saw", "the", "cat", "and", "the", "dog", "ran"]
CORPUS = [
    "The dogs' tails didn't wag, did they?",
    "It cost $5.20 (or 3%) in naïve 日本 – 5\u00a0mg.",
    "The dogs didn't cost $5.20.",
]


def _bpe(style: str, size: int = 330) -> Tokenizer:
    return train_bpe_tokenizer([split_words(line, style) for line in CORPUS], size=size, text_style=style)


# --- training ---------------------------------------------------------------------------------


def test_word_vocabulary_is_ordered_by_count_then_string() -> None:
    tokenizer = train_word_tokenizer(WORDS)
    texts = [tokenizer.token_text(i) for i in range(tokenizer.vocab_size)]
    assert texts == [PAD, ROOT, EOS, UNK, "the", "dog", "and", "cat", "ran", "saw"]
    assert (tokenizer.pad_id, tokenizer.root_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert tokenizer.kind == "word"


def test_min_count_and_size() -> None:
    assert train_word_tokenizer(WORDS, min_count=2).vocab_size == 4 + 2
    assert train_word_tokenizer(WORDS, size=5).vocab_size == 5
    assert train_word_tokenizer(WORDS, size=4, unk=False).token_text(3) == "the"
    with pytest.raises(PdtoolsError, match="no word is left"):
        train_word_tokenizer(WORDS, min_count=9)
    with pytest.raises(PdtoolsError, match="at least 259"):
        train_bpe_tokenizer([], size=258)


def test_training_repeats_to_the_byte() -> None:
    assert train_word_tokenizer(WORDS).fingerprint == train_word_tokenizer(reversed(WORDS)).fingerprint
    assert _bpe("raw").fingerprint == _bpe("raw").fingerprint
    assert _bpe("raw").fingerprint != _bpe("ptb").fingerprint


# --- encoding ---------------------------------------------------------------------------------


def test_words_become_tokens_with_offsets() -> None:
    tokenizer = train_word_tokenizer(WORDS)
    encoding = tokenizer.encode(join_words(["the", "bird", "ran"], "ptb"))
    assert [tokenizer.token_text(i) for i in encoding.ids] == [ROOT, "the", UNK, "ran", EOS]
    assert encoding.word.tolist() == [-1, 0, 1, 2, -1]
    assert encoding.starts.tolist() == [0, 0, 4, 9, 12]
    assert encoding.ends.tolist() == [0, 3, 8, 12, 12]
    assert encoding.n_unknown == 1
    assert encoding.ids.dtype == encoding.word.dtype == encoding.starts.dtype == np.int32


def test_without_unk_unknown_words_are_an_error_that_names_them() -> None:
    tokenizer = train_word_tokenizer(WORDS, unk=False)
    assert tokenizer.unk_id is None
    with pytest.raises(UnknownWordError, match="bird.*fish") as raised:
        tokenizer.encode(join_words(["the", "bird", "fish"], "ptb"))
    assert raised.value.words == ("bird", "fish")
    assert tokenizer.word_tokens("bird") == ()


def test_spaces_inside_words_do_not_split_them() -> None:
    word = "5\u00a0mg\u2009x"
    tokenizer = train_word_tokenizer([word, "of"])
    encoding = tokenizer.encode(join_words([word, "of"], "ptb"))
    assert encoding.n_unknown == 0
    assert encoding.word.tolist() == [-1, 0, 1, -1]


@pytest.mark.parametrize("name", [PAD, ROOT, EOS])
def test_special_tokens_in_a_text_are_ordinary_words(name: str) -> None:
    tokenizer = train_word_tokenizer([*WORDS, name])
    encoding = tokenizer.encode(join_words(["the", name], "ptb"))
    assert encoding.ids[2] == tokenizer.unk_id
    assert encoding.n_unknown == 1
    bpe = _bpe("ptb")
    ids = bpe.encode(join_words([name], "ptb")).ids[1:-1].tolist()
    assert not {bpe.pad_id, bpe.root_id, bpe.eos_id} & set(ids)


def test_the_word_unk_of_a_corpus_is_the_unknown_word() -> None:
    tokenizer = train_word_tokenizer([*WORDS, UNK])
    encoding = tokenizer.encode(join_words([UNK], "ptb"))
    assert encoding.ids[1] == tokenizer.unk_id


@pytest.mark.parametrize("style", ["ptb", "raw"])
@given(text=st.text(max_size=40) | st.sampled_from(CORPUS))
def test_byte_level_tokens_lie_in_their_words(style: str, text: str) -> None:
    tokenizer = _BPE[style]
    sentence = split_words(text, style)
    encoding = tokenizer.encode(sentence)
    assert encoding.n_unknown == 0
    assert encoding.ids[0] == tokenizer.root_id
    assert encoding.ids[-1] == tokenizer.eos_id
    assert sorted(set(encoding.word[1:-1].tolist())) == list(range(len(sentence.words)))
    assert (np.diff(encoding.word[1:-1]) >= 0).all()
    assert (encoding.starts <= encoding.ends).all()
    for number, (start, end) in enumerate(zip(sentence.starts, sentence.ends, strict=True)):
        mine = encoding.word == number
        assert encoding.starts[mine].min() == start
        assert encoding.ends[mine].max() == end
    for token, start, end in zip(encoding.ids[1:-1], encoding.starts[1:-1], encoding.ends[1:-1], strict=True):
        surface = text[start:end]
        if surface.isascii() and surface.isprintable() and surface != '"':
            assert tokenizer.token_text(int(token)) in (surface, "Ġ")


_BPE = {"ptb": _bpe("ptb"), "raw": _bpe("raw")}


def test_spaces_count_as_the_style_says() -> None:
    joined = Sentence("doesn't", ("does", "n't"), (0, 4), (4, 7))
    ids = {style: _BPE[style].encode(joined).ids.tolist() for style in ("ptb", "raw")}
    glued = [_BPE["raw"].word_tokens(word, space_before=False) for word in joined.words]
    assert ids["raw"][1:-1] == [*glued[0], *glued[1]]
    assert ids["ptb"][1:-1] == [*_BPE["ptb"].word_tokens("does"), *_BPE["ptb"].word_tokens("n't")]


def test_the_first_word_has_a_space_before_it_in_one_style_alone(tmp_path: Path) -> None:
    _BPE["raw"].save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    with_space, without = (_BPE["raw"].word_tokens("dogs", space_before=space) for space in (True, False))
    assert with_space != without
    for style, tokens in (("ptb", with_space), ("raw", without)):
        found = Tokenizer.load(tmp_path, style)
        assert tuple(found.encode(split_spaces("dogs")).ids[1:-1]) == tokens
        assert (found == _BPE["raw"]) == (style == "raw")  # by their fingerprints


def test_a_token_that_holds_several_words_is_not_used() -> None:
    backend = train_bpe_tokenizer([split_spaces("we cannot we cannot didn't")], size=290, text_style="raw")
    whole = Tokenizer(backend._json, "raw", text_tokens=backend.vocab_size)
    assert len(whole.word_tokens("cannot")) == 1
    sentence = split_words("we cannot, we didn't", "raw")
    found = whole.encode(sentence)
    apart = [
        whole.word_tokens(word, space_before=space)
        for word, space in zip(sentence.words[:4], sentence.space_before[:4], strict=True)
    ]
    n = sum(map(len, apart))
    assert found.ids[1 : 1 + n].tolist() == [token for word in apart for token in word]
    assert [*dict.fromkeys(found.word[1:-1].tolist())] == [*range(len(sentence.words))]


def test_respelled_quotes_stay_within_the_text() -> None:
    encoding = _BPE["ptb"].encode(split_words('"a"', "ptb"))
    rows = zip(encoding.word.tolist(), encoding.starts.tolist(), encoding.ends.tolist(), strict=True)
    spans = {(word, start, end) for word, start, end in rows if word < 0 or start < end}
    assert spans == {(-1, 0, 0), (0, 0, 1), (1, 1, 2), (2, 2, 3), (-1, 3, 3)}


# --- decoding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("line", CORPUS)
def test_tokens_are_read_back_as_their_words(style: str, line: str) -> None:
    sentence = split_words(line, style)
    encoding = _BPE[style].encode(sentence)
    words, word_of_token = _BPE[style].decode(encoding.ids[1:-1].tolist())
    assert words == sentence.words
    assert word_of_token == encoding.word[1:-1].tolist()


def test_decoding_words_and_nothing() -> None:
    tokenizer = train_word_tokenizer(WORDS)
    assert tokenizer.decode([4, 5, 4]) == (("the", "dog", "the"), [0, 1, 2])
    assert tokenizer.decode([]) == ((), [])
    with pytest.raises(PdtoolsError, match="not in the vocabulary"):
        tokenizer.token_text(10**6)


# --- storage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tokenizer", [train_word_tokenizer(WORDS), _BPE["raw"]], ids=["word", "bpe"])
def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    sentence = join_words(["the", "cat", "ran"], tokenizer.text_style)
    for loaded in (
        Tokenizer.load(tmp_path),
        Tokenizer.load(tmp_path / "tokenizer.json"),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert loaded == tokenizer
        assert loaded.text_style == tokenizer.text_style
        assert loaded.encode(sentence).ids.tolist() == tokenizer.encode(sentence).ids.tolist()
    with pytest.raises(InputError, match="made for"):
        Tokenizer.load(tmp_path, {"ptb": "raw", "raw": "ptb"}[tokenizer.text_style])


def test_labels_go_with_the_tokens(tmp_path: Path) -> None:
    bare = train_word_tokenizer(WORDS)
    tokenizer = bare.with_labels(["S", "É"])
    tokenizer.save(tmp_path)
    for loaded in (Tokenizer.load(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert loaded.labels == ("S", "É")
        assert loaded.label_ids == {"S": 0, "É": 1}
    assert bare.labels == ()
    assert bare == tokenizer  # of the same tokens
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for labels, reason in (("S", "a list of names"), (["S", 1], "a list of names"), (["S", "S"], "twice")):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "labels": labels}))
        with pytest.raises(InputError, match=reason):
            Tokenizer.load(tmp_path)


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_transformers_reads_it(kind: str, style: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sentence = join_words(["the", "dogs", "ran"], style)
    tokenizer = _BPE[style] if kind == "bpe" else train_word_tokenizer(WORDS, text_style=style)
    tokenizer.with_labels(["S", "NP"]).save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(sentence.text)["input_ids"] == tokenizer.encode(sentence).ids.tolist()
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id) == (
        tokenizer.pad_id,
        tokenizer.root_id,
        tokenizer.eos_id,
        tokenizer.unk_id,
    )


def _foreign(folder: Path, kind: str) -> Path:
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    if kind in ("bytes", "digits"):
        alphabet = {byte: i for i, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
        backend = Backend(models.BPE({**alphabet, "Ġt": 256, "Ġth": 257}, [("Ġ", "t"), ("Ġt", "h")]))
        split = pre_tokenizers.ByteLevel(add_prefix_space=True)
        several = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), split])
        backend.pre_tokenizer = split if kind == "bytes" else several
        backend.decoder = decoders.ByteLevel()
    elif kind == "prepended":  # as Llama's
        vocabulary = {token: i for i, token in enumerate(["<unk>", *"▁the", "▁t", "▁th", "▁the"])}
        merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e")]
        backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>"))
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif kind == "metaspace":
        scores = [("<unk>", 0.0), ("▁", -3.0), ("▁the", -1.0), ("t", -4.0), ("h", -4.0), ("e", -4.0)]
        backend = Backend(models.Unigram(scores, unk_id=0))
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    else:
        vocabulary = {"[UNK]": 0, "the": 1, "##y": 2}
        backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
        backend.normalizer = normalizers.Lowercase()
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    backend.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("bytes", ["Ġth", "e", "t", "h", "e"]),
        ("digits", ["Ġth", "e", "t", "h", "e"]),
        ("prepended", ["▁the", "t", "h", "e"]),
        ("metaspace", ["▁the", "t", "h", "e"]),
        ("subwords", ["the", "the"]),
    ],
)
def test_foreign_tokenizers_get_our_special_tokens(kind: str, tokens: list[str], tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(_foreign(tmp_path, kind), "raw")
    assert len({tokenizer.pad_id, tokenizer.root_id, tokenizer.eos_id}) == 3
    before = len(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"])
    assert tokenizer.vocab_size == before + 3
    ids = [i for space in (True, False) for i in tokenizer.word_tokens("the", space_before=space)]
    backend = tokenizer._backend
    assert [backend.id_to_token(i) for i in ids] == tokens
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path) == tokenizer


def test_subwords_are_glued_and_unknown_words_counted(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(_foreign(tmp_path, "subwords"))
    encoding = tokenizer.encode(join_words(["They", "zzz"], "ptb"))
    assert tokenizer.decode(encoding.ids[1:3].tolist())[1] == [0, 0]
    assert encoding.starts.tolist() == [0, 0, 3, 5, 8]
    assert encoding.n_unknown == 1
    assert tokenizer.unk_id == 0


def test_which_tokens_go_on_with_a_word(tmp_path: Path) -> None:
    tokens = Tokenizer.load(_foreign(tmp_path, "subwords"))
    assert np.flatnonzero(tokens.continue_words).tolist() == [2]  # ##y
    words = train_word_tokenizer(["the", "##y", "##"], min_count=1)
    assert not words.continue_words.any()
    encoding = words.encode(join_words(["the", "##y"], "ptb"))
    assert words.decode(encoding.ids[1:-1].tolist()) == (("the", "##y"), [0, 1])


def test_a_foreign_word_list_without_unknown_token(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    Backend(models.WordLevel({"the": 0})).save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.word_tokens("the") == (0,)
    with pytest.raises(UnknownWordError):
        tokenizer.encode(join_words(["cat"], "ptb"))


def test_what_is_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tokenizer"):
        Tokenizer.load(tmp_path)
    file = tmp_path / "tokenizer.json"
    for content in ("{", "[]", '{"model": {"type": "Nonsense"}}', '{"model": 5}'):
        file.write_text(content)
        with pytest.raises(PdtoolsError):
            Tokenizer.load(file)


# --- many words at once -----------------------------------------------------------------------

MIXED = ["the", "cat", "don't", "é", "3.14", "naïve", "a\u00a0b", "<eos>", "<unk>", "日本", "x"]
ODD_WORDS = st.one_of(
    st.sampled_from(
        [*MIXED, "'s", "can't", "\u2009", "x\u2009", "ſ", "ﬁ", "THE", "the3", "İ", "\x1c", "\x00"]
    ),
    st.text(st.characters(exclude_characters=" \t\n\r\f\v()", exclude_categories=["Cs"]), min_size=1),
)
AT_ONCE = {
    "word": train_word_tokenizer(MIXED, unk=True),
    "closed": train_word_tokenizer(MIXED, unk=False),
    "bpe": train_bpe_tokenizer([split_spaces(" ".join(MIXED * 3))], size=300),
    "raw": train_bpe_tokenizer([split_spaces(" ".join(MIXED * 3))], size=300, text_style="raw"),
}


def at_once(tokenizer: Tokenizer, words: list[str]) -> list[tuple[int, ...]]:
    ids, counts = tokenizer.tokens_of_words(words)
    return [tuple(part.tolist()) for part in np.split(ids, np.cumsum(counts))[:-1]]


@pytest.mark.parametrize("name", AT_ONCE)
@given(words=st.lists(ODD_WORDS, max_size=8))
def test_many_words_have_the_tokens_of_each(name: str, words: list[str]) -> None:
    tokenizer = AT_ONCE[name]
    assert at_once(tokenizer, words) == [tokenizer.word_tokens(word) for word in words]


def test_foreign_tokenizers_have_the_tokens_of_each(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, normalizers, pre_tokenizers

    backend = Backend(models.WordLevel({"the": 0, "cat": 1, "?": 2}, unk_token="?"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    words = ["The", "CAT", "the-cat", "dog"]
    assert at_once(tokenizer, words) == [tokenizer.word_tokens(word) for word in words]
    assert at_once(tokenizer, words)[:2] == [(0,), (1,)]


def test_a_vocabulary_that_ignores_spaces_takes_words_one_by_one(tmp_path: Path) -> None:
    description = json.loads(AT_ONCE["bpe"].__getstate__()["backend_json"])
    description["pre_tokenizer"]["use_regex"] = False
    model = description["model"]
    model["vocab"]["3Ġ3"] = len(model["vocab"])
    model["vocab"]["Ġ3"] = len(model["vocab"])
    model["merges"] = [["Ġ", "3"], ["3", "Ġ3"], *model["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    words = ["3", "3", "the", "33"]
    assert at_once(tokenizer, words) == [tokenizer.word_tokens(word) for word in words]


@given(words=st.lists(ODD_WORDS, min_size=1, max_size=20))
def test_counted_words_train_the_same_tokenizers(words: list[str]) -> None:
    corpus = ["the", *words] * 3
    counts = Counter(corpus)
    plain = train_word_tokenizer(corpus, min_count=2)
    assert train_word_tokenizer(counts, min_count=2) == plain
    sentences = [join_words(corpus, "ptb")]
    assert train_bpe_tokenizer(counts, size=300) == train_bpe_tokenizer(sentences, size=300)


def test_words_that_count_often_train_the_same_tokenizer() -> None:
    counts = {"the": 2500, "cat": 1000, "a\u00a0": 3, "'s": 1001}
    sentences = [join_words([word], "ptb") for word, n in counts.items() for _ in range(n)]
    assert train_bpe_tokenizer(counts, size=300) == train_bpe_tokenizer(sentences, size=300)
    with pytest.raises(PdtoolsError, match="where spaces are"):
        train_bpe_tokenizer(counts, size=300, text_style="raw")


@pytest.mark.parametrize("change", ["nothing", "merges across words", "whole words first"])
def test_words_that_the_model_gets_together_have_the_tokens_of_each(change: str, tmp_path: Path) -> None:
    description = json.loads(AT_ONCE["bpe"].__getstate__()["backend_json"])
    model = description["model"]
    if change == "merges across words":
        model["vocab"]["eĠ"] = len(model["vocab"])
        model["merges"] = [["e", "Ġ"], *model["merges"]]
    elif change == "whole words first":
        model["vocab"]["Ġttt"] = len(model["vocab"])
        model["ignore_merges"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    words = ["the", "cat", "ttt", "a", *("the"[i % 3 :] + "cat" * (i % 4) for i in range(200))]
    assert at_once(tokenizer, words) == [tokenizer.word_tokens(word) for word in words]
