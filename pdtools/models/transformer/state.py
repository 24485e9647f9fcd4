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
        head_keys: the attachment head's keys, D wide; None without a head.
        head_query: (R, D), the attachment head's q of the last token; None without a head.
        stack_distance: int16 (R, position + 1), after the last token; None for a model that uses none.
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
    stack_distance: Tensor | None
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
        if self.stack_distance is not None:
            self.stack_distance = self.stack_distance[rows]
        if self.held is not None:
            self.held = self.held[rows]

    @property
    def nbytes(self) -> int:
        """The memory of the caches, in bytes."""
        return self.past.nbytes + (0 if self.prefixes is None else self.prefixes.past.nbytes)
