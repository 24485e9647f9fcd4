"""benchmarks/windows.py: its windows are legal and of whole sentences, and every figure is there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pdtools.models import legal_attachments, tape_from_attachments

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import windows

    tiny = {**windows.CPU.trunk, "layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "vocab_size": 50}
    monkeypatch.setattr(windows, "CPU", dataclasses.replace(windows.CPU, trunk=tiny))
    monkeypatch.setattr(windows, "WINDOWS", {60: 2, 90: 1})
    return windows


def test_windows_are_of_whole_sentences(benchmark: Any) -> None:
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


def test_both_lengths_are_measured(benchmark: Any) -> None:
    from measure import Options

    figures = list(benchmark.figures(Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)))
    assert [figure.bar for figure in figures] == [None, 1.2, None, 1.1] * 2
    assert {figure.name.rpartition(", ")[0] for figure in figures} == {
        f"training step, windows, n {n}, {what}" for n in (60, 90) for what in ("time", "peak memory")
    }
