"""Values of options that need more than a type."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from pdtools.errors import InputError
from pdtools.files import GivenText, Kind, Rejects, Source, expand_inputs

if TYPE_CHECKING:
    from pdtools.stimuli.frequency import Frequency
    from pdtools.trees import Tree

T = TypeVar("T")
_MOST_DIGITS = 6  # strings of a million symbols are no task


def input_files(
    inputs: Sequence[str] | None,
    texts: Sequence[str] | None,
    suffixes: Sequence[str],
    kind: Kind | None,
    only: Callable[[str], bool] | None = None,
) -> list[Source]:
    """The files that a command reads: the named ones, or one of the lines given with --text.

    Raises:
        typer.BadParameter: unless it is exactly one of the two.
        InputError: see :func:`pdtools.files.expand_inputs`.
    """
    if bool(inputs) == bool(texts):
        raise typer.BadParameter("give either INPUT (files, or -) or --text SENTENCE")
    if texts:
        return [GivenText.of(texts)]
    try:
        return expand_inputs(inputs or [], suffixes, kind, only)
    except InputError as error:
        if " " not in str(error.file) or os.path.exists(str(error.file)):
            raise
        hint = "a sentence itself is given with --text"
        raise InputError(error.reason, file=error.file, hint=hint) from None


def sentence_files(inputs: Sequence[str] | None, texts: Sequence[str] | None, source: str) -> list[Source]:
    """The files that sentences are read from, in a form of :data:`pdtools.search.inputs.SentenceForm`.

    Raises:
        typer.BadParameter: see :func:`input_files`.
        InputError: the same; or if a file is in a form of treebank that is not read here.
    """
    from pdtools.parsers.pipeline import KINDS, SUFFIXES

    kind, suffixes = KINDS[source], SUFFIXES[source]
    if not inputs:
        return input_files(inputs, texts, suffixes, kind)
    from pdtools.trees.forms import refuse_for

    refuse_for(kind, filter(os.path.isfile, inputs))
    files = input_files(inputs, texts, suffixes, kind)
    refuse_for(kind, files)
    return files


def parse_range(text: str, smallest: int = 1) -> range:
    """Parse ``15-50`` as the numbers from 15 to 50, ``15`` as that number."""
    first, dash, last = text.partition("-")
    if not dash:
        last = first
    if not all(number.isascii() and number.isdecimal() for number in (first, last)):
        raise typer.BadParameter(f"{text!r} is not a range such as 15-50")
    if max(len(first), len(last)) > _MOST_DIGITS:
        raise typer.BadParameter(f"{text!r}: numbers have at most {_MOST_DIGITS} digits here")
    if not smallest <= int(first) <= int(last):
        raise typer.BadParameter(
            f"{text!r}: a range begins at {smallest} or more and goes upwards, such as 15-50"
        )
    return range(int(first), int(last) + 1)


def named_columns(given: Sequence[str] | None) -> dict[str, str]:
    """Parse the values of --column: names of columns by role."""
    pairs = []
    for text in given or ():
        name, separator, column = text.partition("=")
        if not (separator and name and column):
            raise typer.BadParameter(f"--column {text}: has to be NAME=COLUMN, such as time=RT")
        pairs.append((name, column))
    return by_key("--column", pairs)


def by_key(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The values of an option KEY=VALUE by key.

    Raises:
        typer.BadParameter: for a key with two values, of which the last would win.
    """
    found: dict[str, T] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise typer.BadParameter(f"{option} {key} takes one value: {found[key]} and {value} are given")
    return found


def check_frequencies(frequencies: str | None, wordfreq: str | None) -> None:
    """Refuse two sources of frequencies."""
    if frequencies is not None and wordfreq is not None:
        raise typer.BadParameter("give only one of --frequencies and --wordfreq")


def read_frequencies(frequencies: str | None, wordfreq: str | None) -> Frequency | None:
    """The frequencies of words, from --frequencies or --wordfreq; None without them."""
    from pdtools.stimuli.frequency import frequencies_of_file, frequencies_of_wordfreq

    if frequencies is not None:
        return frequencies_of_file(frequencies)
    return None if wordfreq is None else frequencies_of_wordfreq(wordfreq)


def one_tree(text: str) -> Tree:
    """Parse the one tree in an argument, written as in a treebank.

    Raises:
        InputError: if it is no tree, or there are several.
    """
    from pdtools.trees import read_trees

    given = GivenText.of([text])
    trees = [sourced.tree for sourced in read_trees([given], Rejects("fail", hint=None))]
    if len(trees) != 1:
        raise InputError(f"{len(trees)} trees, but one is shown at a time", file=given)
    return trees[0]
