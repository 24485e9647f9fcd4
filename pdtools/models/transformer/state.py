"""A transformer's state while it reads token by token; layers without a tape share their memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pdtools.models.base import DecoderState
from pdtools.models.transformer.block import Block
from pdtools.models.transformer.cache import Cache, Past
from pdtools.models.transformer.stack_attention import StackCache

# A layer, and its caches: keys and values (2D wide); its stack attention's, if it has any.
Layer = tuple[Block, Cache, StackCache | None]


@dataclass
class Prefixes:
    """The first layers' memory of the P different strings of tokens that R hypotheses have read.

    They may be a token ahead of the other layers: a token's attachment is scored before it is fed.

    Attributes:
        past: the past of the prefixes.
        layers: these layers, with their caches.
        of: int64 (R,), the prefix of each hypothesis.
        output: (P, 1, D), the last layer's output for the last token that was read.
        tokens: int64 (R,), that token; None before the first.
    """

    past: Past
    layers: list[Layer]
    of: Tensor
    output: Tensor
    tokens: Tensor | None = None

    def has_read(self, position: int, tokens: Tensor) -> bool:
        """Return whether these tokens (R,) were read at a position, the next one of the hypotheses."""
        return self.tokens is not None and self.past.position == position and torch.equal(self.tokens, tokens)

    def read(self, position: int, tokens: Tensor, n_tokens: int) -> Tensor:
        """Go on to the prefixes that are a token longer; others read there are forgotten.

        Args:
            position: the position of the next token of the hypotheses.
            tokens: int64 (R,), these next tokens.
            n_tokens: the number of different tokens that there may be.

        Returns:
            int64 (P,), the last token of each prefix, for which :attr:`output` is to be computed.

        Raises:
            NoRoomError: if there is no room for them.
        """
        if self.past.position == position:
            self.past.unfeed()
        longer, self.of = torch.unique(self.of * n_tokens + tokens, return_inverse=True)  # (P,), (R,)
        self.past.select(longer // n_tokens)
        self.past.feed()
        self.tokens = tokens
        return longer % n_tokens

    def select(self, rows: Tensor) -> None:
        """Go on with the given hypotheses: int64 (R',), in any order, repeats allowed."""
        self.of = self.of[rows]
        self.tokens = None if self.tokens is None else self.tokens[rows]


@dataclass
class TransformerState(DecoderState):
    """The state of a transformer for R hypotheses.

    Attributes:
        position: the last position fed; -1 at the start.
        past: the tokens that each hypothesis has read.
        lengths: int64 (1,), the maximal number of tokens of one hypothesis.
        prefixes: the memory of the layers below that know tokens only; None if these are not computed
            apart.
        layers: the other layers, with their caches.
        hidden: (R, D), final hidden state of the last token.
        head_keys: the attachment head's keys, one for each token; None without a head.
        head_query: (R, its ``query_width``), the attachment head's q of the last token; None without a head.
        head_tape: int (R, position + 1), the tape as the head reads it after the last token: distances in
            the stack, or depths; None for a head that uses neither.
        held: int64 (R,), the last token, for models that read with a delay of one; None for others.
        n_clamped: cells of tape rows fed so far that were deeper than the depth table.
    """

    position: int
    past: Past
    lengths: Tensor
    prefixes: Prefixes | None
    layers: list[Layer]
    hidden: Tensor
    head_keys: Cache | None
    head_query: Tensor | None
    head_tape: Tensor | None
    held: Tensor | None
    n_clamped: Tensor

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        self.past.select(rows)
        if self.prefixes is not None:
            self.prefixes.select(rows)
        self.hidden = self.hidden[rows]
        if self.head_query is not None:
            self.head_query = self.head_query[rows]
        if self.head_tape is not None:
            self.head_tape = self.head_tape[rows]
        if self.held is not None:
            self.held = self.held[rows]

    @property
    def nbytes(self) -> int:
        """The memory of the caches, in bytes."""
        return self.past.nbytes + (0 if self.prefixes is None else self.prefixes.past.nbytes)
