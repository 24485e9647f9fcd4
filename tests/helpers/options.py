"""Commands of the tests with other values of some options, which may be given once only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

REPEATED = {"--set", "--grid"}


def is_name(part: str) -> bool:
    """Return whether a part of a command names an option."""
    return part.startswith("-") and part != "-"


def with_options(command: Sequence[str], *more: str) -> list[str]:
    """Append ``more`` to a command; options with a value in ``more`` lose their earlier value."""
    pairs = pairwise(more)
    valued = {name for name, value in pairs if is_name(name) and not is_name(value)} - REPEATED
    kept, parts = [], iter(command)
    for part in parts:
        if part in valued:
            next(parts)
        else:
            kept.append(part)
    return [*kept, *more]
