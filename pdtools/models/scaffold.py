"""Language models with a structural scaffold, ScLM-next and ScLM-past (Qian et al. 2021).

A linear layer on the final states predicts the run of actions between two tokens: the constituents closed
after one and opened before the next, such as ``) ) (VP``. That is learned beside the next token, and not
used afterwards: p(x) is a plain language model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.models.base import LossParts, bad_config, initialize
from pdtools.models.batch import Batch, collate, empty_batch
from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.view import View
from pdtools.trees import Constituents

if TYPE_CHECKING:
    from pdtools.shards import ShardSet


@dataclass(frozen=True, kw_only=True)
class ScaffoldConfig(TransformerConfig):
    """Shape of an ScLM: a transformer, with two more settings.

    Attributes:
        scaffold: a token predicts the run after it ("next"), or before it ("past").
        runs: the known runs, most frequent first, "" for none; they come from the training shards.
    """

    scaffold: Literal["next", "past"] = "next"
    runs: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout == "window":
            raise bad_config("scaffolds read sentences: layout window is for others")
        if not self.runs:
            raise bad_config("runs must be at least one")
        if self.objective != "causal" or self.attachment_head or self.treereg_layer or self.as_released:
            raise bad_config(
                "a model with a scaffold is causal, without attachment_head, treereg_layer and as_released"
            )


@dataclass(frozen=True, kw_only=True)
class ScaffoldBatch(Batch):
    """Rows with the runs that their tokens predict.

    Attributes:
        run: int64 (B, N), indices of runs; -1 if none is predicted, or it is not one of the model's.
    """

    run: Tensor


class ScaffoldLM(TransformerLM):
    """The decoder with a classifier of runs, which only the loss uses."""

    config: ScaffoldConfig

    def __init__(self, config: ScaffoldConfig) -> None:
        super().__init__(config)
        self.structure = "scaffold"
        # After all others, so that their first weights equal a transformer's without it.
        self.scaffold = nn.Linear(config.d_model, len(config.runs))
        self.scaffold.apply(initialize)
        self._number = {run: i for i, run in enumerate(config.runs)}

    def derivation_of(self, shards: ShardSet, row: int) -> NDArray[np.int64]:
        """See :meth:`LanguageModel.derivation_of`: indices of its runs (n + 1), -1 for runs unknown to
        the model; (0) for shards without labelled constituents."""
        runs = runs_of(shards.constituents(row), shards.labels) if shards.has_constituents else []
        return np.array([self._number.get(run, -1) for run in runs], dtype=np.int64)

    def no_derivation(self, tokens: NDArray[np.int32]) -> NDArray[np.int64]:
        """See :meth:`LanguageModel.no_derivation`: no runs."""
        return np.zeros(0, dtype=np.int64)

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> ScaffoldBatch:
        """See :meth:`LanguageModel.pack`: (tokens, indices of runs)."""
        plain = empty_batch(self.root_id, self.pad_id)
        if rows:
            plain = collate([(tokens, np.arange(len(tokens))) for tokens, _ in rows], self.pad_id)
        numbers = np.full(plain.tokens.shape, -1, dtype=np.int64)
        first = 0 if self.config.scaffold == "next" else 1
        for row, (_, runs) in zip(numbers, rows, strict=False):
            row[first : first + len(runs)] = runs
        return ScaffoldBatch(**vars(plain), run=torch.from_numpy(numbers))

    def loss(self, batch: Batch) -> LossParts:
        """See :meth:`LanguageModel.loss`; runs take the place of attachments."""
        assert isinstance(batch, ScaffoldBatch)
        self.check_length(batch.tokens.shape[1])
        hidden = self.hidden_states(self.embedding(batch.tokens), batch.lengths, View())  # (B, N, D)
        predicted = batch.predicted()[:, 1:]  # (B, N - 1)
        token_nll = self._nll(hidden[:, :-1][predicted], batch.tokens[:, 1:][predicted])
        scored = batch.run >= 0  # (B, N)
        logits, runs = self.scaffold(hidden[scored]).float(), batch.run[scored]  # (S, runs), (S,)
        run_nll = F.cross_entropy(logits, runs, reduction="sum")
        return LossParts(
            sums={"token_nll": token_nll.sum(), "attachment_nll": run_nll},
            counts={
                "tokens": predicted.sum(),
                "attachments": scored.sum(),
                "attachments_right": (logits.argmax(1) == runs).sum(),
                "clamped": batch.lengths.new_zeros(()),
            },
        )


def runs_of(tree: Constituents, labels: Sequence[str]) -> list[str]:
    """The n + 1 runs of a sentence: before each of n tokens, and after the last one.

    Args:
        tree: its constituents, over the tokens.
        labels: names of its labels; an unknown one is "?".
    """
    openers = [f"({labels[label]}" if label >= 0 else "?" for label in tree.labels.tolist()]
    found, begin, closes = [], 0, 0
    for opens, closes_next in zip(tree.opens.tolist(), tree.closes.tolist(), strict=True):
        found.append(" ".join([")"] * closes + openers[begin : begin + opens]))
        begin, closes = begin + opens, closes_next
    return [*found, " ".join([")"] * closes)]


def known_runs(trees: Iterable[tuple[Constituents, Sequence[str]]]) -> tuple[str, ...]:
    """All runs of trees, the most frequent first, then in alphabetical order."""
    counts: Counter[str] = Counter()
    for tree, labels in trees:
        counts.update(runs_of(tree, labels))
    return tuple(sorted(counts, key=lambda run: (-counts[run], run)))
