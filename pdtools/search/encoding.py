"""Conversion of sentences to token ids and back to scores, for streams processed in windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pdtools.search.contexts import lines_of
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.tokenization import Encoding, Sentence, Tokenizer, UnknownWordError, split_words

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

# Number of sentences read ahead, to be batched by length: fewer if each takes long, so that results
# keep coming.
LOOK_AHEAD = 1024
SEARCH_LOOK_AHEAD = 128
DOCUMENTS_LOOK_AHEAD = 16


def look_ahead(*, searched: bool = False, documents: bool = False) -> int:
    """The number of sentences read ahead, or of documents that are read as one text."""
    if documents:
        return DOCUMENTS_LOOK_AHEAD
    return SEARCH_LOOK_AHEAD if searched else LOOK_AHEAD


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sentence and its token ids.

    Attributes:
        before: int32, the ROOTs and tokens of the sentences read before it.
    """

    sentence: Sentence
    encoding: Encoding
    before: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def ids(self) -> NDArray[np.int32]:
        """The whole row, int32: ``before``, then the sentence's ROOT, tokens and end-of-sentence."""
        return np.concatenate([self.before, self.encoding.ids])

    def beginning(self, end: int) -> Encoded:
        """The sentence without the tokens that begin at or after a character; the first one stays."""
        encoding = self.encoding
        asked = np.flatnonzero((encoding.starts < end) & (encoding.word >= 0))
        length = max([1, *asked.tolist()]) + 1
        columns = {name: getattr(encoding, name)[:length] for name in ("ids", "word", "starts", "ends")}
        return replace(self, encoding=replace(encoding, **columns))

    def in_context(self, tokenizer: Tokenizer, before: Sequence[Sentence], window: int) -> Encoded:
        """The sentence after as many of these sentences, the last ones, as fit ``window`` positions.

        A sentence that the tokenizer cannot encode is not read, nor are those before it.
        """
        rows: list[NDArray[np.int32]] = []
        positions = len(self.encoding.ids) - 1  # in a window there is no end-of-sentence
        for sentence in reversed(before):
            try:
                row = tokenizer.encode(sentence).ids[:-1]
            except UnknownWordError:
                break
            positions += len(row)
            if positions > window:
                break
            rows.insert(0, row)
        return replace(self, before=np.concatenate(rows)) if rows else self


def encode_sentence(
    tokenizer: Tokenizer, max_length: int | None, sentence: str | Sentence
) -> Encoded | Unscorable:
    """Encode a sentence, or give the reason why the model cannot score it.

    Args:
        tokenizer: the model's.
        max_length: the model's longest row, ROOT and end-of-sentence included; None if unbounded.
        sentence: running text, split in the tokenizer's text style, or words already split.
    """
    if isinstance(sentence, str):
        sentence = split_words(sentence, tokenizer.text_style)
    if not sentence.words:
        return Unscorable(sentence.text, "no words")
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError as error:
        words = ", ".join(dict.fromkeys(error.words))
        return Unscorable(sentence.text, f"words unknown to the model: {words}")
    if max_length is not None and len(encoding.ids) > max_length:
        tokens, most = len(encoding.ids) - 2, max_length - 2
        return Unscorable(sentence.text, f"longer than the model: {tokens} tokens, at most {most}")
    return Encoded(sentence, encoding)


def encode_document(tokenizer: Tokenizer, document: Sentence) -> Encoded | Unscorable:
    """Encode a document's lines as one row of running text.

    ROOT precedes each sentence, and marks the end of the one before; end-of-sentence follows the last.

    Returns:
        The row as for one sentence: words are numbered through, characters are the whole text's.
    """
    rows: list[Encoding] = []
    at = words = 0
    for line in lines_of(document):
        found = encode_sentence(tokenizer, None, line)
        if isinstance(found, Unscorable):
            return Unscorable(document.text, found.reason)
        row = found.encoding
        word = np.where(row.word < 0, -1, row.word + words).astype(np.int32)
        rows.append(replace(row, word=word, starts=row.starts + np.int32(at), ends=row.ends + np.int32(at)))
        at, words = at + len(line.text) + 1, words + len(line.words)

    def column(name: str) -> NDArray[np.int32]:
        first, *others = (getattr(row, name) for row in rows)
        return np.concatenate([first, *(each[1:] for each in others)])

    ids = column("ids")
    ids[:-1][ids[:-1] == tokenizer.eos_id] = tokenizer.root_id
    n_unknown = sum(row.n_unknown for row in rows)
    return Encoded(document, Encoding(ids, column("word"), column("starts"), column("ends"), n_unknown))


def sentence_score(
    tokenizer: Tokenizer,
    encoded: Encoded,
    logprobs: NDArray[np.float64],
    dropped: float | None = None,
    seen: Sequence[int] | None = None,
    measures: Mapping[str, NDArray[np.float64]] | None = None,
) -> SentenceScore:
    """Build the score of an encoded sentence: n tokens and, if it is whole, end-of-sentence.

    Args:
        logprobs: float64[n + 1], nats; or [n].
        dropped, seen, measures: see :class:`SentenceScore`.
    """
    encoding = encoded.encoding
    return SentenceScore(
        text=encoded.sentence.text,
        # In running text the end of a sentence is the ROOT of the next.
        tokens=tuple(
            tokenizer.token_text(tokenizer.eos_id if word < 0 else token)
            for token, word in zip(encoding.ids[1:].tolist(), encoding.word[1:].tolist(), strict=True)
        ),
        words=tuple(encoding.word[1:].tolist()),
        starts=tuple(encoding.starts[1:].tolist()),
        ends=tuple(encoding.ends[1:].tolist()),
        logprobs=logprobs,
        n_unknown=encoding.n_unknown,
        eos=bool(encoding.word[-1] < 0),
        dropped=dropped,
        seen=None if seen is None else tuple(seen),
        measures=measures or {},
    )


def score_windows(
    sentences: Iterable[S],
    encode: Callable[[S], T | Unscorable],
    work: Callable[[list[T]], Iterable[R]],
    look_ahead: int = LOOK_AHEAD,
) -> Iterator[R | Unscorable]:
    """Encode a stream of sentences and process it in windows: one result each, in order, lazily.

    Args:
        encode: converts a sentence to the input of ``work``, or the reason why it cannot be done.
        work: converts a window's encoded sentences to as many results; it may batch them in any order.
        look_ahead: sentences per window.
    """
    stream = iter(sentences)
    while window := [encode(sentence) for sentence in islice(stream, look_ahead)]:
        results = iter(work([item for item in window if not isinstance(item, Unscorable)]))
        for item in window:
            yield item if isinstance(item, Unscorable) else next(results)
