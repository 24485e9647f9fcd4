"""Perplexity of a corpus read as one stream, the usual evaluation of recurrent models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.evaluation.perplexity.evaluate import (
    check_shards,
    count_items,
    items_table,
    perplexities,
    words_with_ends,
)
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress

if TYPE_CHECKING:
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardSet

# Tokens read at once in a single stream; the state is kept. Fewer with several streams, since
# a stack's memory grows with the number of streams and the square of the tokens read.
_LENGTH, _SHORTEST = 256, 32


def evaluate_stream_perplexity(
    shards: ShardSet, loaded: LoadedModel, *, streams: int = 1, progress: Progress = no_progress
) -> Results:
    """Perplexity of all rows in order, each read with the state after the rows before it.

    Args:
        shards: made with the model's tokenizer; sentences or blocks.
        loaded: a recurrent model.
        streams: number of parallel parts of the corpus; each begins without a past.
        progress: wraps the iterator over batches.

    Returns:
        ``ppl_token_marginal`` and ``ppl_word_marginal`` (other keys are None), end-of-sentence counted; an
        ``items`` table with the log-probability of each row in nats.

    Raises:
        PdtoolsError: if the model reads no streams, or the shards have another tokenizer.
    """
    import torch

    from pdtools.training.streams import Stream

    model = loaded.model
    if not model.reads_streams:
        raise PdtoolsError(f"{loaded.folder}: --stream needs a recurrent model whose stack is limited")
    check_shards(shards, loaded, layouts=False)  # a stream of sentences equals the stream of their blocks
    batches = Stream(shards).cut(streams, max(_SHORTEST, int(_LENGTH / math.sqrt(streams))))
    parts, carry = [], None
    with torch.inference_mode():
        for batch in progress(iter(batches), len(batches)):
            on_device = batch.to(model.device)
            assert on_device.targets is not None
            logprobs, carry = model.stream_logprobs(on_device.tokens, on_device.targets, carry)
            parts.append(logprobs.cpu().double())
    scored = torch.cat([batch.predicted() for batch in batches], 1)
    values = torch.cat(parts, 1)[scored].numpy()  # in the order of the text: (tokens,)
    lengths = np.asarray(shards.lengths, dtype=np.int64) - 1
    is_end = np.concatenate([shards.tokens(i)[1:] for i in range(len(shards))]) == loaded.model.eos_id
    totals, ends, end_totals = (
        np.add.reduceat(each, np.cumsum(lengths) - lengths)
        for each in (values, is_end.astype(np.int64), np.where(is_end, values, 0.0))
    )
    unk_id = loaded.tokenizer.unk_id
    items = [
        {
            "id": int(shards.ids[i]),
            "tokens": int(lengths[i]),
            "words": words_with_ends(shards.word(i), shards.tokens(i), loaded.model.eos_id),
            "unknown": 0 if unk_id is None else int((shards.tokens(i) == unk_id).sum()),
            "marginal": float(totals[i]),
            "ends": int(ends[i]),
            "end_marginal": float(end_totals[i]),
        }
        for i in range(len(shards))
    ]
    table = items_table(items)
    settings = {
        "task": "ppl",
        "eos_counted": True,
        "root_counted": False,
        "words": "words and end-of-sentence",
        "marginal": "exact: every row after those before it in its stream",
        "streams": streams,
        "log_base": "nats",
        **loaded.described,
        "text_style": loaded.tokenizer.text_style,
        "dtype": model.dtype_name,
        "layout": shards.layout,
        "text_sha256": shards.text_sha256(),
    }
    return Results(
        scores=perplexities(table), counts=count_items(table), settings=settings, tables={ITEMS: table}
    )
