"""Shards of sentences, windows or prompts as the data of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects
from pdtools.models import LanguageModel
from pdtools.models.scaffold import known_runs
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer
from pdtools.training.data.masking import Masking
from pdtools.training.data.prompts import PromptRows
from pdtools.training.data.sentences import Sentences
from pdtools.training.recipe import TrainConfig


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
