"""Masked language modelling: choice of the hidden tokens and their replacements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from pdtools.models.batch import Batch
from pdtools.tokenization import Tokenizer

MASKED_SHARE = 0.15
# bert (Devlin et al. 2019): shares of hidden tokens that become the mask, or random tokens.
READ_AS_MASK, READ_AS_OTHER = 0.8, 0.1

# Replacements of hidden tokens. bert: the mask for 80%, random tokens for 10%, the tokens themselves for
# 10%; mask: the mask for all.
Replacement = Literal["bert", "mask"]

# First numbers of draws: (TRAINING, seed, epoch), the first draw of evaluations, (FURTHER, n).
TRAINING = 1
EVALUATION = (0,)
FURTHER = 2


def evaluation_draw(number: int) -> tuple[int, ...]:
    """The draw of the evaluation with this number, from 0: the same for every model."""
    return (FURTHER, number) if number else EVALUATION


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Chooses the tokens that a masked model has to predict.

    Args:
        tokenizer: the rows' tokenizer, with the mask.
        share: share of a row's tokens (without ROOT and end-of-sentence); at least one of each row.
        replacement: the replacement of hidden tokens.
    """

    tokenizer: Tokenizer
    share: float = MASKED_SHARE
    replacement: Replacement = "bert"

    def apply(self, batch: Batch, rows: Sequence[int], draw: Sequence[int]) -> Batch:
        """Hide tokens of a batch.

        Args:
            batch: sentences, on the CPU.
            rows: a number for each row, the same in any batch.
            draw: numbers that differ between draws. With the same ones a row is masked alike.

        Returns:
            A batch whose targets are the hidden tokens.
        """
        tokenizer = self.tokenizer
        tokens = batch.tokens.numpy().copy()  # (B, N)
        scored = np.zeros(tokens.shape, dtype=bool)
        for i, row in enumerate(rows):
            random = np.random.default_rng([*draw, row])
            length = int(batch.lengths[i])
            hideable = np.flatnonzero(~np.isin(tokens[i, :length], self._kept))
            if not len(hideable):
                continue
            hidden = random.choice(hideable, max(1, round(self.share * len(hideable))), replace=False)
            scored[i, hidden] = True
            if self.replacement == "mask":
                tokens[i, hidden] = tokenizer.mask_id
                continue
            kind = random.random(len(hidden))
            other = random.integers(tokenizer.vocab_size, size=len(hidden))
            read = np.where(kind < READ_AS_MASK + READ_AS_OTHER, other, tokens[i, hidden])
            tokens[i, hidden] = np.where(kind < READ_AS_MASK, tokenizer.mask_id, read)
        return dataclasses.replace(
            batch, tokens=torch.from_numpy(tokens), targets=batch.tokens, scored=torch.from_numpy(scored)
        )

    @property
    def _kept(self) -> list[int]:
        """Tokens that are never hidden."""
        return [self.tokenizer.root_id, self.tokenizer.eos_id]
