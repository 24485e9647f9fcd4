"""Documents: their sentences before a sentence, or as one text; windows of long texts. No torch."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from pdtools.search.inputs import SourcedLine
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.tokenization import Sentence


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
