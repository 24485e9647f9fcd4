"""Errors that a user can act on. The command line prints them as one line and exits with status 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class PdtoolsError(Exception):
    """Something could not be done; the message says what, where, and what to do about it, in one line."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception from another process is made again from its message alone.
        return _restored, (type(self), str(self), vars(self))


def _restored(kind: type[PdtoolsError], message: str, attributes: dict[str, Any]) -> PdtoolsError:
    error = kind.__new__(kind, message)
    vars(error).update(attributes)
    return error


class InputError(PdtoolsError):
    """Unusable input at a known place.

    Args:
        reason: what is wrong, without the place.
        file: the file it was found in (``-`` is standard input).
        line: the line in that file, from 1.
        hint: what the user can do.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.reason = reason
        self.file = None if file is None else str(file)
        self.line = line
        self.hint = hint
        place = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(f"{place}{reason}" + (f" ({hint})" if hint else ""))


class MissingDependencyError(PdtoolsError):
    """An optional package is needed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package}: pip install 'pdtools[{extra}]'")
