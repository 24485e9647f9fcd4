"""From sentences to token ids and back to scores, for a stream that is worked on window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.tokenization import Encoding, Sentence, Tokenizer, UnknownWordError, split_words

T = TypeVar("T")
R = TypeVar("R")

# Sentences that are read ahead, to be batched by length: fewer where each takes long, so that results
# keep coming.
LOOK_AHEAD = 1024
SEARCH_LOOK_AHEAD = 128


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sentence and its token ids."""

    sentence: Sentence
    encoding: Encoding


def encode_sentence(
    tokenizer: Tokenizer, max_length: int | None, sentence: str | Sentence
) -> Encoded | Unscorable:
    """Encode a sentence, or say why the model cannot score it.

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


def sentence_score(
    tokenizer: Tokenizer,
    encoded: Encoded,
    logprobs: NDArray[np.float64],
    dropped: float | None = None,
) -> SentenceScore:
    """Put together the score of an encoded sentence: n tokens and end-of-sentence.

    Args:
        logprobs: float64[n + 1], nats.
        dropped: see :class:`SentenceScore`.
    """
    encoding = encoded.encoding
    return SentenceScore(
        text=encoded.sentence.text,
        tokens=tuple(tokenizer.token_text(int(token)) for token in encoding.ids[1:]),
        words=tuple(encoding.word[1:].tolist()),
        starts=tuple(encoding.starts[1:].tolist()),
        ends=tuple(encoding.ends[1:].tolist()),
        logprobs=logprobs,
        n_unknown=encoding.n_unknown,
        eos=True,
        dropped=dropped,
    )


def score_windows(
    sentences: Iterable[str | Sentence],
    encode: Callable[[str | Sentence], T | Unscorable],
    work: Callable[[list[T]], Iterable[R]],
    look_ahead: int = LOOK_AHEAD,
) -> Iterator[R | Unscorable]:
    """Encode a stream of sentences and work on it in windows: one result each, in order, lazily.

    Args:
        encode: one sentence to what ``work`` takes, or the reason why it cannot be done.
        work: a window's encoded sentences to as many results; it may batch them in any order.
        look_ahead: sentences per window.
    """
    stream = iter(sentences)
    while window := [encode(sentence) for sentence in islice(stream, look_ahead)]:
        results = iter(work([item for item in window if not isinstance(item, Unscorable)]))
        for item in window:
            yield item if isinstance(item, Unscorable) else next(results)
