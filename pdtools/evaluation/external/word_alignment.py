"""Alignment of tokens without offsets, such as LM-Zoo's, with the words of their sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pdtools.search.scores import is_unknown

# Tokens for the edges of a sentence.
_EDGE = re.compile(
    r"(?i)</?s>|<\|?(bos|eos|sos|root|(start|begin|end)_?of_?(text|sentence))\|?>|\[(bos|eos|cls|sep)\]"
)

# How treebanks spell a double quote, whole or in two subwords.
_QUOTES = ("``", "''", "`", "'")


def is_edge(token: str) -> bool:
    """Return whether a token marks the beginning or the end of a sentence."""
    return _EDGE.fullmatch(token) is not None


def align_tokens(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | int:
    """Find tokens in a text, each inside one text word, together covering all of the text.

    Capitals are ignored, as are the marks of word boundaries in subwords (``Ġthe``, ``▁the``, ``##ing``,
    ``th@@``, ``the</w>``). ``-LRB-`` is a bracket, two backquotes or apostrophes are a double quote. An
    unknown word is the rest of its word, or the part of it that the next tokens leave.

    Args:
        text: the sentence.
        tokens: the sentence's tokens, without its edges'.

    Returns:
        Start and end of each token in ``text``; or, if they cannot be placed, the index of the
        first token that does not fit the text, ``len(tokens)`` if the text goes on after the last.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    # For each possible end of the tokens so far: the beginning of the last one, and the place before.
    steps: list[dict[int, tuple[int, int]]] = []
    places = [0]
    for number, token in enumerate(tokens):
        reached: dict[int, tuple[int, int]] = {}
        starts = [_skip_spaces(text, place) for place in places]
        for place, start, following in zip(places, starts, [*starts[1:], len(text)], strict=True):
            for end in _ends(token, text, folded, start, following):
                reached[end] = (start, place)  # the latest start wins: unknown words are as long as possible
        if not reached:
            return number
        steps.append(reached)
        places = sorted(reached)
    covering = [place for place in places if _skip_spaces(text, place) == len(text)]
    if not covering:
        return len(tokens)
    place = covering[-1]
    spans = []
    for reached in reversed(steps):
        start, before = reached[place]
        spans.append((start, place))
        place = before
    return spans[::-1]


def _skip_spaces(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _ends(token: str, text: str, folded: str, start: int, following: int) -> Iterator[int]:
    """Possible ends of a token that begins at ``start``; after ``following`` an unknown one begins there."""
    for form in () if any(map(str.isspace, token)) else _forms(token):  # inside one word
        if folded.startswith((form, form.lower()), start):
            yield start + len(form)
            break
    if token in _QUOTES and text[start : start + 1] == '"':
        yield start + 1
        if len(token) == 1:  # half of one
            yield start
    if is_unknown(token):
        end = start
        while end < max(start + 1, following) and end < len(text) and not text[end].isspace():
            end += 1
            yield end


def _forms(token: str) -> Iterator[str]:
    """Possible forms of a token in the text: itself, then without marks and escapes. A lone mark is empty."""
    from pdtools.trees import unescape

    yield token
    yield unescape(token)
    yield token.lstrip("Ġ▁")
    if len(token) > 2:
        yield token.removeprefix("##")
        yield token.removesuffix("@@")
    if token.endswith("</w>"):
        yield token.removesuffix("</w>")
