"""Runs that are asked to stop, or die, and their comparison with runs that were not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pdtools.training.loop import NullListener


class StopAfter(NullListener):
    """Asks to stop after the step of this number: a run's listener and its ``stop``."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.reached = 0

    def stepped(self, step: int) -> None:
        self.reached = step

    def __call__(self) -> bool:
        return self.reached == self.step


class DieAfter(NullListener):
    """Ends the run at a step without a chance to save."""

    class Dead(Exception):
        pass

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int) -> None:
        if step == self.step:
            raise self.Dead


def metrics(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The log, or its records of a kind, without what depends on the clock."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    by_clock = ("seconds", "tokens_per_second", "loading_share")
    return [{k: v for k, v in r.items() if k not in by_clock} for r in records if kind in (None, r["kind"])]


def assert_same_run(run: Path, reference: Path) -> None:
    for name in (
        "best/model.safetensors",
        "last/model.safetensors",
        "last/trainer/state.safetensors",
        "last/config.json",
    ):
        assert (run / name).read_bytes() == (reference / name).read_bytes(), name
    assert metrics(run) == metrics(reference)
