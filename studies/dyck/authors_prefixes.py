"""Prefixes drawn as the authors' code draws them: all far closers of a few strings, until there are 50.

Usage: authors_prefixes.py STRINGS FOLDER (STRINGS as pdtools generate dyck writes them). Writes
dependency-50-01.tsv and so on: for each least dependency up to 12 samples, of strings that follow each other.
The prefixes of a sample are not independent of each other, which is why the study takes one of each string.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pdtools.formal.bracket_prefixes import BracketPrefix, write_prefixes

# As in the released code.
LONGEST_STRING, PREFIXES = 500, 50
DEPENDENCIES = (50, 100, 200, 300)
SAMPLES = 12


def far_closers(tokens: tuple[str, ...], least: int) -> Iterator[BracketPrefix]:
    """The prefixes of a string before every closer that is at least so many tokens after its opener."""
    opened: list[int] = []
    depth = 0
    for position, token in enumerate(tokens):
        if token[0] == "(":
            opened.append(position)
            depth = max(depth, len(opened))
        elif (dependency := position - opened.pop()) >= least:
            yield BracketPrefix(tokens=tokens[:position], closer=token, dependency=dependency, depth=depth)


def samples(strings: Iterable[tuple[str, ...]], least: int) -> Iterator[list[BracketPrefix]]:
    """Prefixes of strings that follow each other, at least ``PREFIXES`` a sample; the rest is dropped."""
    sample: list[BracketPrefix] = []
    for tokens in strings:
        if len(tokens) <= LONGEST_STRING:
            sample += far_closers(tokens, least)
        if len(sample) >= PREFIXES:
            yield sample
            sample = []


def main(file: Path, folder: Path) -> None:
    """Write the samples."""
    folder.mkdir(parents=True, exist_ok=True)
    strings = [tuple(line.split()) for line in file.read_text().splitlines()]
    for least in DEPENDENCIES:
        for number, sample in enumerate(islice(samples(strings, least), SAMPLES), start=1):
            write_prefixes(sample, folder / f"dependency-{least}-{number:02}.tsv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
