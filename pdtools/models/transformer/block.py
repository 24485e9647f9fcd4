"""One layer of a transformer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from pdtools.models.kernels.dropout import Dropout
from pdtools.models.kernels.native_gelu import Gelu
from pdtools.models.transformer.attention import Attention
from pdtools.models.transformer.cache import Cache
from pdtools.models.transformer.config import Activation, TransformerConfig
from pdtools.models.transformer.positions import rotate
from pdtools.models.transformer.score_terms import ScoreInputs, ScoreTerm
from pdtools.models.transformer.stack_attention import StackAttention, StackCache


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input, before or after a layer norm.

    Args:
        config: the configuration of the model.
        terms: added to the attention scores.
        has_stack: whether stack attention follows, added to its input without a norm.
    """

    def __init__(self, config: TransformerConfig, terms: Sequence[ScoreTerm], *, has_stack: bool) -> None:
        super().__init__()
        self.is_post_norm = config.norm == "post"
        self.attention_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.attention = Attention(
            config.d_model,
            config.heads,
            config.attention_dropout,
            config.output_dropout,
            terms,
            bias=config.attention_bias,
            rotate=rotate if config.positions == "rotary" else None,
        )
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff),
            nn.Sequential(activation(config.activation), Dropout(config.feed_forward_dropout))
            if config.feed_forward_dropout
            else activation(config.activation),
            nn.Linear(config.d_ff, config.d_model),
            Dropout(config.output_dropout),
        )
        self.stack = StackAttention(config.d_model) if has_stack else None

    def forward(
        self,
        x: Tensor,
        inputs: ScoreInputs,
        cache: Cache | None = None,
        stack_cache: StackCache | None = None,
    ) -> Tensor:
        """Compute the output (B, N, D); with caches, for the next position of hypotheses (R, 1, D)."""
        if self.is_post_norm:
            x = self.attention_norm(x + self.attention(x, inputs, cache))
            x = self.feed_forward_norm(x + self.feed_forward(x))
        else:
            x = x + self.attention(self.attention_norm(x), inputs, cache)
            x = x + self.feed_forward(self.feed_forward_norm(x))
        return x if self.stack is None else x + self.stack(x, stack_cache)


def activation(name: Activation) -> nn.Module:
    """Return the activation function of that name."""
    if name == "relu":
        return nn.ReLU()
    return Gelu() if name == "gelu" else nn.GELU()
