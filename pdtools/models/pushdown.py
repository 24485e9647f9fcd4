"""The Pushdown LM: a transformer with depth-scored attention in some layers, and the attachment head."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from pdtools.errors import PdtoolsError
from pdtools.models.attention import DepthScores, DepthSpace
from pdtools.models.transformer import TransformerConfig, TransformerLM


@dataclass(frozen=True, kw_only=True)
class PushdownConfig(TransformerConfig):
    """Shape of a Pushdown LM (Murty et al. 2023).

    Attributes:
        attachment_head: always true.
        pushdown_layers: "all", or "last N".
        depths: rows of each depth table; deeper tokens use the last row, and are counted.
        depth_space: "key": depth embeddings are added to the keys (fig. 7); "hidden": to the hidden states
            before the key map (eq. 6).
    """

    attachment_head: bool = True
    pushdown_layers: str = "all"
    depths: int = 64
    depth_space: DepthSpace = "key"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.attachment_head:
            raise PdtoolsError(
                "model configuration: a pushdown model needs its attachment_head (for none, use the transformer)"
            )
        if self.depths < 1:
            raise PdtoolsError(f"model configuration: depths must be at least 1, not {self.depths}")
        if self.depth_space not in get_args(DepthSpace):
            raise PdtoolsError(
                f"model configuration: unknown depth_space {self.depth_space!r} "
                f"(one of {', '.join(get_args(DepthSpace))})"
            )
        if not 1 <= self.first_pushdown_layer + 1 <= self.layers:
            raise PdtoolsError(
                f'model configuration: pushdown_layers must be "all" or "last N" with N from 1 to {self.layers}, '
                f"not {self.pushdown_layers!r}"
            )

    @property
    def first_pushdown_layer(self) -> int:
        """This layer (from 0) and all after it are pushdown layers; -1 if ``pushdown_layers`` cannot be read."""
        if self.pushdown_layers == "all":
            return 0
        last = re.fullmatch(r"last (\d+)", self.pushdown_layers)
        return self.layers - int(last[1]) if last else -1


def build_pushdown(config: PushdownConfig) -> TransformerLM:
    """The model of a configuration, with random weights."""
    return TransformerLM(
        config,
        extra_terms={
            layer: [DepthScores(config.d_model, config.heads, config.depths, config.depth_space)]
            for layer in range(config.first_pushdown_layer, config.layers)
        },
        depths=config.depths,
    )
