"""What people and scripts see: progress and messages on standard error, JSON on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pdtools.files import STDIO, write_json
from pdtools.visible import visible

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")


def progress(
    items: Iterable[T],
    *,
    total: int | Callable[[], int | None] | None,
    label: str,
    quiet: bool,
    name: str | None = None,
) -> Iterator[T]:
    """Pass items through, and show how many of how many, how fast and the time left; silent off a terminal.

    Args:
        items: what is counted.
        total: how many there will be, None if unknown; a function is called only where someone sees it.
        label: what they are, in the plural.
        quiet: show nothing.
        name: of this pass over them, if there are several.
    """
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    with open_bar(total() if callable(total) else total, label, name=name) as shown:
        for item in items:
            yield item
            shown.update()


@contextmanager
def counter(
    name: str, *, total: Callable[[], int | None], label: str, quiet: bool
) -> Iterator[Callable[[int], object]]:
    """:func:`progress` for what is not an iterator: called with numbers of items that are done."""
    if quiet or not sys.stderr.isatty():
        yield lambda n: None
        return
    with open_bar(total(), label, name=name) as shown:
        yield shown.update


def open_bar(total: int | None, label: str, *, initial: int = 0, name: str | None = None) -> tqdm[Any]:
    """A line on standard error that follows the work, to be closed."""
    from tqdm import tqdm

    named = "{desc}: " if name else ""
    known = "{n_fmt}/{total_fmt}{unit} |{bar}| {elapsed}, {remaining} left, {rate_noinv_fmt}{postfix}"
    unknown = "{n_fmt}{unit}, {elapsed}, {rate_noinv_fmt}{postfix}"
    return tqdm(
        total=total,
        initial=initial,
        desc=name,
        unit=f" {label}",
        bar_format=named + (unknown if total is None else known),
        dynamic_ncols=True,
        file=sys.stderr,
    )


def bar(
    label: str, *, quiet: bool, total: Callable[[], int | None] | None = None
) -> Callable[[Iterable[T], int | None], Iterator[T]]:
    """:func:`progress` as the library's evaluations take it: called with items and their number.

    ``total`` is for those that do not know it.
    """
    return lambda items, known: progress(items, total=known or total, label=label, quiet=quiet)


def message(text: str, *, quiet: bool) -> None:
    """A line for the person at the terminal, on standard error."""
    if not quiet:
        print(visible(text), file=sys.stderr)


def warn(settings: Mapping[str, Any]) -> None:
    """Say what the settings of results warn of, on standard error, with ``--quiet`` too."""
    every = {**settings.get("scorer", {}), **settings}
    if warning := every.get("warning"):
        print(f"pdtools: {warning}", file=sys.stderr)
    used = every.get("given_trees_used", {"left_out": {}})
    for reason, number in used["left_out"].items():
        print(f"pdtools: {number} of the {used['trees']} trees left out: {reason}", file=sys.stderr)


def say_it_will_stop(*, quiet: bool) -> None:
    """The answer to a first Ctrl-C: without the buffer of standard error, which may be in use just then."""
    if not quiet:
        os.write(2, b"\nstopping after this step; what is done is kept (Ctrl-C again: stop at once)\n")


def print_json(value: Any) -> None:
    """The one JSON document of ``--json``, on standard output."""
    write_json(STDIO, value)
