"""Sentences of a benchmark that share words in a row with a training text.

python overlap.py SENTENCES… --text train.txt [--words 8]

SENTENCES have one sentence a line: ``pdtools eval-blimp BLiMP.zip --write-sentences blimp.txt``.
Case and punctuation do not count. Rows are CSV: file, sentences, those that share, and the first of them.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def runs_of(line: str, length: int) -> Iterator[tuple[str, ...]]:
    """All runs of so many words of a line."""
    words = [word.replace("’", "'") for word in _WORD.findall(line.lower())]
    for first in range(len(words) - length + 1):
        yield tuple(words[first : first + length])


def main(arguments: list[str]) -> None:
    """Read the options, print the table."""
    given = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    given.add_argument("sentences", nargs="+", type=Path)
    given.add_argument(
        "--text", action="append", required=True, type=Path, help="one paragraph a line; repeatable"
    )
    given.add_argument("--words", type=int, default=8)
    options = given.parse_args(arguments)
    sentences = {file: file.read_text("utf-8").splitlines() for file in options.sentences}
    wanted = {run for lines in sentences.values() for line in lines for run in runs_of(line, options.words)}
    shared = set()
    for text in options.text:
        with text.open(encoding="utf-8") as paragraphs:
            for paragraph in paragraphs:
                shared.update(wanted.intersection(runs_of(paragraph, options.words)))
    table = csv.writer(sys.stdout)
    table.writerow(["file", "sentences", "shared", "first"])
    for file, lines in sentences.items():
        found = [line for line in lines if not shared.isdisjoint(runs_of(line, options.words))]
        table.writerow([file.name, len(lines), len(found), found[0] if found else ""])


if __name__ == "__main__":
    main(sys.argv[1:])
