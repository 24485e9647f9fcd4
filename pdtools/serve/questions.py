"""Questions of a page, with their limits."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from pdtools.errors import PdtoolsError

Kind = Literal["sentence", "pair", "next", "table"]

MOST_CHARS = 2_000
"""Characters of a sentence, or of a beginning of one."""
MOST_CONTEXT = 20_000
"""Characters of the context."""
MOST_BEAM = 1_000
MOST_ROWS = 200_000
"""Rows of a table."""
MOST_BYTES = 32 << 20
"""Bytes of a table's file."""
MOST_JSON = 1 << 18
"""Bytes of a question."""
SUFFIXES = (".csv", ".tsv", ".xlsx")
"""Endings of the tables that are taken."""
_NO_NAME = re.compile(r"[/\\\x00-\x1f]")
LIKELIEST = 20
"""Number of next tokens that are listed."""


@dataclass(frozen=True, kw_only=True)
class PageQuestion:
    """A question of a page.

    Attributes:
        page: the page, by a name that it made up.
        kind: sort of question.
        texts: the sentence; the two of a pair; the beginning of a sentence; none for a table.
        beam: hypotheses of the search; None: as the command line says.
        context: sentences read before.
        words: whether rows are words, not tokens (of a table: not regions).
        name: a table's, for its command line.
    """

    page: str
    kind: Kind
    texts: tuple[str, ...] = ()
    beam: int | None = None
    context: tuple[str, ...] = ()
    words: bool = False
    name: str = ""

    @property
    def suffix(self) -> str:
        """The ending of a table's name."""
        return PurePosixPath(self.name).suffix.lower()


def read_question(data: bytes, *, table: bool) -> PageQuestion:
    """Read a question.

    Args:
        data: JSON.
        table: whether it comes with a table, or asks about typed text.

    Raises:
        PdtoolsError: if it is no such question, or beyond a limit; the message is for the page.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PdtoolsError("this is no JSON") from error
    if not isinstance(found, dict):
        raise PdtoolsError("this is no question")
    kind: Any
    kind, beam, page, words = (found.get(name) for name in ("kind", "beam", "page", "words"))
    if kind not in get_args(Kind) or (kind == "table") != table:
        raise PdtoolsError("this is no question")
    if not (isinstance(page, str) and 0 < len(page) <= 64 and isinstance(words, bool | None)):
        raise PdtoolsError("this is no question")
    if beam is not None and (type(beam) is not int or not 1 <= beam <= MOST_BEAM):
        raise PdtoolsError(f"the beam has to be a whole number from 1 to {MOST_BEAM:,}")
    context = _text(found.get("context", ""), "the context", MOST_CONTEXT)
    texts = found.get("texts", [])
    if not isinstance(texts, list) or len(texts) != {"table": 0, "pair": 2}.get(kind, 1):
        raise PdtoolsError("this is no question")
    texts = [_text(each, "a sentence", MOST_CHARS).replace("\n", " ") for each in texts]
    if kind != "next" and not all(map(str.strip, texts)):
        raise PdtoolsError("there are no words: type a sentence")
    lines = tuple(line for line in context.split("\n") if line.strip())
    if kind == "next" and lines:
        raise PdtoolsError("what comes next is told without a context: write its sentences before the words")
    question = PageQuestion(
        page=page,
        kind=kind,
        texts=tuple(texts),
        beam=beam,
        context=lines,
        words=bool(words),
        name=_text(found.get("name", ""), "a table's name", 255) if table else "",
    )
    if table and (question.suffix not in SUFFIXES or _NO_NAME.search(question.name)):
        raise PdtoolsError(f"a table's name ends in {', '.join(SUFFIXES)}")
    return question


def _text(value: Any, what: str, most: int) -> str:
    if not isinstance(value, str):
        raise PdtoolsError("this is no question")
    if len(value) > most:
        raise PdtoolsError(f"{what} has at most {most:,} characters, not {len(value):,}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PdtoolsError(f"{what} has halves of characters")
    return value
