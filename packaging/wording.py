"""Check of the beginnings of sentences in docstrings and comments: a noun or a verb comes first.

Usage: wording.py [--count] [PATH…]. By default pdtools, cli, tests/helpers, benchmarks and packaging.

A sentence that begins with "Of", "What", "Where", "Who", "Whether", "Those" or "That of" hides its subject.
So do comments and entries of lists of names (``name: of the file``) that begin with these words in lower
case; there "whether" may stand for a truth value. Each one is printed as FILE:LINE, and the exit status is
then 1. With --count, counts are printed instead: sentences, comments and entries, and each "that of" and
"those of".
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("pdtools", "cli", "tests/helpers", "benchmarks", "packaging")

_SENTENCE = re.compile(
    r"""(?:\A|\n[ \t]*\n|[.!?]["'”’)\]*_]*\s)\s*((?:Of|What|Where|Who|Whether|Those|That of)\b)(?!['’])"""
)
_LOWER = r"(of|what|where|who|those|that of)\b(?!['’])"
_COMMENT = re.compile(_LOWER)
_ENTRY = re.compile(
    rf"^[ \t]+`*[\w*.]+`*(?:(?:,| /| and) `*[\w*.]+`*)*(?: \([^)\n]*\))?: {_LOWER}", re.MULTILINE
)
_POINTER = re.compile(r"\b(?:that|those) of\b", re.IGNORECASE)

Found = tuple[int, str]


@cache
def docstrings(source: str) -> list[Found]:
    """Docstrings of a module, with their first lines."""
    nodes = ast.walk(ast.parse(source))
    texts = [(node.lineno, node.value) for node in nodes if isinstance(node, ast.Expr)]
    return [
        (line, text.value)
        for line, text in texts
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    ]


@cache
def comments(source: str) -> list[Found]:
    """Comments of a module, with their first lines; comments alone on adjacent lines are one."""
    found: list[Found] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, column = token.start
        is_alone = not token.line[:column].strip()
        text = token.string.lstrip("#! ")
        if is_alone and row == last + 1:
            first, before = found.pop()
            found.append((first, f"{before}\n{text}"))
        else:
            found.append((row, text))
        last = row if is_alone else 0
    return found


def sentences(source: str) -> list[Found]:
    """Line and first word of each sentence that hides its subject."""
    texts = [*docstrings(source), *comments(source)]
    return sorted(_place(line, text, match) for line, text in texts for match in _SENTENCE.finditer(text))


def phrases(source: str) -> list[Found]:
    """Line and first word of each comment and entry in lower case that hides its subject."""
    entries = [
        _place(line, text, match) for line, text in docstrings(source) for match in _ENTRY.finditer(text)
    ]
    return sorted(
        [*entries, *((line, match[1]) for line, text in comments(source) if (match := _COMMENT.match(text)))]
    )


def pointers(source: str) -> int:
    """The number of "that of" and "those of" in docstrings and comments."""
    return sum(len(_POINTER.findall(text)) for _, text in [*docstrings(source), *comments(source)])


def _place(line: int, text: str, match: re.Match[str]) -> Found:
    return line + text.count("\n", 0, match.start(1)), match[1]


def files(path: Path) -> list[Path]:
    """The modules of a folder, or the one that is named."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main(arguments: Sequence[str]) -> int:
    """Print findings or counts, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="counts by path")
    parser.add_argument("paths", nargs="*", metavar="PATH", help=f"(default: {' '.join(FOLDERS)})")
    given = parser.parse_args(arguments)
    is_found = False
    for path in given.paths or [str(ROOT / folder) for folder in FOLDERS]:
        sources = {file: file.read_text("utf-8") for file in files(Path(path))}
        found = {file: (sentences(source), phrases(source)) for file, source in sources.items()}
        if given.count:
            began, said = (sum(len(each[k]) for each in found.values()) for k in (0, 1))
            print(f"{began:5} {said:5} {sum(map(pointers, sources.values())):5}  {path}")
            continue
        for file, both in found.items():
            for line, word in sorted([*both[0], *both[1]]):
                is_found = True
                print(f"{file}:{line}: begins with {word!r}: name the subject")
    return int(is_found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
