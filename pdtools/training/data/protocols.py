"""What training asks of its data: rows of shards and strings drawn on the fly both give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel
from pdtools.tokenization import Tokenizer
from pdtools.training.data.batches import BatchLimits
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.recipe import TrainConfig


class BatchSource(Protocol):
    """Batches without end. ``epoch`` and ``taken`` are its whole position."""

    @property
    def epoch(self) -> int:
        """The epoch that the next batch is of, from 0."""

    @property
    def taken(self) -> int:
        """Batches already taken from that epoch."""

    def take(self, ranks: Ranks) -> Batch:
        """This rank's part of the next batch, on the CPU; perhaps without anything to predict."""

    def padding_share(self) -> float:
        """The share of padding in this epoch's batches."""


class TrainingData(Protocol):
    """What a model learns from."""

    @property
    def count(self) -> int | None:
        """How many sentences there are; None: they are drawn without end."""

    @property
    def words_per_token(self) -> float:
        """Words of the corpus for each token that is predicted; what is no text has a word a token."""

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> BatchSource:
        """The batches that a configuration asks for, from a position on: a function of its arguments."""


class ValidationData(Protocol):
    """What chooses the best checkpoint."""

    @property
    def count(self) -> int:
        """How many sentences there are."""

    def in_order(self, limits: BatchLimits, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """This rank's batches: as many for every rank, all ranks' together every sentence once."""


class TrainingInput(Protocol):
    """What a run is made from: where its data come from, before there is a model that takes them."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Whose tokens the rows are of."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What checkpoints say about the data (layout, factor, …), ready for JSON."""

    @property
    def files(self) -> Mapping[str, str | Path]:
        """What is read, by role (``train``, ``valid``)."""

    @property
    def identity(self) -> Mapping[str, str]:
        """By role, what has to be the same when a run is resumed: a hash, or a description."""

    def open(
        self, model: LanguageModel, config: TrainConfig, rejects: Rejects
    ) -> tuple[TrainingData, ValidationData | None]:
        """The data for a model, training and validation.

        Args:
            model: that is trained.
            config: how.
            rejects: what to do with a row that it cannot take: fail, or record it.

        Raises:
            PdtoolsError: the model cannot learn from these data.
        """
