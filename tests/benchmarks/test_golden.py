"""Each family of models gives what it gave when its golden was made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDENS = sorted((REPOSITORY / "tests" / "goldens").glob("*.json"))


@pytest.fixture(scope="module")
def tool() -> Any:
    import golden

    return golden


@pytest.fixture(scope="module")
def prepared(tool: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    tool.prepare(folder)
    return folder


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_a_family_gives_what_it_gave(path: Path, tool: Any, prepared: Path) -> None:
    apart = tool.differences(tool.golden(path.stem, prepared), json.loads(path.read_text()))
    loss, surprisal = tool.allowed("cpu", "float32")
    assert apart["loss"] <= loss
    assert apart["surprisal"] <= surprisal
    assert apart["same_parse"]


def test_every_family_has_a_golden(tool: Any) -> None:
    assert {path.stem for path in GOLDENS} == set(tool.FAMILIES)


@pytest.mark.parametrize(
    ("device", "dtype", "most"),
    [
        ("cpu", "float32", (1e-5, 1e-3)),
        ("cuda", "float32", (1e-3, 1e-2)),
        ("cpu", "bf16", (2e-2, 0.5)),
        ("cuda", "bf16", (2e-2, 0.5)),
    ],
)
def test_what_is_allowed(device: str, dtype: str, most: tuple[float, float], tool: Any) -> None:
    assert tool.allowed(device, dtype) == most


@pytest.mark.parametrize(
    ("worse", "dtype", "status"),
    [
        ({}, "float32", 0),
        ({"loss": 2e-5}, "float32", 1),
        ({"loss": 2e-5}, "bf16", 0),
        ({"surprisal": 2e-3}, "float32", 1),
        ({"surprisal": 0.6}, "bf16", 1),
        ({"same_parse": False}, "float32", 1),
        ({"same_parse": False}, "bf16", 0),
    ],
)
def test_one_family_that_differs_is_enough(
    worse: dict[str, Any], dtype: str, status: int, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([worse, {}])
    monkeypatch.setattr(sys, "argv", ["golden.py", "transformer", "tg", "--dtype", dtype])
    monkeypatch.setattr(tool, "prepare", lambda folder: None)
    monkeypatch.setattr(tool, "golden", lambda *_, **__: {})
    same = {"loss": 0.0, "surprisal": 0.0, "same_parse": True}
    monkeypatch.setattr(tool, "differences", lambda *_: {**same, **next(found)})
    assert tool.main() == status


def test_differences_are_the_largest(tool: Any) -> None:
    expected = {"losses": [2.0, 4.0], "surprisals": [1.0, 3.0], "parse": "(X a)"}
    found = {"losses": [2.0, 4.4], "surprisals": [1.5, 2.75], "parse": "(X b)"}
    assert tool.differences(found, expected) == {
        "loss": pytest.approx(0.1),
        "surprisal": 0.5,
        "same_parse": False,
    }
    assert tool.differences({**found, "losses": [2.0]}, expected)["loss"] == float("inf")
    assert not tool.differences({**found, "losses": [2.0, float("nan")]}, expected)["loss"] <= 1
