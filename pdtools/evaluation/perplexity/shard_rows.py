"""The rows of shards in chunks, scored by this process or as a plan says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pdtools.evaluation.chunks import InChunks, checkpoint_of
from pdtools.evaluation.results import Progress
from pdtools.files.typed_values import as_type
from pdtools.jobs import Work, cut

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.files import Rejects
    from pdtools.models import LanguageModel, LoadedModel
    from pdtools.search.model import ModelSettings
    from pdtools.shards import ShardFolder


@dataclass(frozen=True, slots=True, eq=False)
class RowToScore:
    """A row of shards.

    Attributes:
        number: its index in the folder, from 0.
        id: the shards' id.
        tokens, word: int32 (n + 2), see :mod:`pdtools.shards.format`.
        derivation: the model's derivation of it (:meth:`pdtools.models.LanguageModel.derivation_of`).
        text: its words.
    """

    number: int
    id: int
    tokens: NDArray[np.int32]
    derivation: Any
    word: NDArray[np.int32]
    text: str


ScoreRows = Callable[["LoadedModel", Sequence[RowToScore]], list[Any]]
"""Scores rows with a model, longest first: a JSON-ready value for each. To be pickled to workers."""


@dataclass(frozen=True, slots=True)
class RowWork(Work[Sequence[RowToScore], list[Any]]):
    """Scores the rows of a chunk."""

    model: ModelSettings | LoadedModel
    score: ScoreRows
    kind: Any  # the type of a row's score

    def __call__(self, chunk: Sequence[RowToScore]) -> list[Any]:
        return self.score(checkpoint_of(self.model), chunk)

    def content(self, chunk: Sequence[RowToScore]) -> bytes:
        parts = []
        for row in chunk:
            parts.append(f"{row.number} {len(row.tokens)} ".encode())
            arrays = (row.tokens, row.word, *arrays_of(row.derivation))
            parts += [array.tobytes() for array in arrays]
        return b"".join(parts)

    def restored(self, record: Any) -> list[Any]:
        return list(as_type(record, tuple[self.kind, ...]))  # type: ignore[name-defined]


def score_blocks(
    shards: ShardFolder,
    loaded: LoadedModel,
    score: ScoreRows,
    *,
    problem: Callable[[NDArray[np.int32]], str | None] | None = None,
    any_length: bool = False,
    kind: Any,
    rows_per_chunk: int,
    in_chunks: InChunks | None,
    rejects: Rejects,
    progress: Progress,
) -> Iterator[list[tuple[RowToScore, Any]]]:
    """Score the rows of shards that are not too long for a model.

    Rows of a block (:meth:`pdtools.shards.ShardFolder.blocks`) are sorted by length and cut into chunks: the
    content of a chunk, and of a batch, depends only on the shards.

    Args:
        shards: read block by block.
        loaded: the model. Other processes load it themselves.
        score: the function for a chunk.
        problem: gives the reason to exclude a row with such tokens, if there is one; None: all are kept.
        any_length: whether no row is too long.
        kind: the type of a row's score.
        rows_per_chunk: at most.
        in_chunks: distributes the work; None: this process.
        rejects: takes rows that are too long, and rows with a problem.
        progress: wraps the iterator over rows.

    Yields:
        For each block its rows, in order, with their scores.

    Raises:
        InputError: if a row is excluded and ``rejects`` says to stop.
    """
    from pdtools.shards.reader import ROWS_PER_BLOCK

    most = None if any_length else loaded.model.max_length
    chunks = _cut(shards, loaded.model, most, problem, rows_per_chunk, rejects)
    by = in_chunks or InChunks(loaded)
    found = by.map(RowWork(by.model, score, kind), chunks)
    rows = progress(
        (pair for chunk, result in found for pair in zip(chunk, result, strict=True)), len(shards)
    )
    for _, block in groupby(rows, key=lambda pair: pair[0].number // ROWS_PER_BLOCK):
        yield sorted(block, key=lambda pair: pair[0].number)


def arrays_of(derivation: Any) -> Iterator[NDArray[np.int32]]:
    """The arrays that a derivation consists of."""
    import numpy as np

    if dataclasses.is_dataclass(derivation):
        yield from (np.asarray(getattr(derivation, each.name)) for each in dataclasses.fields(derivation))
    else:
        yield derivation


def _cut(
    shards: ShardFolder,
    model: LanguageModel,
    most: int | None,
    problem: Callable[[NDArray[np.int32]], str | None] | None,
    rows_per_chunk: int,
    rejects: Rejects,
) -> Iterator[list[RowToScore]]:
    # ROOT, and a sentence's end, are no tokens of the text; a block ends anywhere.
    besides = 1 if shards.layout == "block" else 2
    first = 0
    for block in shards.blocks():
        rows = []
        lengths = model.row_lengths(block)
        refused = {
            row: reason for unfit, reason in model.unfit_rows(block) for row in unfit.nonzero()[0].tolist()
        }
        for i, (row_id, length) in enumerate(zip(block.ids.tolist(), lengths.tolist(), strict=True)):
            if most is not None and length > most:
                refused[i] = f"longer than the model: {length - besides} tokens, at most {most - besides}"
            elif problem is not None and (reason := problem(block.tokens(i))):
                refused.setdefault(i, reason)
            if i in refused:
                rejects.add(refused[i], file=shards.folder, line=row_id, text=block.text(i))
            else:
                derivation = model.derivation_of(block, i)
                text = block.text(i)
                rows.append(RowToScore(first + i, row_id, block.tokens(i), derivation, block.word(i), text))
        rows.sort(key=lambda row: -len(row.tokens))
        yield from cut(rows, rows_per_chunk)
        first += len(block)
