"""A kind of derivations that is neither attachments nor actions: all commands that take models take it."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from enumeration import PAIRS, EnumeratingFamily, enumerate_derivations, write_pairs, write_suite
from search_oracle import EOS, PAD, ROOT, WORDS, row
from toy_mark_lm import OTHER, MarkConfig, MarkLM, marked

from pdtools.cli.main import run
from pdtools.inspection.tracing import trace
from pdtools.models import MODELS, ModelKind, save_checkpoint
from pdtools.search import beam_search, sample
from pdtools.search.families.attachments import AttachmentFamily
from pdtools.search.kinds import SEARCHES, particle_search
from pdtools.search.options import Particles, SearchOptions
from pdtools.tokenization import train_word_tokenizer
from pdtools.trees import Tree

TOKENS = (3, 4, 5)


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint, whose model and search are registered for the time of a test."""
    monkeypatch.setitem(MODELS, "marks", None)
    MODELS["marks"] = ModelKind(MarkConfig, MarkLM)
    monkeypatch.setitem(SEARCHES, "marks", EnumeratingFamily)
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(tmp_path / "marks", mark_model(), tokenizer, shards=shards)
    return tmp_path / "marks"


def mark_model() -> MarkLM:
    torch.manual_seed(2)
    return MarkLM(MarkConfig(vocab_size=6, pad_id=PAD, root_id=ROOT, eos_id=EOS)).eval()


@torch.no_grad()
def joints(model: MarkLM, tokens: Sequence[int]) -> dict[tuple[int, ...], float]:
    """log p(x, y) of all marks of a string, each by itself."""
    found = {}
    for later in itertools.product((0, 1), repeat=max(0, len(tokens) - 1)):
        made, total, last, before = (0, *later)[: len(tokens)], 0.0, ROOT, 0
        for token, mark in zip(tokens, made, strict=True):
            following = model.following_of(torch.tensor(last), torch.tensor(before))
            of_mark = model.marks_of(
                torch.tensor(token), torch.tensor(before), is_first=torch.tensor(last == ROOT)
            )
            total += float(following[token] + of_mark[mark])
            last, before = token, mark
        total += float(model.following_of(torch.tensor(last), torch.tensor(before))[EOS])
        found[made] = total
    return found


def plain_marginal(model: MarkLM, tokens: Sequence[int]) -> float:
    return float(np.logaddexp.reduce(list(joints(model, tokens).values())))


def ids_of(text: str) -> list[int]:
    return [3 + WORDS.index(word) for word in text.split()]


def call(*arguments: object) -> None:
    assert run([*map(str, arguments), "-q"]) == 0


@pytest.mark.parametrize("n", range(5))
def test_marginals_are_sums_over_all_marks(n: int) -> None:
    model, tokens = mark_model(), [3, 4, 5, 3][:n]
    found = enumerate_derivations(model, row(tokens).tolist())
    assert len(found.joints) == 2 ** max(0, n - 1)
    assert found.prefix_logprobs[-1] == pytest.approx(plain_marginal(model, tokens), abs=1e-9)
    assert [joint for joint, _ in found.joints] == pytest.approx(sorted(joints(model, tokens).values())[::-1])


def plain_beam(model: MarkLM, tokens: Sequence[int], beam: int) -> dict[tuple[int, ...], float]:
    """The log joints of the marks that a beam holds at the end."""
    kept = [((), 0.0)]
    for k in range(1, len(tokens) + 1):
        every = {
            made: joint for made, joint in prefix_joints(model, tokens[:k]).items() if made[:-1] in dict(kept)
        }
        kept = sorted(every.items(), key=lambda item: -item[1])[:beam]
    return {made: joints(model, tokens)[made] for made, _ in kept}


@torch.no_grad()
def prefix_joints(model: MarkLM, tokens: Sequence[int]) -> dict[tuple[int, ...], float]:
    """log p of tokens and their marks, without the end."""
    return {
        made: joint - float(model.following_of(torch.tensor(tokens[-1]), torch.tensor(made[-1]))[EOS])
        for made, joint in joints(model, tokens).items()
    }


@pytest.mark.parametrize("beam", [1, 3, 100])
def test_the_beam_search_of_attachments_takes_marks(beam: int) -> None:
    strings = [[3, 4, 5, 3], [3, 4], [], [3, 4, 5, 5, 4], [5, 3, 4]]
    model, rows = mark_model(), [row(tokens) for tokens in strings]
    found = beam_search(model, rows, search=SearchOptions(beam=beam), k_best=100)
    for tokens, result in zip(strings, found, strict=True):
        wanted = plain_beam(model, tokens, beam)
        assert {tuple(made[1:-1].tolist()) for _, made in result.derivations} == set(wanted)
        best = sorted(wanted.values(), reverse=True)
        assert [joint for joint, _ in result.derivations] == pytest.approx(best, abs=1e-9)
        assert (result.dropped == pytest.approx(0, abs=1e-12)) == (2 ** max(0, len(tokens) - 1) <= beam)


def test_scores_and_trees_by_the_search_of_attachments(
    marks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SEARCHES, "marks", AttachmentFamily)
    (tmp_path / "in.txt").write_text("c a b\n")
    call("surprisal", tmp_path / "in.txt", "--model", marks, "--nats", "-o", tmp_path / "out.tsv")
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    total = sum(float(line[rows[0].index("surprisal")]) for line in rows[1:])
    model, tokens = mark_model(), ids_of("c a b")
    assert total == pytest.approx(-plain_marginal(model, tokens), rel=2e-6, abs=1e-4)
    call("decode", tmp_path / "in.txt", "--model", marks, "-o", tmp_path / "out.trees")
    best = max(joints(model, tokens).items(), key=lambda item: item[1])[0]
    wanted = marked(np.array(tokens), np.array(best)).tree(["c", "a", "b"], [0, 1, 2])
    assert (tmp_path / "out.trees").read_text().split() == str(wanted).split()


def test_particles_of_the_beam_search_are_unbiased() -> None:
    model, tokens = mark_model(), row([3, 4, 5, 5, 3])
    exact = plain_marginal(model, tokens[1:-1].tolist())
    estimates = [
        math.exp(beam_search(model, [tokens], search=SearchOptions(beam=3), draw=seed)[0].marginal - exact)
        for seed in range(100)
    ]
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert 0 < error < 0.1
    assert np.mean(estimates) == pytest.approx(1, abs=4 * error)


def test_particles_are_exact_where_all_can_be_kept_and_unbiased_where_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SEARCHES, "marks", EnumeratingFamily)
    model, tokens = mark_model(), [3, 4, 5, 5, 3]
    exact = enumerate_derivations(model, row(tokens).tolist()).prefix_logprobs
    (found,) = particle_search(model, [row(tokens)], Particles(number=16))
    assert found.prefix_logprobs == pytest.approx(exact, abs=1e-9)
    estimates = [
        math.exp(
            particle_search(model, [row(tokens)], Particles(number=3, seed=seed))[0].marginal - exact[-1]
        )
        for seed in range(100)
    ]
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert 0 < error < 0.1
    assert np.mean(estimates) == pytest.approx(1, abs=4 * error)


def test_surprisals_and_pairs_and_suites(marks: Path, tmp_path: Path) -> None:
    model, out = mark_model(), tmp_path / "out.tsv"
    (tmp_path / "in.txt").write_text("a b\nc\n")
    call("surprisal", tmp_path / "in.txt", "--model", marks, "--nats", "-o", out)
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    column, sentence = rows[0].index("surprisal"), rows[0].index("sentence_id")
    for number, text in ((1, "a b"), (2, "c")):
        total = sum(float(r[column]) for r in rows[1:] if r[sentence] == str(number))
        assert total == pytest.approx(-plain_marginal(model, ids_of(text)), rel=2e-6, abs=1e-4)

    write_pairs(tmp_path / "pairs.jsonl")
    call("eval-blimp", tmp_path / "pairs.jsonl", "--model", marks, "-o", tmp_path / "blimp")
    items = pq.read_table(tmp_path / "blimp" / "items.parquet").to_pylist()
    for item, pair in zip(items[::2], PAIRS, strict=True):  # first predictions
        good, bad = (plain_marginal(model, ids_of(text)) for text in pair)
        assert item["correct"] == (good > bad)

    write_suite(tmp_path / "toy.json")
    call("eval-sg", tmp_path / "toy.json", "--model", marks, "-o", tmp_path / "sg")
    first, second = (
        enumerate_derivations(model, [ROOT, t, 4]).prefix_logprobs[-1]
        - enumerate_derivations(model, [ROOT, t]).prefix_logprobs[-1]
        for t in (3, 5)
    )
    scores = json.loads((tmp_path / "sg" / "results.json").read_text())["scores"]
    assert scores["by_suite"]["toy"] == float(first > second)


def test_perplexity_with_particles_and_with_proposal_trees(marks: Path, tmp_path: Path) -> None:
    """Two of the trees of "c a b" are made of marks, and one is there twice."""
    proposals = ["(S a b)", "", "(S (X c a) b)", "(S c (X a b))", "(S (Y c a) b)"]
    (tmp_path / "in.trees").write_text("(S (X a) (X b))\n(S (Y (X c) (X a)) (X b))\n")
    (tmp_path / "proposals.trees").write_text("".join(line + "\n" for line in map(tagged, proposals)))
    shards = tmp_path / "shards"
    call("tapes", tmp_path / "in.trees", "--tokenizer", marks, "-o", shards)
    model, strings = mark_model(), [[3, 4], [5, 3, 4]]
    marginal = sum(plain_marginal(model, tokens) for tokens in strings)
    trees = [(0, 1), (0, 1, 1)]
    joint = sum(joints(model, tokens)[made] for tokens, made in zip(strings, trees, strict=True))
    summed = joints(model, strings[0])[0, 1] + np.logaddexp(
        *(joints(model, strings[1])[y] for y in ((0, 1, 1), (0, 0, 1)))
    )
    for more, wanted in (((), marginal), (("--trees", tmp_path / "proposals.trees"), summed)):
        out = tmp_path / f"ppl{len(more)}"
        call("eval-ppl", shards, "--model", marks, *more, "-o", out)
        scores = json.loads((out / "results.json").read_text())["scores"]
        assert math.log(scores["ppl_token_marginal"]) == pytest.approx(-wanted / 7, rel=2e-6, abs=1e-6)
        assert math.log(scores["ppl_token_joint"]) == pytest.approx(-joint / 7, rel=2e-6, abs=1e-6)
    call("eval-ppl", shards, "--model", marks, "--particles", 8, "-o", tmp_path / "particles")
    scores = json.loads((tmp_path / "particles" / "results.json").read_text())["scores"]
    assert math.log(scores["ppl_token_particles"]) == pytest.approx(-marginal / 7, rel=2e-6, abs=1e-6)


def tagged(tree: str) -> str:
    """Brackets around words, as treebanks have them."""
    return " ".join(f"(X {part})" if part.islower() else part for part in tree.replace(")", " )").split())


def test_trees_without_marks_are_excluded(marks: Path, tmp_path: Path) -> None:
    (tmp_path / "one.trees").write_text(tagged("(S a (S (S b c) a))") + "\n")
    (tmp_path / "in.txt").write_text("a b c a\n")
    arguments = ["surprisal", str(tmp_path / "in.txt"), "--model", str(marks)]
    arguments += [
        "--trees",
        str(tmp_path / "one.trees"),
        "--on-error",
        "skip",
        "-o",
        str(tmp_path / "x.tsv"),
        "-q",
    ]
    run(arguments)
    rejects = list(tmp_path.glob("x.tsv.rejects*"))
    assert OTHER in rejects[0].read_text()


def test_samples(marks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.trees"
    call("sample", "--model", marks, "-n", 5, "-o", out)
    assert len([Tree.from_brackets(line) for line in out.read_text().splitlines()]) == 5
    model = mark_model()
    drawn = list(sample(model, number=2000, seed=3, max_tokens=8))
    counts = Counter(tuple(draw.tokens.tolist()) for draw in drawn if draw.complete)
    for tokens in itertools.product(TOKENS, repeat=2):
        p = math.exp(plain_marginal(model, tokens))
        assert counts[tokens] == pytest.approx(2000 * p, abs=5 * math.sqrt(2000 * p) + 3)


def test_traces_and_pages(marks: Path, tmp_path: Path) -> None:
    found = trace(marks, "c a b", gold=Tree.from_brackets(tagged("(S (X c a) b)")))
    model = mark_model()
    every = joints(model, ids_of("c a b"))
    assert found.best is not None
    assert found.best.joint == pytest.approx(max(every.values()) / math.log(2), rel=2e-6, abs=1e-6)
    assert found.gold is not None
    assert found.gold.joint == pytest.approx(every[0, 1, 1] / math.log(2), rel=2e-6, abs=1e-6)
    assert sum(x for x in found.surprisals if x is not None) == pytest.approx(
        -plain_marginal(model, ids_of("c a b")) / math.log(2), rel=2e-6, abs=1e-6
    )
    (tmp_path / "in.txt").write_text("a b c\n")
    call("view", tmp_path / "in.txt", "--model", marks, "-o", tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
