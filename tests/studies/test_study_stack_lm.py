"""The language-modelling study of stack attention, end to end on a few lines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from shell import Shell

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "studies/stack-lm/study.sh"


def study(folder: Path, out: str = "a study", **settings: str) -> subprocess.CompletedProcess[str]:
    return Shell(folder, **settings).run("sh", SCRIPT, "train.txt", "valid.txt", "test.txt", out)


def test_stack_lm(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("the cat sees the dog .\n" * 8)
    settings = {"SEEDS": "1", "EPOCHS": "1", "LENGTH": "16", "BATCH": "4", "JOBS": "1"}
    settings |= {"KINDS": "stack", "OBJECTIVES": "masked"}
    done = study(tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "a study"
    table = (out / "table.md").read_text()
    assert table in done.stdout
    assert table.count("\n| ") == 2
    scores = json.loads((out / "results.json").read_text())["scores"]
    assert scores["masked"]["stack"]["1"] > 1
    assert "| MLM, from scratch | 0, 1 |  | **" in table
    assert "| ALM, from scratch | 0 |  |  | 73.14 ± 0.34 |" in table

    before = (out / "results/masked-stack-1/results.json").stat().st_mtime_ns
    assert study(tmp_path, **settings).returncode == 0
    assert (out / "results/masked-stack-1/results.json").stat().st_mtime_ns == before


def learning_rate(run: Path) -> float:
    """That a run was told."""
    rate: float = json.loads((run / "run.json").read_text())["recipe"]["train"]["learning_rate"]
    return rate


def test_from_a_pretrained_model(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from toy_gpt2 import save_gpt2

    line = "the cat sees the dog .\n"
    folder = save_gpt2(tmp_path / "hf", [line])
    shape = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**shape, "bos_token_id": 0, "eos_token_id": 0}))
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(line * 8)
    settings = {"SEEDS": "1", "EPOCHS": "1", "LENGTH": "16", "BATCH": "4", "JOBS": "1", "GPT2": str(folder)}
    done = study(tmp_path, **settings, OBJECTIVES="causal", KINDS="stack")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "a study/runs/causal-stack-1/best/config.json").read_text())["config"]
    assert (config["layers"], config["d_model"], config["stack_layers"]) == (2, 16, "all")
    assert learning_rate(tmp_path / "a study/runs/causal-stack-1") == 2e-5
    table = (tmp_path / "a study/table.md").read_text()
    assert "| ALM, pretrained | 0, 1 |  | **" in table
    assert "| 21.26 ± 0.03 | 32.36 ± 0.16 | 29.29 ± 0.02 |" in table
    assert "| MLM, from scratch | 0 |" in table

    # The same tokenizer, and new weights: of the reduced study's shape.
    scratch = {**settings, "SCRATCH": "1", "KINDS": "vanilla", "OBJECTIVES": "causal"}
    done = study(tmp_path, "of its tokens", **scratch)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "of its tokens"
    config = json.loads((run / "runs/causal-vanilla-1/best/config.json").read_text())["config"]
    assert (config["layers"], config["d_model"]) == (4, 128)
    assert learning_rate(run / "runs/causal-vanilla-1") == 1e-3
    fingerprints = {
        json.loads((folder / "blocks/causal/train/manifest.json").read_text())["tokenizer"]["fingerprint"]
        for folder in (run, tmp_path / "a study")
    }
    assert len(fingerprints) == 1
    assert "| ALM, from scratch | 1, 0 | **" in (run / "table.md").read_text()
