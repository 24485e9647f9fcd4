"""Interfaces of training data, both for rows of shards and for strings drawn on the fly."""

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
    """Endless batches. ``epoch`` and ``taken`` are the whole position."""

    @property
    def epoch(self) -> int:
        """The next batch's epoch, from 0."""

    @property
    def taken(self) -> int:
        """Batches already taken from that epoch."""

    def take(self, ranks: Ranks) -> Batch:
        """Return this rank's part of the next batch, on the CPU; it may have nothing to predict."""

    def padding_share(self) -> float:
        """The share of padding in this epoch's batches."""


class TrainingData(Protocol):
    """The data that a model learns from."""

    @property
    def count(self) -> int | None:
        """The number of sentences; None: they are drawn without end."""

    @property
    def words_per_token(self) -> float:
        """Words of the corpus per predicted token; 1 for data that are no text."""

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> BatchSource:
        """The batches for a configuration, from a position on; they depend on the arguments alone."""


class ValidationData(Protocol):
    """The data that choose the best checkpoint."""

    @property
    def count(self) -> int:
        """The number of sentences."""

    def in_order(self, limits: BatchLimits, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """Yield this rank's batches, equally many for every rank; together they hold every sentence once."""


class TrainingInput(Protocol):
    """The input of a run: the source of its data, before there is a model for them."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The rows' tokenizer."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The data's settings for checkpoints (layout, factor, …), JSON-ready."""

    @property
    def files(self) -> Mapping[str, str | Path]:
        """The input files, by role (``train``, ``valid``)."""

    @property
    def identity(self) -> Mapping[str, str]:
        """A hash or description by role, which has to be the same when a run is resumed."""

    def open(
        self, model: LanguageModel, config: TrainConfig, rejects: Rejects
    ) -> tuple[TrainingData, ValidationData | None]:
        """The data for a model, training and validation.

        Args:
            model: the model to be trained.
            config: the training configuration.
            rejects: take rows that do not fit, or raise an error.

        Raises:
            PdtoolsError: the model cannot learn from these data.
        """
