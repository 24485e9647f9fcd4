"""The record of a run: ``metrics.jsonl`` and TensorBoard."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboardX import SummaryWriter

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


def read_metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    """What a run has recorded so far: ``step`` and values of each ``train`` or ``valid`` record."""
    path = run / METRICS
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


class MetricsLog:
    """Appends one JSON line per record to ``metrics.jsonl``, and the same numbers to TensorBoard.

    Args:
        folder: of the run.
        step: the step that the run goes on from.
        size: bytes that ``metrics.jsonl`` had at that step: what an interrupted run wrote after it is
            cut off, so that no step appears twice.
    """

    def __init__(self, folder: Path, *, step: int = 0, size: int = 0) -> None:
        path = folder / METRICS
        self._stream = open(path, "ab")  # noqa: SIM115
        if path.stat().st_size > size:
            os.truncate(path, size)
        self._tensorboard = SummaryWriter(
            str(folder / TENSORBOARD), purge_step=step + 1 if step else None, flush_secs=30
        )

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Record values of a step; ``kind`` is ``train`` or ``valid``."""
        record = {"kind": kind, "step": step, **values}
        self._stream.write((json.dumps(record, allow_nan=False) + "\n").encode())
        self._stream.flush()
        for name, value in values.items():
            if isinstance(value, (int, float)):
                self._tensorboard.add_scalar(f"{kind}/{name}", value, step)

    @property
    def size(self) -> int:
        """Bytes in ``metrics.jsonl`` now."""
        return self._stream.seek(0, os.SEEK_END)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._tensorboard.close()


class NoMetrics(MetricsLog):
    """The record that a rank keeps while rank 0 keeps the run's: none."""

    size = 0

    def __init__(self) -> None:
        pass

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        pass

    def __exit__(self, *ending: object) -> None:
        pass
