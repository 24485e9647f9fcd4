"""Sums over proposal trees: a full beam's where every derivation is given, and of what is given otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from action_oracle import action_model
from enumeration import enumerate_derivations
from search_oracle import EOS, PAD, ROOT, all_attachments, logsumexp, parts, row, save_checkpoints, tiny_model

from pdtools.errors import InputError, PdtoolsError
from pdtools.models import LoadedModel, load_checkpoint, save_checkpoint
from pdtools.models.grammar.derivations import read_actions
from pdtools.models.grammar.model import GrammarLM
from pdtools.search import (
    Model,
    ProposalTreesFamily,
    SentenceScore,
    TreesFile,
    Unscorable,
    beam_search,
    load_model,
)
from pdtools.search.families.proposal_trees import read_proposal_trees
from pdtools.search.options import Context, SearchOptions
from pdtools.search.scores import GivenRow
from pdtools.tokenization import join_words, train_bpe_tokenizer, train_word_tokenizer
from pdtools.trees import spans_from_attachments

WORDS = ("a", "b", "c")
SENTENCES = ["a b c", "b", "c c a b", "a b", "a b c a"]
ACTIONS = {"tg": "relative", "plm": "relative", "plm-mask": "learned"}


@pytest.fixture(scope="module")
def pushdown(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_checkpoint(save_checkpoints(tmp_path_factory.mktemp("models"))[0]["pushdown"])


@pytest.fixture(scope="module", params=ACTIONS)
def grammar(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Two labels, at most two of which are open; words a, b and c are tokens 3, 4 and 5."""
    return saved_grammar(request.param, tmp_path_factory.mktemp("models"))


def saved_grammar(name: str, folder: Path, **settings: object) -> LoadedModel:
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False).with_labels(["S", "NP"])
    assert (tokenizer.pad_id, tokenizer.root_id, tokenizer.eos_id) == (PAD, ROOT, EOS)
    model = action_model(name, ACTIONS[name], **settings)  # type: ignore[arg-type]
    save_checkpoint(folder / name, model, tokenizer, shards={"layout": "sentence", "text_style": "ptb"})
    return load_checkpoint(folder / name)


def ids_of(loaded: LoadedModel, sentence: str) -> list[int]:
    return [loaded.tokenizer.word_tokens(word)[0] for word in sentence.split()]


def binary_trees(sentence: str) -> Iterator[str]:
    """All binary trees, by choosing the top one's two halves."""

    def trees(words: list[str]) -> Iterator[str]:
        if len(words) == 1:
            yield f"(T {words[0]})"
        for k in range(1, len(words)):
            for left in trees(words[:k]):
                for right in trees(words[k:]):
                    yield f"(S {left} {right})"

    yield from trees(sentence.split())


def labelled_trees(loaded: LoadedModel, sentence: str) -> list[tuple[float, str]]:
    """Log joint and brackets of every derivation that an action model has."""
    model, words = loaded.model, sentence.split()
    assert isinstance(model, GrammarLM)
    found = enumerate_derivations(model, row(ids_of(loaded, sentence)).tolist()).joints
    tagged = [f"(T {word})" for word in words]
    derivations = [(joint, read_actions(np.array(choices), model.actions)) for joint, choices in found]
    return [(joint, each.text(tagged, loaded.tokenizer.labels)) for joint, each in derivations]


def scorer(
    loaded: LoadedModel, file: Path, blocks: Sequence[Sequence[str]], max_batch: int | None = None
) -> Model:
    """Over trees in blocks."""
    file.write_text("\n".join("".join(tree + "\n" for tree in block) for block in blocks))
    return Model.of(loaded, SearchOptions(trees=TreesFile.of(file), max_batch=max_batch))


def score(found: Model, *sentences: str) -> list[SentenceScore]:
    scores = list(found.score(sentences))
    assert all(isinstance(each, SentenceScore) for each in scores)
    return scores  # type: ignore[return-value]


# --- every derivation ---------------------------------------------------------------------------


def test_all_attachments_are_a_full_beam(pushdown: LoadedModel, tmp_path: Path) -> None:
    """Those that leave several constituents to end-of-sentence too, which no tree is read as."""
    found = scorer(pushdown, tmp_path / "trees", [[next(binary_trees(s))] for s in SENTENCES], max_batch=5)
    for sentence in SENTENCES:
        ids = row(ids_of(pushdown, sentence))
        every = [np.array(attach, np.int32) for attach in all_attachments(len(ids) - 2)]
        found.family._proposals.by_ids[ids.tobytes()] = every[::-1]
        wanted = beam_search(pushdown.model, [ids], search=SearchOptions(beam=1000))[0]
        assert wanted.log_share_kept == 0
        assert score(found, sentence)[0].logprobs == pytest.approx(wanted.logprobs, rel=2e-6, abs=1e-5)
        assert found.family._prefix_logprobs([ids])[0] == pytest.approx(
            wanted.prefix_logprobs, rel=2e-6, abs=1e-5
        )


def test_all_binary_trees_by_the_definition(pushdown: LoadedModel, tmp_path: Path) -> None:
    found = scorer(pushdown, tmp_path / "trees", [list(binary_trees(s)) for s in SENTENCES])
    for sentence, given in zip(SENTENCES, score(found, *SENTENCES), strict=True):
        ids = ids_of(pushdown, sentence)
        n = len(ids)
        read = [a for a in all_attachments(n) if len(spans_from_attachments(np.array(a[1:-1]) - 1)[2]) == 1]
        assert len(read) == sum(1 for _ in binary_trees(sentence))
        tokens, attached = parts(pushdown.model, ids, read)
        sums = [0.0]
        for t in range(1, n + 2):
            begun = {tuple(attach[:t]): place for place, attach in enumerate(read)}
            joint = tokens[:, : t + 1].sum(1) + attached[:, :t].sum(1)
            sums.append(logsumexp(joint[list(begun.values())]))
        assert given.logprobs == pytest.approx(np.diff(sums), rel=2e-6, abs=1e-5)
        assert given.total == pytest.approx(logsumexp(tokens.sum(1) + attached.sum(1)), rel=2e-6, abs=1e-5)


def test_all_labelled_trees_are_a_full_beam(grammar: LoadedModel, tmp_path: Path) -> None:
    trees = [[text for _, text in labelled_trees(grammar, sentence)] for sentence in SENTENCES[:4]]
    assert len(trees[0]) == 82
    found = scorer(grammar, tmp_path / "trees", trees)
    wide = SearchOptions(beam=10_000, word_beam=10_000, fast_track=0)
    searched = load_model(grammar.folder, wide).score(SENTENCES[:4])
    for given, wanted in zip(score(found, *SENTENCES[:4]), searched, strict=True):
        assert isinstance(wanted, SentenceScore)
        assert given.logprobs == pytest.approx(wanted.logprobs, rel=2e-6, abs=1e-5)
    again = score(scorer(grammar, tmp_path / "trees", trees, max_batch=7), *SENTENCES[:4])
    for one, other in zip(score(found, *SENTENCES[:4]), again, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, rel=2e-6, abs=1e-5)


# --- some of them -------------------------------------------------------------------------------


def test_beginnings_that_trees_share_count_once(grammar: LoadedModel, tmp_path: Path) -> None:
    trees = ["(S (NP (T a)) (T b))", "(S (NP (T a)) (NP (T b)))", "(NP (T a) (T b))"]
    joints = {text: joint for joint, text in labelled_trees(grammar, "a b")}
    alone = [score(scorer(grammar, tmp_path / "alone", [[tree]]), "a b")[0] for tree in trees]
    assert [each.total for each in alone] == pytest.approx(
        [joints[tree] for tree in trees], rel=2e-6, abs=1e-5
    )
    together = score(scorer(grammar, tmp_path / "together", [trees]), "a b")[0]
    first = [alone[0].logprobs[0], alone[2].logprobs[0]]  # the first two are one beginning
    assert alone[0].logprobs[0] == pytest.approx(alone[1].logprobs[0], rel=2e-6, abs=1e-5)
    assert together.logprobs[0] == pytest.approx(np.logaddexp.reduce(first), rel=2e-6, abs=1e-5)
    assert together.total == pytest.approx(
        np.logaddexp.reduce([each.total for each in alone]), rel=2e-6, abs=1e-5
    )


def test_what_is_one_derivation_counts_once(
    grammar: LoadedModel, pushdown: LoadedModel, tmp_path: Path
) -> None:
    """In one block or several; to attachment models, trees that are binarized alike too."""
    for loaded in (grammar, pushdown):
        once = scorer(loaded, tmp_path / "once", [["(S (NP (T a) (T b)) (T c))"]])
        same = [["(S (NP (T a) (T b)) (T c))", "(TOP (S-1 (NP (U a) (U b)) (T c)))"]] * 2
        twice = scorer(loaded, tmp_path / "twice", same)
        assert score(twice, "a b c")[0].logprobs.tolist() == score(once, "a b c")[0].logprobs.tolist()
        assert twice.settings["given_trees_used"] == {
            "trees": 4,
            "left_out": {},
            "derivations": 1,
            "sentences": 1,
        }
    alike = ["(S (T a) (T b) (T c))", "(S (T a) (NP (T b) (T c)))", "(NP (S (T a) (NP (T b) (T c))))"]
    used = scorer(pushdown, tmp_path / "alike", [alike]).settings["given_trees_used"]
    assert (used["trees"], used["derivations"]) == (3, 1)


def test_sentences_without_trees_have_no_score(grammar: LoadedModel, tmp_path: Path) -> None:
    found = scorer(grammar, tmp_path / "trees", [["(S (T a) (T b))"], ["(VP (T a))", "(VP (T a) )"]])
    scores = list(found.score(["a b", "b a", "a", "a zebra", ""]))
    assert isinstance(scores[0], SentenceScore)
    reasons = [each.reason for each in scores[1:] if isinstance(each, Unscorable)]
    assert reasons == [
        f"no tree of it is in {tmp_path / 'trees'}",
        f"no tree of it in {tmp_path / 'trees'} can be used: labels unknown to the model",
        "words unknown to the model: zebra",
        "no words",
    ]


def test_trees_that_the_model_cannot_read_are_excluded(tmp_path: Path) -> None:
    loaded = saved_grammar("plm-mask", tmp_path, max_length=10)
    trees = [
        ["(S (T a) (T b))", "(VP (T a) (T b))", "(S (NP (NP (T a))) (T b))", "(S (NP (S (T a))) (T b))"],
        ["(S (T zebra))"],
        ["(X (XX a) (XX b) (XX c))", "(S (T a) (T b) (T c))"],
        ["(X (-NONE- *))"],
    ]
    trees[0].append("(S (S (T a)) (S (T b)))")
    found = scorer(loaded, tmp_path / "trees", trees)
    assert found.settings["given_trees_used"] == {
        "trees": 9,
        "left_out": {
            "labels unknown to the model": 1,
            "more than 2 constituents open at once (config.max_open)": 2,
            "words outside the vocabulary": 1,
            "not parsed: a flat placeholder": 1,
            "no words": 1,
        },
        "derivations": 3,
        "sentences": 2,
    }
    long = scorer(loaded, tmp_path / "long", [["(S (NP (T a)) (NP (T b)) (NP (T c)))"]])
    (score_of_long,) = long.score(["a b c"])
    assert isinstance(score_of_long, Unscorable)
    assert score_of_long.reason.endswith("longer than the model, with its tree: 12 positions, at most 10")


@pytest.mark.parametrize("factor", ["left", "right"])
def test_trees_are_binarized_as_those_of_the_training(
    factor: str, pushdown: LoadedModel, tmp_path: Path
) -> None:
    shards = {"layout": "sentence", "factor": factor, "text_style": "ptb"}
    save_checkpoint(tmp_path / "model", pushdown.model, pushdown.tokenizer, shards=shards)
    loaded = load_checkpoint(tmp_path / "model")
    flat = "(S (T a) (T b) (T c) (T a))"
    binary = {
        "left": "(S (S (S (T a) (T b)) (T c)) (T a))",
        "right": "(S (T a) (S (T b) (S (T c) (T a))))",
    }
    found = score(scorer(loaded, tmp_path / "flat", [[flat]]), "a b c a")[0].total
    for name, tree in binary.items():
        same = score(scorer(loaded, tmp_path / name, [[tree]]), "a b c a")[0].total == pytest.approx(found)
        assert same == (name == factor)


def test_what_just_fits_is_read_and_the_first_reason_is_said(tmp_path: Path) -> None:
    loaded = saved_grammar("plm-mask", tmp_path, max_length=12)
    trees = [["(S (NP (T a)) (NP (T b)) (NP (T c)))"], ["(VP (T a) (T b))", "(S (NP (S (T a))) (T b))"]]
    fits, unread = scorer(loaded, tmp_path / "trees", trees).score(["a b c", "a b"])
    assert isinstance(fits, SentenceScore)
    assert isinstance(unread, Unscorable)
    assert unread.reason.endswith("can be used: labels unknown to the model")


def test_trees_of_probability_0_give_no_score(tmp_path: Path) -> None:
    """Here token 3 goes on with a word, so nothing can begin with it."""
    loaded = saved_grammar("tg", tmp_path)
    assert isinstance(loaded.model, GrammarLM)
    loaded.model.continuing[3] = True
    found = scorer(loaded, tmp_path / "trees", [["(S (T a) (T b))"], ["(S (T b) (T b))"]])
    nothing, some = found.score(["a b", "b b"])
    assert isinstance(some, SentenceScore)
    assert isinstance(nothing, Unscorable)
    assert nothing.reason == "its trees have probability 0"
    given = next(iter(found.family._proposals.by_ids.values()))[0]
    (scored,) = found.score_rows([GivenRow(row([3, 4]), given, word=np.array([-1, 0, 1, -1]))])
    assert scored.marginal == scored.end_marginal == -np.inf


def test_rows_of_shards(grammar: LoadedModel, pushdown: LoadedModel, tmp_path: Path) -> None:
    trees = ["(S (NP (T a) (T b)) (T c))", "(S (T a) (NP (T b) (T c)))"]
    for loaded in (grammar, pushdown):
        found = scorer(loaded, tmp_path / "trees", [trees])
        derivations = next(iter(found.family._proposals.by_ids.values()))
        ids, other = row([3, 4, 5]), row([5, 4, 3])
        given = ((ids, derivations[0]), (other, derivations[0]), (ids, derivations[1]))
        rows = found.score_rows([GivenRow(*pair, word=np.array([-1, 0, 1, 2, -1])) for pair in given])
        (wanted,) = score(found, "a b c")
        for each in (rows[0], rows[2]):
            assert each.marginal == pytest.approx(wanted.total, rel=2e-6, abs=1e-5)
            assert each.end_marginal == pytest.approx(wanted.logprobs[-1], rel=2e-6, abs=1e-5)
        joints = [each.joint for each in (rows[0], rows[2]) if each.joint is not None]
        assert np.logaddexp.reduce(joints) == pytest.approx(wanted.total, rel=2e-6, abs=1e-5)
        assert rows[1].marginal is None
        assert found.family.problem(other) == f"no tree of it is in {tmp_path / 'trees'}"


def test_subwords_of_running_text(tmp_path: Path) -> None:
    """Sentences are found by their tokens, however they are handed over."""
    words = ["hopping", "dogs", "hop", "."]
    tokenizer = train_bpe_tokenizer([join_words(words, "raw")], size=262, min_count=1, text_style="raw")
    model = tiny_model("pushdown", vocab_size=tokenizer.vocab_size, max_length=64, positions="learned")
    shards = {"layout": "sentence", "factor": "left", "text_style": "raw"}
    save_checkpoint(tmp_path / "model", model, tokenizer, shards=shards)
    loaded = load_checkpoint(tmp_path / "model")
    found = scorer(loaded, tmp_path / "trees", [["(S (NP (J hopping) (N dogs)) (VP (V hop)) (. .))"]])
    text, split = found.score(["hopping dogs hop.", join_words(words, "raw")])
    assert isinstance(text, SentenceScore)
    assert isinstance(split, SentenceScore)
    assert text.total == split.total
    assert len(text.tokens) > 5


# --- what is refused ------------------------------------------------------------------------------


def test_models_and_files_that_do_not_go_with_proposal_trees(
    pushdown: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trees"
    file.write_text("(S (T a) (T b))\n")
    trees = TreesFile.of(file)
    base = pushdown.folder.parent / "base"
    with pytest.raises(PdtoolsError, match="needs no trees: leave out --trees"):
        load_model(base, SearchOptions(trees=trees))
    with pytest.raises(PdtoolsError, match="--trees cannot be combined with --context"):
        Model.of(pushdown, SearchOptions(trees=trees), context=Context(of="x", sentences=("a",)))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        TreesFile.of(tmp_path / "missing")
    with pytest.raises(InputError, match="read more than once"):
        TreesFile.of("-")
    with pytest.raises(PdtoolsError, match="prefix"):
        ProposalTreesFamily(pushdown, trees=trees).continuations([row([3])[:-1]])
    file.write_text("(S (T a) (T c))\n")
    read_proposal_trees.cache_clear()
    with pytest.raises(PdtoolsError, match="not the file that the command was started with"):
        ProposalTreesFamily(pushdown, trees=trees)
