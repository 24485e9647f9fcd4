"""Conversion of text to words and back, in the two styles that a tokenizer can be made for.

``ptb``: words as a treebank splits them, with a space between all of them (``They did n't . ''``).
``raw``: text as people write it (``They didn't."``); the words are the same stretches of it, as written.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

from pdtools.errors import PdtoolsError

TextStyle = Literal["ptb", "raw"]
TEXT_STYLES: tuple[str, ...] = get_args(TextStyle)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text and its words.

    Attributes:
        text: the sentence.
        words: its words. A word may be spelled otherwise than the text: in ``ptb`` style a double quote
            of the text is a word of two backquotes or two apostrophes.
        starts: the beginning of each word in ``text``, in characters.
        ends: the end of each word in ``text`` (exclusive).
        before: the sentences that a model may read before it, nearest last.
    """

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    before: tuple[Sentence, ...] = ()

    @property
    def space_before(self) -> tuple[bool, ...]:
        """True for each word separated from the word before it; False for the first word."""
        if not self.words:
            return ()
        return (False, *(start > end for start, end in zip(self.starts[1:], self.ends, strict=False)))

    def word_at(self, start: int) -> int:
        """The word that the character at ``start`` belongs to; white space belongs to the word after it."""
        word = bisect_right(self.starts, start) - 1
        if word < 0 or (start >= self.ends[word] and word + 1 < len(self.words)):
            word += 1
        return word


def check_style(style: str) -> None:
    """Raise PdtoolsError if ``style`` is not one of TEXT_STYLES."""
    if style not in TEXT_STYLES:
        raise PdtoolsError(f"unknown text style {style!r} (choose from {', '.join(TEXT_STYLES)})")


# --- text to words ----------------------------------------------------------------------------


def split_words(text: str, style: str) -> Sentence:
    """Split a sentence into words by the rules of ``nltk.tokenize.NLTKWordTokenizer``.

    Every Unicode space counts as an ASCII one (nltk knows opening quotes by these only). A curly apostrophe
    in a word or at its beginning counts as a straight one (nltk knows clitics by that only); long dashes and
    ellipses are words (nltk knows ``--`` and ``...``). Any string is accepted.

    Args:
        text: one sentence; offsets refer to it.
        style: ``ptb`` spells double quotes as a treebank does (two backquotes, two apostrophes); ``raw``
            keeps every word as the text has it.
    """
    check_style(style)
    straight = _OTHER_SPACE.sub(" ", _APOSTROPHE.sub("'", text))
    found = _word_tokenizer().tokenize(straight)
    tokens = [part for token in found for part in _LONG_SIGN.split(token) if part]
    spans = list(_align(tokens, straight))
    words = [text[start:end] for start, end in spans]
    if style == "ptb" and len(tokens) == len(spans):
        words = _treebank_quotes(words, tokens, [text[end : end + 1] for _, end in spans])
    return Sentence(text, tuple(words), tuple(s for s, _ in spans), tuple(e for _, e in spans))


def split_spaces(text: str) -> Sentence:
    """Split a text whose words are already separated by ASCII spaces.

    Other spaces (no-break, thin, ...) belong to words, as they do in treebanks.
    """
    return _stretches(_NOT_ASCII_SPACE, text)


def split_text_words(text: str) -> Sentence:
    """Split a raw text into its *text words*, the stretches between white space of any kind, as ``happy.``.

    The words that :func:`split_words` finds are parts of these (``happy`` and ``.``).
    """
    return _stretches(_NOT_SPACE, text)


def _stretches(pattern: re.Pattern[str], text: str) -> Sentence:
    spans = [match.span() for match in pattern.finditer(text)]
    words = tuple(text[start:end] for start, end in spans)
    return Sentence(text, words, tuple(s for s, _ in spans), tuple(e for _, e in spans))


def _treebank_quotes(words: list[str], tokens: Sequence[str], followers: Sequence[str]) -> list[str]:
    """Respell each ``"`` as nltk's token, but as closing if it stands free and ends a quotation.

    nltk takes every quote after a space for an opening one, which is wrong in text with spaces between all
    words. Quotes that are already a treebank's are left alone.
    """
    respelled = []
    quoted = False
    for word, token, follower in zip(words, tokens, followers, strict=True):
        if word == '"':
            word = "''" if quoted and (not follower or follower.isspace()) else token
        if word in ("``", "''"):
            quoted = word == "``"
        respelled.append(word)
    return respelled


@functools.cache
def _word_tokenizer() -> Any:
    """nltk's tokenizer, imported without those parts of scipy that would take most of the time.

    nltk needs scipy.stats for one test of collocations; there it is imported when the test is called.
    scipy.sparse it needs for a parser that works with scikit-learn only.
    """
    # scikit-learn, which nltk imports if installed, could not do without them.
    is_asked_for = "scipy.stats" in sys.modules or "nltk" in sys.modules or find_spec("sklearn") is not None
    without = not is_asked_for and threading.active_count() == 1
    parts = {"scipy.stats", "scipy.sparse"} - set(sys.modules) if without else set()
    for name in parts:
        sys.modules[name] = None  # type: ignore[assignment]  # makes an import of it fail
    try:
        from nltk.metrics import association
        from nltk.tokenize.destructive import NLTKWordTokenizer
    finally:
        for name in parts:
            del sys.modules[name]
    if without:
        association.fisher_exact = _fisher_exact
    return NLTKWordTokenizer()


def _fisher_exact(*tables: Any, **options: Any) -> Any:
    from scipy.stats import fisher_exact

    return fisher_exact(*tables, **options)


_OTHER_SPACE = re.compile(r"[^\S ]")
_APOSTROPHE = re.compile(r"(?:(?<=\w)|(?<![^\s“‘(—]))’(?=\w)")
_LONG_SIGN = re.compile("([—⸺⸻]+|…+)")
_QUOTE = re.compile("\"|''|``")
_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'"}  # typed forms
_NOT_SPACE = re.compile(r"\S+")
_NOT_ASCII_SPACE = re.compile("[^ ]+")


def _align(tokens: Sequence[str], text: str) -> Iterator[tuple[int, int]]:
    """Find each token of nltk's in the text.

    nltk only adds spaces and respells double quotes, so tokens and text agree from left to right up to
    these. Its own ``span_tokenize`` pairs quotes by their number instead, and raises if ``""`` or a
    quote glued to others changes that number.
    """
    spans: list[tuple[int, int]] = []
    position = 0
    for token in tokens:
        while position < len(text) and text[position].isspace():
            position += 1
        quote = _QUOTE.match(text, position) if token in ("``", "''") else None
        if quote is not None:
            end = quote.end()
        elif text.startswith(token, position):
            end = position + len(token)
        else:
            # A future nltk that rewrites more than quotes: white space still gives words.
            return (match.span() for match in _NOT_SPACE.finditer(text))
        spans.append((position, end))
        position = end
    return iter(spans)


# --- words to text ----------------------------------------------------------------------------


def join_words(words: Sequence[str], style: str) -> Sentence:
    """Write words as a sentence.

    Args:
        words: words of a tree, with the bracket escapes already undone.
        style: ``ptb`` puts one space between all words; ``raw`` writes them as people do, see
            :func:`detokenize`. In ``raw`` style the words of the result are spelled as in its text.
    """
    check_style(style)
    if style == "ptb":
        return _concatenate(words, [True] * len(words))
    return _concatenate(*detokenize(words))


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

    The conventions are the Penn Treebank's rules for splitting words, undone. If the words alone don't
    tell (a lone hyphen, a slash, a dash), the spaces stay. The full stop after an abbreviation that ends
    in one keeps its space too (``U.S. .``): writing one stop for both would leave a word without text.

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


def aligned(words: Sequence[str], text: str, text_style: str) -> Sentence | None:
    """Align a tree's words, without escapes, with a text; None if they are not the text's words.

    A quote may be spelled otherwise in the tree, and a blank within a word is a no-break space there. In
    ``raw`` style the words get the text's spelling.
    """
    starts, ends = [], []
    at = 0
    for word in words:
        while at < len(text) and text[at].isspace():
            at += 1
        length = next((len(w) for w in (word, *_spellings(word)) if text.startswith(w, at)), None)
        if length is None:
            return None
        starts.append(at)
        at += length
        ends.append(at)
    if text[at:].strip():
        return None
    if text_style == "ptb":
        return join_words(words, "ptb")
    spelled = tuple(text[start:end] for start, end in zip(starts, ends, strict=True))
    return Sentence(text, spelled, tuple(starts), tuple(ends))


def _spellings(word: str) -> list[str]:
    if "\u00a0" in word:
        return [word.replace("\u00a0", " ")]
    plain = _QUOTES.get(word)
    return [] if plain is None else [plain, *(each for each, of in _QUOTES.items() if of == plain)]


def _concatenate(words: Sequence[str], space_before: Sequence[bool]) -> Sentence:
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    length = 0
    for number, (word, space) in enumerate(zip(words, space_before, strict=True)):
        if space and number:
            parts.append(" ")
            length += 1
        parts.append(word)
        starts.append(length)
        length += len(word)
        ends.append(length)
    return Sentence("".join(parts), tuple(words), tuple(starts), tuple(ends))
