"""benchmarks/grammar_attention.py: its integers are those of the trees, and both models are measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from visibility_oracle import grammar_row, innermost_row

from pdtools.trees import Tree

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import grammar_attention

    return grammar_attention


def test_integers_are_those_of_the_tree(benchmark: Any) -> None:
    tree = Tree.from_brackets("(S (NP (D the) (A hungry) (N cat)) (VP (X (V meows))))")
    plain = [["the", "hungry", "cat"], [["meows"]]]
    row = grammar_row(plain)
    pop, compose, depth, _ = zip(*benchmark.integers(tree, 2), strict=True)
    length = len(row.pop)
    # What is not popped in time or never pushed may be anything beyond those bounds.
    assert [min(j, length) for j in pop] == [0 if j == i else j for i, j in enumerate(row.pop)]
    assert list(map(bool, compose)) == row.compose
    assert list(depth) == row.depth
    assert [integers[3] for integers in benchmark.integers(tree, 1)] == innermost_row(plain)


def test_both_models_are_measured(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from measure import Options

    monkeypatch.setattr(benchmark, "ROWS", 4)
    options = Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)
    figures = [json.loads(figure.line()) for figure in benchmark.figures(options)]
    assert {figure["name"] for figure in figures} >= {
        "attention of TG, time, ours",
        "attention of PLM-mask, time, ours",
    }
    assert all(figure["value"] > 0 for figure in figures)
    assert [figure["bar"] for figure in figures if figure["name"].endswith("time, ours")] == [1.0, 1.0]
