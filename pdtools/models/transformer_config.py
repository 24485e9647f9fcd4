"""The shape of a transformer language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pdtools.errors import PdtoolsError
from pdtools.models.base import Objective

Positions = Literal["learned", "relative", "alibi", "none"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Shape of a transformer language model.

    Attributes:
        vocab_size, pad_id, root_id, eos_id: the tokenizer's.
        layers, d_model, heads, d_ff: the trunk.
        positions: "learned" (an embedding per position, added to the input), "relative"
            (Transformer-XL), "alibi" (a fixed penalty on distance), or "none".
        max_length: positions that learned embeddings exist for; the other kinds have no limit and ignore it.
        input_dropout: on the embeddings.
        attention_dropout: on the attention weights.
        output_dropout: on the output of every sub-layer.
        tie_embeddings: the output layer is the token embedding.
        attachment_head: score attachments too.
        objective: "causal": the token at k is predicted from those before it; "masked": from the whole row,
            at its own position.
    """

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    layers: int = 6
    d_model: int = 256
    heads: int = 8
    d_ff: int = 1024
    positions: Positions = "relative"
    max_length: int = 1024
    input_dropout: float = 0.1
    attention_dropout: float = 0.1
    output_dropout: float = 0.1
    tie_embeddings: bool = True
    attachment_head: bool = False
    objective: Objective = "causal"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "layers", "d_model", "heads", "d_ff", "max_length"):
            if getattr(self, name) < 1:
                raise bad_config(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("input_dropout", "attention_dropout", "output_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise bad_config(f"{name} must be from 0 to below 1, not {getattr(self, name)}")
        if self.d_model % self.heads:
            raise bad_config(f"d_model ({self.d_model}) must be a multiple of heads ({self.heads})")
        if self.positions not in get_args(Positions):
            raise bad_config(
                f"positions must be one of {', '.join(get_args(Positions))}, not {self.positions!r}"
            )
        if self.positions == "relative" and self.d_model % 2:
            raise bad_config(f"relative positions need an even d_model, not {self.d_model}")
        if self.objective not in get_args(Objective):
            raise bad_config(
                f"objective must be one of {', '.join(get_args(Objective))}, not {self.objective!r}"
            )
        if self.objective == "masked" and self.attachment_head:
            raise bad_config("an attachment head needs the causal objective")
        for name in ("pad_id", "root_id", "eos_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise bad_config(
                    f"{name} must be below vocab_size ({self.vocab_size}), not {getattr(self, name)}"
                )


def bad_config(reason: str) -> PdtoolsError:
    """The error for settings that make no model."""
    return PdtoolsError(f"model configuration: {reason}")
