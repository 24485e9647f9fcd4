"""Endings of file names, which count in any case: ``.CSV`` is ``.csv``."""

from __future__ import annotations

from pathlib import Path

COMPRESSED = (".gz", ".zst")


def has_ending(name: str | Path, endings: str | tuple[str, ...]) -> bool:
    """Return whether a name ends in one of these (in lower case)."""
    return str(name).lower().endswith(endings)


def without_ending(name: str, endings: tuple[str, ...]) -> str:
    """A name without those of these endings (in lower case) that it has, taken off one after another."""
    for each in endings:
        if each and has_ending(name, each):
            name = name[: -len(each)]
    return name


def plain_name(name: str | Path) -> str:
    """A file name without its compression suffix."""
    return without_ending(str(name), COMPRESSED)


def ending(name: str | Path) -> str:
    """The last ending of a file name, in lower case, before any compression suffix: ``.csv``, or nothing."""
    return Path(plain_name(name)).suffix.lower()
