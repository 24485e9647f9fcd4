"""Summaries of next-token distributions: entropies, ranks, and probabilities that words begin."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.jobs.devices import widest_float
from pdtools.search.scores import Measure, NextTokens, SentenceScore, Unscorable
from pdtools.tokenization import Tokenizer

# Cells (tokens × vocabulary) of distributions that are kept at once, for sentences of so many tokens.
_CELLS, _TOKENS = 1 << 24, 64
_PER_NAT = 1 / math.log(2)


def sentences_at_once(vocab_size: int, look_ahead: int) -> int:
    """The number of sentences to give at once if whole next-token distributions are kept."""
    return max(1, min(look_ahead, _CELLS // (_TOKENS * vocab_size)))


# Cells of distributions (rows × vocabulary) that are summed at once.
_MOST_CELLS = 1 << 22


def word_beginnings(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Bool (V,), the tokens that come after the end of a word: beginnings of words, and ends of sentences."""
    begins = tokenizer.begin_words.copy()
    begins[[tokenizer.root_id, tokenizer.eos_id]] = True
    return begins


def summaries(logprobs: Tensor, begins: Tensor) -> Tensor:
    """Entropy of distributions (…, V), nats, and log probability that a word begins: float64 (…, 2).

    A word begins with the tokens marked in ``begins``, bool (V,).
    """
    vocab_size = logprobs.shape[-1]
    rows = []
    for part in logprobs.reshape(-1, vocab_size).split(max(1, _MOST_CELLS // vocab_size)):
        part = part.to(widest_float(part.device))
        entropies = torch.special.entr(part.exp()).sum(-1)
        rows.append(torch.stack([entropies, part[:, begins].logsumexp(-1)], -1))
    return torch.cat(rows).view(*logprobs.shape[:-1], 2)


def as_measures(
    found: NDArray[np.float64],
    tokens: NDArray[np.int32],
    begins: NDArray[np.bool_],
    measures: Collection[Measure],
) -> dict[str, NDArray[np.float64]]:
    """Convert summaries to :attr:`pdtools.search.scores.SentenceScore.measures`.

    Args:
        found: float64 (m, 2) or (m + 1, 2), for the distributions before m tokens, and the one after
            them; without that, the end is taken to be certain.
        tokens: int32 (m,).
        begins: bool (V,), see :func:`word_beginnings`.
        measures: the requested ones.
    """
    m = len(tokens)
    made = {"entropy": found[:m, 0]} if "entropy" in measures else {}
    if "spaces" in measures:
        made["begins"] = np.where(begins[tokens], found[:m, 1], 0.0)
        made["ends"] = np.append(found[1:, 1], np.zeros(m + 1 - len(found)))
    return made


def ranks(logprobs: NDArray[np.float64], tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    """The ranks of tokens (m,) in the distributions (m, V) before them: 1 + number of likelier tokens."""
    own = np.take_along_axis(logprobs, tokens[:, None].astype(np.int64), axis=1)
    found: NDArray[np.int64] = 1 + (logprobs > own).sum(1)
    return found


def measured(
    distributions: Iterable[NextTokens | Unscorable], measures: Collection[Measure]
) -> Iterator[SentenceScore | Unscorable]:
    """Scores whose ranks and entropies are of whole distributions that are kept; they have no others."""
    for found in distributions:
        yield found if isinstance(found, Unscorable) else _measured(found, measures)


def _measured(found: NextTokens, measures: Collection[Measure]) -> SentenceScore:
    made: dict[str, NDArray[np.float64]] = {}
    if "rank" in measures:
        made["rank"] = ranks(found.logprobs, found.ids).astype(np.float64)
    if "entropy" in measures:
        logprobs = torch.from_numpy(found.logprobs).log_softmax(-1)
        none = torch.zeros(logprobs.shape[-1], dtype=torch.bool)
        made["entropy"] = summaries(logprobs, none)[:, 0].numpy()
    return replace(found.score, measures=made)


def likeliest(
    logprobs: NDArray[np.float64], vocabulary: Sequence[str], most: int | None = None
) -> list[list[Any]]:
    """The most probable next tokens: rank (from 1), token, probability and surprisal (bits) of each.

    Args:
        logprobs: float64 (V,), nats, see :meth:`pdtools.search.model.Model.following`.
        vocabulary: the tokens by number; others of the V are none.
        most: the number of tokens that are looked at; None: all.
    """
    order = np.argsort(-logprobs, kind="stable")[:most].tolist()
    return [
        [rank, vocabulary[token], float(np.exp(logprobs[token])), float(-logprobs[token] * _PER_NAT)]
        for rank, token in enumerate(order, start=1)
        if token < len(vocabulary)
    ]
