"""What people and scripts see: progress and messages on standard error, JSON on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pdtools.files import STDIO, write_json
from pdtools.visible import visible

T = TypeVar("T")


def progress(items: Iterable[T], *, total: int | None, label: str, quiet: bool) -> Iterator[T]:
    """Pass items through with a bar and the time left on standard error; silent off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, total=total, desc=label, unit="", dynamic_ncols=True, file=sys.stderr)


@contextmanager
def counter(label: str, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    """A count on standard error of what is done, and how fast; silent off a terminal. Called with numbers."""
    if quiet or not sys.stderr.isatty():
        yield lambda n: None
        return
    from tqdm import tqdm

    with tqdm(desc=label, unit="", dynamic_ncols=True, file=sys.stderr) as shown:
        yield shown.update


def bar(label: str, *, quiet: bool) -> Callable[[Iterable[T], int | None], Iterator[T]]:
    """:func:`progress` as the library's evaluations take it: called with items and their number."""
    return lambda items, total: progress(items, total=total, label=label, quiet=quiet)


def message(text: str, *, quiet: bool) -> None:
    """A line for the person at the terminal, on standard error."""
    if not quiet:
        print(visible(text), file=sys.stderr)


def print_json(value: Any) -> None:
    """The one JSON document of ``--json``, on standard output."""
    write_json(STDIO, value)
