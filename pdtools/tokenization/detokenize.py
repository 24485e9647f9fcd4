"""Treebank words as people write them: which words are joined without a space.

The conventions are the Penn Treebank's rules for splitting words, undone. If the words alone don't
tell (a lone hyphen, a slash, a dash), the spaces stay. The full stop after an abbreviation that ends
in one keeps its space too (``U.S. .``): writing one stop for both would leave a word without text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CLITIC = re.compile(r"(?:['’](?:s|m|d|ll|re|ve)|n['’]t)", re.IGNORECASE)
_CLOSING = frozenset([",", ";", ":", "?", "!", "%", ")", "]", "}", "'", "’", "”", "»", "…"])
_OPENING = frozenset(["(", "[", "{", "‘", "“", "„", "«"])
_DOTS = re.compile(r"\.+")
_CURRENCY = frozenset(["$", "#", "£", "€", "¥"])
_NUMBER = re.compile(r"\.?\d")
# Words that people write as one and the treebank splits.
_JOINED = frozenset(
    [
        ("can", "not"),
        ("gon", "na"),
        ("wan", "na"),
        ("got", "ta"),
        ("gim", "me"),
        ("lem", "me"),
        ("'t", "is"),
        ("'t", "was"),
    ]
)


def detokenize(words: Sequence[str]) -> tuple[list[str], list[bool]]:
    """Spell words as in running text and say which are preceded by a space.

    Args:
        words: words as a treebank splits them, without escapes.

    Returns:
        The words as people spell them (double quotes become ``"``, a lone backquote ``'``), and for
        each whether a space precedes it (True for the first word).
    """
    spelled: list[str] = []
    spaces: list[bool] = []
    glue = False  # the previous word takes no space after it
    quoted = False  # inside straight double quotes
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        following = words[number + 1] if number + 1 < len(words) else ""
        opens_quote = word == "``" or (word == '"' and not quoted)
        closes_quote = word == "''" or (word == '"' and quoted)
        if opens_quote or closes_quote:
            quoted = opens_quote
        space = not (
            glue
            or closes_quote
            or word in _CLOSING
            or _DOTS.fullmatch(word) is not None
            or _CLITIC.fullmatch(word)
            or (before.lower(), word.lower()) in _JOINED
        )
        if before.endswith(".") and _DOTS.fullmatch(word):
            space = True
        spelled.append('"' if opens_quote or closes_quote else "'" if word == "`" else word)
        spaces.append(space or not number)
        glue = (
            opens_quote
            or word in _OPENING
            or word == "`"
            or (word in _CURRENCY and _NUMBER.match(following) is not None)
        )
    return spelled, spaces
