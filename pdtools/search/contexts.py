"""The text that a model reads before a sentence, and windows of texts longer than the model. No torch."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.search.inputs import SourcedLine
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.tokenization import Sentence

ContextParses = Literal["best", "beam"]
DOCUMENT = "document"
# Positions, for models without a longest row.
_WINDOW = 1024


@dataclass(frozen=True, kw_only=True)
class Context:
    """The text read before a sentence: as many whole sentences, the nearest ones, as fit a window with it.

    Attributes:
        of: ``document``: the sentences before it (:attr:`Sentence.before`); a file: the same ``sentences``
            before each; None: nothing.
        sentences: lines of running text, if the same ones are before each.
        parses: for models with trees: ``best``: only the best derivation of each sentence is kept for the
            next ones; ``beam``: as many as for any prefix, and the score of a sentence is the difference
            that it makes to the sum over all.
        window: positions of a row at most; None: the model's.
        stride: for models without trees: texts longer than a window are read in windows that move by
            this number of tokens; None: by half a window.
    """

    of: str | None = None
    sentences: tuple[str, ...] = ()
    parses: ContextParses = "best"
    window: int | None = None
    stride: int | None = None

    @property
    def is_asked_for(self) -> bool:
        """Return whether sentences are read other than each by itself."""
        return self.of is not None or self.stride is not None or self.window is not None

    def window_of(self, most: int | None) -> int | None:
        """The most positions of a row, for a model whose longest row has ``most``; None: no limit.

        Raises:
            PdtoolsError: if the model cannot read so many, or windows would skip tokens.
        """
        window = self.window or most or (_WINDOW if self.is_asked_for else None)
        if window is not None and most is not None and window > most:
            raise PdtoolsError(f"--window {window}: the model reads {most} positions at most")
        if window is not None and self.stride is not None and self.stride >= window:
            raise PdtoolsError(f"--stride {self.stride}: must be below the window's {window} positions")
        return window

    def stride_of(self, window: int | None) -> int:
        """The number of tokens by which a window of so many positions moves; without one any number."""
        return self.stride or max(1, (window or 0) // 2)

    def described(self, window: int | None, *, has_trees: bool) -> dict[str, Any]:
        """The context for the settings of results."""
        if not self.is_asked_for:
            return {}
        found = {"context": self.of, "context_parses": self.parses, "window": window, "stride": self.stride}
        omitted = {name for name in ("context", "context_parses", "stride") if found[name] is None}
        if self.of is None or not has_trees:
            omitted.add("context_parses")
        return {name: value for name, value in found.items() if name not in omitted}


NO_CONTEXT = Context()


def windows(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Divide a text into windows: begin, end, and the first of the positions that are scored in this one.

    Windows begin at multiples of the stride; each scores the positions that the one before has not, so that
    all except the first window's positions see at least ``window - stride`` others.

    Args:
        length: positions of the text.
        window: positions of a window.
        stride: the number of positions it moves by; below ``window``.
    """
    scored = 0
    for begin in count(0, stride):
        end = min(begin + window, length)
        yield begin, end, scored
        if end == length:
            return
        scored = end


def read_in_windows(
    texts: Sequence[NDArray[np.int32]],
    score: Callable[[list[NDArray[np.int32]]], Sequence[NDArray[np.float64]]],
    *,
    window: int | None,
    stride: int,
    first: int | None = None,
    bos: bool = True,
) -> list[tuple[NDArray[np.float64], NDArray[np.int32]]]:
    """Score texts that may be longer than a window (:func:`windows`).

    Args:
        texts: int32[m] each.
        score: converts rows of at most ``window`` positions to log p of all after the first position,
            float64, nats; or to several values of each, log p the first.
        window: positions; None: no text is too long.
        stride: number of tokens by which a window moves.
        first: the first token of every row, in place of the text's own there; None: the text's own.
        bos: whether the first position of a text is a beginning-of-sentence token.

    Returns:
        For each text float64[m - 1] (or [m - 1, values]), log p of all after its first position, and
        int32[m - 1], the number of tokens that each of them saw.
    """
    rows, places = [], []
    for text, ids in enumerate(texts):
        for begin, end, scored in windows(len(ids), window or len(ids), stride):
            row = ids[begin:end]
            rows.append(row if first is None else np.append(np.int32(first), row[1:]))
            places.append((text, begin, max(1, scored), end))
    every = score(rows)
    each = every[0].shape[1:] if every else ()
    found = [(np.zeros((len(ids) - 1, *each)), np.zeros(len(ids) - 1, np.int32)) for ids in texts]
    for values, (text, begin, scored, end) in zip(every, places, strict=True):
        logprobs, seen = found[text]
        logprobs[scored - 1 : end - 1] = values[scored - 1 - begin :]
        uncounted = first is not None or (bos and begin == 0)
        seen[scored - 1 : end - 1] = np.arange(scored, end) - begin - uncounted
    return found


def with_documents(lines: Iterable[SourcedLine], window: int) -> Iterator[SourcedLine]:
    """Add to lines the sentences of their documents before them (:attr:`Sentence.before`).

    A document ends with its file, and at a line without words.

    Args:
        lines: from :func:`pdtools.search.inputs.read_inputs`.
        window: positions; sentences that do not fit in one with the line are dropped.
    """
    before: deque[Sentence] = deque()
    positions, file = 0, None
    for line in lines:
        if line.file != file or not line.sentence.words:
            before.clear()
            positions, file = 0, line.file
        yield replace(line, sentence=replace(line.sentence, before=tuple(before)))
        if line.sentence.words:
            before.append(line.sentence)
            positions += 1 + len(line.sentence.words)  # ROOT, and a token for each word at least
            while positions > window:
                positions -= 1 + len(before.popleft().words)


def documents_of(lines: Iterable[SourcedLine]) -> Iterator[list[SourcedLine]]:
    """The lines of each document; lines without words, which end documents, stand alone."""
    document: list[SourcedLine] = []
    for line in lines:
        goes_on = document and line.sentence.words and document[0].sentence.words
        if document and not (goes_on and line.file == document[0].file):
            yield document
            document = []
        document.append(line)
    if document:
        yield document


def joined(sentences: Sequence[Sentence]) -> Sentence:
    """Join the sentences of a document into one text, with a line feed between them."""
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for sentence in sentences:
        words += sentence.words
        starts += [at + start for start in sentence.starts]
        ends += [at + end for end in sentence.ends]
        at += len(sentence.text) + 1
    text = "\n".join(sentence.text for sentence in sentences)
    return Sentence(text, tuple(words), tuple(starts), tuple(ends))


def lines_of(document: Sentence) -> Iterator[Sentence]:
    """The inverse of :func:`joined`."""
    at = first = 0
    for line in document.text.split("\n"):
        end = bisect_right(document.starts, at + len(line))
        own = slice(first, end)
        yield Sentence(
            line,
            document.words[own],
            tuple(start - at for start in document.starts[own]),
            tuple(stop - at for stop in document.ends[own]),
        )
        at, first = at + len(line) + 1, end


def parts_of(
    score: SentenceScore | Unscorable, sentences: Sequence[Sentence]
) -> Iterator[SentenceScore | Unscorable]:
    """Split a document's score into its sentences' scores; the number of unknown words is the document's."""
    if isinstance(score, Unscorable):
        yield from (Unscorable(sentence.text, score.reason) for sentence in sentences)
        return
    at = words = row = 0
    for sentence in sentences:
        first, end = row, at + len(sentence.text)
        # The end of a sentence, and a line feed, belong to the end of its line.
        while row < len(score.tokens) and score.starts[row] <= end:
            row += 1
        rows = slice(first, row)
        yield replace(
            score,
            text=sentence.text,
            tokens=score.tokens[rows],
            words=tuple(word - words if word >= 0 else word for word in score.words[rows]),
            starts=tuple(start - at for start in score.starts[rows]),
            ends=tuple(stop - at for stop in score.ends[rows]),
            logprobs=score.logprobs[rows],
            measures={name: values[rows] for name, values in score.measures.items()},
            first_token=score.first_token if at == 0 else 1,
            seen=None if score.seen is None else score.seen[rows],
        )
        at, words = end + 1, words + len(sentence.words)
