"""Trees of models trained with TreeReg, from their states by hand; commands that give them, and refusals."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from search_oracle import WORDS, row, tiny_model
from treereg_oracle import Nested, binary_trees, brackets, edge, split_score

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.models import TransformerLM, collate, save_checkpoint
from pdtools.parsers.backends import ParseFailure
from pdtools.search import SentenceScore, load_model
from pdtools.search.decoding import CheckpointParser
from pdtools.search.options import SearchOptions
from pdtools.search.parses import Parsed
from pdtools.search.scores import Unscorable
from pdtools.tokenization import split_spaces, train_bpe_tokenizer, train_word_tokenizer
from pdtools.trees import Tree

TREEREG = {"positions": "learned", "treereg_layer": 1, "treereg_share": 0.5}
SHARDS = {"layout": "sentence", "factor": "right", "text_style": "ptb"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint over the words a, b, c."""
    place = tmp_path_factory.mktemp("model") / "treereg"
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size, **TREEREG)
    save_checkpoint(place, model, tokenizer, shards=SHARDS)
    return place


def states(folder: Path, text: str) -> list[list[float]]:
    """Of ROOT (not to be looked at) and the tokens: half of the output of the first of two layers."""
    loaded = load_model(folder, parses=True).loaded
    model = loaded.model
    tokens = [loaded.tokenizer.encode(split_spaces(word)).ids[1] for word in text.split()]
    ids = row([int(token) for token in tokens])
    seen: list[torch.Tensor] = []
    hook = model.blocks[0].register_forward_hook(lambda *call: seen.append(call[-1]))
    with torch.no_grad():
        model.forward_parts(collate([(ids, np.arange(len(ids)))], model.pad_id))
    hook.remove()
    found: list[list[float]] = seen[0][0, :-1, :8].double().tolist()
    return found


def greedy(h: list[list[float]], a: int, b: int) -> Nested:
    if a == b:
        return a
    q = max(range(a, b), key=lambda q: split_score(h, a, q, b))
    return greedy(h, a, q), greedy(h, q + 1, b)


def total(tree: Nested, h: list[list[float]]) -> float:
    if isinstance(tree, int):
        return 0.0
    here = split_score(h, edge(tree, 0), edge(tree[0], -1), edge(tree, -1))
    return here + total(tree[0], h) + total(tree[1], h)


def best(h: list[list[float]], n: int) -> Nested:
    return max(binary_trees(1, n), key=lambda tree: total(tree, h))


def named(tree: Nested, words: list[str]) -> Tree:
    shape = brackets(tree)
    return Tree(tuple(words), shape.tags, shape.labels, shape.starts, shape.ends)


STRINGS = [" ".join(words) for n in (1, 2, 3, 4) for words in itertools.product("abc", repeat=n)]
TEXTS = [*STRINGS[::5], "a b c c b a", "c a b b c"]


@pytest.mark.parametrize("cky", [False, True])
def test_trees_are_those_of_the_states(folder: Path, cky: bool) -> None:
    found = list(load_model(folder, SearchOptions(cky=cky), parses=True).parse(TEXTS))
    assert len(found) == len(TEXTS)
    for text, parsed in zip(TEXTS, found, strict=True):
        assert isinstance(parsed, Parsed)
        h, n = states(folder, text), len(text.split())
        wanted = best(h, n) if cky else greedy(h, 1, n)
        ((joint, tree),) = parsed.k_best
        assert tree == named(wanted, text.split())
        assert (joint, parsed.marginal, parsed.dropped) == (None, None, None)


def test_a_sentence_parses_alike_in_any_batch(folder: Path) -> None:
    alone = load_model(folder, SearchOptions(max_batch=1), parses=True).parse(TEXTS)
    assert list(alone) == list(load_model(folder, parses=True).parse(TEXTS))
    with pytest.raises(PdtoolsError, match="leave out --k-best"):
        list(load_model(folder, parses=True).parse(TEXTS, k_best=2))


def test_words_of_several_tokens_stay_whole(tmp_path: Path) -> None:
    tokenizer = train_bpe_tokenizer([split_spaces("a b c d")], size=268, min_count=1)
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size, max_length=32, **TREEREG)
    assert isinstance(model, TransformerLM)
    save_checkpoint(tmp_path / "bpe", model, tokenizer, shards=SHARDS)
    rng = np.random.default_rng(0)
    sentences = [
        split_spaces(" ".join("abcd"[letter] * rng.integers(1, 4) for letter in rng.integers(4, size=6)))
        for _ in range(20)
    ]
    for sentence, parsed in zip(
        sentences, load_model(tmp_path / "bpe", parses=True).parse(sentences), strict=True
    ):
        assert isinstance(parsed, Parsed)
        encoded = tokenizer.encode(sentence)
        # The same from the tokens' states: splits where words end.
        ends = [k for k in range(1, len(encoded.ids) - 1) if encoded.word[k] != encoded.word[k + 1]]
        with torch.no_grad():
            batch = collate([(encoded.ids, np.arange(len(encoded.ids)))], model.pad_id)
            h = model.treereg_states(batch)[0].double().tolist()
        wanted = greedy_over_words(h, ends, 1, len(ends))
        assert parsed.k_best[0][1] == named(wanted, list(sentence.words))


def greedy_over_words(h: list[list[float]], ends: list[int], first: int, last: int) -> Nested:
    if first == last:
        return first
    a, b = 1 if first == 1 else ends[first - 2] + 1, ends[last - 1]
    w = max(range(first, last), key=lambda w: split_score(h, a, ends[w - 1], b))
    return greedy_over_words(h, ends, first, w), greedy_over_words(h, ends, w + 1, last)


def test_it_scores_as_the_language_model_that_it_is(folder: Path, tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    plain = tiny_model("transformer", vocab_size=tokenizer.vocab_size, positions="learned")
    save_checkpoint(tmp_path / "plain", plain, tokenizer, shards=SHARDS)
    for ours, theirs in zip(
        load_model(folder).score(TEXTS), load_model(tmp_path / "plain").score(TEXTS), strict=True
    ):
        assert isinstance(ours, SentenceScore)
        assert isinstance(theirs, SentenceScore)
        assert (ours.logprobs == theirs.logprobs).all()


def test_as_a_parser(folder: Path) -> None:
    parser = CheckpointParser(load_model(folder, SearchOptions(beam=100, cky=True), parses=True))
    (tree,) = parser.parse([["a", "b", "c"]])
    ((_, wanted),) = next(load_model(folder, SearchOptions(cky=True), parses=True).parse(["a b c"])).k_best  # type: ignore[union-attr]
    assert tree == wanted
    spaced, good = parser.parse([["a b", "c"], ["a", "c"]])  # which the model would read as three words
    assert spaced == ParseFailure("a word with white space in it")
    assert isinstance(good, Tree)
    assert isinstance(next(load_model(folder, parses=True).parse(["dog"])), Unscorable)


# --- commands ----------------------------------------------------------------------------------


def test_commands_give_the_same_trees(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "in.txt"
    text.write_text("\n".join([*TEXTS, "", "dog"]))
    ways = {
        "decoded": ["decode", str(text), "--model", str(folder)],
        "divided": ["decode", str(text), "--model", str(folder), "--workers", "2"],
        "parsed": ["parse", str(text), "--parser", str(folder)],
        "best": ["decode", str(text), "--model", str(folder), "--cky"],
        "best-parsed": ["parse", str(text), "--parser", str(folder), "--cky"],
    }
    for name, command in ways.items():
        assert run([*command, "--device", "cpu", "-o", str(tmp_path / name)]) == 0, name
    lines = {name: (tmp_path / name).read_text().splitlines() for name in ways}
    wanted = [str(p.k_best[0][1]) for p in load_model(folder, parses=True).parse(TEXTS)]  # type: ignore[union-attr]
    assert lines["decoded"] == [*wanted, "(X (-NONE- *))", "(X (XX dog))"]
    assert lines["divided"] == lines["parsed"] == lines["decoded"] != lines["best"]
    assert lines["best-parsed"] == lines["best"]
    capsys.readouterr()
    assert run(["eval-parse", str(tmp_path / "best"), str(tmp_path / "decoded"), "--unlabeled"]) == 0


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["decode", "--beam", "5"], "parses without a beam"),
        (["decode", "--margin", "3"], "parses without a beam"),
        (["decode", "--scores", "s.tsv"], "gives one tree a sentence, without scores"),
        (["decode", "--k-best", "2", "--scores", "s.tsv"], "gives one tree a sentence, without scores"),
        (["surprisal", "--parses"], "leave out --parses"),
        (["sample"], "no attachment head, and so no trees"),
    ],
)
def test_what_there_is_not(
    folder: Path,
    command: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = [] if command == ["sample"] else ["--text", "a b c"]
    assert run([*command, *text, "--model", str(folder), "--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert reason in err
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_its_trees_are_no_placeholders(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.txt").write_text("a b c\n\na\n")
    command = ["decode", str(tmp_path / "x.txt"), "--model", str(folder), "-o", str(tmp_path / "x.trees")]
    assert run([*command, "--json", "-q"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts == {"trees": 3, "words": 4, "placeholders": 1}


def test_cky_is_for_treereg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    model = tiny_model("pushdown", vocab_size=tokenizer.vocab_size, positions="learned")
    save_checkpoint(tmp_path / "pushdown", model, tokenizer, shards=SHARDS)
    with pytest.raises(PdtoolsError, match="--cky is for models that parse by TreeReg"):
        load_model(tmp_path / "pushdown", SearchOptions(cky=True), parses=True)
    assert run(["parse", "--text", "a b", "--cky"]) == 2
    assert "--cky is for checkpoints trained with TreeReg" in capsys.readouterr().err
