"""benchmarks/treereg.py: the term is there, and time and memory are measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import treereg

    tiny = {**treereg.CPU.trunk, "layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "vocab_size": 50}
    monkeypatch.setattr(treereg, "CPU", dataclasses.replace(treereg.CPU, trunk=tiny, sentences=2))
    return treereg


def test_both_frequencies_are_measured(benchmark: Any) -> None:
    from measure import Options

    figures = list(benchmark.figures(Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)))
    assert [figure.bar for figure in figures] == [1.15, 1.03, None]
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)


def test_the_term_is_there(benchmark: Any) -> None:
    from measure import treebank_batch

    batch = benchmark.with_edges(treebank_batch(2, 32, 50))
    assert batch.edges.sum(1).tolist() == [29, 29]  # gaps between 30 tokens
    assert int(benchmark.count_trees(batch.attach, batch.lengths, batch.edges)) == 2
