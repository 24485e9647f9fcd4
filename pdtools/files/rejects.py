"""Inputs that were excluded, with the reasons."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.outputs import atomic_text, json_text
from pdtools.files.source import is_stream

Item = TypeVar("Item")

REJECTS_FILE = "rejects.jsonl"
_MOST_REJECTED_TEXT = 1 << 16
_REJECTS_IN_MEMORY = 1 << 23


@dataclass(frozen=True, slots=True)
class ExcludedInput:
    """An excluded input, its reason and its place; the arguments of :meth:`Rejects.add`."""

    reason: str
    file: str
    line: int
    text: str


class Rejects:
    """Record of excluded inputs: each with place and reason, counted, written as JSON lines.

    With ``on_error="fail"`` the first one raises instead.

    Args:
        on_error: ``fail`` or ``skip``.
        hint: advice about the first one then; None without advice.
    """

    def __init__(self, on_error: str = "fail", *, hint: str | None = "--on-error skip excludes it") -> None:
        self.on_error = on_error
        self._hint = hint
        self._counts: Counter[str] = Counter()
        # A broken corpus may have millions: JSON lines, in memory while they are few.
        self._lines = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - open as long as this object lives
            _REJECTS_IN_MEMORY, "w+", encoding="utf-8", newline="\n"
        )

    def add(self, reason: str, *, file: str | Path, line: int, text: str, note: str | None = None) -> None:
        """Record one excluded input; ``note`` goes before the hint of an error.

        Raises:
            InputError: if the policy is ``fail``.
        """
        if self.on_error == "fail":
            hint = "; ".join(part for part in (note, self._hint) if part)
            raise InputError(reason, file=file, line=line, hint=hint)
        self.exclude(reason, file=file, line=line, text=text)

    def exclude(self, reason: str, *, file: str | Path, line: int, text: str) -> None:
        """Record an input that is excluded by rule, not because it is bad: no error under any policy.

        Only the first 65,536 characters of a very long text are kept; ``characters`` has its length.
        """
        record = {"file": str(file), "line": line, "reason": reason, "text": text[:_MOST_REJECTED_TEXT]}
        if len(text) > _MOST_REJECTED_TEXT:
            record["characters"] = len(text)
        self._lines.write(json_text(record) + "\n")
        self._counts[reason] += 1

    def __len__(self) -> int:
        return self._counts.total()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each excluded input: file, line, reason, text."""
        self._lines.seek(0)
        try:
            for line in self._lines:
                yield json.loads(line)
        finally:
            self._lines.seek(0, os.SEEK_END)

    def by_reason(self) -> dict[str, int]:
        """The number of excluded inputs for each reason."""
        return dict(sorted(self._counts.items()))

    def summary(self) -> str:
        """The counts by reason in brackets, to end an error message; empty if there are none."""
        reasons = ", ".join(f"{number} excluded: {reason}" for reason, number in self.by_reason().items())
        return f" ({reasons})" if reasons else ""

    def write(self, path: str | Path) -> None:
        """Write one JSON object per line: file, line, reason, text."""
        with atomic_text(path) as stream:
            self._lines.seek(0)
            shutil.copyfileobj(self._lines, stream)


def some_trees(trees: Iterable[Item], rejects: Rejects) -> Iterator[Item]:
    """Pass trees through, and require at least one.

    Raises:
        PdtoolsError: at the end, if there were none; it says why they were excluded.
    """
    empty = True
    for tree in trees:
        empty = False
        yield tree
    if empty:
        raise PdtoolsError(f"no trees in the input{rejects.summary()}")


def rejects_path(output: str | Path) -> Path | None:
    """The path of the list of excluded inputs of an output file; ``None`` for a stream (a pipe, a device)."""
    return None if is_stream(output) else Path(f"{Path(output)}.rejects.jsonl")


def write_rejects(output: str | Path, rejects: Rejects) -> None:
    """Write the excluded inputs beside an output file, also if there are none, for scripts."""
    records = rejects_path(output)
    if records is not None:
        rejects.write(records)
