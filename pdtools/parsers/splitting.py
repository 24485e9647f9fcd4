"""Splitting of running text into sentences, by punctuation and the case of the next word.

spaCy knows abbreviations and the full stops of many scripts. Its sentencizer leaves an opening quote to the
sentence before it, and ends sentences before ``she cried``; hence the rules here. Tried without gain: a lone
ellipsis as the end of a sentence (``I … I do not know``).
"""

from __future__ import annotations

import re

from pdtools.errors import MissingDependencyError

_CLOSING = "”’»›)\\]}"
_OPENING = "“‘„«‹(\\[{"
_CLOSES = rf"(?:[\"'{_CLOSING}]|\s(?:''|[{_CLOSING}])(?=\s))*"
# A quotation breaks off at the end of a line: “But I—”
_BROKEN_OFF = rf"(?:—|--|…|\.\.\.|⸺|,)[\"{_CLOSING}]+[^\S\n]*\n|[—…⸺][^\S\n]*\n(?=\s*[{_OPENING}])"
_OPENS = re.compile(rf"[\"'`{_OPENING}]*")
_LAST_WORD = re.compile(r"[^\s\"'“‘(\[—-]*$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
_INITIAL_BEFORE = re.compile(r"\b[^\W\d_]\.\s?$")
_LONGEST_WORD = 100


class SentenceSplitter:
    """Finds the beginnings of sentences in running text.

    A sentence ends at a full stop, a question mark or an exclamation mark (of any script), with the quotes
    and brackets that close after it, if white space follows and the next word does not begin with a small
    letter. An opening quote belongs to the sentence after it. At the end of a line a dash or an ellipsis
    ends a quotation. Abbreviations (``Mr.``) and initials do not end a sentence, but ``I.`` does.

    Raises:
        MissingDependencyError: if spaCy is not installed.
    """

    def __init__(self) -> None:
        try:
            from spacy.lang.en.tokenizer_exceptions import TOKENIZER_EXCEPTIONS
            from spacy.pipeline import Sentencizer
        except ImportError as error:
            raise MissingDependencyError("spacy", "parse") from error
        marks = Sentencizer.default_punct_chars
        western = "".join(re.escape(mark) for mark in marks if mark.isascii())
        others = "".join(re.escape(mark) for mark in marks if not mark.isascii())
        # A run of marks is tried only from its first one: from each, long rows of dots would take minutes.
        self._ends = re.compile(
            rf"…?(?<![{western}])[{western}]+(?:\s?…)*{_CLOSES}\s+|(?<!…)…+[{_CLOSING}]+\s+"
            rf"|[{others}]+{_CLOSES}\s*|{_BROKEN_OFF}\s*"
        )
        self._abbreviations = frozenset(word for word in TOKENIZER_EXCEPTIONS if word.endswith("."))

    def starts(self, text: str) -> list[int]:
        """The offset of each sentence's first character, rising."""
        if not text.strip():
            return []
        starts = [len(text) - len(text.lstrip())]
        for end in self._ends.finditer(text, starts[0]):
            follows = _OPENS.match(text, end.end())
            assert follows is not None
            following = text[follows.end() : follows.end() + 1]
            if end.end() < len(text) and not following.islower() and not self._abbreviates(text, end.start()):
                starts.append(end.end())
        return starts

    def _abbreviates(self, text: str, stop: int) -> bool:
        """Return whether the full stop at ``stop`` belongs to an abbreviation or an initial."""
        if text[stop] != ".":
            return False
        before = _LAST_WORD.search(text, max(0, stop - _LONGEST_WORD), stop)
        assert before is not None
        word = before.group() + "."
        if word == "I.":
            return _INITIAL_BEFORE.search(text, max(0, before.start() - 3), before.start()) is not None
        return word in self._abbreviations or _INITIALS.fullmatch(word) is not None
