"""Text of inputs made safe to display: nothing in it moves a cursor, or hides other text."""

from __future__ import annotations

import re

# Control characters of ASCII and Latin-1, line and paragraph separators, marks of direction (which reorder
# the text after them), halves of surrogate pairs, which spell bytes of file names, and non-characters.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Text with such characters escaped as in Python: ``\x1b``, ``\u202e``, ``\n``."""
    return text if text.isprintable() else _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
