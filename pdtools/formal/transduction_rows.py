"""The input of models for a task's pairs: the rows of a batch.

- masked: ``ROOT x <out> … <out>``, one ``<out>`` for each symbol of y, which is predicted in its place;
- causal: ``ROOT x <out> y``: each symbol of y is predicted from everything before it. Without the
  ``<out>`` between them, the end of x would have to be guessed, and y with it.

``<out>`` is the released code's empty output token, in the same places. As released, symbols of x that do not
fit in a causal model's embedding all look like ``<out>``. (Prediction of y_t without y_{t-1}, as there, is an
option of the model, its ``as_released``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.formal.transductions import StringPairs, Task
from pdtools.tokenization import Tokenizer, train_word_tokenizer

if TYPE_CHECKING:
    from pdtools.models import Batch

Int64 = NDArray[np.int64]

OUT = "<out>"


def task_tokenizer(task: Task) -> Tokenizer:
    """The tokenizer of a task: its symbols and ``<out>``, no ``<unk>``."""
    return train_word_tokenizer((*task.symbols, OUT), min_count=1, unk=False)


@dataclass(frozen=True, kw_only=True)
class RowLayout:
    """Conversion of pairs to rows for one kind of model.

    Attributes:
        task: the task.
        tokenizer: from :func:`task_tokenizer`.
        objective: as in the model's configuration.

    Raises:
        PdtoolsError: if the tokenizer is not the task's.
    """

    task: Task
    tokenizer: Tokenizer
    objective: Literal["causal", "masked"]

    def __post_init__(self) -> None:
        if self.tokenizer.fingerprint != task_tokenizer(self.task).fingerprint:
            raise PdtoolsError(f"this model's tokens are not the symbols of the task {self.task.name}")

    @property
    def out(self) -> int:
        """The token ``<out>``."""
        return self.tokenizer.word_tokens(OUT)[0]

    @property
    def token_of_symbol(self) -> Int64:
        """The tokens of the symbols of x and y: int64 (S,)."""
        return np.array([self.tokenizer.word_tokens(symbol)[0] for symbol in self.task.symbols])

    @property
    def output_tokens(self) -> Int64:
        """Tokens of the symbols that y may have."""
        return np.array([self.tokenizer.word_tokens(symbol)[0] for symbol in self.task.outputs])

    def first_position(self, length: int) -> int:
        """The position at which y_1 is predicted after an x of n symbols."""
        return length + 2 if self.objective == "causal" else length + 1

    def row_length(self, length: int) -> int:
        """N, the number of positions in the row of an x of n symbols."""
        return self.first_position(length) + self.task.output_length(length)

    def batch(self, pairs: StringPairs) -> Batch:
        """Convert pairs to rows with targets, in order, on the CPU; every token shifts."""
        import torch

        from pdtools.models import Batch

        number, length = pairs.x.shape
        of_symbol = self.token_of_symbol
        x, y = self._embeddable(of_symbol)[pairs.x], of_symbol[pairs.y]  # (B, n), (B, m)
        root = np.full((number, 1), self.tokenizer.root_id)
        if self.objective == "masked":
            tokens = np.concatenate([root, x, np.full_like(y, self.out)], axis=1)  # (B, N)
        else:
            tokens = np.concatenate([root, x, np.full_like(root, self.out), y], axis=1)  # (B, N)
        targets = np.full_like(tokens, self.tokenizer.pad_id)
        targets[:, self.first_position(length) :] = y
        scored = np.zeros(tokens.shape, dtype=bool)
        scored[:, self.first_position(length) :] = True
        return Batch(
            tokens=torch.from_numpy(tokens),
            attach=torch.arange(tokens.shape[1]).expand(*tokens.shape).contiguous(),
            lengths=torch.full((number,), tokens.shape[1]),
            targets=torch.from_numpy(targets),
            scored=torch.from_numpy(scored),
        )

    def _embeddable(self, of_symbol: Int64) -> Int64:
        """Tokens of the symbols of x.

        As released, causal: with K symbols of y, the decoder makes one-hot vectors of K + 1 numbers, so that
        higher symbols of x become zero vectors, and so does ``<out>`` (but in rs: it is number K
        there, like the decoder's first input). Here they share its embedding, which is learned.
        """
        if self.objective == "masked" or not self.task.as_released:
            return of_symbol
        merged = of_symbol.copy()
        merged[len(self.task.outputs) + 1 :] = self.out
        return merged
