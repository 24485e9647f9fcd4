"""The shape of recurrent neural network grammars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pdtools.models.base import Objective, bad_config, check_at_least, check_fields
from pdtools.models.derivations import DerivationKind
from pdtools.models.grammar.config import Normalize
from pdtools.models.grammar.derivations import ActionKind
from pdtools.trees.actions import ActionIds, InOrderIds

Composition = Literal["lstm", "attention"]


@dataclass(frozen=True, kw_only=True)
class RnngConfig:
    """Shape of an RNNG (Dyer et al. 2016), top-down.

    Attributes:
        vocab_size, pad_id, root_id, eos_id: the tokenizer's.
        n_labels: number of constituents' labels: the tokenizer's.
        layers: layers of the LSTM that reads the stack.
        d_model: width of its states, and of words, labels and constituents.
        composition: a constituent's vector is made of its children's by an "lstm" in both directions, or by
            gated "attention" to these (Kuncoro et al. 2017).
        dropout: on embeddings, between layers, before the output, and in the composition.
        max_open: most constituents open at once.
        max_chain: most openers in a row; in-order, with closers directly after openers between them.
        normalize: the actions that share probability; with "all", as released, some is lost.
    """

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    n_labels: int
    layers: int = 2
    d_model: int = 256
    composition: Composition = "lstm"
    dropout: float = 0.3
    max_open: int = 100
    max_chain: int = 8
    normalize: Normalize = "allowed"
    objective: ClassVar[Objective] = "causal"

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, 1, "n_labels", "layers", "d_model", "max_open", "max_chain")
        if not 0 <= self.dropout < 1:
            raise bad_config(f"dropout must be from 0 to below 1, not {self.dropout}")

    @property
    def actions(self) -> ActionIds:
        """Numbers of the model's actions."""
        return ActionIds(self.vocab_size, self.n_labels, typed=False, doubled=False)

    @property
    def derivation_kind(self) -> DerivationKind:
        """Actions, on which tokens depend."""
        return ActionKind(conditions_tokens=True)


@dataclass(frozen=True, kw_only=True)
class RnngInOrderConfig(RnngConfig):
    """Shape of an in-order RNNG (Kuncoro et al. 2018): constituents open after their first children."""

    max_chain: int = 3

    @property
    def actions(self) -> ActionIds:
        """See :attr:`RnngConfig.actions`."""
        return InOrderIds(self.vocab_size, self.n_labels)
