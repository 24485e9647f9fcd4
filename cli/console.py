"""Output for people and scripts: progress and messages on standard error, JSON on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pdtools.errors import visible
from pdtools.files import STDIO, write_json

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")

_state = {"quiet": False}


def set_quiet(wanted: bool) -> bool:
    """Print no messages and bars from now on, or print them; the value of ``--quiet``."""
    _state["quiet"] = wanted
    return wanted


def is_quiet() -> bool:
    """Return whether messages and bars are not printed."""
    return _state["quiet"]


def shows_bars() -> bool:
    """Return whether progress bars are visible."""
    return not is_quiet() and sys.stderr.isatty()


def progress(
    items: Iterable[T],
    *,
    total: int | Callable[[], int | None] | None,
    label: str,
    name: str | None = None,
) -> Iterator[T]:
    """Pass items through, and show how many of how many, how fast and the time left; silent off a terminal.

    Args:
        items: the items to be counted.
        total: their number, None if unknown; a function is called only if the bar is visible.
        label: their name, in the plural.
        name: name of this pass over them, if there are several.
    """
    if not shows_bars():
        yield from items
        return
    with open_bar(total() if callable(total) else total, label, name=name) as shown:
        for item in items:
            yield item
            shown.update()


@contextmanager
def counter(name: str, *, total: Callable[[], int | None], label: str) -> Iterator[Callable[[int], object]]:
    """Show :func:`progress` without an iterator: the result is called with numbers of finished items."""
    if not shows_bars():
        yield lambda n: None
        return
    with open_bar(total(), label, name=name) as shown:
        yield shown.update


def open_bar(total: int | None, label: str, *, initial: int = 0, name: str | None = None) -> tqdm[Any]:
    """Open a progress bar on standard error, to be closed by the caller."""
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
    label: str, total: Callable[[], int | None] | None = None
) -> Callable[[Iterable[T], int | None], Iterator[T]]:
    """:func:`progress` in the form for evaluations: called with items and their number.

    ``total`` is used if the number is unknown.
    """
    return lambda items, known: progress(items, total=known or total, label=label)


def message(text: str) -> None:
    """Print a line for the person at the terminal, on standard error, unless with ``--quiet``."""
    if not is_quiet():
        print(visible(text), file=sys.stderr)


def warn(*of_models: Mapping[str, Any]) -> None:
    """Print warnings in the settings of results on standard error, also with ``--quiet``; each once."""
    said: dict[str, None] = {}
    for settings in of_models:
        if warning := settings.get("warning"):
            said[str(warning)] = None
        used = settings.get("given_trees_used", {"left_out": {}})
        for reason, number in used["left_out"].items():
            said[f"{number} of the {used['trees']} trees excluded: {reason}"] = None
    for line in said:
        print(f"pdtools: {line}", file=sys.stderr)


def say_it_will_stop() -> None:
    """Answer a first Ctrl-C, without standard error's buffer, which may be in use just then."""
    if not is_quiet():
        os.write(2, b"\nstopping after this step; what is done is kept (Ctrl-C again: stop at once)\n")


def print_json(value: Any) -> None:
    """Print the one JSON document of ``--json`` on standard output."""
    write_json(STDIO, value)
