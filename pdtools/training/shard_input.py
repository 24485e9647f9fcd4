"""Shards of sentences, windows or prompts as the data of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel
from pdtools.models.scaffold import known_runs
from pdtools.models.treereg import sentence_places, word_edges
from pdtools.prompts.tasks import main_score, predict
from pdtools.shards import ShardSet
from pdtools.shards.format import check_binarization
from pdtools.tokenization import Tokenizer
from pdtools.training.batches import (
    BatchLimits,
    BatchSource,
    TrainingData,
    ValidationData,
    padding_share,
    plan_epoch,
    plan_in_order,
)
from pdtools.training.distributed import ALONE, Ranks
from pdtools.training.masking import EVALUATION, TRAINING, Masking
from pdtools.training.prompts import Loss, answer_prompts, form_of, prompt_batch
from pdtools.training.recipe import TrainConfig
from pdtools.training.streams import Stream


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

    def source(self, config: TrainConfig, *, epoch: int = 0, taken: int = 0) -> BatchSource:
        """Batches of the sentences, each once an epoch, from a position on; every ``size``-th is a rank's.

        Masked models have other tokens hidden in every epoch.
        """
        limits = BatchLimits(tokens=config.batch_tokens, sentences=config.batch_sentences)
        is_stored = config.batches == "stored"

        def make(numbers: NDArray[np.int64], epoch: int, ranks: Ranks) -> Batch:
            return self.batch(numbers[ranks.rank :: ranks.size], (TRAINING, config.seed, epoch))

        return BatchSource(
            plan=lambda epoch: plan_epoch(
                self.lengths, limits, seed=config.seed, epoch=epoch, stored=is_stored
            ),
            make=make,
            padding=lambda batches: padding_share(self.lengths, batches),
            epoch=epoch,
            taken=taken,
        )

    def batch(self, numbers: NDArray[np.int64], draw: Sequence[int] = EVALUATION) -> Batch:
        """The batch of these sentences (numbers count those taken), on the CPU.

        Args:
            numbers: the sentences.
            draw: determines the hidden tokens, see :class:`~pdtools.training.masking.Masking`.
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


class PromptRows(Sentences):
    """The prompts of a shard folder that a model can take; see :class:`Sentences`.

    Args:
        shards: prompts, windows with a column of answers.
        model, rejects, longest: see there.
        answers_only: whether the loss is the answers' loss alone.

    Raises:
        InputError: also if some have no answers, or have answers that the task does not know.
    """

    def __init__(
        self,
        shards: ShardSet,
        model: LanguageModel,
        *,
        rejects: Rejects,
        longest: int | None = None,
        answers_only: bool = False,
    ) -> None:
        super().__init__(shards, model, rejects=rejects, longest=longest)
        self.form = form_of(shards)
        self._answers_only = answers_only
        known = shards.answers >= 0 if self.form.answers else ~np.isnan(shards.targets)
        if not known[self.rows].all():
            row = int(self.rows[~known[self.rows]][0])
            reason = f"the prompt with id {int(shards.ids[row])} has no label"
            raise InputError(reason, file=shards.folder, hint="pdtools eval-classify predicts labels")
        if self.form.answers:
            # By length with its answer, batches of one length would have only one label.
            of_answers = np.array([len(answer) for answer in self.form.answers])
            self.lengths += of_answers.max() - of_answers[shards.answers[self.rows]]

    def batch(self, numbers: NDArray[np.int64], draw: Sequence[int] = EVALUATION) -> Batch:
        """See :meth:`Sentences.batch`."""
        rows = self.rows[numbers].tolist()
        if not rows:
            empty = self._model.pack([])
            nothing = torch.zeros_like(empty.tokens, dtype=torch.bool)
            unknown = None if self.form.answers else torch.full((1,), torch.nan)
            return dataclasses.replace(empty, answers=nothing, numbers=unknown)
        pairs = [(self._shards.tokens(row), self._shards.attach(row)) for row in rows]
        wanted = None if self.form.answers else self._shards.targets[rows].tolist()
        return prompt_batch(self._model, self.form, pairs, wanted, answers_only=self._answers_only)

    def main_score(self, loss: Loss, device: str, limits: BatchLimits) -> tuple[str, float]:
        """The task's score that chooses checkpoints, its name and value.

        Args:
            loss: calls the model; every rank calls it, with all prompts.
            device: the model's device.
            limits: limits of batches.
        """
        rows = self.rows.tolist()
        pairs = [(self._shards.tokens(row), self._shards.attach(row)) for row in rows]
        found = answer_prompts(loss, self._model, self.form, pairs, device=device, limits=limits)
        gold = self._shards.answers[rows] if self.form.answers else self._shards.targets[rows]
        task = self.form.task
        return task.metric, main_score(task, gold, predict(task, found))


@dataclass(frozen=True)
class ShardInput:
    """Shards to train on, and perhaps to validate with: a :class:`~pdtools.training.batches.TrainingInput`.

    Args:
        train, valid: folders that ``pdtools tapes`` wrote, with the same tokenizer.

    Raises:
        PdtoolsError: unusable shards, or shards that do not go together.
    """

    train: str | Path
    valid: str | Path | None = None

    def __post_init__(self) -> None:
        if "valid" in self._sets:
            check_same(self._sets["train"], self._sets["valid"])

    @property
    def files(self) -> dict[str, str | Path]:
        """The shards' folders."""
        return {"train": self.train} | ({} if self.valid is None else {"valid": self.valid})

    @cached_property
    def _sets(self) -> dict[str, ShardSet]:
        return {role: ShardSet.open(place) for role, place in self.files.items()}

    @property
    def tokenizer(self) -> Tokenizer:
        """The shards' tokenizer."""
        return self._sets["train"].tokenizer

    @property
    def has_constituents(self) -> bool:
        """Return whether the training shards have labelled constituents."""
        return self._sets["train"].has_constituents

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """Runs of actions of the training shards (:mod:`pdtools.models.scaffold`)."""
        shards = self._sets["train"]
        return known_runs((shards.constituents(row), shards.labels) for row in range(len(shards)))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the training shards (layout, factor, …)."""
        settings: Mapping[str, Any] = self._sets["train"].manifest["settings"]
        return settings

    @cached_property
    def identity(self) -> dict[str, str]:
        """Hashes of the shards' contents."""
        return {role: shards.sha256 for role, shards in self._sets.items()}

    def open(
        self, model: LanguageModel, config: TrainConfig, rejects: Rejects
    ) -> tuple[TrainingData, ValidationData | None]:
        """The sentences that the model can take, or the streams that they are.

        Raises:
            PdtoolsError: if the model scores attachments, of which blocks of running text have none, or keeps
                no state from one batch of a stream to the next.
        """
        if config.batches == "stream":
            if not model.reads_streams:
                raise PdtoolsError(
                    "train.batches stream needs model rnn with a limited stack (config.stack_window if the"
                    " stack is nondeterministic, else config.stack_depth)"
                )
            streams = {role: Stream(shards) for role, shards in self._sets.items()}
            return streams["train"], streams.get("valid")
        if model.derivation_kind.exist and self.settings["layout"] == "block":
            raise PdtoolsError("blocks of running text have no trees: choose model transformer")
        # Labels are numbers: if the tokenizer has none, each folder numbers its own anew.
        labels = {shards.labels for shards in self._sets.values() if shards.has_constituents}
        if model.derivation_kind.labelled and len(labels) > 1:
            raise PdtoolsError(
                f"{self._sets['valid'].folder}: labels differ from those of the training shards"
                " (build them with pdtools tapes --tokenizer TRAINING_SHARDS)"
            )
        masking = None
        if model.objective == "masked":
            masking = Masking(tokenizer=self.tokenizer, share=config.mask_share, replacement=config.masking)
        longest = max(int(np.max(model.row_lengths(shards), initial=0)) for shards in self._sets.values())
        kept = {}
        for role, shards in self._sets.items():
            if role == "valid" and model.derivation_kind.labelled:
                # Validated like models without labels: the rarest label takes the place of one that training
                # lacks, as <unk> does for words.
                shards = shards.with_known_labels()
            if shards.asks_for is None:
                kept[role] = Sentences(shards, model, rejects=rejects, masking=masking, longest=longest)
            else:
                answers_only = config.loss == "answer"
                kept[role] = PromptRows(
                    shards, model, rejects=rejects, longest=longest, answers_only=answers_only
                )
        return kept["train"], kept.get("valid")


def open_parsed(folder: str | Path, tokenizer: Tokenizer, layout: str) -> ShardSet:
    """Shards for TreeReg's loss beside others: sentences, or windows beside windows.

    Args:
        folder: the shards.
        tokenizer, layout: the training shards' own.

    Raises:
        PdtoolsError: unusable shards, blocks of running text, windows for a model that reads no windows, or
            another tokenizer than the training shards'.
    """
    shards = ShardSet.open(folder)
    if shards.layout == "block":
        raise PdtoolsError(f"{folder}: blocks of running text have no trees for TreeReg")
    if shards.layout == "window" and layout != "window":
        raise PdtoolsError(
            f"{folder}: windows are for models that learn from windows"
            " (make these with pdtools tapes --layout sentence)"
        )
    _check_tokenizer(shards, tokenizer)
    return shards


def check_same(train: ShardSet, valid: ShardSet) -> None:
    """Refuse validation shards whose token numbers, or trees, mean something else than the training shards'.

    Raises:
        PdtoolsError: another tokenizer, or another binarization.
    """
    _check_tokenizer(valid, train.tokenizer)
    settings, found = (shards.manifest["settings"] for shards in (train, valid))
    for key in ("layout", "prompt_form"):
        ours, theirs = settings.get(key), found.get(key)
        if key == "prompt_form" and ours != theirs:
            raise PdtoolsError(f"{valid.folder}: not prompts of the training shards' task")
        if ours != theirs:
            raise PdtoolsError(f"{valid.folder}: {key} is {theirs}, but {ours} in the training shards")
    check_binarization(valid.folder, found, settings)


def _check_tokenizer(shards: ShardSet, tokenizer: Tokenizer) -> None:
    if shards.tokenizer.fingerprint != tokenizer.fingerprint:
        raise PdtoolsError(
            f"{shards.folder}: tokenized differently from the training shards"
            " (build them with pdtools tapes --tokenizer TRAINING_SHARDS)"
        )
