"""Training strings of a transduction task, drawn on the fly: each step has new ones, of one length."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, sha256_file
from pdtools.formal.transduction_data import RowLayout, read_pairs, task_tokenizer
from pdtools.formal.transductions import StringPairs, Task
from pdtools.jobs.devices import memory_of
from pdtools.models import Batch, LanguageModel
from pdtools.models.batch import empty_batch
from pdtools.tokenization import Tokenizer
from pdtools.training.batches import BatchLimits, BatchSource
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.recipe import TrainConfig

# A position of a batch: x or y, token, target, attachment (int64 each).
_POSITION_BYTES = 32


@dataclass(frozen=True)
class TaskInput:
    """A task to train on: a :class:`~pdtools.training.batches.TrainingInput`.

    Args:
        task: the task.
        lengths: lengths of x, drawn uniformly, one per step.
        valid: pairs to validate with, a file of ``pdtools generate task``.

    Raises:
        PdtoolsError: if the task has no strings so short.
        InputError: if the file holds other data.
    """

    task: Task
    lengths: range
    valid: str | Path | None = None

    def __post_init__(self) -> None:
        self.task.check_length(self.lengths.start)
        if self.valid is not None:
            _ = self._valid_pairs  # a bad file is found before anything is written

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The task's tokenizer."""
        return task_tokenizer(self.task)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The task and its lengths: evaluation reads them from the checkpoint."""
        return {**self.task.settings, "lengths": [self.lengths[0], self.lengths[-1]]}

    @property
    def files(self) -> dict[str, str | Path]:
        """The file of validation pairs."""
        return {} if self.valid is None else {"valid": self.valid}

    @property
    def identity(self) -> dict[str, str]:
        """The task in words, and the hash of the validation pairs."""
        released = ", as released" if self.task.as_released else ""
        drawn = f"{self.task.name}{released}, lengths {self.lengths[0]} to {self.lengths[-1]}"
        return {"train": drawn} | {role: sha256_file(Path(file)) for role, file in self.files.items()}

    @cached_property
    def _valid_pairs(self) -> dict[int, StringPairs]:
        assert self.valid is not None
        return read_pairs(self.task, self.valid)

    def open(
        self, model: LanguageModel, config: TrainConfig, rejects: Rejects
    ) -> tuple[TaskStrings, TaskPairs | None]:
        """Strings for a model; ``config`` matters later, and ``rejects`` gets none of them.

        Raises:
            PdtoolsError: if the model scores attachments, which these strings do not have, or the longest
                rows are too long for it.
        """
        if model.derivation_kind.exist:
            raise PdtoolsError(
                "a task's strings have no attachments: choose a model that uses none (--config dcf, or"
                " --model transformer)"
            )
        layout = RowLayout(task=self.task, tokenizer=self.tokenizer, objective=model.objective)
        strings = TaskStrings(layout, self.lengths)
        model.check_length(strings.longest_row)
        if self.valid is None:
            return strings, None
        longest = max(self._valid_pairs)
        model.check_length(layout.row_length(longest))
        return strings, TaskPairs(layout, self._valid_pairs)


@dataclass(frozen=True)
class TaskStrings:
    """Endless strings, a :class:`~pdtools.training.batches.TrainingData`.

    Args:
        layout: converts them to rows.
        lengths: lengths of x.
    """

    layout: RowLayout
    lengths: range

    @property
    def count(self) -> None:
        """The number of strings: None, as they are endless."""
        return None

    @property
    def words_per_token(self) -> float:
        """The ratio 1: symbols are words."""
        return 1.0

    @property
    def longest_row(self) -> int:
        """Positions of the longest row."""
        return self.layout.row_length(self.lengths[-1])

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> BatchSource:
        """Batches of ``config.batch_sentences`` strings (fewer if that is more than ``batch_tokens``).

        Raises:
            PdtoolsError: if a batch may not hold a string, or does not fit in this machine's memory, or the
                batches are to be made otherwise.
        """
        if config.batches != "bucketed":
            raise PdtoolsError(
                f"train.batches is {config.batches}: a task's strings are drawn anew, not stored"
            )
        if not config.batch_sentences:
            raise PdtoolsError("train.batch_sentences is 0: it says how many strings of a task a batch has")
        number = config.batch_sentences
        if config.batch_tokens:
            number = min(number, config.batch_tokens // self.longest_row)
        if number == 0:
            raise PdtoolsError(
                f"the longest rows have {self.longest_row} positions, more than a batch may hold:"
                f" raise train.batch_tokens (now {config.batch_tokens})"
            )
        size = number * self.longest_row * _POSITION_BYTES
        if size > memory_of("cpu"):
            raise PdtoolsError(
                f"not enough memory: {number} strings are {size / 2**30:.0f} GiB before a model has read"
                " them: lower train.batch_sentences"
            )

        def make(batch: int, epoch: int, ranks: Ranks) -> Batch:
            """Every ``ranks.size``-th string of a batch, which a seed always draws alike."""
            pairs = self.layout.task.training_pairs(self.lengths, number, seed=config.seed, batch=batch)
            return _batch(self.layout, pairs.take(slice(ranks.rank, None, ranks.size)))

        # One epoch without end, and no padding: the symbols that pad y are predicted too.
        return BatchSource(plan=lambda epoch: range(sys.maxsize), make=make, epoch=epoch, taken=taken)


@dataclass(frozen=True)
class TaskPairs:
    """Given pairs, a :class:`~pdtools.training.batches.ValidationData`.

    Args:
        layout: converts them to rows.
        pairs: pairs by the length of x.
    """

    layout: RowLayout
    pairs: Mapping[int, StringPairs]

    @property
    def count(self) -> int:
        """The number of pairs."""
        return sum(len(pairs) for pairs in self.pairs.values())

    def in_order(self, limits: BatchLimits, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """Yield this rank's batches, longest first: whole ones, in turns, equally many for every rank."""
        batches = [part for length in sorted(self.pairs, reverse=True) for part in self._cut(length, limits)]
        for turn in range(0, len(batches), ranks.size):
            mine = turn + ranks.rank
            yield _batch(self.layout, batches[mine] if mine < len(batches) else batches[0].take(slice(0)))

    def _cut(self, length: int, limits: BatchLimits) -> Iterator[StringPairs]:
        pairs = self.pairs[length]
        number = limits.sentences or len(pairs)
        if limits.tokens:
            number = max(1, min(number, limits.tokens // self.layout.row_length(length)))
        for first in range(0, len(pairs), number):
            yield pairs.take(slice(first, first + number))


def _batch(layout: RowLayout, pairs: StringPairs) -> Batch:
    if len(pairs) == 0:
        return empty_batch(layout.tokenizer.root_id, layout.tokenizer.pad_id)
    return layout.batch(pairs)
