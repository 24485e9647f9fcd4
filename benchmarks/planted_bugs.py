"""Bugs planted into a copy of the sources, one at a time: which do the tests notice?

    OMP_NUM_THREADS=1 python benchmarks/planted_bugs.py [LIST.toml ...] [--minutes 10]

The lists are those in ``benchmarks/planted_bugs/`` unless others are named. Each ``[[bug]]`` of a list has a
``file``, the text that stands there once (``good``), what takes its place (``bad``), what is wrong with that
(``why``), and the ``tests`` that are run. A bug is caught if they fail, or take longer than ``--minutes``.
A JSON line for each bug, then one with the counts. Exit status 1 if a bug survived or could not be planted,
or if the tests fail without one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tomllib

REPOSITORY = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent / "planted_bugs"
FOLDERS = ("benchmarks", "cli", "configs", "data", "docs", "examples", "pdtools", "studies", "tests")
# In the repository they stand at the top; an installed copy has them inside the package.
INSIDE = ("cli", "configs", "data")
_NO_TESTS = {4, 5}  # pytest's status: wrong usage, nothing collected


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One entry of a list."""

    file: str
    good: str
    bad: str
    why: str
    tests: list[str]


def main() -> int:
    """Plant the bugs of all lists."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("lists", nargs="*", type=Path, default=sorted(LISTS.glob("*.toml")))
    parser.add_argument("--minutes", type=float, default=10, help="for the tests of one bug")
    given = parser.parse_args()
    bugs = [Bug(**entry) for path in given.lists for entry in tomllib.loads(path.read_text())["bug"]]
    counts = {"planted": 0, "caught": 0, "survived": 0, "not planted": 0}
    with tempfile.TemporaryDirectory(prefix="planted-bugs-") as name:
        copy = copy_sources(Path(name))
        every_test = sorted({test for bug in bugs for test in bug.tests})
        if not passes(copy, every_test, minutes=given.minutes * len(every_test)):
            print("the tests fail without a bug", file=sys.stderr)
            return 1
        for bug in bugs:
            outcome = plant(copy, bug, given.minutes)
            counts["planted"] += outcome != "not planted"
            counts[outcome] += 1
            print(json.dumps({"outcome": outcome, **vars(bug)}, ensure_ascii=False), flush=True)
    print(json.dumps(counts))
    return int(counts["caught"] < len(bugs))


def copy_sources(folder: Path) -> Path:
    """A copy of the repository in which ``import pdtools`` finds the copy's modules, and no others."""
    copy = folder / "pdtools"
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in REPOSITORY.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy)
    for name in INSIDE:
        (copy / "pdtools" / name).symlink_to(copy / name)
    return copy


def plant(copy: Path, bug: Bug, minutes: float) -> str:
    """What became of one bug: ``caught``, ``survived`` or ``not planted``. The copy is as before then."""
    path = copy / bug.file
    sources = path.read_text()
    if sources.count(bug.good) != 1 or bug.good == bug.bad:
        return "not planted"
    path.write_text(sources.replace(bug.good, bug.bad))
    try:
        return "survived" if passes(copy, bug.tests, minutes=minutes) else "caught"
    finally:
        path.write_text(sources)


def passes(copy: Path, tests: list[str], *, minutes: float) -> bool:
    """Whether tests pass in the copy, in that time."""
    data = os.environ.get("PDTOOLS_TEST_DATA", str(REPOSITORY.parent / "shared" / "data"))
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PDTOOLS_TEST_DATA": data,
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=60 * minutes, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode in _NO_TESTS:
        raise SystemExit(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
