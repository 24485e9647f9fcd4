"""The benchmarks of single models: what they run is legal, and every figure is there."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from visibility_oracle import grammar_row, innermost_row

from pdtools.models import legal_attachments, tape_from_attachments
from pdtools.trees import Tree

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "vocab_size": 50}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Import a benchmark, with other values of its constants."""

    def load(name: str, **constants: Any) -> Any:
        module = importlib.import_module(name)
        for constant, value in constants.items():
            monkeypatch.setattr(module, constant, value)
        return module

    return load


@pytest.fixture
def options(load: Callable[..., Any]) -> Any:
    return load("measure").Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)


def test_cross_entropy(load: Callable[..., Any], options: Any) -> None:
    """Both vocabularies and precisions, time and memory."""
    figures = list(load("cross_entropy", VOCABULARIES=(20, 30)).figures(options))
    assert [figure.bar for figure in figures] == [1.1, 1.0] * 4
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)


def test_stacks_say_how_many_times_as_fast(load: Callable[..., Any], options: Any) -> None:
    stacks = load("stacks", LENGTHS=(3,), MIXED_LENGTHS=range(1, 21))
    kept = [each for each in stacks.COMPARISONS if not each.only]
    assert len(stacks.COMPARISONS) == len(kept) + 1
    figures = list(load("stacks", COMPARISONS=kept).figures(options))
    assert [figure.bar for figure in figures] == [100, None, None, 8, None, 1.5, None, *8 * [None]]
    assert [figure.settings.get("models") for figure in figures[7:]] == 4 * [5, 20]
    for figure in figures:
        line = json.loads(figure.line())
        assert line["at_least"]
        assert line["settings"]["plain_ms"] == pytest.approx(line["ratio"] * line["value"], rel=0.01)


# --- actions --------------------------------------------------------------------------------------


def test_integers_are_those_of_the_tree(load: Callable[..., Any]) -> None:
    integers = load("grammar_attention").integers
    tree = Tree.from_brackets("(S (NP (D the) (A hungry) (N cat)) (VP (X (V meows))))")
    plain = [["the", "hungry", "cat"], [["meows"]]]
    row = grammar_row(plain)
    pop, compose, depth, _ = zip(*integers(tree, 2), strict=True)
    length = len(row.pop)
    # What is not popped in time or never pushed may be anything beyond those bounds.
    assert [min(j, length) for j in pop] == [0 if j == i else j for i, j in enumerate(row.pop)]
    assert list(map(bool, compose)) == row.compose
    assert list(depth) == row.depth
    assert [each[3] for each in integers(tree, 1)] == innermost_row(plain)


def test_models_of_actions_are_measured(load: Callable[..., Any], options: Any) -> None:
    figures = [json.loads(each.line()) for each in load("grammar_attention", ROWS=4).figures(options)]
    assert {figure["name"] for figure in figures} >= {
        "attention of TG, time, ours",
        "attention of PLM-mask, time, ours",
    }
    assert all(figure["value"] > 0 for figure in figures)
    assert [figure["bar"] for figure in figures if figure["name"].endswith("time, ours")] == [1.0, 1.0]


# --- an estimate ----------------------------------------------------------------------------------

RECIPE = """model = "pushdown"
[config]
layers = 2
d_model = 16
heads = 2
d_ff = 32
positions = "learned"
max_length = 40
pushdown_layers = "last 1"
"""


def test_a_recipe_and_what_follows_of_it(load: Callable[..., Any], options: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    benchmark = load("pretrained", VOCABULARY=50)
    found = {figure.name: figure for figure in benchmark.figures(options, str(tmp_path / "tiny.toml"), 60, 1)}
    measured, estimated = (
        {name: each for name, each in found.items() if name.startswith(start)}
        for start in ("training step", "estimate")
    )
    assert len(measured) == 6
    assert len(estimated) == 8
    parameters = next(each for name, each in measured.items() if name.endswith("parameters, base"))
    trunk = 2 * (16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 32 + 32 + 16 + 4 * 16) + 2 * 16
    assert parameters.value == trunk + (50 + 61) * 16
    step = next(each for name, each in estimated.items() if "base, a step of 256 windows" in name)
    operations = 256 * 512 * (6 * (trunk + 50 * 16) + 6 * 2 * 16 * 512)
    assert step.value == pytest.approx(operations / (0.4 * 989e12))
    kept = next(each for name, each in estimated.items() if "base, weights and AdamW" in name)
    assert kept.value == pytest.approx(16 * parameters.value / 2**30)


# --- stack attention ------------------------------------------------------------------------------


def test_each_form_of_the_recurrence(
    load: Callable[..., Any], options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = {"VANILLA_BARS": {"torch": {3: 1.6}}, "PLAIN_BARS": {3: 1.7}}
    stack_attention = load("stack_attention", LENGTHS=(3,), **bars)
    called: dict[str, int] = {}

    def counted(kind: str, form: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def recurrence(actions: Tensor) -> Tensor:
            called[kind] = called.get(kind, 0) + 1
            return form(actions)

        return recurrence

    for kind, form in stack_attention.RECURRENCES.items():
        monkeypatch.setitem(stack_attention.RECURRENCES, kind, counted(kind, form))
    figures = list(stack_attention.figures(options))
    kinds = (
        ["torch", "plain loop"]
        if stack_attention.stack_library(torch.float32) is None
        else ["torch", "native", "plain loop"]
    )
    assert sorted(called) == sorted(kinds)
    assert len(set(called.values())) == 1  # in all layers, as often
    objectives = [figure.settings["objective"] for figure in figures]
    assert objectives == sorted(objectives, reverse=True)
    masked = [figure for figure in figures if figure.settings["objective"] == "masked"]
    assert len(figures) == 2 * len(masked)
    names = [figure.name.rpartition(", ")[2] for figure in masked]
    assert names == ["vanilla", *kinds, *kinds[:-1]]
    times = dict(zip(names, (figure.value for figure in masked), strict=False))
    for kind, figure in zip(names, masked, strict=True):
        line = json.loads(figure.line())
        if figure.at_least:
            assert (figure.bar, line["ratio"]) == (
                1.7,
                pytest.approx(times["plain loop"] / times[kind], rel=0.01),
            )
        elif kind != "vanilla":
            assert figure.bar == (1.6 if kind == "torch" else None)
            assert line["ratio"] == pytest.approx(times[kind] / times["vanilla"], rel=0.01)


# --- TreeReg, windows -----------------------------------------------------------------------------


def with_tiny_trunk(module: Any, **more: Any) -> dict[str, Any]:
    return {"CPU": dataclasses.replace(module.CPU, trunk={**module.CPU.trunk, **TINY}, **more)}


def test_treereg(load: Callable[..., Any], options: Any) -> None:
    """The term is there, and both frequencies are measured."""
    treereg = load("treereg", **with_tiny_trunk(load("treereg"), sentences=2))
    batch = treereg.with_edges(load("measure").treebank_batch(2, 32, 50))
    assert batch.edges.sum(1).tolist() == [29, 29]  # gaps between 30 tokens
    assert int(treereg.count_trees(batch.attach, batch.lengths, batch.edges)) == 2
    figures = list(treereg.figures(options))
    assert [figure.bar for figure in figures] == [1.15, 1.03, None]
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)


def test_windows_are_of_whole_sentences(load: Callable[..., Any]) -> None:
    benchmark = load("windows")
    rows = benchmark.treebank_windows(3, 90, 50)
    assert len(rows) == 3
    for tokens, attach in rows:
        assert 50 < len(tokens) == len(attach) <= 90
        roots = tokens == benchmark.ROOT
        assert roots[0]
        starts = np.flatnonzero(roots)
        assert attach[starts].tolist() == starts.tolist()
        lasts = np.append(starts[1:], len(tokens)) - 1
        assert attach[lasts].tolist() == starts.tolist()
        given = torch.from_numpy(attach)[None].long()
        legal = legal_attachments(tape_from_attachments(given), torch.from_numpy(roots)[None])
        assert bool(legal.gather(2, given[:, :, None]).all())


def test_windows_of_both_lengths_are_measured(load: Callable[..., Any], options: Any) -> None:
    benchmark = load("windows", WINDOWS={60: 2, 90: 1}, **with_tiny_trunk(load("windows")))
    figures = list(benchmark.figures(options))
    assert [figure.bar for figure in figures] == [None, 1.2, None, 1.1] * 2
    assert {figure.name.rpartition(", ")[0] for figure in figures} == {
        f"training step, windows, n {n}, {what}" for n in (60, 90) for what in ("time", "peak memory")
    }
