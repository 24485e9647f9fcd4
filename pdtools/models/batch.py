"""Batches: rows padded at the end to one length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Batch:
    """Rows padded at the end to one length: sentences (ROOT, tokens, EOS), or inputs with targets.

    Attributes:
        tokens: int64 (B, N), padded with the padding token.
        attach: int64 (B, N), positions in the row; padding positions shift.
        lengths: int64 (B,), positions that are not padding.
        targets: int64 (B, N), the token to be predicted at each position; None: the tokens themselves.
        scored: bool (B, N), positions whose target counts in the loss; None: all but ROOT and padding.
        continues: for a part of streams (tokens are read, targets follow each of them), whether the
            rows continue the last batch's rows, or begin; None: rows are sentences.
        roots: bool (B, N), for windows the positions of ROOTs that are given, not predicted; None: all are
            predicted but the first.
        edges: bool (B, N), the tokens after which a node may split
            (:func:`pdtools.models.treereg.word_edges`); None: TreeReg's loss is not requested.
        places: int64 (S, L), for windows with edges the positions of their sentences
            (:func:`pdtools.models.treereg.sentence_places`); None: rows are sentences.
        unattached: bool (B, N), positions whose attachments are a convention, not scored: prompts'
            answers; None: there are none.
        answers: bool (B, N), for prompts the tokens of the answers; None: rows are no prompts.
        numbers: float (B,), for prompts that ask for numbers these, NaN if unknown; None: for others.
    """

    tokens: Tensor
    attach: Tensor
    lengths: Tensor
    targets: Tensor | None = None
    scored: Tensor | None = None
    continues: bool | None = None
    roots: Tensor | None = None
    edges: Tensor | None = None
    places: Tensor | None = None
    unattached: Tensor | None = None
    answers: Tensor | None = None
    numbers: Tensor | None = None

    def to(self, device: torch.device | str) -> Self:
        """Copy the batch to another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Self:
        """Copy the batch to pinned memory, from which a GPU copies without waiting."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = {
            name: change(value) if isinstance(value, Tensor) else value for name, value in vars(self).items()
        }
        return type(self)(**cast(dict[str, Any], changed))

    def predicted(self) -> Tensor:
        """Positions whose target is scored, bool (B, N): ``scored``, or all but ROOT and padding."""
        if self.scored is not None:
            return self.scored
        if self.roots is not None:
            return self.real() & ~self.roots
        return self.real() & (torch.arange(self.tokens.shape[1], device=self.tokens.device) > 0)

    def ends(self, end_id: int) -> Tensor:
        """Positions whose target ends a sentence, bool (B, N); see :attr:`LanguageModel.end_id`."""
        return (self.tokens if self.targets is None else self.targets) == end_id

    def real(self) -> Tensor:
        """Positions that are not padding, bool (B, N)."""
        position = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return position < self.lengths[:, None]

    def attached(self) -> Tensor:
        """Positions whose attachment is scored, bool (B, N): all but ROOT, EOS, padding, and given ones."""
        if self.roots is not None:
            attached = self.real() & ~self.roots
            return attached if self.unattached is None else attached & ~self.unattached
        position = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return (position > 0) & (position < self.lengths[:, None] - 1)


def collate(rows: Sequence[tuple[Any, Any]], pad_id: int) -> Batch:
    """Pad (tokens, attach) rows, as :class:`pdtools.shards.ShardSet` gives them, to one batch."""
    lengths = np.array([len(tokens) for tokens, _ in rows], dtype=np.int64)
    longest = int(lengths.max())
    padded_tokens = np.full((len(rows), longest), pad_id, dtype=np.int64)
    padded_attach = np.tile(np.arange(longest, dtype=np.int64), (len(rows), 1))
    for i, (tokens, attach) in enumerate(rows):
        padded_tokens[i, : len(tokens)] = tokens
        padded_attach[i, : len(attach)] = attach
    return Batch(
        tokens=torch.from_numpy(padded_tokens),
        attach=torch.from_numpy(padded_attach),
        lengths=torch.from_numpy(lengths),
    )


def empty_batch(root_id: int, pad_id: int) -> Batch:
    """A batch without sentences: a row with nothing to predict, whose losses and gradients are 0.

    With it, a rank without a sentence takes the same steps as the others.
    """
    return Batch(
        tokens=torch.tensor([[root_id, pad_id]]), attach=torch.tensor([[0, 1]]), lengths=torch.tensor([1])
    )


def join_batches(batches: Sequence[Batch], pad_id: int) -> Batch:
    """Join several batches, each padded to the same number of rows and of positions.

    Raises:
        ValueError: if only some batches have targets of their own, or they are parts of streams.
    """
    if any(batch.continues is not None for batch in batches):
        raise ValueError("parts of streams are not put side by side")
    rows = max(len(batch.tokens) for batch in batches)
    width = max(batch.tokens.shape[1] for batch in batches)

    def joined(name: str, fill: int) -> Tensor | None:
        tensors = [getattr(batch, name) for batch in batches]
        if all(tensor is None for tensor in tensors):
            return None
        if any(tensor is None for tensor in tensors):
            raise ValueError(f"some batches have {name}, and others not")
        return torch.cat(
            [F.pad(each, (0, width - each.shape[1], 0, rows - len(each)), value=fill) for each in tensors]
        )

    lengths = [F.pad(batch.lengths, (0, rows - len(batch.lengths))) for batch in batches]
    return Batch(
        tokens=cast(Tensor, joined("tokens", pad_id)),
        attach=cast(Tensor, joined("attach", 0)),
        lengths=torch.cat(lengths),
        targets=joined("targets", pad_id),
        scored=joined("scored", False),
        roots=joined("roots", False),
    )
