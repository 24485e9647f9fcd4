"""Tables and sentences of the documentation that come from files of results: made anew, or checked.

Usage: pages.py [--check] [PAGE…]. By default all pages of docs/ and the notebooks: studies/*/README.md,
benchmarks/*.md. With --check nothing is written, and the exit status is 1 if a page is not what it would
become.

What stands in a page between ``<!-- generated: STUDY PASSAGE ARGUMENT… -->`` and ``<!-- end -->``, on lines
of its own or within one, is what ``PASSAGES[PASSAGE]`` of studies/STUDY/report.py makes of the arguments.
NAME.json among them is that document of docs/notes/results/STUDY, others are passed as they are. For STUDY
``reference`` it is packaging/reference.py, which reads commands and recipes instead of results.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_text, read_json

STUDIES = Path(__file__).resolve().parent
DOCS = STUDIES.parent / "docs"
_BEGIN = re.compile(r"<!-- generated: ([^>]*?) -->")
_PASSAGE = re.compile(_BEGIN.pattern + r"(.*?)<!-- end -->", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Write pages, or say which are stale; the exit status."""
    check = "--check" in arguments
    pages = [Path(name) for name in arguments if name != "--check"] or documents()
    stale = 0
    try:
        for page in pages:
            text = page.read_text(encoding="utf-8")
            made = generated(text, page)
            if made == text:
                continue
            stale += 1
            if check:
                print(f"{page}: stale (make docs, or python studies/pages.py)", file=sys.stderr)
            else:
                with atomic_text(page) as stream:
                    stream.write(made)
    except (PdtoolsError, OSError) as error:
        print(f"pages.py: {error}", file=sys.stderr)
        return 1
    return int(check and stale > 0)


def documents() -> list[Path]:
    """The pages of the documentation and the notebooks."""
    notebooks = [*STUDIES.glob("*/README.md"), *(STUDIES.parent / "benchmarks").glob("*.md")]
    return sorted([*DOCS.rglob("*.md"), *notebooks])


def generated(text: str, page: Path) -> str:
    """The text of a page with all its passages made anew.

    Raises:
        InputError: if a passage does not end, or nothing makes it.
    """

    def anew(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        if _BEGIN.search(match[2]):
            raise InputError("a generated passage without <!-- end -->", file=page, line=line)
        is_block = match[2].startswith("\n")
        if not is_block and not text[: match.start()].rpartition("\n")[2].strip():
            # A line that begins with a comment is not read as Markdown.
            raise InputError("a passage begins a line: give it lines of its own", file=page, line=line)
        try:
            study, name, *given = match[1].split()
            made = report_of(study).PASSAGES[name](*(argument(study, each) for each in given)).strip("\n")
        except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
            raise InputError(f"nothing makes the passage {match[1]!r}", file=page, line=line) from error
        edge = "\n" if is_block else ""
        return f"<!-- generated: {match[1]} -->{edge}{made}{edge}<!-- end -->"

    made = _PASSAGE.sub(anew, text)
    if len(_BEGIN.findall(text)) != len(_PASSAGE.findall(text)):
        raise InputError("a generated passage without <!-- end -->", file=page)
    return made


def argument(study: str, word: str) -> object:
    """A document of results, or the word itself."""
    return read_json(DOCS / "notes" / "results" / study / word) if word.endswith(".json") else word


@cache
def report_of(study: str) -> ModuleType:
    """The script that makes a study's tables. It may import what is beside it."""
    name = f"report_of_{study.replace('-', '_')}"
    script = STUDIES / study / "report.py"
    if study == "reference":
        script = STUDIES.parent / "packaging" / "reference.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a dataclass looks for its annotations
    sys.path.append(str(STUDIES / study))  # as Python does for a script
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
