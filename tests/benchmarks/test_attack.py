"""The attack notices what is lost and how commands end."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="not a POSIX system")


@pytest.fixture
def attack() -> Any:
    """The module."""
    return pytest.importorskip("attack")


@pytest.fixture
def attacked(attack: Any, tmp_path: Path) -> Any:
    """A folder with a thesis, and with results that are ours."""
    for name in ("thesis/thesis.tex", "results/results.json", "notes"):
        (tmp_path / "pristine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pristine" / name).write_text("ten years")
    found = attack.Attack(tmp_path / "here", random.Random(0), Counter())
    found.restore()
    return found


@pytest.mark.parametrize(
    ("path", "output", "may"),
    [
        ("results/results.json", "results", True),
        ("results/results.json", "results/results.json", True),  # as it is named
        ("results/results.json", "results/new", False),
        ("notes", "notes", True),
        ("notes", "new", False),
        ("x.trees", "x.trees", False),  # read
        ("thesis/thesis.tex", "thesis", False),
        ("shards/manifest.json", "shards", False),  # holds what is read
        ("notes", "..", False),
    ],
)
def test_what_may_be_replaced(path: str, output: str, may: bool, attack: Any) -> None:
    reads = ["x.trees", "shards/manifest.json"]
    assert attack.may_change(path, output, replaces=True, reads=reads) is may
    assert not attack.may_change(path, output, replaces=False, reads=reads)


def test_a_thesis_that_is_deleted(attack: Any, attacked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(command: object) -> int:
        shutil.rmtree("thesis")
        return 0

    monkeypatch.setattr(attack, "run", delete)
    attacked.write_anywhere()
    assert attacked.counts["outputs, lost"] == 1
    assert (attacked.place / "thesis/thesis.tex").exists()  # for the next attempt
