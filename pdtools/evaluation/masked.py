"""Perplexity of masked models: of hidden tokens, given the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.perplexity import check_shards, rows_that_fit
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress

if TYPE_CHECKING:
    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardSet

# Rows in a batch.
_ROWS = 32


def evaluate_masked_perplexity(
    shards: ShardSet,
    loaded: LoadedModel,
    *,
    max_batch: int | None = None,
    rejects: Rejects,
    progress: Progress = no_progress,
) -> Results:
    """exp of the mean -log p of tokens that are hidden from a masked model.

    Which ones are hidden, and what is read in their place, is the same in every evaluation of the same rows
    (:class:`~pdtools.models.masking.Masking`).

    Args:
        shards: rows made with the model's tokenizer.
        loaded: a checkpoint of a masked model.
        max_batch: rows per batch.
        rejects: takes rows longer than the model.
        progress: wraps the iterator over rows.

    Returns:
        ``ppl_token_masked``; an ``items`` table with a row per row of the shards: id, hidden tokens and the
        sum of their log-probabilities in nats.

    Raises:
        InputError: if the shards have another tokenizer or layout than the model's, or a row is too long and
            ``rejects`` says to stop.
        PdtoolsError: if there is nothing to hide, or a probability is no number.
    """
    import pyarrow as pa

    from pdtools.models.masking import MASKED_SHARE

    check_shards(shards, loaded)
    rows = rows_that_fit(shards, loaded.model.max_length, rejects)
    items = sorted(progress(_score_rows(shards, loaded, rows, max_batch), len(rows)))
    tokens = sum(hidden for _, hidden, _ in items)
    total = math.fsum(logprob for *_, logprob in items)
    if not tokens:
        raise InputError("no row that the model can score", file=shards.folder)
    if not -700 * tokens < total <= 0:
        raise PdtoolsError("the model gives probabilities that are zero or not numbers: no perplexity")
    ids, hidden, logprobs = zip(*items, strict=True)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "tokens": pa.array(hidden, pa.int32()),
            "masked": pa.array(logprobs, pa.float64()),
        }
    )
    return Results(
        scores={"ppl_token_masked": math.exp(-total / tokens)},
        counts={"sentences": len(items), "sentences_left_out": len(rejects), "tokens": tokens},
        settings={
            "task": "ppl",
            "model": loaded.config["model"],
            "mask_share": MASKED_SHARE,
            "log_base": "nats",
            "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
        },
        tables={ITEMS: table},
    )


def _score_rows(
    shards: ShardSet, loaded: LoadedModel, rows: Sequence[int], max_batch: int | None
) -> Iterator[tuple[int, int, float]]:
    """Of each row its id, how many tokens were hidden, and the sum of their log-probabilities."""
    import torch

    from pdtools.models import collate
    from pdtools.models.masking import EVALUATION, Masking
    from pdtools.search.memory import explained_memory_errors, length_groups, strings_that_fit

    model, masking = loaded.model, Masking(tokenizer=loaded.tokenizer)
    for places in length_groups(
        [int(shards.lengths[i]) for i in rows],
        lambda length: min(max_batch or _ROWS, strings_that_fit(length, model.vocab_size)),
    ):
        group = [rows[place] for place in places]
        batch = collate([(shards.tokens(i), shards.attach(i)) for i in group], model.pad_id)
        hidden = masking.apply(batch, group, EVALUATION)
        with torch.inference_mode(), explained_memory_errors():
            parts = model.forward_parts(hidden.to(model.device))
        sums = parts.token_logprobs.double().sum(1).tolist()
        for i, count, total in zip(group, hidden.predicted().sum(1).tolist(), sums, strict=True):
            yield int(shards.ids[i]), count, total
