"""The benchmark of stack RNNs: what it prints (that formulations agree: tests/models/recurrent)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_figures_say_how_many_times_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import stacks
    from measure import Options

    monkeypatch.setattr(stacks, "LENGTHS", (3,))
    options = Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)
    monkeypatch.setattr(stacks, "MIXED_LENGTHS", range(1, 21))
    skipped = [each for each in stacks.COMPARISONS if each.only]
    monkeypatch.setattr(stacks, "COMPARISONS", [each for each in stacks.COMPARISONS if not each.only])
    assert len(skipped) == 1
    figures = list(stacks.figures(options))
    assert [figure.bar for figure in figures] == [100, None, None, 8, None, 1.5, None, *8 * [None]]
    assert [figure.settings.get("models") for figure in figures[7:]] == 4 * [5, 20]
    for figure in figures:
        line = json.loads(figure.line())
        assert line["at_least"]
        assert line["settings"]["plain_ms"] == pytest.approx(line["ratio"] * line["value"], rel=0.01)
