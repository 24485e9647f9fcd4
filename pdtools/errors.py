"""Errors that a user can act on: one printed line, exit status 1; and text made safe to display."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# torch's messages on a CPU, by version and system, if it has no error class for it.
_NO_MEMORY = ("not enough memory", "allocate memory", "Storage size calculation overflowed")


class PdtoolsError(Exception):
    """Something could not be done; the one-line message says what, where, and what to do about it."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception from another process is restored from its message alone.
        return _restored, (type(self), str(self), vars(self))


def _restored(kind: type[PdtoolsError], message: str, attributes: dict[str, Any]) -> PdtoolsError:
    error = kind.__new__(kind, message)
    vars(error).update(attributes)
    return error


class InputError(PdtoolsError):
    """Unusable input at a known place.

    Args:
        reason: the fault, without the place.
        file: the file it was found in (``-`` is standard input).
        line: the line in that file, from 1.
        hint: advice for the user.
    """

    def __init__(
        self, reason: str, *, file: str | Path | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        self.reason = reason
        self.file = None if file is None else str(file)
        self.line = line
        self.hint = hint
        place = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(place + self.fault)

    @property
    def fault(self) -> str:
        """The reason and the advice, without the place."""
        return f"{self.reason} ({self.hint})" if self.hint else self.reason


class MissingDependencyError(PdtoolsError):
    """An optional package is needed; the message names the extra that brings it, and an alternative."""

    def __init__(self, package: str, extra: str, instead: str | None = None) -> None:
        without = f" (or {instead})" if instead else ""
        super().__init__(f"this needs the package {package}: {how_to_install(extra)}{without}")


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra."""
    return f"pip install '.[{extra}]' in a checkout, or 'pushdown-tools[{extra}]' when it is released"


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether Python, numpy or torch could not get enough memory, of a CPU or a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)


@contextlib.contextmanager
def explained_memory_errors(hint: str) -> Iterator[None]:
    """Turn a lack of memory into an error that says what to do about it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        raise PdtoolsError(f"not enough memory: {hint}") from error


# Control characters of ASCII and Latin-1, line and paragraph separators, marks of direction (which reorder
# the text after them), halves of surrogate pairs, which spell bytes of file names, and non-characters.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Text with such characters escaped as in Python: ``\x1b``, ``\u202e``, ``\n``."""
    return text if text.isprintable() else _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
