"""Halves of the SG suites and of BLiMP: variants are chosen by even-numbered items, scored on the odd ones.

python halves.py SUITES.zip BLIMP.zip FOLDER      writes even/ and odd/, each with folders sg and blimp

Each half needs an output folder of the study of its own: a result that is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pdtools.errors import PdtoolsError
from pdtools.files import read_json, read_lines
from pdtools.files.source import ZipMember

HALVES = ("even", "odd")


def halve_suites(source: Path, folder: Path) -> None:
    """Items keep their numbers, suites what else they say; one without items in a half is not there."""
    for place in ZipMember.within(str(source), (".json",)):
        suite = read_json(place)
        for rest, half in enumerate(HALVES):
            items = [item for item in suite["items"] if item["item_number"] % 2 == rest]
            if not items:
                continue
            text = json.dumps({**suite, "items": items}, ensure_ascii=False)
            _file(folder, half, "sg", place).write_text(text, encoding="utf-8")


def halve_pairs(source: Path, folder: Path) -> None:
    """The pairs of a paradigm have the numbers of their lines, from 1."""
    for place in ZipMember.within(str(source), (".jsonl",)):
        for number, line in read_lines(place):
            with _file(folder, HALVES[number % 2], "blimp", place).open("a", encoding="utf-8") as stream:
                stream.write(f"{line}\n" if line else "")


def _file(folder: Path, half: str, task: str, place: str) -> Path:
    (of_task := folder / half / task).mkdir(parents=True, exist_ok=True)
    return of_task / Path(place).name


def main() -> None:
    """Read the arguments, write both halves of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("suites", type=Path)
    parser.add_argument("blimp", type=Path)
    parser.add_argument("folder", type=Path, help="not there yet")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    halve_suites(given.suites, given.folder)
    halve_pairs(given.blimp, given.folder)


if __name__ == "__main__":
    try:
        main()
    except (PdtoolsError, OSError) as error:
        sys.exit(f"halves.py: {error}")
