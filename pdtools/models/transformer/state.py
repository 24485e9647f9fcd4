"""A transformer's state while it reads token by token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pdtools.models.base import DecoderState
from pdtools.models.transformer.cache import Cache, Past
from pdtools.models.transformer.prefixes import LayerCaches, Prefixes


@dataclass
class TransformerState(DecoderState):
    """The state of a transformer for R hypotheses.

    Attributes:
        position: the last position fed; -1 at the start.
        past: the tokens that each hypothesis has read.
        lengths: int64 (1,), the maximal number of tokens of one hypothesis.
        prefixes: the memory of the layers below that know tokens only; None if these are not computed
            apart.
        caches: the caches of each other layer.
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
    caches: list[LayerCaches]
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
