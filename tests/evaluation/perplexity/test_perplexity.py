"""Perplexities against log-probabilities summed by hand, over all derivations for the marginal."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import math
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
import torch
from action_oracle import action_model
from search_oracle import all_attachments, exhaustive_prefixes, parts, save_checkpoints, tiny_model
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordPiece

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.perplexity import evaluate
from pdtools.evaluation.perplexity.evaluate import (
    check_shards,
    evaluate_perplexity,
    evaluate_string_perplexity,
    evaluate_text_perplexity,
    items_table,
    perplexities,
)
from pdtools.evaluation.results import ITEMS
from pdtools.files import Rejects
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.search import load_model
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.inputs import SourcedLine
from pdtools.search.options import NO_SEARCH, Particles, SearchOptions
from pdtools.search.scores import RowScore, SentenceScore
from pdtools.shards import ShardFolder, ShardSet, ShardSettings, build_shards
from pdtools.shards.build import blocks_from_files
from pdtools.shards.plain import sentence_of
from pdtools.tokenization import (
    Sentence,
    Tokenizer,
    join_words,
    split_spaces,
    train_bpe_tokenizer,
    train_word_tokenizer,
)
from pdtools.training.shard_input import check_same
from pdtools.trees import SourcedTree, Tree

TREES = (
    "(S (X a) (Y (X b) (X c)))",
    "(S (Y (X b) (X b)) (X a))",
    "(X c)",
    "(S (Y (Y (X c) (X a)) (X b)) (X a))",
)


def make_shards(
    folder: Path, tokenizer: Tokenizer, factor: str = "right", trees: tuple[str, ...] = TREES
) -> ShardSet:
    sourced = [SourcedTree(Tree.from_brackets(t), "toy", i, t) for i, t in enumerate(trees, start=1)]
    settings = ShardSettings(factor=factor, constituents="labelled" if tokenizer.labels else "none")  # type: ignore[arg-type]
    build_shards(sourced, tokenizer, settings, folder, Rejects())
    return ShardSet.open(folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], ShardSet, Tokenizer]:
    folder = tmp_path_factory.mktemp("ppl")
    models, tokenizer = save_checkpoints(folder)
    return models, make_shards(folder / "shards", tokenizer), tokenizer


@pytest.mark.parametrize("name", ["pushdown", "head", "base"])
def test_against_sums_over_all_derivations(
    world: tuple[dict[str, Path], ShardSet, Tokenizer], name: str
) -> None:
    models, shards, _ = world
    loaded = load_checkpoint(models[name])
    results = evaluate_perplexity(
        shards, loaded, search=SearchOptions(beam=1000, max_batch=2), rejects=Rejects()
    )
    given, joint, marginal, counted = 0.0, 0.0, 0.0, 0
    given_end, marginal_without_end = 0.0, 0.0
    for i in range(len(shards)):
        tokens = shards.tokens(i)[1:-1].tolist()
        on_tree, attached = parts(loaded.model, tokens, [shards.attach(i).tolist()])
        given += on_tree.sum()
        given_end += on_tree[0, -1]
        joint += on_tree.sum() + attached.sum()
        every = list(all_attachments(len(tokens)))
        every_token, every_attached = parts(loaded.model, tokens, every)
        marginal += (
            np.logaddexp.reduce(every_token.sum(1) + every_attached.sum(1))
            if name != "base"
            else on_tree.sum()
        )
        marginal_without_end += (
            exhaustive_prefixes(loaded.model, tokens)[-2] if name != "base" else on_tree[0, :-1].sum()
        )
        counted += len(tokens) + 1
    scores = results.scores
    assert not {"ppl_token_counts", "ppl_token_arcs"} & scores.keys()  # GiLT's
    without = scores["ppl_word_without_eos_given_trees"]
    assert without == pytest.approx(math.exp(-(given - given_end) / (counted - 4)), rel=1e-5)
    without = scores["ppl_word_without_eos_marginal"]
    assert without == pytest.approx(math.exp(-marginal_without_end / (counted - 4)), rel=1e-5)
    if name != "base":
        without = scores["ppl_word_without_eos_joint"]
        assert without == pytest.approx(math.exp(-(joint - given_end) / (counted - 4)), rel=1e-5)
    assert scores["ppl_token_given_trees"] == pytest.approx(math.exp(-given / counted), rel=1e-5)
    assert scores["ppl_token_marginal"] == pytest.approx(math.exp(-marginal / counted), rel=1e-5)
    if name == "base":
        assert scores["ppl_token_joint"] is None
    else:
        assert scores["ppl_token_joint"] == pytest.approx(math.exp(-joint / counted), rel=1e-5)
    if name != "pushdown":  # tokens do not depend on the tree: plain perplexity is the marginal
        assert scores["ppl_token_marginal"] == pytest.approx(scores["ppl_token_given_trees"], rel=1e-6)
    assert results.counts == {
        "sentences": 4,
        "sentences_left_out": 0,
        "tokens": counted,
        "words": counted,
        "words_without_eos": counted - 4,
        "unknown_tokens": 0,
    }
    assert results.tables["items"].column("id").to_pylist() == [0, 1, 2, 3]


def test_a_narrow_beam_is_a_lower_bound(world: tuple[dict[str, Path], ShardSet, Tokenizer]) -> None:
    models, shards, _ = world
    loaded = load_checkpoint(models["pushdown"])
    narrow, wide, none = (
        evaluate_perplexity(shards, loaded, search=SearchOptions(beam=beam), rejects=Rejects()).scores
        for beam in (1, 1000, None)
    )
    assert narrow["ppl_token_marginal"] > wide["ppl_token_marginal"]
    assert none["ppl_token_marginal"] is None
    assert none["ppl_token_joint"] == pytest.approx(wide["ppl_token_joint"])


def test_particles_estimate_the_marginal(world: tuple[dict[str, Path], ShardSet, Tokenizer]) -> None:
    models, shards, _ = world
    loaded = load_checkpoint(models["pushdown"])
    options: dict[str, Any] = {"search": SearchOptions(beam=1000), "rejects": Rejects()}
    found = evaluate_perplexity(shards, loaded, particles=Particles(number=1000), **options)
    assert found.settings["particles"] == 1000
    for unit in ("token", "word", "word_without_eos"):
        estimate = found.scores[f"ppl_{unit}_particles"]
        assert estimate == pytest.approx(found.scores[f"ppl_{unit}_marginal"], rel=1e-6)
    options["search"] = NO_SEARCH
    alone = evaluate_perplexity(shards, loaded, particles=Particles(number=1000), **options).scores
    for unit in ("token", "word", "word_without_eos"):
        name = f"ppl_{unit}_particles"
        assert alone[name] == pytest.approx(found.scores[name], rel=1e-6)
    drawn = [
        evaluate_perplexity(shards, loaded, particles=Particles(number=1, seed=seed), **options).scores
        for seed in (0, *range(5))
    ]
    assert drawn[0] == drawn[1]
    assert len({scores["ppl_token_particles"] for scores in drawn}) > 1
    assert drawn[0]["ppl_token_marginal"] is None
    assert "ppl_token_particles" not in evaluate_perplexity(shards, loaded, **options).scores
    with pytest.raises(PdtoolsError, match="log p.x. is exact"):
        evaluate_perplexity(shards, load_checkpoint(models["base"]), particles=Particles(number=2), **options)


def test_a_scorer_gives_the_same_marginal(world: tuple[dict[str, Path], ShardSet, Tokenizer]) -> None:
    models, shards, _ = world
    direct = evaluate_perplexity(shards, load_checkpoint(models["base"]), search=NO_SEARCH, rejects=Rejects())
    scored = evaluate_string_perplexity(shards, load_model(models["base"]), rejects=Rejects())
    assert scored.scores["ppl_word_marginal"] == pytest.approx(direct.scores["ppl_word_marginal"], rel=1e-6)
    assert scored.counts == direct.counts
    assert scored.scores["ppl_token_given_trees"] is None


def tokenizer_of(kind: str, folder: Path) -> Tokenizer:
    """A tokenizer of words, or one that takes most of the words of TALK apart."""
    words = [["the", "dogs", "barked", "."]]
    if kind == "word":
        return train_word_tokenizer(words[0], min_count=1)
    if kind == "wordpiece":
        subwords = ["[UNK]", "the", "do", "##gs", "bark", "##ed", "."]
        backend = Backend(WordPiece({subword: i for i, subword in enumerate(subwords)}, unk_token="[UNK]"))
        backend.save(str(folder / "wordpiece.json"))
        return Tokenizer.load(folder / "wordpiece.json", "ptb")
    return train_bpe_tokenizer([join_words(each, kind) for each in words], size=262, text_style=kind)


TALK = ("(S (NP (D the) (N dogs)) (VP (V barked)) (. .))", "(NP (NP (N dogs)) (, ,) (NP (N barked)))")


@pytest.mark.parametrize("kind", ["word", "wordpiece", "ptb", "raw"])
@pytest.mark.parametrize("name", ["tg", "plm", "pushdown"])
def test_marginals_are_sums_of_surprisals(name: str, kind: str, tmp_path: Path) -> None:
    """Where words are several tokens too: nothing opens or closes inside of one."""
    tokenizer = tokenizer_of(kind, tmp_path).with_labels(("NP", "S", "VP"))
    shards = make_shards(tmp_path / "shards", tokenizer, trees=TALK)
    ids = {key: getattr(tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")}
    if name == "pushdown":
        model = tiny_model(**ids)
    else:
        model = action_model(name, "relative", labels=3, output_bias=True, **ids)
        with torch.no_grad():
            model.output_bias[tokenizer.vocab_size :] = 5.0  # structure is likely, inside of words too
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={"layout": "sentence", "factor": "right"})
    loaded = load_checkpoint(tmp_path / "model")
    items = evaluate_perplexity(shards, loaded, search=SearchOptions(beam=200), rejects=Rejects()).tables[
        "items"
    ]
    scorer = load_model(tmp_path / "model", SearchOptions(beam=200))
    scores = scorer.score(sentence_of(Tree.from_brackets(text), tokenizer.text_style) for text in TALK)
    for marginal, score in zip(items["marginal"].to_pylist(), scores, strict=True):
        assert isinstance(score, SentenceScore)
        assert marginal == pytest.approx(score.total, rel=2e-6, abs=1e-4)


def test_with_and_without_end_of_sentence_there_is_a_score_in_common(
    world: tuple[dict[str, Path], ShardSet, Tokenizer],
) -> None:
    models, shards, _ = world
    counting = load_model(models["pushdown"], SearchOptions(beam=1000))

    class WithoutEnds:
        settings: ClassVar = {"eos": False}

        def score(self, sentences: list[Sentence]) -> Iterator[SentenceScore]:
            for found in counting.score(sentences):
                assert isinstance(found, SentenceScore)
                names = ("tokens", "words", "starts", "ends", "logprobs")
                rows = {name: getattr(found, name)[:-1] for name in names}
                yield dataclasses.replace(found, **rows, eos=False)

    with_ends = evaluate_perplexity(
        shards, load_checkpoint(models["pushdown"]), search=SearchOptions(beam=1000), rejects=Rejects()
    )
    without = evaluate_string_perplexity(shards, WithoutEnds(), rejects=Rejects())  # type: ignore[arg-type]
    assert (
        with_ends.counts["words_without_eos"]
        == without.counts["words"]
        == without.counts["words_without_eos"]
    )
    assert with_ends.settings["text_sha256"] == without.settings["text_sha256"]
    common = without.scores["ppl_word_without_eos_marginal"]
    assert (
        common == without.scores["ppl_word_marginal"] != pytest.approx(with_ends.scores["ppl_word_marginal"])
    )
    assert common == pytest.approx(with_ends.scores["ppl_word_without_eos_marginal"], rel=1e-6)


def test_zero_probabilities_are_an_error_and_no_number() -> None:
    for marginal, said in ((-math.inf, "zero or not numbers"), (-1500.0, "e to the 750 is too large")):
        with pytest.raises(PdtoolsError, match=said):
            perplexities(items_table([{"tokens": 2, "words": 2, "marginal": marginal}]))


def test_words_without_a_score_are_not_counted(
    world: tuple[dict[str, Path], ShardSet, Tokenizer],
) -> None:
    _, shards, _ = world

    class WithoutBos:
        settings: ClassVar = {"eos": False}

        def score(self, sentences: list[Sentence]) -> Iterator[SentenceScore]:
            for s in sentences:
                n = len(s.words)
                # The first word has two tokens in sentences of three words, one in longer ones.
                words = (*([0] if n == 3 else []), *range(1, n))
                spans = [(s.starts[w], s.ends[w]) for w in words]
                starts, ends = zip(*spans, strict=True) if spans else ((), ())
                tokens = tuple(s.words[w] for w in words)
                yield SentenceScore(
                    s.text, tokens, words, starts, ends, np.full(len(words), -1.0), 0, False, first_token=2
                )

    several = [i for i in range(len(shards)) if len(shards.text(i).split()) > 1]
    scored = [text for i in several for text in [shards.text(i).split()]]
    expected = sum(len(words) - (len(words) > 3) for words in scored)
    subset = dataclasses.replace(
        shards,
        ids=shards.ids[several],
        lengths=shards.lengths[several],
        _texts=shards._texts.take(several),
    )
    results = evaluate_string_perplexity(subset, WithoutBos(), rejects=Rejects())  # type: ignore[arg-type]
    assert results.counts["words"] == expected


def test_shards_of_another_kind_are_refused(
    world: tuple[dict[str, Path], ShardSet, Tokenizer], tmp_path: Path
) -> None:
    models, _, tokenizer = world
    loaded = load_checkpoint(models["pushdown"])
    other = train_word_tokenizer(("a", "b", "c", "d"), text_style="ptb", unk=False)
    with pytest.raises(InputError, match="not made with the tokenizer of the model"):
        evaluate_perplexity(
            make_shards(tmp_path / "other", other), loaded, search=SearchOptions(beam=1), rejects=Rejects()
        )
    with pytest.raises(InputError, match="its trees are binarized to the left"):
        evaluate_perplexity(
            make_shards(tmp_path / "left", tokenizer, "left"),
            loaded,
            search=SearchOptions(beam=1),
            rejects=Rejects(),
        )
    loaded.config["shards"]["layout"] = "window"
    with pytest.raises(InputError, match="layout sentence, but the model was trained with layout window"):
        evaluate_perplexity(
            make_shards(tmp_path / "same", tokenizer),
            loaded,
            search=SearchOptions(beam=1),
            rejects=Rejects(),
        )


# Settings of --binarize, and trees: as they are, or with groups.
SHARDS_OF = {
    "flat, right": ("right", "(S (X a) (X b) (X c) (X a))"),
    "flat, left": ("left", "(S (X a) (X b) (X c) (X a))"),
    "flat": ("given", "(S (X a) (X b) (X c) (X a))"),
    "right groups": ("given", "(S (X a) (S|<X> (X b) (S|<X> (X c) (X a))))"),
    "left groups": ("given", "(S (S|<X> (S|<X> (X a) (X b)) (X c)) (X a))"),
    "heads' groups": ("given", "(S (X a) (S|<X> (S|<X> (X b) (X c)) (X a)))"),
    "heads' groups, left": ("left", "(S (X a) (S|<X> (S|<X> (X b) (X c)) (X a)))"),
}


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("trained", SHARDS_OF)
@pytest.mark.parametrize("found", SHARDS_OF)
def test_binarizations_of_training_and_other_shards(trained: str, found: str, tmp_path: Path) -> None:
    """Training and scoring refuse shards whose attachments are of another kind, whatever the settings say."""
    models, tokenizer = save_checkpoints(tmp_path)
    factors, texts = zip(SHARDS_OF[trained], SHARDS_OF[found], strict=True)
    one, other = (
        make_shards(tmp_path / name, tokenizer, factor, (text, "(X c)"))
        for name, factor, text in zip(("train", "valid"), factors, texts, strict=True)
    )
    loaded = load_checkpoint(models["pushdown"])
    loaded.config["shards"].update(one.manifest["settings"])
    groups = [shards.attach(0).tolist() for shards in (one, other)]
    kinds = [group in ([0, 1, 2, 3, 1, 0], [0, 1, 1, 2, 3, 0]) for group in groups]
    doubtful = not kinds[0] and factors[1] == "given"  # few trees may show none of the groups
    for check in (check_same, lambda one, other: check_shards(other, loaded)):
        if groups[0] == groups[1]:
            check(one, other)
        else:
            error = UserWarning if doubtful else InputError
            with pytest.raises(error, match="trees .*, but the trees of training "):
                check(one, other)


def test_sentences_longer_than_the_model(tmp_path: Path) -> None:
    models, tokenizer = save_checkpoints(tmp_path, max_length=5)
    shards = make_shards(tmp_path / "shards", tokenizer)
    loaded = load_checkpoint(models["pushdown"])
    with pytest.raises(InputError, match="longer than the model: 4 tokens, at most 3"):
        evaluate_perplexity(shards, loaded, search=SearchOptions(beam=2), rejects=Rejects())
    results = evaluate_perplexity(shards, loaded, search=SearchOptions(beam=2), rejects=Rejects("skip"))
    assert (results.counts["sentences"], results.counts["sentences_left_out"]) == (3, 1)
    only_long = make_shards(tmp_path / "long", tokenizer, trees=TREES[3:])
    with pytest.raises(InputError, match="no sentence"):
        evaluate_perplexity(only_long, loaded, search=SearchOptions(beam=2), rejects=Rejects("skip"))


def test_sentences_that_the_beam_finds_nothing_for(tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer("abc", text_style="ptb", unk=False).with_labels(["S", "Y"])
    flat = "(S (X a) (X b) (X c) (X a))"
    sourced = [SourcedTree(Tree.from_brackets(t), "toy", i, t) for i, t in enumerate([TREES[0], flat])]
    build_shards(sourced, tokenizer, ShardSettings(constituents="labelled"), tmp_path / "shards", Rejects())
    shards = ShardSet.open(tmp_path / "shards")
    # All is as likely, and then openers come first: (S (S a b c a)) has 9 positions, without one of them 7.
    model = action_model("plm", "learned", zero=True, max_length=8)
    save_checkpoint(tmp_path / "plm", model, tokenizer, shards=shards.manifest["settings"])
    loaded = load_checkpoint(tmp_path / "plm")
    assert (
        evaluate_perplexity(shards, loaded, search=SearchOptions(beam=100), rejects=Rejects()).counts[
            "sentences"
        ]
        == 2
    )
    nothing = (
        "no tree found: none in the beam has a probability above 0 and room in the model's 8 positions"
        " (a larger --beam, or --search fast_track=…, may keep one)"
    )
    with pytest.raises(InputError, match=re.escape(f"shards:1: {nothing}")):
        evaluate_perplexity(shards, loaded, search=SearchOptions(beam=1), rejects=Rejects())
    rejects = Rejects("skip")
    results = evaluate_perplexity(shards, loaded, search=SearchOptions(beam=1), rejects=rejects)
    assert (results.counts["sentences"], results.counts["sentences_left_out"]) == (1, 1)
    assert math.isfinite(results.scores["ppl_token_marginal"] or math.nan)
    assert [(row["line"], row["reason"], row["text"]) for row in rejects] == [(1, nothing, "a b c a")]
    scorer = load_model(tmp_path / "plm", SearchOptions(beam=1))
    assert [getattr(score, "reason", None) for score in scorer.score(["a b c", "a b c a"])] == [None, nothing]


def test_trees_that_the_model_rules_out(
    world: tuple[dict[str, Path], ShardSet, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, shards, _ = world
    loaded, rejects = load_checkpoint(models["pushdown"]), Rejects("skip")
    possible = evaluate._score  # type: ignore[attr-defined]

    def one_impossible(*args: object, **settings: object) -> list[RowScore]:
        first, *others = possible(*args, **settings)
        return [first._replace(joint=-math.inf), *others]

    monkeypatch.setattr(evaluate, "_score", one_impossible)
    assert (
        evaluate_perplexity(shards, loaded, search=SearchOptions(beam=1), rejects=rejects).counts["sentences"]
        == len(shards) - 1
    )
    assert [(row["line"], row["reason"]) for row in rejects] == [(3, "its tree has probability 0")]


def test_blocks_longer_than_the_model(tmp_path: Path) -> None:
    models, tokenizer = save_checkpoints(tmp_path, max_length=5)
    loaded = load_checkpoint(models["base"])
    loaded = dataclasses.replace(loaded, config={**loaded.config, "shards": {"layout": "block"}})
    (tmp_path / "text").write_text("a b c\nb\na\n")  # eight tokens with the ends of the lines
    shards = {}
    for length in (4, 6):
        blocks_from_files(
            [str(tmp_path / "text")], tokenizer, tmp_path / str(length), Rejects(), length=length
        )
        shards[length] = ShardFolder.open(tmp_path / str(length))
    whole = evaluate_perplexity(shards[4], loaded, search=NO_SEARCH, rejects=Rejects())
    assert whole.counts == {
        "sentences": 2,
        "sentences_left_out": 0,
        "tokens": 8,
        "words": 8,
        "words_without_eos": 5,
        "unknown_tokens": 0,
    }
    # The first of two rows has six tokens and ROOT: it is read in windows of five, which move by two.
    slid = evaluate_perplexity(shards[6], loaded, search=NO_SEARCH, rejects=Rejects())
    assert slid.counts == whole.counts
    first = next(iter(shards[6].blocks())).tokens(0)
    root = first[0]
    rows = [first[:5], np.array([root, *first[3:7]])]
    begin, rest = string_logprobs(loaded, rows)
    expected = begin.sum() + rest[-2:].sum()
    assert slid.tables["items"].to_pylist()[0]["given_tree"] == pytest.approx(expected, rel=2e-6, abs=1e-5)


def test_memory_does_not_grow_with_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.shards.reader.ROWS_PER_BLOCK", 128)
    models, tokenizer = save_checkpoints(tmp_path)
    loaded = load_checkpoint(models["base"])
    peaks = []
    for number in (1, 512, 1536):  # first what is loaded once
        make_shards(tmp_path / str(number), tokenizer, trees=TREES[3:] * number)
        shards = ShardFolder.open(tmp_path / str(number))
        gc.collect()
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        results = evaluate_perplexity(shards, loaded, search=NO_SEARCH, rejects=Rejects())
        kept = pa.total_allocated_bytes() - before
        peaks.append(tracemalloc.get_traced_memory()[1] + kept)
        tracemalloc.stop()
        assert results.table("items").num_rows == number
    assert peaks[2] - peaks[1] < 250 * (1536 - 512)  # a row with its arrays takes 700 bytes more


@pytest.mark.parametrize("eos", [True, False])
@pytest.mark.parametrize("documents", [True, False])
def test_perplexity_of_text_by_hand(word_scorer: Any, eos: bool, documents: bool) -> None:
    """A word has a log-probability of minus its letters, an end of -1.5; text as written has other words."""
    texts = {"f": ["a bb", "ccc", "", "dddd zebra", "zebra", "", "a"], "g": ["bb a"]}
    lines = [
        SourcedLine(split_spaces(text), split_spaces(text.replace("bb", "b b")), file, number)
        for file, of_file in texts.items()
        for number, text in enumerate(of_file, 1)
    ]
    scorer = word_scorer(eos=-1.5 if eos else None, text_style=None, unknown=frozenset({"zebra"}))
    scorer.settings["eos"] = eos
    rejects = Rejects("skip")
    found = evaluate_text_perplexity(iter(lines), scorer, documents=documents, rejects=rejects)
    letters, words, ids, left_out = {  # of what has a score
        False: ([3, 3, 1, 3], [3, 1, 1, 3], [1, 2, 7, 8], [("f", 4), ("f", 5)]),
        True: ([6, 1, 3], [4, 1, 3], [1, 5, 6], [("f", 4)]),
    }[documents]
    n = len(ids)
    items = found.table(ITEMS).to_pydict()
    assert items["id"] == ids
    assert items["marginal"] == [-each - 1.5 * eos for each in letters]
    assert items["words"] == [each + eos for each in words]
    assert items["ends"] == [int(eos)] * n
    assert items["end_marginal"] == [-1.5 * eos] * n
    assert [(record["file"], record["line"]) for record in rejects] == left_out
    kind = "documents" if documents else "sentences"
    assert found.counts[kind] == n
    assert found.counts[f"{kind}_left_out"] == len(left_out)
    assert found.counts["words"] == sum(words) + n * eos
    scores = found.scores
    total = sum(letters) + 1.5 * n * eos
    assert scores["ppl_word_marginal"] == pytest.approx(math.exp(total / (sum(words) + n * eos)))
    assert scores["ppl_word_without_eos_marginal"] == pytest.approx(math.exp(sum(letters) / sum(words)))
    assert scores["ppl_token_marginal"] == pytest.approx(math.exp(total / sum(items["tokens"])))
    assert scores["ppl_word_given_trees"] is None
    assert found.settings["words"] == ("words and end-of-sentence" if eos else "words")
    assert found.settings["eos_counted"] is eos
    every = "".join(f"{line.sentence.text}\n" for line in lines).encode()
    assert found.settings["text_sha256"] == hashlib.sha256(every).hexdigest()
    nothing = [line for line in lines if "zebra" in line.sentence.text or not line.sentence.words]
    with pytest.raises(InputError, match="no text that the model can score"):
        evaluate_text_perplexity(iter(nothing), scorer, documents=documents, rejects=Rejects("skip"))
