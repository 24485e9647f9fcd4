"""Batches of rows: of similar length under a token budget, in an order that can be resumed, on a device."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel
from pdtools.tokenization import Tokenizer
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.recipe import TrainConfig

AHEAD = 3  # batches prepared ahead for a GPU
_BUCKET_GROWTH = 1.1  # lengths in one bucket differ by at most a tenth


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The limits of one batch; 0 is no limit.

    Args:
        tokens: positions, ROOT, EOS and padding included: rows times the longest row.
        sentences: rows.
    """

    tokens: int = 0
    sentences: int = 0


def bucket_edges(longest: int) -> NDArray[np.int64]:
    """Smallest length of each bucket: 1, 2, …, 10, 11, 12, 13, 14, … growing by a tenth."""
    edges = [1]
    while edges[-1] <= longest:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _BUCKET_GROWTH)))
    return np.array(edges, dtype=np.int64)


def plan_epoch(
    lengths: NDArray[np.integer], limits: BatchLimits, *, seed: int, epoch: int, stored: bool = False
) -> list[NDArray[np.int64]]:
    """Divide all rows into batches, every row in exactly one.

    Rows are sorted by their length's bucket, at random within a bucket, cut into batches at the limits,
    and the batches are shuffled. The result depends on the arguments alone.

    Args:
        lengths: tokens of each row, ROOT and EOS included.
        stored: the rows are cut into batches in the order they have, the same in every epoch.

    Returns:
        Row numbers of each batch.

    Raises:
        PdtoolsError: if one row alone is over the token budget.
    """
    if len(lengths) == 0:
        return []
    lengths = np.asarray(lengths, dtype=np.int64)
    longest = int(lengths.max())
    if limits.tokens and longest > limits.tokens:
        raise PdtoolsError(
            f"the longest sentence has {longest} positions, more than a batch may hold:"
            f" raise train.batch_tokens (now {limits.tokens})"
        )
    random = np.random.default_rng([seed, epoch])
    if stored:
        order = np.arange(len(lengths))
    else:
        bucket = np.searchsorted(bucket_edges(longest), lengths, side="right")
        order = np.lexsort((random.random(len(lengths)), bucket))
    starts = _cut(lengths[order].tolist(), limits)
    batches = np.split(order, starts[1:])
    return [batches[i] for i in random.permutation(len(batches))]


def plan_in_order(lengths: NDArray[np.integer], limits: BatchLimits) -> list[NDArray[np.int64]]:
    """Divide all rows into batches by length, the longest first, without chance: for evaluation."""
    if len(lengths) == 0:
        return []
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    return np.split(order, _cut(lengths[order].tolist(), limits)[1:])


def _cut(lengths: list[int], limits: BatchLimits) -> list[int]:
    """The first rows of batches, when rows of these lengths are taken in order; every batch gets a row."""
    starts = [0]
    widest = 0
    for i, length in enumerate(lengths):
        widest = max(widest, length)
        rows = i - starts[-1] + 1
        too_many = limits.sentences and rows > limits.sentences
        too_wide = limits.tokens and rows * widest > limits.tokens
        if rows > 1 and (too_many or too_wide):
            starts.append(i)
            widest = length
    return starts


def padding_share(lengths: NDArray[np.integer], batches: Sequence[NDArray[np.int64]]) -> float:
    """The share of all positions in these batches that are padding."""
    positions = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
    tokens = sum(int(lengths[rows].sum()) for rows in batches)
    return 1 - tokens / positions if positions else 0.0


@dataclass(kw_only=True)
class BatchSource:
    """Endless batches, epoch after epoch; ``epoch`` and ``taken`` are the whole position.

    Args:
        plan: the batches of an epoch, in the form that ``make`` takes; they depend on the epoch alone.
        make: makes a rank's part of a batch, given the batch's epoch: on the CPU, perhaps with nothing to
            predict.
        padding: the share of padding in the batches of an epoch.
        epoch: the next batch's epoch, from 0.
        taken: batches already taken from that epoch.
    """

    plan: Callable[[int], Sequence[Any]]
    make: Callable[[Any, int, Ranks], Batch]
    padding: Callable[[Sequence[Any]], float] = lambda batches: 0.0
    epoch: int = 0
    taken: int = 0

    def __post_init__(self) -> None:
        self._batches = self.plan(self.epoch)

    def take(self, ranks: Ranks = ALONE) -> Batch:
        """Return this rank's part of the next batch."""
        if self.taken == len(self._batches):
            self.epoch, self.taken = self.epoch + 1, 0
            self._batches = self.plan(self.epoch)
        self.taken += 1
        return self.make(self._batches[self.taken - 1], self.epoch, ranks)

    def padding_share(self) -> float:
        """The share of padding in this epoch's batches."""
        return self.padding(self._batches)


class BatchLoader(Iterator[Batch]):
    """Endless batches of a source. A context manager: its end stops the thread.

    Args:
        source: the source; nobody else may take from it.
        device: the device of the batches.
        ahead: batches prepared before they are requested; 0: none, without a thread.
        ranks: this rank takes its own part of every batch.

    Attributes:
        epoch, taken: the position in the source after the last batch handed out.
        waited: seconds spent in :func:`next`, over all calls.
    """

    def __init__(self, source: BatchSource, device: str, ahead: int, ranks: Ranks = ALONE) -> None:
        self.epoch, self.taken = source.epoch, source.taken
        self.waited = 0.0
        self._source = source
        self._device = device
        self._ranks = ranks
        self._made: queue.Queue[tuple[Batch, int, int] | BaseException] = queue.Queue(max(1, ahead))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._make_ahead, daemon=True) if ahead else None

    def __enter__(self) -> BatchLoader:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *ending: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def __next__(self) -> Batch:
        start = time.monotonic()
        made = self._make() if self._thread is None else self._made.get()
        if isinstance(made, BaseException):
            self._made.put(made)  # the thread has ended: the next call gets the error again
            raise made
        batch, self.epoch, self.taken = made
        batch = batch.to(self._device)
        self.waited += time.monotonic() - start
        return batch

    def _make(self) -> tuple[Batch, int, int]:
        batch = self._source.take(self._ranks)
        if torch.device(self._device).type == "cuda":
            batch = batch.pinned()  # so that its copy does not hold the GPU up
        return batch, self._source.epoch, self._source.taken

    def _make_ahead(self) -> None:
        while not self._stopped.is_set():
            try:
                made: tuple[Batch, int, int] | BaseException = self._make()
            except BaseException as error:  # it is raised by the next request
                made = error
            while not self._stopped.is_set():
                with contextlib.suppress(queue.Full):
                    self._made.put(made, timeout=0.1)
                    break
            if isinstance(made, BaseException):
                return


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
