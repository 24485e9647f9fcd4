"""The tokens of many words at once, each distinct word looked up once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pdtools.files.arrow import list_of_words, numpy_array, string_array
from pdtools.tokenization.tokenizer import Tokenizer
from pdtools.trees import unescape

if TYPE_CHECKING:
    import pyarrow as pa

Int32 = NDArray[np.int32]


class WordTable:
    """Indices and tokens of a treebank's words, for a tokenizer of ``ptb`` style.

    The indices :attr:`ROOT` and :attr:`EOS` are the special tokens'. The table grows as words come.

    Attributes:
        counts: int32 (v), the number of tokens of each word; 0 if it is unknown and there is no ``<unk>``.
        starts: int64 (v), the beginning of each word's tokens in ``ids``.
        ids: int32, the tokens of all words.
        unknown: bool (v), whether ``<unk>`` is among a word's tokens.
    """

    ROOT, EOS = 0, 1

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._numbers: dict[str, int] = {}
        self._plain: dict[str, str] = {}  # words with escapes -> without
        self._escaped = np.zeros(2, dtype=bool)  # (v)
        self.ids = np.array([tokenizer.root_id, tokenizer.eos_id], dtype=np.int32)
        self.counts = np.ones(2, dtype=np.int32)
        self.starts = np.arange(2)
        self.unknown = np.zeros(2, dtype=bool)

    def look_up(self, words: pa.StringArray) -> tuple[Int32, pa.StringArray]:
        """The indices of words, and the words without escapes.

        Args:
            words: (w) as a treebank writes them.

        Returns:
            int32 (w) and (w).
        """
        encoded = words.dictionary_encode()
        distinct = list_of_words(encoded.dictionary)
        found = list(map(self._numbers.get, distinct))
        if None in found:
            self._add([word for word, number in zip(distinct, found, strict=True) if number is None])
            found = [self._numbers[word] for word in distinct]
        numbers = np.array(found, dtype=np.int32)  # (distinct words)
        if self._escaped[numbers].any():
            plain = string_array([self._plain.get(word, word) for word in distinct])
            words = plain.take(encoded.indices)
        return numbers[numpy_array(encoded.indices, np.int32)], words

    def tokens(self, numbers: Int32) -> tuple[Int32, Int32]:
        """The tokens of words, concatenated.

        Args:
            numbers: int32 (w).

        Returns:
            int32 (t), and the number of each word's tokens, int32 (w).
        """
        counts = self.counts[numbers]
        starts = self.starts[numbers]
        if (counts == 1).all():
            return self.ids[starts], counts
        begins = np.cumsum(counts) - counts
        return self.ids[np.arange(counts.sum()) + np.repeat(starts - begins, counts)], counts

    def _add(self, words: Sequence[str]) -> None:
        first = len(self.counts)
        self._numbers.update(zip(words, range(first, first + len(words)), strict=True))
        escaped = {
            word: plain
            for word in words
            if ("-" in word or "\\" in word) and (plain := unescape(word)) != word
        }
        self._plain.update(escaped)
        is_escaped = np.zeros(len(words), dtype=bool)
        is_escaped[[self._numbers[word] - first for word in escaped]] = True
        ids, counts = self._tokenizer.tokens_of_words([escaped.get(word, word) for word in words])
        starts = len(self.ids) + np.cumsum(counts) - counts
        unknown = np.zeros(len(words), dtype=bool)
        if self._tokenizer.unk_id is not None:
            unknown[np.repeat(np.arange(len(words)), counts)[ids == self._tokenizer.unk_id]] = True
        self._escaped = np.concatenate([self._escaped, is_escaped])
        self.ids = np.concatenate([self.ids, ids])
        self.counts = np.concatenate([self.counts, counts])
        self.starts = np.concatenate([self.starts, starts])
        self.unknown = np.concatenate([self.unknown, unknown])


def count_words(words: pa.StringArray) -> dict[str, int]:
    """The number of occurrences of each word."""
    counts = words.value_counts()
    names = list_of_words(counts.field("values"))
    return dict(zip(names, counts.field("counts").to_pylist(), strict=True))
