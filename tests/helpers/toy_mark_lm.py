"""A language model with a kind of derivations of its own: one binary choice, a mark, after each token.

A mark of 1 puts the token and all before it into one constituent, one of 0 does nothing; at the end the rest
branches to the right. So n tokens have 2^(n - 1) derivations: the first token's mark is 0. Marks, and
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
from pdtools.models.base import DecoderState, Objective
from pdtools.models.derivations import Derivation, DerivationKind
from pdtools.models.tokenwise import TokenwiseDerivations, TokenwiseKind
from pdtools.trees import Constituents

OTHER = "a token closes some of what is before it, not all"


class MarkKind(TokenwiseKind):
    """The kind of marks: int32 (n + 2) for a row, 0 for ROOT and end-of-sentence."""

    name = "marks"
    unit = "mark"

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
    attach, end = [], 0  # the end of the first constituent
    for place, mark in enumerate(marks.tolist()):
        attach.append(end if mark else place)
        end = place if mark else end
    return Derivation(tokens, np.array(attach, dtype=np.int32))


@dataclass(frozen=True, kw_only=True)
class MarkConfig:
    """The sizes of a mark model."""

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    layers: int = 1
    objective: Objective = "causal"

    @property
    def derivation_kind(self) -> DerivationKind:
        """The kind of marks, which reach the tokens."""
        return MarkKind(conditions_tokens=True)


class MarkLM(LanguageModel):
    """A mark model: ``following[last token, its mark]``, ``marks[token, mark before]`` are logits."""

    config: MarkConfig
    max_length = None

    def __init__(self, config: MarkConfig) -> None:
        super().__init__(config)
        v = config.vocab_size
        self.following = nn.Parameter(torch.randn(v, 2, v))
        self.marks = nn.Parameter(torch.randn(v, 2, 2))

    def derive(self, rows: int, length: int, entries: int | None = None) -> MarkDerivations:
        """See :meth:`LanguageModel.derive`."""
        return MarkDerivations(self, rows, length, entries)

    def following_of(self, last: Tensor, mark: Tensor) -> Tensor:
        """The log p of the next token, float64 (…, V)."""
        never = torch.zeros(self.vocab_size)
        never[[self.pad_id, self.root_id]] = -torch.inf
        return (self.following[last, mark] + never).double().log_softmax(-1)

    def marks_of(self, token: Tensor, before: Tensor, *, is_first: Tensor) -> Tensor:
        """The log p of a token's mark, float64 (…, 2); the first token has nothing to attach to."""
        logits = self.marks[token, before].double()
        never = torch.stack([torch.zeros_like(logits[..., 0]), torch.zeros_like(logits[..., 1])], -1)
        never[..., 1] = torch.where(is_first, -torch.inf, 0.0)
        return (logits + never).log_softmax(-1)

    def start(self, rows: int, length: int, entries: int | None = None) -> MarkState:
        """See :meth:`LanguageModel.start`; ROOT has been read."""
        return MarkState(torch.full((rows,), self.root_id), torch.zeros(rows, dtype=torch.int64))

    @torch.no_grad()
    def next_token_logprobs(self, state: MarkState) -> Tensor:
        """See :meth:`LanguageModel.next_token_logprobs`."""
        return self.following_of(state.last, state.mark)

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`; the attachments of batches are marks."""
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


@dataclass
class MarkState(DecoderState):
    """The last token of each hypothesis, and its mark: int64 (R,) each."""

    last: Tensor
    mark: Tensor
    position: int = 0

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        self.last, self.mark = self.last[rows], self.mark[rows]

    @property
    def nbytes(self) -> int:
        """See :attr:`DecoderState.nbytes`."""
        return self.last.nbytes + self.mark.nbytes


class MarkDerivations(TokenwiseDerivations):
    """Derivations of marks: in turns a token and its mark."""

    model: MarkLM
    state: MarkState

    def legal(self, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.legal`: the first token has nothing to attach to."""
        return torch.stack([torch.ones_like(tokens), self.state.last != self.model.root_id], 1).bool()

    def choice_logprobs(self, tokens: Tensor, legal: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`."""
        return self.model.marks_of(tokens, self.state.mark, is_first=~legal[:, 1]).detach()

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`."""
        self.state.position += 1
        self.history[:, self.state.position] = choices
        self.state.last, self.state.mark = tokens, choices

    def derivation(self, choices: NDArray[np.int32]) -> Derivation:
        """See :meth:`Derivations.derivation`."""
        marks = choices[1::2]
        return marked(choices[::2][: len(marks)], marks)
