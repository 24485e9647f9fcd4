from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import nltk
import pytest
from toy_benepar import tiny_bert, toy_trees

from pdtools.errors import PdtoolsError
from pdtools.parsers.backends import ParseFailure, load_parser
from pdtools.parsers.benepar import BeneparParser, _between_special_tokens, load, special_tokens_asked_for
from pdtools.trees import Tree, unescape

pytest.importorskip("benepar", reason="benepar is not installed")


@pytest.fixture(scope="module")
def parser(toy_benepar_model: Path) -> BeneparParser:
    return load(str(toy_benepar_model), "cpu")


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    return [[unescape(word) for word in tree.leaves()] for tree in toy_trees(120, seed=99)]


def test_batches_give_the_trees_of_one_by_one(parser: BeneparParser, sentences: list[list[str]]) -> None:
    alone = [next(parser.parse([words])) for words in sentences]
    assert list(parser.parse(sentences)) == alone
    small = BeneparParser(parser._chart_parser, max_tokens=50, max_cells=300)
    assert list(small.parse(sentences)) == alone


def test_trees_are_those_of_benepars_own_parser(
    parser: BeneparParser, toy_benepar_model: Path, sentences: list[list[str]]
) -> None:
    import benepar

    reference = benepar.Parser(str(toy_benepar_model), language_code="en")
    for words, tree in zip(sentences[:30], parser.parse(sentences[:30]), strict=True):
        expected = reference.parse(benepar.InputSentence(words=words))
        assert isinstance(tree, Tree)
        assert tree.to_brackets() == " ".join(str(expected[0]).split())


def test_brackets_are_escaped_in_the_tree_only(parser: BeneparParser) -> None:
    words = ["the", "dog", "(", "the", "cat", ")", "sleeps", "."]
    (tree,) = parser.parse([words])
    assert isinstance(tree, Tree)
    assert tree.words == ("the", "dog", "-LRB-", "the", "cat", "-RRB-", "sleeps", ".")
    assert tree.tags[2] == "-LRB-"  # the network saw "(", which it was trained on


def test_failures_are_isolated(parser: BeneparParser) -> None:
    good = ["the", "dog", "sleeps", "."]
    bad = [
        ["the"] * 511,
        ["the", "", "dog"],
        ["the", "\u200b"],
        ["\ud800"],
        [],
        ["the dog", "sleeps"],
    ]
    mixed = [sentence for failing in bad for sentence in (good, failing)] + [good]
    results = list(parser.parse(mixed))
    (expected,) = parser.parse([good])
    assert isinstance(expected, Tree)
    assert results[::2] == [expected] * (len(bad) + 1)
    assert results[1::2] == [
        ParseFailure("longer than the parser's 510 words"),
        ParseFailure("a word without visible characters"),
        ParseFailure("a word without visible characters"),
        ParseFailure("a word that is not valid Unicode (a lone surrogate)"),
        ParseFailure("no words"),
        ParseFailure("a word with white space in it"),
    ]


def test_the_longest_sentence_is_parsed(parser: BeneparParser) -> None:
    (tree,) = parser.parse([["the"] * 510])
    assert isinstance(tree, Tree)
    assert len(tree) == 510


def test_an_unforeseen_error_fails_its_sentence_only(
    parser: BeneparParser, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(parser.parse(sentences))
    encode = parser._chart_parser.encode

    def fails_at_bad(example: Any) -> Any:
        if "bad" in example.words:
            raise IndexError("out of range")
        return encode(example)

    monkeypatch.setattr(parser._chart_parser, "encode", fails_at_bad)
    results = list(parser.parse([*sentences, ["the", "bad", "dog", "."]]))
    assert results == [*expected, ParseFailure("the parser failed: IndexError: out of range")]


def test_position_ids_of_old_checkpoints_are_dropped(toy_benepar_model: Path, tmp_path: Path) -> None:
    import torch

    saved = torch.load(toy_benepar_model)
    saved["state_dict"]["pretrained_model.embeddings.position_ids"] = torch.arange(4)
    torch.save(saved, tmp_path / "old.pt")
    words = ["the", "dog", "sleeps", "."]
    expected = next(load(str(toy_benepar_model), "cpu").parse([words]))
    assert next(load(str(tmp_path / "old.pt"), "cpu").parse([words])) == expected

    saved["state_dict"]["unknown.weight"] = torch.zeros(1)
    torch.save(saved, tmp_path / "other.pt")
    with pytest.raises(PdtoolsError, match="unknown.weight|not a benepar model"):
        load(str(tmp_path / "other.pt"), "cpu")


def test_several_constituents_without_a_root_get_one(parser: BeneparParser) -> None:
    import numpy as np
    from benepar.parse_base import CompressedParserOutput

    label = parser._chart_parser.label_vocab["NP"]
    output = CompressedParserOutput(
        starts=np.array([0, 0, 0, 1, 2]),
        ends=np.array([3, 2, 1, 2, 3]),
        labels=np.array([0, label, 0, 0, 0]),
    )
    tree = parser._tree(["a", "dog", "sleeps"], output)
    assert str(tree) == "(TOP (NP (XX a) (XX dog)) (XX sleeps))"


# --- what cannot be loaded --------------------------------------------------------------------


def test_a_model_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(
        PdtoolsError, match=r"benepar_en3 is not installed: .*download\('benepar_en3'\).*--parser RUN"
    ):
        load_parser("benepar")
    (tmp_path / "models" / "named").mkdir(parents=True)
    with pytest.raises(PdtoolsError, match="named: not a benepar model"):
        load_parser("benepar", "named")


def test_an_installed_name_is_found(
    toy_benepar_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "toy").write_bytes(toy_benepar_model.read_bytes())
    assert next(load_parser("benepar", "toy").parse([["the", "dog"]]))


def test_files_that_are_no_model(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pt"
    junk.write_text("hello")
    config = tmp_path / "bert"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"model_type": "bert"}))
    for path in (junk, config):
        with pytest.raises(PdtoolsError, match="not a benepar model that can be loaded") as caught:
            load(str(path), "cpu")
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(path))
    with pytest.raises(PdtoolsError, match="nowhere.pt: no such benepar model"):
        load(str(tmp_path / "nowhere.pt"), "cpu")


# --- the released format: a folder, with a pretrained model -------------------------------------


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained parser over a tiny BERT, in the format of benepar's releases."""
    import torch
    from benepar.nkutil import HParams
    from benepar.parse_chart import ChartParser

    folder = tmp_path_factory.mktemp("bert")
    tiny_bert(folder, ["(", ")", '"', ".", "the", "dog", "sleep", "##s"])
    hparams = HParams(
        use_chars_lstm=False,
        use_pretrained=True,
        use_encoder=False,
        pretrained_model="unused",
        d_model=16,
        d_label_hidden=8,
        d_tag_hidden=8,
        predict_tags=True,
        tag_loss_scale=1.0,
        force_root_constituent=True,
        morpho_emb_dropout=0.0,
    )
    with special_tokens_asked_for():
        parser = ChartParser(
            tag_vocab={"UNK": 0, "NN": 1, "DT": 2},
            label_vocab={"": 0, "S": 1, "NP": 2, "S::VP": 3},
            char_vocab={},
            hparams=hparams,
            pretrained_model_path=str(folder),
        )
    description = json.loads((folder / "config.json").read_text())
    description["benepar"] = parser.config
    (folder / "config.json").write_text(json.dumps(description))
    state = parser.state_dict()
    state["pretrained_model.embeddings.position_ids"] = torch.arange(64)[None]
    torch.save(state, folder / "benepar_model.bin")
    return folder


def test_the_folder_format_with_a_pretrained_model(bert_folder: Path) -> None:
    parser = load(str(bert_folder), "cpu")
    assert parser.max_words is None
    good = ["the", "dog", "(", "``", "dogs", "''", ")", "sleeps", "."]
    sentences = [good, ["the"] * 70, good[:2], ["the", "\u200b"], ["sleeps"]]
    results = list(parser.parse(sentences))
    assert [len(r) if isinstance(r, Tree) else r.reason for r in results] == [
        9,
        "longer than the parser's pretrained model takes",
        2,
        "a word without visible characters",
        1,
    ]
    assert results[0] == next(parser.parse([good]))
    assert isinstance(results[0], Tree)
    assert results[0].words[2:4] == ("-LRB-", "``")


def test_special_tokens_are_found_without_the_tokenizers_help(bert_folder: Path) -> None:
    """As transformers 5 needs it, and as transformers 4 says."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    before, after = 2, 3  # [CLS], [SEP]
    bert = AutoTokenizer.from_pretrained(bert_folder)
    assert _between_special_tokens(bert, [-100, 7]) == [before, -100, 7, after]
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0, "u": 1}, unk_token="u")))
    assert _between_special_tokens(plain, [-100]) == [-100]
    with special_tokens_asked_for():
        assert bert.build_inputs_with_special_tokens([-100]) == [before, -100, after]


def test_typographic_signs_are_read_as_typed_ones(bert_folder: Path) -> None:
    parser = load(str(bert_folder), "cpu")
    typed = ["the", "``", "dog", "''", "`", "dogs", "'s", "--", "..."]
    typeset = ["the", "“", "dog", "”", "‘", "dogs", "’s", "—", "…"]
    as_typed, as_typeset = (parser._example(words) for words in (typed, typeset))
    assert as_typeset.words == as_typed.words == ["the", '"', "dog", '"', "'", "dogs", "'s", "--", "..."]
    assert as_typeset.space_after == as_typed.space_after
    assert [as_typed.space_after[k] for k in (1, 4)] == [False, False]  # after opening quotes
    for language, spaces in (("zh", False), ("ar", True), ("he", True)):
        parser._language = language
        assert parser._example(typed).space_after == [spaces] * len(typed)
    parser._language = "en"
    first, second = parser.parse([typed, typeset])
    assert isinstance(first, Tree)
    assert second == dataclasses.replace(first, words=tuple(typeset))


def test_a_word_that_the_tokenizer_drops_fails_alone(bert_folder: Path) -> None:
    parser = load(str(bert_folder), "cpu")
    # BERT's tokenizer deletes U+FFFD.
    first, dropped, last = parser.parse([["the", "dog"], ["the", "dog", "\ufffd"], ["the", "dog"]])
    assert isinstance(dropped, ParseFailure)
    assert isinstance(first, Tree)
    assert first == last
