"""benchmarks/cross_entropy.py: both vocabularies and precisions are measured, time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_figure_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import cross_entropy
    from measure import Options

    monkeypatch.setattr(cross_entropy, "VOCABULARIES", (20, 30))
    figures = list(cross_entropy.figures(Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)))
    assert [figure.bar for figure in figures] == [1.1, 1.0] * 4
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)
