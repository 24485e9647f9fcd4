"""Perplexity of masked models: of hidden tokens, given the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.perplexity import ROWS_PER_PIECE, check_shards
from pdtools.evaluation.pieces import InPieces
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.evaluation.shard_rows import Row, score_blocks

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardFolder

# Rows in a batch.
_ROWS = 32


def evaluate_masked_perplexity(
    shards: ShardFolder,
    loaded: LoadedModel,
    *,
    max_batch: int | None = None,
    rejects: Rejects,
    progress: Progress = no_progress,
    in_pieces: InPieces | None = None,
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
        in_pieces: who scores them; None: this process.

    Returns:
        ``ppl_token_masked``; an ``items`` table with a row per row of the shards: id, hidden tokens and the
        sum of their log-probabilities in nats.

    Raises:
        InputError: if the shards have another tokenizer or layout than the model's, or a row is too long and
            ``rejects`` says to stop.
        PdtoolsError: if there is nothing to hide, or a probability is no number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from pdtools.models.masking import MASKED_SHARE

    check_shards(shards, loaded)
    blocks = score_blocks(
        shards,
        loaded,
        partial(_score, max_batch=max_batch),
        rows_per_piece=ROWS_PER_PIECE,
        in_pieces=in_pieces,
        rejects=rejects,
        progress=progress,
    )
    schema = pa.schema([("id", pa.int64()), ("tokens", pa.int32()), ("masked", pa.float64())])
    table = pa.Table.from_batches((_record_batch(block, schema) for block in blocks), schema)
    tokens = int(pc.sum(table["tokens"]).as_py() or 0)
    total = math.fsum(number for chunk in table["masked"].chunks for number in chunk.to_numpy())
    if not tokens:
        raise InputError("no row that the model can score", file=shards.folder)
    if not -700 * tokens < total <= 0:
        raise PdtoolsError("the model gives probabilities that are zero or not numbers: no perplexity")
    return Results(
        scores={"ppl_token_masked": math.exp(-total / tokens)},
        counts={"sentences": len(table), "sentences_left_out": len(rejects), "tokens": tokens},
        settings={
            "task": "ppl",
            "model": loaded.config["model"],
            "mask_share": MASKED_SHARE,
            "log_base": "nats",
            "dtype": loaded.model.dtype_name,
        },
        tables={ITEMS: table},
    )


def _score(loaded: LoadedModel, rows: Sequence[Row], *, max_batch: int | None) -> list[tuple[int, float]]:
    """Of each row how many tokens were hidden, and the sum of their log-probabilities."""
    import torch

    from pdtools.models import collate
    from pdtools.models.masking import EVALUATION, Masking
    from pdtools.search.memory import explained_memory_errors, length_groups, strings_that_fit

    model, masking = loaded.model, Masking(tokenizer=loaded.tokenizer)
    found: list[tuple[int, float]] = []
    for places in length_groups(
        [len(row.tokens) for row in rows],
        lambda length: min(max_batch or _ROWS, strings_that_fit(length, model.vocab_size)),
    ):
        group = [rows[place] for place in places]
        batch = collate([(row.tokens, row.attach) for row in group], model.pad_id)
        hidden = masking.apply(batch, [row.number for row in group], EVALUATION)
        with torch.inference_mode(), explained_memory_errors():
            parts = model.forward_parts(hidden.to(model.device))
        sums = parts.token_logprobs.double().sum(1).tolist()
        found += zip(hidden.predicted().sum(1).tolist(), sums, strict=True)
    return found


def _record_batch(block: Sequence[tuple[Row, tuple[int, float]]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*((row.id, hidden, logprob) for row, (hidden, logprob) in block), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema)
