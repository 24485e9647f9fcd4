"""Length of the documentation's prose: words, sentences, and how long sentences are.

Usage: prose.py [--json] [PAGE…]. By default the pages of docs/guide and docs/reference.

Passages that ``make docs`` writes (``<!-- generated: … -->`` to ``<!-- end -->``) are excluded: prose
written by hand counts.

Prose is paragraphs and list items. Headings, code blocks, tables, images, comments and targets of links are
not counted; code within a line is one word. A sentence ends at . ! ? before a space, or with its block.
The column "file" has the words of the whole file, tables and code too, but not a table's bars and rules.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
LONG = 30  # words: a sentence of fewer is short

_FENCED = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_ITEM = re.compile(r" *(?:[-*+]|\d+\.) +")
_ABBREVIATION = re.compile(r"\b(al|cf|e\.g|eq|fig|figs|i\.e|no|p|pp|sec|vs)\.(?=\s)", re.IGNORECASE)
_END = re.compile(r"[.!?…][\"'”’)\]*_]*\s+")
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Prose:
    """Counts of one page or several; they can be added."""

    words: int = 0
    sentences: int = 0
    short: int = 0  # sentences of fewer than LONG words
    file: int = 0  # words of the whole file

    def __add__(self, other: Prose) -> Prose:
        return Prose(
            self.words + other.words,
            self.sentences + other.sentences,
            self.short + other.short,
            self.file + other.file,
        )

    @property
    def mean(self) -> float:
        """The mean number of words in a sentence."""
        return self.words / self.sentences if self.sentences else 0.0

    @property
    def short_share(self) -> float:
        """Share of sentences under LONG words."""
        return self.short / self.sentences if self.sentences else 1.0


def blocks(markdown: str) -> Iterator[str]:
    """Paragraphs and list items of a page, one line each, without the markup around words."""
    markdown = _COMMENT.sub("", _FENCED.sub("", markdown))
    markdown = _CODE.sub("CODE", _LINK.sub(r"\1", _IMAGE.sub("", markdown)))
    block: list[str] = []
    in_list = False
    for line in [*markdown.splitlines(), ""]:
        item = _ITEM.match(line)
        is_code = line.startswith("    ") and not in_list and not block
        if not line.strip() or line.lstrip().startswith(("#", "|")) or is_code or item:
            if block:
                yield " ".join(block)
            block = []
            in_list = in_list and not line.startswith("#") if not item else True
            if item:
                block.append(line[item.end() :].strip())
            continue
        in_list = in_list and (bool(block) or line.startswith(" "))
        block.append(line.strip())


def sentences(block: str) -> Iterator[list[str]]:
    """The sentences of a block, each as its words: parts between spaces with a letter or a digit."""
    for sentence in _END.split(_ABBREVIATION.sub(r"\1", block) + " "):
        if words := _words(sentence):
            yield words


def _words(text: str) -> list[str]:
    return [word for word in text.split() if _WORD.search(word)]


def measured(markdown: str) -> Prose:
    """The counts of one page."""
    lengths = [len(sentence) for block in blocks(markdown) for sentence in sentences(block)]
    short = sum(length < LONG for length in lengths)
    return Prose(sum(lengths), len(lengths), short, len(_words(markdown)))


def hand_written(markdown: str) -> str:
    """A page without its generated passages."""
    return _GENERATED.sub("", markdown)


def main(arguments: Sequence[str]) -> int:
    """Print the counts of each page and of all together, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "pages", nargs="*", metavar="PAGE", help="Markdown files (default: guide and reference)"
    )
    given = parser.parse_args(arguments)
    pages = given.pages or [
        str(page) for folder in ("guide", "reference") for page in sorted((DOCS / folder).rglob("*.md"))
    ]
    try:
        found = {page: measured(hand_written(Path(page).read_text("utf-8"))) for page in pages}
    except (OSError, UnicodeDecodeError) as error:
        print(f"prose.py: {error}", file=sys.stderr)
        return 1
    found["total"] = sum(found.values(), Prose())
    if given.json:
        rows = {
            page: {
                **asdict(counts),
                "mean": round(counts.mean, 2),
                "short_share": round(counts.short_share, 4),
            }
            for page, counts in found.items()
        }
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'words':>7} {'sentences':>9} {'mean':>6} {f'under {LONG}':>9} {'file':>7}")
    for page, counts in found.items():
        name = str(page).removeprefix(f"{DOCS}/")
        numbers = f"{counts.words:7,} {counts.sentences:9,} {counts.mean:6.1f} {counts.short_share:9.1%}"
        print(f"{numbers} {counts.file:7,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
