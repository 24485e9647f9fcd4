"""The record of a run: ``metrics.jsonl`` and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import decode_utf8, read_bytes
from pdtools.files.inputs import parse_json

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
_FLUSH_SECONDS = 30


def read_metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    """The ``train`` or ``valid`` records of a run so far, each with its ``step`` and values."""
    return [record for record in read_records(run / METRICS) if record.get("kind") == kind]


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a run's file, each a line with a ``step``; none if there is no such file.

    A truncated last line, as a killed run leaves it, does not count.

    Raises:
        InputError: for a line that is no record.
    """
    lines = decode_utf8(read_bytes(path), path).split("\n")[:-1] if path.exists() else []
    records = [parse_json(line, path, number) for number, line in enumerate(lines, 1)]
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or type(record.get("step")) is not int:
            raise InputError("not a record of a run: no object with a step", file=path, line=number)
    return records


class MetricsLog(contextlib.AbstractContextManager["MetricsLog"]):
    """Appends one JSON line per record to ``metrics.jsonl``, and the same numbers to TensorBoard.

    Args:
        folder: the run's folder.
        name: the folder's name in messages, if not its path.
        step: the step that the run resumes from.
        size: bytes of ``metrics.jsonl`` at that step: lines that an interrupted run wrote later are
            removed, so that no step appears twice.
    """

    def __init__(self, folder: Path, *, name: Path | None = None, step: int = 0, size: int = 0) -> None:
        self._name = name or folder
        self._flushed = time.monotonic()
        path = folder / METRICS
        with self._writing(METRICS):
            self._stream = open(path, "ab")  # noqa: SIM115
            if path.stat().st_size > size:
                os.truncate(path, size)
        # Not by TensorBoard's SummaryWriter, in whose thread a full disk would go unnoticed.
        with self._writing(TENSORBOARD):
            (folder / TENSORBOARD).mkdir(exist_ok=True)
            self._tensorboard = EventsWriter(str(folder / TENSORBOARD / "events"))
            if step:  # later steps of an earlier part of the run are not shown
                start = SessionLog(status=SessionLog.START)
                self._tensorboard.write_event(Event(step=step + 1, session_log=start, wall_time=time.time()))

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Record values of a step; ``kind`` is ``train`` or ``valid``."""
        record = {"kind": kind, "step": step, **values}
        with self._writing(METRICS):
            self._stream.write((json.dumps(record, allow_nan=False) + "\n").encode())
            self._stream.flush()
        with self._writing(TENSORBOARD):
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    summary = scalar(f"{kind}/{name}", value)
                    self._tensorboard.write_event(Event(step=step, summary=summary, wall_time=time.time()))
            if time.monotonic() > self._flushed + _FLUSH_SECONDS:
                self._tensorboard.flush()
                self._flushed = time.monotonic()

    @property
    def size(self) -> int:
        """Bytes in ``metrics.jsonl`` now."""
        return self._stream.seek(0, os.SEEK_END)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error that has already been reported is not reported again.
        with contextlib.nullcontext() if error is None else contextlib.suppress(PdtoolsError):
            with self._writing(METRICS):
                self._stream.close()
            with self._writing(TENSORBOARD):
                self._tensorboard.close()

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Turn a failure to write into an error that names the file."""
        try:
            yield
        except OSError as error:
            raise PdtoolsError(
                f"{self._name / name}: cannot be written: {error.strerror or error}"
            ) from error
