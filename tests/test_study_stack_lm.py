"""The language-modelling study of stack attention, end to end on a few lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "studies/stack-lm/study.sh"


def study(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["sh", SCRIPT, "train.txt", "valid.txt", "test.txt", "a study"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


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
    assert "| MLM | 0, 1 |  | **" in table
    assert "| ALM | 0 |  |  |" in table

    before = (out / "results/masked-stack-1/results.json").stat().st_mtime_ns
    assert study(tmp_path, **settings).returncode == 0
    assert (out / "results/masked-stack-1/results.json").stat().st_mtime_ns == before
    other = study(tmp_path, **{**settings, "EPOCHS": "2"})
    assert other.returncode == 1
    assert "name another folder" in other.stderr


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
