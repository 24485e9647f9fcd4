"""A language model with a kind of derivations of its own: one binary choice, a mark, after each token.

A mark of 1 puts the token and all before it into one constituent, one of 0 does nothing; at the end what is
left branches to the right. So n tokens have 2^(n - 1) derivations: the first token's mark is 0. Marks, and
tokens, depend on the last token and its mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.models import Batch, LanguageModel, TokenParts
from pdtools.models.base import Objective
from pdtools.models.derivations import Derivation, DerivationKind, Derivations
from pdtools.trees import Constituents

OTHER = "a token closes some of what is before it, not all"


class MarkKind(DerivationKind):
    """Marks: int32 (n + 2) of a row, 0 for ROOT and end-of-sentence."""

    name = "marks"
    unit = "mark"

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        assert isinstance(model, MarkLM)
        return MarkDerivations(model, rows, length)

    def given(self, attach: NDArray[np.int32], constituents: Constituents | None) -> Any:
        """See :meth:`DerivationKind.given`: not all trees are made of marks."""
        tokens = attach[1:-1] - 1
        marks = (tokens != np.arange(len(tokens))).astype(np.int32)
        is_known = np.array_equal(marked(tokens, marks).attach, tokens)
        return np.pad(marks, 1) if is_known else OTHER

    def read(self, tokens: NDArray[np.int32], given: Any) -> Derivation:
        """See :meth:`DerivationKind.read`."""
        return marked(tokens[1:-1], given[1:-1])


def marked(tokens: NDArray[np.int32], marks: NDArray[np.int32]) -> Derivation:
    """Tokens with marks, as attachments have them."""
    attach, end = [], 0  # of the first constituent
    for place, mark in enumerate(marks.tolist()):
        attach.append(end if mark else place)
        end = place if mark else end
    return Derivation(tokens, np.array(attach, dtype=np.int32))


@dataclass(frozen=True, kw_only=True)
class MarkConfig:
    """Sizes."""

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    layers: int = 1
    objective: Objective = "causal"

    @property
    def derivation_kind(self) -> DerivationKind:
        """Marks, which reach the tokens."""
        return MarkKind(conditions_tokens=True)


class MarkLM(LanguageModel):
    """``following[last token, its mark]``, ``marks[token, mark before]``: logits of next tokens and marks."""

    config: MarkConfig
    max_length = None

    def __init__(self, config: MarkConfig) -> None:
        super().__init__()
        self.config = config
        v = config.vocab_size
        self.following = nn.Parameter(torch.randn(v, 2, v))
        self.marks = nn.Parameter(torch.randn(v, 2, 2))

    def following_of(self, last: Tensor, mark: Tensor) -> Tensor:
        """log p of the next token, float64 (…, V)."""
        never = torch.zeros(self.vocab_size)
        never[[self.pad_id, self.root_id]] = -torch.inf
        return (self.following[last, mark] + never).double().log_softmax(-1)

    def marks_of(self, token: Tensor, before: Tensor, *, is_first: Tensor) -> Tensor:
        """log p of a token's mark, float64 (…, 2); the first token has nothing to attach to."""
        logits = self.marks[token, before].double()
        never = torch.stack([torch.zeros_like(logits[..., 0]), torch.zeros_like(logits[..., 1])], -1)
        never[..., 1] = torch.where(is_first, -torch.inf, 0.0)
        return (logits + never).log_softmax(-1)

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`; what batches have as attachments are marks."""
        marks = batch.attach.clamp(max=1) * batch.attached()
        before, last = marks.roll(1, 1), batch.tokens.roll(1, 1)
        place = torch.arange(batch.tokens.shape[1])
        token = self.following_of(last, before).gather(2, batch.tokens[:, :, None])[:, :, 0]
        every = self.marks_of(batch.tokens, before, is_first=(place == 1).expand_as(marks))
        mark = every.gather(2, marks[:, :, None])[:, :, 0]
        return TokenParts(
            token.masked_fill(~batch.predicted(), 0),
            mark.masked_fill(~batch.attached(), 0),
            every.argmax(2),
            torch.zeros((), dtype=torch.int64),
        )


class MarkDerivations(Derivations):
    """In turns a token and its mark."""

    def __init__(self, model: MarkLM, rows: int, length: int) -> None:
        self._model = model
        self._last = torch.full((rows,), model.root_id)
        self._mark = torch.zeros(rows, dtype=torch.int64)
        self._next: Tensor | None = None  # the token that is to be marked
        self.step, self.most_steps = 0, 2 * length

    @torch.no_grad()
    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        if self._next is None:
            return self._model.following_of(self._last, self._mark)
        return self._model.marks_of(self._next, self._mark, is_first=self._last == self._model.root_id)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._next is None:
            return torch.arange(self._model.vocab_size)[None] == token
        return torch.ones(1, 2, dtype=torch.bool)

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        return choices if self._next is None else torch.full_like(choices, -1)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        if self._next is None:
            self._next = choices
        else:
            self._last, self._mark, self._next = self._next, choices, None

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self._last, self._mark = self._last[rows], self._mark[rows]
        self._next = None if self._next is None else self._next[rows]

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return 1

    def derivation(self, choices: NDArray[np.int32]) -> Derivation:
        """See :meth:`Derivations.derivation`."""
        marks = choices[1::2]
        return marked(choices[::2][: len(marks)], marks)
