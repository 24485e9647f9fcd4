"""The language-modelling study of stack attention, end to end on a few lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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

    before = (out / "results/masked-stack-1/results.json").stat().st_mtime_ns
    assert study(tmp_path, **settings).returncode == 0
    assert (out / "results/masked-stack-1/results.json").stat().st_mtime_ns == before
    other = study(tmp_path, **{**settings, "EPOCHS": "2"})
    assert other.returncode == 1
    assert "name another folder" in other.stderr
