"""Perplexity of masked models: of hidden tokens, given the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.chunks import InChunks
from pdtools.evaluation.perplexity.evaluate import ROWS_PER_CHUNK, check_shards
from pdtools.evaluation.perplexity.shard_rows import RowToScore, score_blocks
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardFolder
    from pdtools.training.masking import Replacement

# Rows in a batch.
_ROWS = 32


@dataclass(frozen=True, kw_only=True)
class HiddenTokens:
    """The choice of hidden tokens in an evaluation; the defaults are BERT's.

    Args:
        mask_share: share of a row's tokens, above 0 and at most 1; at least one of each row.
        masking: their replacement, see :data:`~pdtools.training.masking.Replacement`.
        mask_draws: number of draws of tokens; every draw has equal weight.
    """

    mask_share: float = 0.15
    masking: Replacement = "bert"
    mask_draws: int = 1


def evaluate_masked_perplexity(
    shards: ShardFolder,
    loaded: LoadedModel,
    *,
    hidden: HiddenTokens | None = None,
    max_batch: int | None = None,
    rejects: Rejects,
    progress: Progress = no_progress,
    in_chunks: InChunks | None = None,
) -> Results:
    """Evaluate a masked model: exp of the mean -log p of tokens that are hidden from it.

    The hidden tokens, and their replacements, are the same in every evaluation of the same rows
    (:class:`~pdtools.training.masking.Masking`).

    Args:
        shards: rows made with the model's tokenizer.
        loaded: a checkpoint of a masked model.
        hidden: the choice of hidden tokens; None: the defaults.
        max_batch: rows per batch.
        rejects: takes rows longer than the model.
        progress: wraps the iterator over rows.
        in_chunks: distributes the scoring; None: this process.

    Returns:
        ``ppl_token_masked``; an ``items`` table with a row per row of the shards: id, hidden tokens and the
        sum of their log-probabilities in nats, over all draws.

    Raises:
        InputError: if the shards' tokenizer or layout is not the model's, or a row is too long and
            ``rejects`` says to stop.
        PdtoolsError: if there is nothing to hide, or a probability is NaN.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    hidden = hidden or HiddenTokens()
    check_shards(shards, loaded)
    blocks = score_blocks(
        shards,
        loaded,
        partial(_score, hidden=hidden, max_batch=max_batch),
        kind=tuple[int, float],
        rows_per_chunk=ROWS_PER_CHUNK,
        in_chunks=in_chunks,
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
            **loaded.described,
            **asdict(hidden),
            "log_base": "nats",
            "dtype": loaded.model.dtype_name,
            "text_style": loaded.tokenizer.text_style,
            "layout": shards.layout,
            "text_sha256": shards.text_sha256(),
        },
        tables={ITEMS: table},
    )


def _score(
    loaded: LoadedModel, rows: Sequence[RowToScore], *, hidden: HiddenTokens, max_batch: int | None
) -> list[tuple[int, float]]:
    """The number of each row's hidden tokens, and the sum of their log-probabilities."""
    import torch

    from pdtools.search.batches import in_batches, strings_that_fit
    from pdtools.training.masking import Masking, evaluation_draw

    model = loaded.model
    masking = Masking(tokenizer=loaded.tokenizer, share=hidden.mask_share, replacement=hidden.masking)

    def work(places: list[int]) -> Iterable[tuple[int, float]]:
        group = [rows[place] for place in places]
        batch = model.pack([(row.tokens, row.derivation) for row in group])
        counts, sums = (
            torch.zeros(len(group), dtype=torch.int64),
            torch.zeros(len(group), dtype=torch.float64),
        )
        for number in range(hidden.mask_draws):
            masked = masking.apply(batch, [row.number for row in group], evaluation_draw(number))
            with torch.inference_mode():
                parts = model.forward_parts(masked.to(model.device))
            counts += masked.predicted().sum(1)
            sums += parts.token_logprobs.cpu().double().sum(1)
        return zip(counts.tolist(), sums.tolist(), strict=True)

    return in_batches(
        [len(row.tokens) for row in rows],
        lambda length: min(max_batch or _ROWS, strings_that_fit(length, model.vocab_size)),
        work,
    )


def _record_batch(block: Sequence[tuple[RowToScore, tuple[int, float]]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*((row.id, hidden, logprob) for row, (hidden, logprob) in block), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema)
