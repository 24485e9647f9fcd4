"""What distributions of next tokens say, in a few numbers each: their entropies, and where words begin."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models import LoadedModel
from pdtools.search.memory import explained_memory_errors, length_groups, strings_that_fit
from pdtools.search.scores import Measure
from pdtools.tokenization import Tokenizer


def asks_for_distributions(measures: Collection[Measure]) -> bool:
    """Whether any of the measures is one of distributions of next tokens."""
    return not {"entropy", "spaces"}.isdisjoint(measures)


def word_beginnings(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Bool (V,), the tokens that come where a word has ended: those that begin one, and ends of sentences."""
    begins = tokenizer.begin_words.copy()
    begins[[tokenizer.root_id, tokenizer.eos_id]] = True
    return begins


def summaries(logprobs: Tensor, begins: Tensor) -> Tensor:
    """Of distributions (…, V), nats: entropy, and log probability of the tokens that ``begins``, bool (V,),
    marks: float64 (…, 2)."""
    logprobs = logprobs.double()
    entropies = torch.special.entr(logprobs.exp()).sum(-1)
    return torch.stack([entropies, logprobs[..., begins].logsumexp(-1)], -1)


def as_measures(
    found: NDArray[np.float64],
    tokens: NDArray[np.int32],
    begins: NDArray[np.bool_],
    measures: Collection[Measure],
) -> dict[str, NDArray[np.float64]]:
    """Summaries as :attr:`pdtools.search.scores.SentenceScore.measures`.

    Args:
        found: float64 (m, 2) or (m + 1, 2), of the distributions that m tokens are from, and of the one after
            them; without that, the end is taken to be certain.
        tokens: int32 (m,).
        begins: bool (V,), see :func:`word_beginnings`.
        measures: that were asked for.
    """
    m = len(tokens)
    made = {"entropy": found[:m, 0]} if "entropy" in measures else {}
    if "spaces" in measures:
        made["begins"] = np.where(begins[tokens], found[:m, 1], 0.0)
        made["ends"] = np.append(found[1:, 1], np.zeros(m + 1 - len(found)))
    return made


@torch.inference_mode()
def string_summaries(
    loaded: LoadedModel, token_ids: Sequence[NDArray[np.int32]], max_batch: int | None = None
) -> list[NDArray[np.float64]]:
    """:func:`summaries` of the distributions that the tokens of strings are from.

    Args:
        loaded: a model whose tokens depend on no derivation.
        token_ids: for each string int32[n + 2], as of :func:`pdtools.search.string_scorer.string_logprobs`.
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.

    Returns:
        For each string float64[n + 1, 2].
    """
    model = loaded.model
    begins = torch.from_numpy(word_beginnings(loaded.tokenizer)).to(model.device)
    results: dict[int, NDArray[np.float64]] = {}
    for places in length_groups(
        [len(ids) for ids in token_ids],
        lambda length: max_batch or strings_that_fit(length, model.vocab_size),
    ):
        rows = [(token_ids[i], model.no_derivation(token_ids[i])) for i in places]
        with explained_memory_errors():
            found = summaries(model.position_logprobs(model.pack(rows).to(model.device)), begins)
        for i, values in zip(places, found.cpu().numpy(), strict=True):
            results[i] = values[1 : len(token_ids[i])]
    return [results[i] for i in range(len(token_ids))]
