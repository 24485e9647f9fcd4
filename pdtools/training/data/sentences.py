"""Sentences of shards that a model is trained or validated on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel
from pdtools.models.scaffold import known_runs
from pdtools.models.treereg import sentence_places, word_edges
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer
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


@dataclass(frozen=True)
class ShardInput:
    """Shards to train on, and perhaps to validate with: a :class:`~.protocols.TrainingInput`.

    Args:
        train, valid: folders that ``pdtools tapes`` wrote, with the same tokenizer.

    Raises:
        PdtoolsError: unusable shards, or shards that do not go together.
    """

    train: str | Path
    valid: str | Path | None = None

    def __post_init__(self) -> None:
        if "valid" in self._sets:
            check_same_tokenizer(self._sets["train"], self._sets["valid"])

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
    ) -> tuple[Sentences, Sentences | None]:
        """The sentences that the model can take.

        Raises:
            PdtoolsError: if the model scores attachments, of which blocks of running text have none.
        """
        if model.has_derivations and self.settings["layout"] == "block":
            raise PdtoolsError("blocks of running text have no trees: choose model transformer")
        # Labels are numbers: if the tokenizer has none, each folder numbers its own anew.
        labels = {shards.labels for shards in self._sets.values() if shards.has_constituents}
        if model.reads_labels and len(labels) > 1:
            raise PdtoolsError(
                f"{self._sets['valid'].folder}: labels differ from those of the training shards"
                " (build them with pdtools tapes --tokenizer TRAINING_SHARDS)"
            )
        masking = None
        if model.objective == "masked":
            masking = Masking(tokenizer=self.tokenizer, share=config.mask_share, replacement=config.masking)
        longest = max(int(np.max(model.row_lengths(shards), initial=0)) for shards in self._sets.values())
        sets = dict(self._sets)
        if "valid" in sets and model.reads_labels:
            # Validated like models without labels: the rarest label takes the place of one that training
            # lacks, as <unk> does for words.
            sets["valid"] = sets["valid"].with_known_labels()
        kept = {
            role: self._taken(shards, model, config, rejects=rejects, masking=masking, longest=longest)
            for role, shards in sets.items()
        }
        return kept["train"], kept.get("valid")

    def _taken(
        self,
        shards: ShardSet,
        model: LanguageModel,
        config: TrainConfig,
        *,
        rejects: Rejects,
        masking: Masking | None,
        longest: int,
    ) -> Sentences:
        if shards.asks_for is None:
            return Sentences(shards, model, rejects=rejects, masking=masking, longest=longest)
        from pdtools.training.data.prompts import PromptRows

        answers_only = config.loss == "answer"
        return PromptRows(shards, model, rejects=rejects, longest=longest, answers_only=answers_only)


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
    if shards.tokenizer.fingerprint != tokenizer.fingerprint:
        raise PdtoolsError(
            f"{folder}: tokenized differently from the training shards"
            " (build them with pdtools tapes --tokenizer TRAINING_SHARDS)"
        )
    return shards


def check_same_tokenizer(train: ShardSet, valid: ShardSet) -> None:
    """Refuse validation shards whose token numbers, or trees, mean something else than the training shards'.

    Raises:
        PdtoolsError: another tokenizer, or another binarization.
    """
    if train.tokenizer.fingerprint != valid.tokenizer.fingerprint:
        raise PdtoolsError(
            f"{valid.folder}: tokenized differently from the training shards"
            " (build them with pdtools tapes --tokenizer TRAINING_SHARDS)"
        )
    for key in ("layout", "factor", "prompt_form"):
        ours, theirs = (shards.manifest["settings"].get(key) for shards in (train, valid))
        if key == "prompt_form" and ours != theirs:
            raise PdtoolsError(f"{valid.folder}: not prompts of the training shards' task")
        if ours != theirs:
            raise PdtoolsError(f"{valid.folder}: {key} is {theirs}, but {ours} in the training shards")
