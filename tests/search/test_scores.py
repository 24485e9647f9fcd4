"""Scorers over checkpoints, the parser, decoding and surprisals, against the brute-force oracle."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from action_oracle import action_model
from enumeration import enumerate_derivations
from search_oracle import all_attachments, logsumexp, parts, row, save_checkpoints, tiny_model
from toy_models import loaded as in_memory

from pdtools import search
from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.models.grammar.derivations import read_actions
from pdtools.parsers.backends import ParseFailure
from pdtools.search import (
    AttachmentFamily,
    CheckpointParser,
    SentenceScore,
    StringFamily,
    batches,
    beam_search,
    decode,
    load_model,
)
from pdtools.search.inputs import SourcedLine, read_inputs, read_sentence
from pdtools.search.model import Model
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import Beginning, GivenRow, Unscorable
from pdtools.tokenization import (
    Tokenizer,
    join_words,
    split_spaces,
    split_text_words,
    train_bpe_tokenizer,
    train_word_tokenizer,
)
from pdtools.trees import Tree, spans_from_attachments, stack_text, tree_from_attachments

SENTENCES = ["a b c", "b", "c c a b", "a b", "b a c a"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], Tokenizer]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def folders(saved: tuple[dict[str, Path], Tokenizer]) -> dict[str, Path]:
    return saved[0]


def exact(folder: Path, text: str) -> tuple[float, list[int]]:
    """log p(x) over all derivations, and the best derivation."""
    loaded = load_checkpoint(folder)
    ids = loaded.tokenizer.encode(split_spaces(text)).ids[1:-1].tolist()
    derivations = list(all_attachments(len(ids)))
    token, attach = parts(loaded.model, ids, derivations)
    joints = token.sum(1) + attach.sum(1)
    return float(np.logaddexp.reduce(joints)), derivations[int(joints.argmax())]


def scores(folder: Path, sentences: list[str], *, max_batch: int | None = None) -> list[SentenceScore]:
    found = list(load_model(folder, SearchOptions(beam=50, max_batch=max_batch)).score(sentences))
    assert all(isinstance(score, SentenceScore) for score in found)
    return found  # type: ignore[return-value]


def test_every_public_name_is_found() -> None:
    for name in search.__all__:
        assert callable(getattr(search, name))


def test_which_models_are_searched(folders: dict[str, Path]) -> None:
    assert isinstance(load_model(folders["pushdown"], SearchOptions(beam=2)).family, AttachmentFamily)
    assert isinstance(load_model(folders["head"], SearchOptions(beam=2)).family, StringFamily)
    assert isinstance(load_model(folders["base"], SearchOptions(beam=2)).family, StringFamily)
    assert load_model(folders["base"], SearchOptions(beam=2)).settings == {
        "kind": "string",
        "model": "transformer",
        "beam": None,
        "margin": None,
        "bos": True,
        "eos": True,
        "text_style": "ptb",
        "dtype": "float32",
    }
    assert load_model(folders["pushdown"], SearchOptions(beam=2)).settings["beam"] == 2


def test_a_score_says_what_each_row_is(folders: dict[str, Path]) -> None:
    (score,) = scores(folders["pushdown"], ["a  b c"])
    assert score.tokens == ("a", "b", "c", "<eos>")
    assert score.words == (0, 1, 2, -1)
    assert (score.starts, score.ends) == ((0, 3, 5, 6), (1, 4, 6, 6))
    assert score.eos
    assert score.n_unknown == 0


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_what_cannot_be_scored_is_said_in_its_place(folders: dict[str, Path], name: str) -> None:
    long = " ".join("a" * 15)
    found = list(
        load_model(folders[name], SearchOptions(beam=2)).score(["a", "a dog b cat dog", "", long, "b"])
    )
    assert [getattr(f, "reason", None) for f in found] == [
        None,
        "words unknown to the model: dog, cat",
        "no words",
        "longer than the model: 15 tokens, at most 14" if name == "pushdown" else None,
        None,
    ]
    (longest,) = scores(folders[name], [" ".join("a" * 14)])  # with ROOT and its end as long as the model
    assert len(longest.logprobs) == 15


@pytest.mark.parametrize("name", ["tg", "plm"])
def test_batches_of_proposal_trees_have_room_for_their_actions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = action_model(name, "relative")
    tokenizer = train_word_tokenizer("abc", unk=False).with_labels(("NP", "S"))
    save_checkpoint(tmp_path, model, tokenizer, shards={}, overwrite=True)
    loaded = load_checkpoint(tmp_path)
    rows = [
        GivenRow(
            np.array([1, *tokens, 2]),
            read_actions(np.array(choices), model.actions),
            np.array([-1, *range(len(tokens)), -1]),
        )
        for tokens in ([3], [4, 5], [3, 4, 5])
        for _, choices in enumerate_derivations(model, [1, *tokens, 2]).joints
    ]
    packed, pack = [], loaded.model.pack
    monkeypatch.setattr(loaded.model, "pack", lambda rows: packed.append(pack(rows)) or packed[-1])
    monkeypatch.setattr(batches, "MAX_LOGITS", 400)
    found = Model.of(loaded, NO_SEARCH).score_rows(rows)
    cells = [batch.tokens.numel() * model.vocab_size for batch in packed]
    assert max(cells) <= 400 < 2 * max(cells)
    alone = Model.of(loaded, SearchOptions(beam=None, max_batch=1)).score_rows(rows)
    np.testing.assert_allclose(
        [row.joint for row in found], [row.joint for row in alone], rtol=2e-6, atol=1e-5
    )


@pytest.mark.parametrize("name", ["pushdown", "tg", "plm"])
def test_marginals_of_rows_and_what_their_ends_add(name: str) -> None:
    """Whatever derivation is given, over all of them; of each row its own."""
    model = tiny_model() if name == "pushdown" else action_model(name, "relative")
    rows, wanted = [], []
    for tokens in ([3, 4, 5], [4], [5, 3]):
        found = enumerate_derivations(model, [1, *tokens, 2])
        wanted.append(found.prefix_logprobs)
        derivation = (
            np.arange(len(tokens) + 2, dtype=np.int32) * np.array([1] * (len(tokens) + 1) + [0], np.int32)
            if name == "pushdown"
            else read_actions(np.array(found.joints[-1][1]), model.actions)  # type: ignore[attr-defined]
        )
        rows.append(GivenRow(row(tokens), derivation, np.array([-1, *range(len(tokens)), -1])))
    wide = SearchOptions(beam=1000) if name == "pushdown" else SearchOptions(beam=1000, word_beam=1000)
    scorer = Model.of(in_memory(name, model), wide)
    for scored, sums in zip(scorer.score_rows(rows), wanted, strict=True):
        assert scored.marginal == pytest.approx(sums[-1], rel=2e-6, abs=1e-5)
        assert scored.end_marginal == pytest.approx(sums[-1] - sums[-2], rel=2e-6, abs=1e-5)


def test_of_a_beginning_the_tokens_that_begin_before_its_end(tmp_path: Path) -> None:
    tokenizer = train_bpe_tokenizer([split_spaces("ab abc c")], size=264, min_count=1)
    model = tiny_model(vocab_size=tokenizer.vocab_size, max_length=32)
    save_checkpoint(tmp_path / "bpe", model, tokenizer, shards={})
    scorer = load_model(tmp_path / "bpe", SearchOptions(beam=4))
    text = "cab bc  a abc"
    (whole,) = scorer.score([text])
    assert isinstance(whole, SentenceScore)
    assert len(whole.tokens) > 6
    beginnings = [Beginning(text, end) for end in range(len(text) + 2)]
    for end, found in enumerate(scorer.score(beginnings)):  # type: ignore[arg-type]
        assert isinstance(found, SentenceScore)
        n = max(1, sum(start < end for start in whole.starts[:-1]))
        for name in ("tokens", "words", "starts", "ends"):
            assert getattr(found, name) == getattr(whole, name)[:n]
        np.testing.assert_allclose(found.logprobs, whole.logprobs[:n], rtol=2e-6, atol=1e-5)
        assert not found.eos
        assert found.text == text


def test_scoring_is_lazy(folders: dict[str, Path]) -> None:
    """An endless stream gives its first results after one window."""
    found = load_model(folders["base"], SearchOptions(beam=2)).score(itertools.repeat("a b"))  # type: ignore[arg-type]
    assert isinstance(next(found), SentenceScore)


# --- trees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pushdown", "head"])
def test_the_parser_gives_the_best_derivation(folders: dict[str, Path], name: str) -> None:
    parser = CheckpointParser(load_model(folders[name], SearchOptions(beam=50), parses=True))
    sentences = [text.split() for text in SENTENCES]
    for words, tree in zip(sentences, parser.parse(sentences), strict=True):
        _, best = exact(folders[name], " ".join(words))
        assert tree == tree_from_attachments(np.array(best[1:-1]) - 1, words)


@pytest.mark.parametrize("name", ["pushdown", "head"])
def test_what_a_narrow_search_gives_beside_its_scores(folders: dict[str, Path], name: str) -> None:
    """Stacks after every token; with parses the marginal of the scores, exact where no tree reaches them."""
    searcher = load_model(folders[name], SearchOptions(beam=2), parses=True)
    model = load_checkpoint(folders[name]).model
    texts = ["a b c b a", "c", "b c c a"]
    ids = [row([3 + "abc".index(word) for word in text.split()]) for text in texts]
    plain = beam_search(model, ids, search=SearchOptions(beam=2))
    scored, parsed = list(searcher.score_with_parses(texts)), list(searcher.parse(texts))
    for text, wanted, found, best in zip(texts, plain, scored, parsed, strict=True):
        assert isinstance(found, ParsedScore)
        assert isinstance(best, Parsed)
        stacks = [stack_text(attach, text.split()) for attach in wanted.incremental[1:]]
        assert found.incremental == tuple(stacks)
        assert len(found.incremental) == len(found.score.tokens)
        assert best.marginal == pytest.approx(found.score.total, rel=2e-6, abs=1e-5)
        assert best.dropped == pytest.approx(wanted.dropped, rel=2e-6, abs=1e-6)
        if name == "head":
            assert best.marginal == pytest.approx(exact(folders["head"], text)[0], rel=2e-6, abs=1e-5)


def test_the_parser_fails_sentence_by_sentence(folders: dict[str, Path]) -> None:
    results = list(
        CheckpointParser(load_model(folders["pushdown"], SearchOptions(beam=5), parses=True)).parse(
            [["a"], [], ["b", "dog"], ["c"]]
        )
    )
    assert results[1:3] == [ParseFailure("no words"), ParseFailure("words unknown to the model: dog")]
    assert [str(results[i]) for i in (0, 3)] == ["(XX a)", "(XX c)"]


@pytest.mark.parametrize(
    ("style", "text"), [("ptb", "the cat ( ca n't ) bark ."), ("raw", "the cat (can't) bark.")]
)
def test_the_parser_reads_words_in_the_text_style_of_the_model(
    style: str, text: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = load_model(folders["pushdown"], parses=True)
    monkeypatch.setitem(asked.settings, "text_style", style)
    monkeypatch.setattr(asked, "parse", lambda read: (Unscorable(each.text, each.text) for each in read))
    words = ["the", "cat", "(", "ca", "n't", ")", "bark", "."]
    assert list(CheckpointParser(asked).parse([words])) == [ParseFailure(text)]


def test_subwords_are_merged_back_into_words(tmp_path: Path) -> None:
    """The tree over words holds exactly the spans of the best derivation that lie on word edges."""
    tokenizer = train_bpe_tokenizer([split_spaces("the dog barks ( `` the dogs ''")], size=265, min_count=1)
    model = tiny_model(vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "bpe", model, tokenizer, shards={})
    words = ["the", "dogs", "(", "bark", "''"]
    (tree,) = CheckpointParser(load_model(tmp_path / "bpe", SearchOptions(beam=20), parses=True)).parse(
        [words]
    )
    assert isinstance(tree, Tree)
    assert tree.words == ("the", "dogs", "-LRB-", "bark", "''")
    assert len(tree.labels) == 4

    encoding = tokenizer.encode(join_words(words, "ptb"))
    assert len(encoding.ids) - 2 > len(words)
    (found,) = beam_search(model, [encoding.ids], search=SearchOptions(beam=20))
    starts, ends, _ = spans_from_attachments(found.derivations[0][1][1:-1] - 1)
    word = [*encoding.word[1:-1].tolist(), len(words)]
    edges = {k for k in range(len(word)) if k == 0 or word[k] != word[k - 1]}
    kept = {
        (word[s], word[e])
        for s, e in zip(starts, ends, strict=True)
        if {s, e} <= edges and word[e] - word[s] > 1
    }
    assert kept <= set(zip(tree.starts.tolist(), tree.ends.tolist(), strict=True))


def plain_tree(attach: Sequence[int], word: Sequence[int]) -> str:
    """The tree over words of a derivation of n tokens (in the sentence layout), by moving constituents about.

    Args:
        attach: n + 2.
        word: the word of each of the n tokens.
    """
    spans = set()
    stack: list[tuple[int, int]] = []  # (first token, one past the last), tokens from 0
    for k in range(1, len(word) + 1):
        stack.append((k - 1, k))
        reached = attach[k] == k
        while not reached:
            (_, end), (start, last) = stack.pop(), stack.pop()
            stack.append((start, end))
            spans.add((start, end))
            reached = last == attach[k]
    spans |= {(start, len(word)) for start, _ in stack}  # by end-of-sentence
    edges = {t: w for t, w in enumerate(word) if t == 0 or w != word[t - 1]} | {len(word): word[-1] + 1}
    kept = {(edges[start], edges[end]) for start, end in spans if start in edges and end in edges}

    def over(start: int, end: int) -> str:
        """The node of these words: its first child is as wide as can be, the rest is right-branching."""
        if end - start == 1:
            return f"(XX w{start})"
        first = max((e for s, e in kept if s == start and e < end), default=start + 1)
        return f"(X {over(start, first)} {over(first, end)})"

    return over(0, word[-1] + 1)


@pytest.mark.parametrize("word", [(0, 0, 1, 2), (0, 1, 1, 2, 2), (0, 1, 2, 3), (0, 0, 0, 1), (0, 1, 2, 2, 3)])
def test_different_trees_with_the_sums_over_their_derivations(word: tuple[int, ...], tmp_path: Path) -> None:
    tokenizer = train_bpe_tokenizer([split_spaces("a b c d")], size=268, min_count=1)
    words = ["abcd"[w] * word.count(w) for w in range(word[-1] + 1)]  # a letter a token
    encoding = tokenizer.encode(join_words(words, "ptb"))
    assert tuple(encoding.word[1:-1]) == word
    tokens = encoding.ids[1:-1].tolist()
    model = tiny_model(vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "bpe", model, tokenizer, shards={})
    sums: dict[str, list[float]] = {}
    every = list(all_attachments(len(tokens)))
    token, attached = parts(model, tokens, every)
    for attach, joint in zip(every, (token.sum(1) + attached.sum(1)).tolist(), strict=True):
        sums.setdefault(plain_tree(attach, word), []).append(joint)
    wanted = sorted(((logsumexp(np.array(joints)), tree) for tree, joints in sums.items()), reverse=True)
    assert len(wanted) < len(every)
    names = {f"(XX {text})": f"(XX w{w})" for w, text in enumerate(words)}
    for k in (2, 1000):
        (found,) = load_model(tmp_path / "bpe", SearchOptions(beam=10**6), parses=True).parse(
            [split_spaces(" ".join(words))], k_best=k
        )
        assert isinstance(found, Parsed)
        joints, trees = zip(*found.k_best, strict=True)
        shown = [re.sub(r"\(XX \w+\)", lambda leaf: names[leaf[0]], str(tree)) for tree in trees]
        assert shown == [tree for _, tree in wanted[:k]]
        assert joints == pytest.approx([joint for joint, _ in wanted[:k]], rel=2e-6, abs=1e-4)
    assert logsumexp(np.array(joints)) == pytest.approx(found.marginal, rel=2e-6, abs=1e-4)


def lines(texts: list[str]) -> list[SourcedLine]:
    sentences = [(read_sentence(text, "text", "ptb"), split_text_words(text)) for text in texts]
    return [SourcedLine(*sentence, "in.txt", n) for n, sentence in enumerate(sentences, 1)]


def test_decoding_is_line_for_line(folders: dict[str, Path]) -> None:
    rejects = Rejects("skip")
    searcher = load_model(folders["pushdown"], SearchOptions(beam=50), parses=True)
    asked = lines(["a b c", "", "a dog", "b c"])
    found = list(decode(asked, searcher, rejects=rejects, k_best=3))
    assert [" ".join(result.tree.words) for result in found] == ["a b c", "*", "a dog", "b c"]
    assert [result.marginal is None for result in found] == [False, True, True, False]
    assert [record["line"] for record in rejects] == [2, 3]
    assert [len(result.k_best) for result in found] == [2, 0, 0, 1]
    assert found[0].marginal == pytest.approx(exact(folders["pushdown"], "a b c")[0], rel=2e-6, abs=1e-5)
    joints = [joint for joint, _ in found[0].k_best]
    assert joints == sorted(joints, reverse=True)
    with pytest.raises(InputError, match=r"in.txt:2: words unknown to the model: dog"):
        list(decode(lines(["a", "dog"]), searcher, rejects=Rejects("fail")))


# --- surprisals -------------------------------------------------------------------------------


def test_a_stack_is_written_as_its_constituents() -> None:
    words = ["the", "dog", "(", "barks"]
    assert stack_text(np.array([0]), words) == ""
    assert stack_text(np.array([0, 1, 1, 3, 4]), words) == "(X the dog) -LRB- barks"
    assert stack_text(np.array([0, 1, 1, 3, 4, 0]), words) == "(X (X the dog) (X -LRB- barks))"


# --- input ------------------------------------------------------------------------------------


def test_tokens_may_have_treebank_escapes() -> None:
    found = read_sentence("a -LRB- b\tc", "tokens", "ptb")
    assert found.words == ("a", "(", "b", "c")
    assert found.starts == (0, 2, 8, 10)


def test_tokens_for_a_raw_model_are_written_as_running_text() -> None:
    assert read_sentence("He did n't .", "tokens", "raw").text == "He didn't."


def test_lines_know_their_place(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("a b\n\n")
    found = read_inputs([str(tmp_path / "one.txt"), str(tmp_path / "two.txt")], "text", None)
    assert [(Path(f.file).name, f.line, f.sentence.words) for f in found] == [
        ("one.txt", 1, ("a", "b")),
        ("one.txt", 2, ()),
        ("two.txt", 1, ("a", "b")),
        ("two.txt", 2, ()),
    ]


def test_the_words_of_trees(tmp_path: Path) -> None:
    file = tmp_path / "some.mrg"
    file.write_text(
        "( (S (NP-SBJ (-NONE- *))\n   (VP (VB go) (PRN (-LRB- -LRB-)))))\n(S (-NONE- *))\n(S (A did) (B n't))"
    )
    found = list(read_inputs([str(file)], "treebank", "ptb"))
    assert [(f.line, f.sentence.words) for f in found] == [(1, ("go", "(")), (2, ()), (3, ("did", "n't"))]
    assert [f.sentence.text for f in read_inputs([str(file)], "treebank", "raw")] == ["go (", "", "didn't"]
