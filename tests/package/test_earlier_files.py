"""Trainings and shards that earlier code wrote stay readable and resumable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run

EARLIER = Path(__file__).parents[1] / "earlier"
INPUTS = Path(__file__).parents[1] / "goldens" / "scores"
CPU = ("--device", "cpu", "--threads", "1", "--quiet")


@pytest.fixture(params=sorted(path.name for path in EARLIER.glob("v*")))
def earlier(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a version wrote, as the working folder."""
    folder = shutil.copytree(INPUTS, tmp_path / "earlier")
    shutil.copytree(EARLIER / request.param, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


def expected(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "expected.json").read_text()))


def test_a_stopped_run_resumes(earlier: Path) -> None:
    train = ("train", "shards/train", "--valid", "shards/valid", *CPU)
    assert run([*train, "-o", "trainings/stopped", "--resume"]) == 0

    def losses(name: str) -> list[tuple[Any, ...]]:
        lines = Path(f"trainings/{name}/metrics.jsonl").read_text().splitlines()
        keys = ("kind", "step", "loss", "treereg_loss")
        return [tuple(json.loads(line).get(key) for key in keys) for line in lines]

    for one, other in zip(losses("stopped"), losses("finished"), strict=True):
        assert one == pytest.approx(other, abs=1e-4)  # losses of a token, small; and the kind, which is text


def test_shards(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "shards/valid", "0"]) == 0
    assert capsys.readouterr().out == expected(earlier)["shown"]
