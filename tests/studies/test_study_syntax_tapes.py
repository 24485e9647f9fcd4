"""Perplexities with other tapes than the gold trees', against other ways to the same numbers."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_oracle import all_attachments, row, save_checkpoints, tiny_model
from shell import script

from pdtools.errors import PdtoolsError
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.files import Rejects
from pdtools.models import collate, load_checkpoint
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.score_terms import DepthScores
from pdtools.search.families.attachment_beam import beam_search
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardSet, ShardSettings, build_shards
from pdtools.training.loss import evaluate
from pdtools.trees import SourcedTree, Tree, attachments
from pdtools.trees.attachments import sentence_layout

STUDY = Path(__file__).resolve().parents[2] / "studies" / "syntax"
BEAM = 3
TREES = (
    "(S (X a) (Y (X b) (X c)))",
    "(S (Y (X b) (X b)) (X a))",
    "(X c)",
    "(S (Y (Y (X c) (X a)) (X b)) (X a))",
    "(S (X a) (Y (X b) (Z (Z (X b) (X c)) (X a))) (X c) (X a))",
    "(S (Y (X b) (X b)) (Y (X a) (X c)))",
    "(S (Y (Y (X c) (Z (X a) (X b))) (X b)) (Y (X a) (X c) (X b)) (X a))",
)


STUDIED, TABLES = script(STUDY / "tape_use.py"), script(STUDY / "tape_tables.py")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], ShardSet]:
    folder = tmp_path_factory.mktemp("tapes")
    models, tokenizer = save_checkpoints(folder)
    trees = [SourcedTree(Tree.from_brackets(t), "toy", i, t) for i, t in enumerate(TREES, start=1)]
    build_shards(trees, tokenizer, ShardSettings(), folder / "shards", Rejects())
    return models, ShardSet.open(folder / "shards")


@pytest.fixture(scope="module")
def found(
    world: tuple[dict[str, Path], ShardSet], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the script writes."""
    models, shards = world
    file = tmp_path_factory.mktemp("results") / "tapes.json"
    given = ["--model", models["pushdown"], "--base", models["base"], "--shards", shards.folder, "-o", file]
    STUDIED.main([*map(str, given), "--beam", str(BEAM), "--margin", "100", "--samples", "50"])
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def logs_of(model: TransformerLM, shards: ShardSet) -> dict[str, list[np.ndarray]]:
    rows = range(len(shards))
    searched = beam_search(model, [shards.tokens(i) for i in rows], search=SearchOptions(beam=BEAM))
    logs: dict[str, list[np.ndarray]] = STUDIED.tapes_of(model, shards, rows, searched, 0)[0]
    return logs


# --- numbers that other commands give -------------------------------------------------------------


def test_perplexities_are_those_of_eval_ppl(
    world: tuple[dict[str, Path], ShardSet], found: dict[str, Any]
) -> None:
    models, shards = world
    n_tokens = sum(shards.lengths) - len(TREES)
    assert found["counts"] == {"sentences": len(TREES), "tokens": n_tokens, "passed_over": 0}
    tapes = found["scores"]["all"]["tapes"]
    for name, score, tape in (
        ("pushdown", "ppl_token_given_trees", "gold"),
        ("pushdown", "ppl_token_marginal", "marginal"),
        ("base", "ppl_token_given_trees", "base"),
    ):
        given = evaluate_perplexity(
            shards, load_checkpoint(models[name]), search=SearchOptions(beam=BEAM), rejects=Rejects()
        )
        assert tapes[tape]["ppl_token"] == pytest.approx(given.scores[score], rel=1e-6)


def test_accuracy_is_that_of_training(world: tuple[dict[str, Path], ShardSet], found: dict[str, Any]) -> None:
    models, shards = world
    loaded = load_checkpoint(models["pushdown"])
    batch = collate([(shards.tokens(i), shards.attach(i)) for i in range(len(shards))], loaded.model.pad_id)
    sums = evaluate(loaded.model, [batch])
    assert sums is not None
    accuracy = sums["attachments_right"] / sums["attachments"]
    assert 0 < accuracy < 1
    assert found["scores"]["attachment_accuracy"] == pytest.approx(accuracy)


# --- tapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["key", "hidden"])
def test_absent_is_the_model_without_depth_tables(
    world: tuple[dict[str, Path], ShardSet], space: str
) -> None:
    _, shards = world
    model = tiny_model("pushdown", depth_space=space, depths=5)
    assert isinstance(model, TransformerLM)
    tokens = [shards.tokens(i) for i in range(len(shards))]
    gold = [shards.attach(i) for i in range(len(shards))]
    logs = logs_of(model, shards)
    without = copy.deepcopy(model)
    for module in without.modules():
        if isinstance(module, DepthScores):
            torch.nn.init.zeros_(module.embedding.weight)
    for absent, expected in zip(logs["absent"], STUDIED.read(without, tokens, gold).logprobs, strict=True):
        assert absent == pytest.approx(expected, rel=2e-6, abs=1e-5)
    assert np.abs(logs["absent"][6] - logs["gold"][6]).max() > 0.01

    with STUDIED.clamped(model, 0):
        nothing = STUDIED.read(model, tokens, gold).logprobs
    with STUDIED.clamped(model, 1000):
        everything = STUDIED.read(model, tokens, gold).logprobs
    assert model.depths == 5
    for i in range(len(shards)):
        assert nothing[i] == pytest.approx(logs["absent"][i], rel=2e-6, abs=1e-5)
        assert np.array_equal(everything[i], logs["gold"][i])


def test_clamped_is_the_model_whose_deeper_rows_are_that_of_the_depth(
    world: tuple[dict[str, Path], ShardSet],
) -> None:
    _, shards = world
    model = tiny_model("pushdown", depths=5)
    assert isinstance(model, TransformerLM)
    logs = logs_of(model, shards)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, DepthScores):
                module.embedding.weight[2:] = module.embedding.weight[1]
    same = STUDIED.read(model, *zip(*((shards.tokens(i), shards.attach(i)) for i in range(7)), strict=True))
    for clamped, expected in zip(logs["clamped-1"], same.logprobs, strict=True):
        assert clamped == pytest.approx(expected, rel=2e-6, abs=1e-5)
    assert np.abs(logs["clamped-1"][6] - logs["gold"][6]).max() > 0.01


def test_branching_trees() -> None:
    right = left = Tree.from_brackets("(X a)")
    tokens = [3]
    for _ in range(5):
        assert STUDIED.right_branching(row(tokens)).tolist() == sentence_layout(attachments(right)).tolist()
        assert STUDIED.left_branching(row(tokens)).tolist() == sentence_layout(attachments(left)).tolist()
        right = Tree.from_brackets(f"(S (X a) {right.to_brackets()})")
        left = Tree.from_brackets(f"(S {left.to_brackets()} (X a))")
        tokens.append(3)


def test_random_attachments_are_each_one_of_those_that_are_legal() -> None:
    """Of three tokens the second has two choices, the third as many as the stack is high and a shift."""
    rng = np.random.default_rng(1)
    drawn = 1000
    counts = Counter(tuple(STUDIED.random_attachments(row([3, 4, 5]), rng).tolist()) for _ in range(drawn))
    share = {tuple(attach): 1 / 2 / (3 if attach[2] == 2 else 2) for attach in all_attachments(3)}
    assert sum(share.values()) == pytest.approx(1)
    assert set(counts) == set(share)
    for attach, expected in share.items():
        assert counts[attach] / drawn == pytest.approx(expected, abs=0.06)


def test_a_shuffled_tree_is_anothers_of_the_same_length(world: tuple[dict[str, Path], ShardSet]) -> None:
    _, shards = world
    assert shards.lengths.tolist() == [5, 5, 3, 6, 9, 6, 10]
    rows = [0, 1, 3, 5, 6]
    for seed in range(5):
        found = STUDIED.shuffled(shards, rows, np.random.default_rng(seed))
        for attach, other in zip(found, [1, 0, 5, 3], strict=False):
            assert attach.tolist() == shards.attach(other).tolist()
        assert tuple(found[4].tolist()) in set(map(tuple, all_attachments(8)))  # alone of its length
    assert len({tuple(STUDIED.shuffled(shards, [6], np.random.default_rng(s))[0]) for s in range(9)}) > 5


def test_the_tape_of_the_best_hypothesis_so_far() -> None:
    """Each token by a pass of its own; a beam of one has a single derivation."""
    model, rng = tiny_model("pushdown", seed=8), np.random.default_rng(0)
    tokens = [row(rng.integers(3, 6, size=n)) for n in (1, 4, 7, 9, 12)]
    searched = beam_search(model, tokens, search=SearchOptions(beam=20))
    found, changes = STUDIED.incremental(model, tokens, searched), 0
    for ids, result, values in zip(tokens, searched, found, strict=True):
        for t in range(len(ids) - 1):
            later = np.arange(t + 1, len(ids), dtype=np.int32)
            attach = np.concatenate([result.incremental[t], later])
            (expected,) = STUDIED.read(model, [ids], [attach]).logprobs
            assert values[t] == pytest.approx(expected[t], rel=2e-6, abs=1e-5)
            changes += bool(t and result.incremental[t][:-1].tolist() != result.incremental[t - 1].tolist())
    assert changes > 3
    greedy = beam_search(model, tokens, search=SearchOptions(beam=1))
    best = STUDIED.read(model, tokens, [each.derivations[0][1] for each in greedy]).logprobs
    for a, b in zip(STUDIED.incremental(model, tokens, greedy), best, strict=True):
        assert a == pytest.approx(b, rel=2e-6, abs=1e-5)


# --- what is said of them -------------------------------------------------------------------------


def test_what_is_known_of_each_token(world: tuple[dict[str, Path], ShardSet]) -> None:
    _, shards = world
    rows = [0, 3]  # a (b c), ((c a) b) a
    logs = {"gold": [np.arange(4.0), np.arange(5.0)]}
    best = [np.array([1, 2, 1]), np.array([1, 2, 2, 4])]  # gold: 1 2 1, 1 1 2 3
    places = STUDIED.Places.of(shards, rows, logs, best)
    assert places.logs["gold"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert places.sentence.tolist() == [0] * 4 + [1] * 5
    assert np.flatnonzero(places.is_end).tolist() == [3, 8]
    assert np.flatnonzero(~places.follows).tolist() == [0, 4]
    assert places.length.tolist() == [3] * 4 + [4] * 5
    assert places.deepest.tolist() == [0, 0, 0, 2, 0, 0, 1, 2, 3]
    assert places.right[places.follows].tolist() == [True, True, True, True, False, True, False]
    assert places.shift[places.follows].tolist() == [True, True, False, True, False, False, False]


def test_means_over_tokens_and_intervals_over_sentences(world: tuple[dict[str, Path], ShardSet]) -> None:
    _, shards = world
    rng, rows = np.random.default_rng(0), range(len(shards))
    sizes = [n - 1 for n in shards.lengths]
    logs = {name: [-rng.gamma(2.0, size=n) for n in sizes] for name in ("gold", "absent")}
    logs["base"] = [each + 0.25 for each in logs["absent"]]
    best = [rng.integers(1, 3, size=n - 1) for n in sizes]
    places = STUDIED.Places.of(shards, rows, logs, best)
    found = STUDIED.stratum(places, np.ones(sum(sizes), bool), list(logs), 200)
    gold, absent = (np.concatenate(logs[name]) for name in ("gold", "absent"))
    assert found["tapes"]["gold"]["ppl_token"] == pytest.approx(np.exp(-gold.mean()))
    assert found["tapes"]["gold"]["over_absent"] == pytest.approx((gold - absent).mean())
    for each in found["tapes"].values():
        assert each["interval"][0] < each["ppl_token"] < each["interval"][1]
    assert found["tapes"]["gold"]["over_base"] == pytest.approx((gold - absent).mean() - 0.25)
    low, high = found["tapes"]["gold"]["over_absent_interval"]
    assert low < found["tapes"]["gold"]["over_absent"] < high
    assert found["tapes"]["base"]["over_absent_interval"] == pytest.approx([0.25, 0.25])

    everything = STUDIED.summary(places, 20)
    words = everything["without_ends"]
    for name in ("by_length", "by_depth"):
        strata = everything[name].values()
        assert sum(each["tokens"] for each in strata) == words["tokens"]
        gains = sum(each["tokens"] * each["tapes"]["gold"]["over_absent"] for each in strata)
        assert gains / words["tokens"] == pytest.approx(words["tapes"]["gold"]["over_absent"])
    before = everything["by_attachment_before"]
    assert (before["right"]["attachment_accuracy"], before["wrong"]["attachment_accuracy"]) == (1, 0)
    for said in ("right", "wrong"):
        parts = [before[f"{said}, {kind}"]["tokens"] for kind in ("shift", "reduce")]
        assert before[said]["tokens"] == sum(parts)
    assert before["right"]["tokens"] + before["wrong"]["tokens"] == words["tokens"] - len(shards)


def test_bins() -> None:
    values = np.arange(60)
    found = STUDIED.bins(values, (0, 1, 3, 40))
    assert list(found) == ["0", "1-2", "3-39", "40+"]
    assert [mask.sum() for mask in found.values()] == [1, 2, 37, 20]
    assert sum(found.values()).tolist() == [1] * 60


def test_tables(found: dict[str, Any]) -> None:
    lines = TABLES.tape_table(found).splitlines()
    assert len(lines) == 2 + len(TABLES.TAPES)
    gold = found["scores"]["all"]["tapes"]["gold"]
    assert lines[2].startswith(f"| gold | {gold['ppl_token']:.1f} | {gold['over_absent']:+.2f} [")
    other = copy.deepcopy(found)
    other["scores"]["without_ends"]["tapes"]["gold"]["ppl_token"] += 10
    gold = found["scores"]["without_ends"]["tapes"]["gold"]
    line = TABLES.tapes_over_seeds(found, other).splitlines()[2]
    assert line.startswith(
        f"| gold | {gold['ppl_token'] + 5:.1f} ± 7.1 | {gold['over_absent']:+.2f} ± 0.00 |"
    )
    wrong = found["scores"]["by_attachment_before"]["wrong"]["tapes"]["gold"]
    wrong_of_other = other["scores"]["by_attachment_before"]["wrong"]["tapes"]["gold"]
    wrong_of_other["over_base"] = wrong["over_base"] + 1
    gain = TABLES.gain_in("by_attachment_before/wrong", "gold", "base", found, other)
    assert gain == f"{wrong['over_base'] + 0.5:+.2f} ± 0.71"
    other["counts"]["tokens"] += 1
    with pytest.raises(ValueError, match="too many values"):
        TABLES.tapes_over_seeds(found, other)
    table = TABLES.strata_table(found, "by_depth").splitlines()
    assert [line.split(" | ")[0] for line in table[2:]] == [f"| {k}" for k in found["scores"]["by_depth"]]
    assert sum(int(line.split(" | ")[1]) for line in table[2:]) == sum(shards_tokens())


def shards_tokens() -> list[int]:
    return [len(Tree.from_brackets(tree).words) for tree in TREES]


def test_models_without_tapes_are_refused(world: tuple[dict[str, Path], ShardSet], tmp_path: Path) -> None:
    models, shards = world

    def run(model: str, base: str) -> None:
        given = ["--model", models[model], "--base", models[base], "--shards", shards.folder]
        STUDIED.main([*map(str, given), "--beam", "1", "-o", str(tmp_path / "x.json")])

    for name in ("base", "head"):
        with pytest.raises(PdtoolsError, match="not a Pushdown LM"):
            run(name, "base")
    with pytest.raises(PdtoolsError, match="not a model without a tape"):
        run("pushdown", "pushdown")
    assert not (tmp_path / "x.json").exists()
