"""Batches of sentences of similar length, bounded in size, and the parsers that use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from pdtools.parsers.base import ParseFailure
from pdtools.trees import Tree, sentence_problem

# The networks read typed quotes; treebanks distinguish opening from closing ones.
_QUOTES = {"``": '"', "''": '"', "`": "'"}


class BatchedParser(ABC):
    """A :class:`~pdtools.parsers.base.Parser` over a library that parses some sentences together.

    Such libraries may raise any error for a sentence that they cannot parse: its batch is halved until the
    sentence is alone.

    Args:
        max_tokens: see :func:`length_batches`.
        max_cells: see :func:`length_batches`.
        added_tokens: number of tokens that the library adds to a sentence.
    """

    def __init__(self, *, max_tokens: int, max_cells: int, added_tokens: int = 0) -> None:
        self._max_tokens = max_tokens
        self._max_cells = max_cells
        self._added_tokens = added_tokens

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`pdtools.parsers.base.Parser.parse`; all sentences are sorted by length together."""
        reasons = [self.problem(words) for words in sentences]
        results: dict[int, Tree | ParseFailure] = {
            index: ParseFailure(reason) for index, reason in enumerate(reasons) if reason is not None
        }
        usable = [index for index, reason in enumerate(reasons) if reason is None]
        lengths = [len(sentences[index]) + self._added_tokens for index in usable]
        for batch in length_batches(lengths, max_tokens=self._max_tokens, max_cells=self._max_cells):
            indices = [usable[position] for position in batch]
            parsed = self._parse_isolated([sentences[index] for index in indices])
            results.update(zip(indices, parsed, strict=True))
        for index in range(len(sentences)):
            yield results[index]

    def problem(self, words: Sequence[str]) -> str | None:
        """The reason why a sentence cannot be parsed, if known beforehand."""
        return sentence_problem(words)

    @abstractmethod
    def parse_batch(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree]:
        """Parse sentences together, or raise any error."""

    def failure(self, error: Exception) -> str:
        """The message for an error of :meth:`parse_batch` on one sentence."""
        return f"the parser failed: {first_line(error)}"

    def _parse_isolated(self, sentences: Sequence[Sequence[str]]) -> list[Tree | ParseFailure]:
        try:
            return list(self.parse_batch(sentences))
        except Exception as error:
            if len(sentences) == 1:
                return [ParseFailure(self.failure(error))]
        half = len(sentences) // 2
        return self._parse_isolated(sentences[:half]) + self._parse_isolated(sentences[half:])


def length_batches(lengths: Sequence[int], *, max_tokens: int, max_cells: int) -> Iterator[list[int]]:
    """Group sentences by length, shortest first, so that little is padded and memory stays bounded.

    Args:
        lengths: the length of each sentence.
        max_tokens: bound of batch size × longest sentence.
        max_cells: bound of batch size × longest sentence², to which a chart parser's memory is proportional.

    Yields:
        Indices of sentences; every index once. A sentence over a bound is a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, size = lengths[index], len(batch) + 1
        if batch and (size * length > max_tokens or size * length**2 > max_cells):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def typed_quotes(word: str) -> str:
    """A word; a treebank's quote becomes a typed one."""
    return _QUOTES.get(word, word)


def first_line(error: Exception) -> str:
    """The type of an error, and the first line of its message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
