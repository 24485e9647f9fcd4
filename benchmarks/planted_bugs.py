"""Bugs planted into a copy of the sources, one at a time, to count the ones that tests notice.

    OMP_NUM_THREADS=1 python benchmarks/planted_bugs.py [LIST.toml ...] [--minutes 10]

The lists are the files in ``benchmarks/planted_bugs/`` unless others are named. Each ``[[bug]]`` of a list
has a ``file``, a text that stands there once (``good``), its replacement (``bad``), the reason why that is
wrong (``why``), and the ``tests`` that are run, files or single ones (``tests/test_x.py::test_y``). A bug is
caught if they fail; tests that take longer than ``--minutes`` say nothing, and their bug is counted as
``over time``. One that is no Python is not planted, as anything catches it. A JSON line for each bug, then
one with the counts. Exit status 1 if a bug was not caught, or if the tests do not pass without one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
import tomllib

REPOSITORY = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent / "planted_bugs"
FOLDERS = (
    "benchmarks",
    "cli",
    "configs",
    "data",
    "docs",
    "examples",
    "packaging",
    "pdtools",
    "studies",
    "tests",
)
# In the repository they stand at the top; an installed copy has them inside the package.
INSIDE = ("cli", "configs", "data")
# Modules that tests load, and bugs are not planted into: imported once for all of them.
LOADED = ("torch", "pyarrow.parquet", "hypothesis")
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
    bugs = [bug for path in given.lists for bug in bugs_of(path)]
    for name in LOADED:
        importlib.import_module(name)
    counts = {"planted": 0, "caught": 0, "survived": 0, "over time": 0, "not planted": 0}
    with tempfile.TemporaryDirectory(prefix="planted-bugs-") as name:
        copy = copy_sources(Path(name))
        every_test = sorted({test for bug in bugs for test in bug.tests})
        without = outcome_of(copy, every_test, minutes=given.minutes * len(every_test))
        if without != "survived":
            reason = "fail" if without == "caught" else "run over time"
            print(f"the tests {reason} without a bug", file=sys.stderr)
            return 1
        for bug in bugs:
            outcome = plant(copy, bug, given.minutes)
            counts["planted"] += outcome != "not planted"
            counts[outcome] += 1
            print(json.dumps({"outcome": outcome, **vars(bug)}, ensure_ascii=False), flush=True)
    print(json.dumps(counts))
    return int(counts["caught"] < len(bugs))


def bugs_of(path: Path) -> list[Bug]:
    """The entries of a list."""
    return [Bug(**entry) for entry in tomllib.loads(path.read_text())["bug"]]


def copy_sources(folder: Path) -> Path:
    """A copy of the repository in which ``import pdtools`` finds the copy's modules, and no others."""
    copy = folder / "pdtools"
    for name in FOLDERS:  # with what Python compiled: modules of another time are compiled again
        shutil.copytree(REPOSITORY / name, copy / name)
    for path in REPOSITORY.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy)
    for name in INSIDE:
        (copy / "pdtools" / name).symlink_to(copy / name)
    return copy


def plant(copy: Path, bug: Bug, minutes: float) -> str:
    """Plant one bug and return a key of the counts. Afterwards the copy is as before."""
    if problem_of(bug, copy):
        return "not planted"
    path = copy / bug.file
    sources = path.read_text()
    path.write_text(sources.replace(bug.good, bug.bad))
    try:
        return outcome_of(copy, bug.tests, minutes=minutes)
    finally:
        path.write_text(sources)


def problem_of(bug: Bug, repository: Path) -> str | None:
    """The reason why a bug cannot be planted or looked for in these sources; None if it can."""
    sources = (repository / bug.file).read_text()
    if (n := sources.count(bug.good)) != 1:
        return f"{bug.file}: {n} times, not once: {bug.good!r}"
    if bug.good == bug.bad:
        return f"{bug.file}: the same text twice: {bug.good!r}"
    if bug.file.endswith(".py"):
        try:
            ast.parse(sources.replace(bug.good, bug.bad))
        except SyntaxError as error:
            return f"{bug.file}: no Python, {error}: {bug.bad!r}"
    for test in bug.tests:
        file, _, name = test.partition("::")
        if (
            not (repository / file).is_file()
            or f"def {name}(" * bool(name) not in (repository / file).read_text()
        ):
            return f"no test {test}"
    return None if bug.tests else "no tests"


def outcome_of(copy: Path, tests: list[str], *, minutes: float) -> str:
    """Run tests in the copy, in a forked process (their modules load slowly).

    Returns:
        ``survived`` if they pass, ``caught`` if they fail, ``over time`` if they were stopped.
    """
    with tempfile.TemporaryFile("w+") as log:
        if (child := os.fork()) == 0:
            _run_tests(copy, tests, log.fileno())
        status = _status(child, time.monotonic() + 60 * minutes)
        if status in _NO_TESTS:
            log.seek(0)
            raise SystemExit(log.read())
    return "over time" if status is None else "caught" if status else "survived"


def _run_tests(copy: Path, tests: list[str], log: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(copy)
        sys.path[0] = str(copy)
        sys.dont_write_bytecode = True
        os.environ["PYTHONPATH"], os.environ["PYTHONDONTWRITEBYTECODE"] = str(copy), "1"
        os.environ.setdefault("PDTOOLS_TEST_DATA", str(REPOSITORY.parent / "shared" / "data"))
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(status)


def _status(child: int, end: float) -> int | None:
    """The exit status of a process; None if its time is over, when it is killed with all that it started."""
    try:
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
