"""benchmarks/pretrained.py: both models of a recipe are measured, and the estimate follows from that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]
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


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import pretrained

    monkeypatch.setattr(pretrained, "VOCABULARY", 50)
    return pretrained


def test_figures_and_estimate(benchmark: Any, tmp_path: Path) -> None:
    from measure import Options

    (tmp_path / "tiny.toml").write_text(RECIPE)
    options = Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)
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
