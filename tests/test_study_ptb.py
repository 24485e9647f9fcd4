"""The study of natural language, end to end on a few sentences."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdtools import data
from pdtools.cli.main import run

STUDY = Path(__file__).parents[1] / "studies" / "ptb" / "study.sh"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    text = data.treebank("test").read_text().strip().split("\n\n")[:60]
    (tmp_path / "x.mrg").write_text("\n".join(text))
    trees, folder = str(tmp_path / "x.trees"), tmp_path / "shards"
    assert run(["parse", str(tmp_path / "x.mrg"), "--from", "treebank", "-o", trees, "--quiet"]) == 0
    for role in ("train", "valid", "test"):
        made = (
            ["--tokenizer", "word", "--lower-case"]
            if role == "train"
            else ["--tokenizer", str(folder / "train")]
        )
        assert run(["tapes", trees, *made, "-o", str(folder / role), "--quiet"]) == 0
    return folder


def test_models_are_trained_chosen_and_tested(tmp_path: Path, shards: Path) -> None:
    settings = {"MODELS": "rns-1-2", "DRAWS": "2", "EPOCHS": "1", "UNITS": "10", "JOBS": "1"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    out = tmp_path / "a study"
    done = subprocess.run(
        ["sh", str(STUDY), str(shards), str(out)],
        env={**os.environ, **settings, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    table = (out / "table.md").read_text()
    assert table.strip() in done.stdout
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| rns-1-2"]
    assert {path.name for path in (out / "runs").glob("rns*")} == {"rns-1-2-1", "rns-1-2-2"}
    assert "begun with" in refused(out, shards, {**settings, "UNITS": "11", "PATH": path})


def refused(out: Path, shards: Path, settings: dict[str, str]) -> str:
    """What the study says to settings that are not those of the folder."""
    done = subprocess.run(
        ["sh", str(STUDY), str(shards), str(out)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    return done.stderr
