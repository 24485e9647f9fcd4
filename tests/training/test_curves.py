"""Runs with every kind of loss give what they gave before losses were lists of terms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from curves import CASES, curve, prepare

EXPECTED = json.loads((Path(__file__).parent / "curves.json").read_text())


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("curves")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_was_stopped_and_resumed_gives_its_curve(name: str, shards: Path, tmp_path: Path) -> None:
    found, expected = curve(CASES[name], shards, tmp_path / "run"), EXPECTED[name]
    for kind in ("train", "valid"):
        for ours, theirs in zip(found[kind], expected[kind], strict=True):
            assert ours.keys() == theirs.keys()
            for key, value in theirs.items():
                close = pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value
                assert ours[key] == close, (kind, theirs["step"], key)
