"""One layer of a transformer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from pdtools.models.attention import Attention, LinearPositions, RelativePositions, ScoreInputs, ScoreTerm
from pdtools.models.cache import Cache
from pdtools.models.dropout import Dropout
from pdtools.models.positions import TwoSidedPositions
from pdtools.models.transformer_config import TransformerConfig


class Block(nn.Module):
    """A pre-LN layer: attention and a GELU feed-forward network, each added to its input."""

    def __init__(self, config: TransformerConfig, terms: Sequence[ScoreTerm]) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.attention = Attention(
            config.d_model, config.heads, config.attention_dropout, config.output_dropout, terms
        )
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff),
            nn.GELU(approximate="tanh"),
            nn.Linear(config.d_ff, config.d_model),
            Dropout(config.output_dropout),
        )

    def forward(self, x: Tensor, inputs: ScoreInputs, cache: Cache | None = None) -> Tensor:
        """(B, N, D) to (B, N, D)."""
        x = x + self.attention(self.attention_norm(x), inputs, cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


def position_terms(config: TransformerConfig) -> list[ScoreTerm]:
    """The score terms by which each layer knows positions."""
    if config.positions == "relative" and config.objective == "masked":
        return [TwoSidedPositions(config.d_model, config.heads)]
    if config.positions == "relative":
        return [RelativePositions(config.d_model, config.heads)]
    return [LinearPositions(config.heads)] if config.positions == "alibi" else []
