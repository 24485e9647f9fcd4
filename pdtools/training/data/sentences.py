"""Sentences of shards that a model is trained or validated on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel
from pdtools.models.treereg import sentence_places, word_edges
from pdtools.shards import ShardSet
from pdtools.training.data.batches import BatchLimits, BatchStream, plan_in_order
from pdtools.training.data.masking import EVALUATION, TRAINING, Masking
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.recipe import TrainConfig


class Sentences:
    """The rows of a shard folder that a model can take.

    Args:
        shards: the rows.
        model: the model.
        rejects: take rows that do not fit, or raise an error.
        masking: hides tokens to be predicted; None: all are read.
        longest: positions of the longest row that the model has to take, here or elsewhere; None: of these.

    Raises:
        InputError: a row does not fit, and the policy is to fail; or none is left.
        PdtoolsError: if the shards lack the derivations that the model needs.
    """

    def __init__(
        self,
        shards: ShardSet,
        model: LanguageModel,
        *,
        rejects: Rejects,
        masking: Masking | None = None,
        longest: int | None = None,
    ) -> None:
        self._shards = shards
        self._model = model
        self._masking = masking
        lengths = model.row_lengths(shards)
        fits = np.ones(len(lengths), dtype=bool)
        refused = [(unfit, reason, "") for unfit, reason in model.unfit_rows(shards)]
        row_name = "window" if shards.layout == "window" else "sentence"
        if (most := model.max_length) is not None:
            takes = f", --set config.max_length={longest or lengths.max()} takes them"
            reason = f"longer than the model's {most} positions"
            if model.end_id == model.root_id:
                reason += ", and without an attachment head it predicts the ROOT after each window too"
                takes += f"; or make windows of {most - 1} (pdtools tapes --window)"
            refused.append((lengths > most, reason, takes))
        for unfit, reason, remedy in refused:
            for row in np.flatnonzero(unfit & fits).tolist():
                if rejects.on_error == "fail":
                    raise InputError(
                        f"the {row_name} with id {int(shards.ids[row])} ({lengths[row]} positions): {reason}",
                        file=shards.folder,
                        hint=f"--on-error skip excludes such {row_name}s{remedy}",
                    )
                rejects.add(reason, file=shards.folder, line=int(shards.ids[row]), text=shards.text(row))
            fits &= ~unfit
        self.rows: NDArray[np.int64] = np.flatnonzero(fits)
        self.lengths: NDArray[np.int64] = lengths[fits]
        if not len(self.rows):
            raise InputError("no sentences that the model can take", file=shards.folder)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def count(self) -> int:
        """The number of sentences."""
        return len(self)

    @property
    def words_per_token(self) -> float:
        """Words of the corpus per predicted token; masked models predict about ``share`` of the tokens."""
        if self._masking is not None:
            return self._shards.words_per_token(ends=False) / self._masking.share
        ends = self._shards.layout == "sentence" or self._model.end_id == self._model.root_id
        return self._shards.words_per_token(ends=ends)

    @property
    def shards(self) -> ShardSet:
        """All rows; ``rows`` are the indices that the model takes."""
        return self._shards

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> SentenceSource:
        """Batches of the sentences, each once an epoch, from a position on."""
        stream = BatchStream(
            lengths=self.lengths,
            limits=BatchLimits(tokens=config.batch_tokens, sentences=config.batch_sentences),
            seed=config.seed,
            stored=config.batches == "stored",
            epoch=epoch,
            taken=taken,
        )
        return SentenceSource(self, stream, config)

    def batch(self, numbers: NDArray[np.int64], draw: Sequence[int] = EVALUATION) -> Batch:
        """The batch of these sentences (numbers count those taken), on the CPU.

        Args:
            numbers: the sentences.
            draw: determines the hidden tokens, see :class:`~pdtools.training.data.masking.Masking`.
        """
        rows = self.rows[numbers].tolist()
        batch = self._model.pack(
            [(self._shards.tokens(row), self._model.derivation_of(self._shards, row)) for row in rows]
        )
        if self._model.has_treereg and self._shards.layout != "block":
            words = [self._shards.word(row) for row in rows] or [np.zeros(0, np.int32)]
            width = batch.tokens.shape[1]
            places = sentence_places(words, width) if self._shards.layout == "window" else None
            batch = dataclasses.replace(batch, edges=word_edges(words, width), places=places)
        return self._masking.apply(batch, rows, draw) if self._masking and rows else batch

    def in_order(self, limits: BatchLimits, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """Yield this rank's batches, longest first: whole ones, in turns, as many for each (the last empty).

        All ranks' together hold every sentence once, in the batches of a process alone.
        """
        plan = plan_in_order(self.lengths, limits)
        nothing = np.zeros(0, dtype=np.int64)
        for turn in range(0, len(plan), ranks.size):
            mine = turn + ranks.rank
            yield self.batch(plan[mine] if mine < len(plan) else nothing)


@dataclass(frozen=True)
class SentenceSource:
    """Batches of sentences, a :class:`~pdtools.training.data.protocols.BatchSource`.

    Args:
        sentences: the sentences.
        stream: their order; nobody else may take from it.
        config: has the seed for hiding tokens from masked models, anew every epoch.
    """

    sentences: Sentences
    stream: BatchStream
    config: TrainConfig

    @property
    def epoch(self) -> int:
        """The next batch's epoch, from 0."""
        return self.stream.epoch

    @property
    def taken(self) -> int:
        """Batches already taken from that epoch."""
        return self.stream.taken

    def take(self, ranks: Ranks) -> Batch:
        """Return this rank's part of the next batch: every ``ranks.size``-th sentence."""
        numbers = next(self.stream)[ranks.rank :: ranks.size]
        draw = (TRAINING, self.config.seed, self.epoch)
        return self.sentences.batch(numbers, draw)

    def padding_share(self) -> float:
        """The share of padding in this epoch's batches."""
        return self.stream.padding_share()
