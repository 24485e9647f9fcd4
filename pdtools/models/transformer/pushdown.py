"""The Pushdown LM: a transformer with depth-scored attention in some layers, and the attachment head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn

from pdtools.models.base import bad_config, check_at_least
from pdtools.models.derivations import DerivationKind
from pdtools.models.tokenwise import AttachmentKind
from pdtools.models.transformer.config import TransformerConfig, first_of_layers
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.score_terms import DepthScores, DepthSpace, StackDistances

DepthInit = Literal["normal", "zero"]
HeadReads = Literal["embedding", "prefix"]
DistancesIn = Literal["both", "attention", "head"]


@dataclass(frozen=True, kw_only=True)
class PushdownConfig(TransformerConfig):
    """Shape of a Pushdown LM (Murty et al. 2023).

    Attributes:
        attachment_head: always true.
        pushdown_layers: "all", or "last N".
        depths: rows of a depth table; deeper tokens use the last.
        depth_init: first weights of the depth tables.
        depth_space: depths are added to keys (fig. 7), or to "hidden" states (eq. 6).
        stack_distances: a learned penalty on distance from the top of the stack. Not in the paper.
        distances_in: the parts with that penalty.
        head_slope: the head's penalty at first, nats for each open token above: high for brackets deeper than
            in training, low for language.
        head_reads: how the head sees the token that attaches: by its "embedding" (eq. 5), or by the layers
            below the first pushdown layer ("prefix", not in the paper).
    """

    attachment_head: bool = True
    pushdown_layers: str = "all"
    depths: int = 64
    depth_init: DepthInit = "normal"
    depth_space: DepthSpace = "key"
    stack_distances: bool = False
    distances_in: DistancesIn = "both"
    head_slope: float = 10.0
    head_reads: HeadReads = "embedding"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.attachment_head:
            raise bad_config("a pushdown model needs its attachment_head (a transformer doesn't)")
        check_at_least(self, 1, "depths")
        if self.head_form == "released" and (self.stack_distances or self.head_reads != "embedding"):
            raise bad_config("the released head has no stack_distances, and reads the embedding")
        if self.distances_in != "both" and not self.stack_distances:
            raise bad_config("distances_in needs stack_distances")
        if not 0 < self.head_slope < math.inf:
            raise bad_config(f"head_slope must be a number above 0, not {self.head_slope}")
        if self.positions == "rotary":
            raise bad_config(
                "rotary positions do not go with depths: these are scored by queries as they are"
            )
        if self.first_pushdown_layer < 0:
            raise bad_config(
                f'pushdown_layers must be "all" or "last N", N from 1 to {self.layers}, '
                f"not {self.pushdown_layers!r}"
            )
        if self.head_reads == "prefix" and self.first_pushdown_layer == 0:
            raise bad_config(
                'head_reads "prefix" needs layers below the first pushdown layer: pushdown_layers "last N", N'
                f" below {self.layers}, not {self.pushdown_layers!r}"
            )

    @property
    def derivation_kind(self) -> DerivationKind:
        """The kind of attachments, which make the tape that tokens are read with."""
        return AttachmentKind(conditions_tokens=True, open_only=self.normalize == "open")

    @property
    def first_pushdown_layer(self) -> int:
        """The first pushdown layer, from 0 (all after it are too); -1 if the setting makes no sense."""
        return first_of_layers(self.pushdown_layers, self.layers)


def build_pushdown(config: PushdownConfig) -> TransformerLM:
    """Build the model of a configuration, with random weights."""
    in_attention, in_head = (
        config.stack_distances and config.distances_in in ("both", part) for part in ("attention", "head")
    )
    model = TransformerLM(
        config,
        extra_terms={
            layer: [
                DepthScores(config.d_model, config.heads, config.depths, config.depth_space),
                *([StackDistances(config.heads)] if in_attention else []),
            ]
            for layer in range(config.first_pushdown_layer, config.layers)
        },
        depths=config.depths,
        head_distances=in_head,
        head_reads_prefix=config.head_reads == "prefix",
    )
    if config.depth_init == "zero":
        for module in model.modules():
            if isinstance(module, DepthScores):
                nn.init.zeros_(module.embedding.weight)
    if model.head is not None and model.head.log_slope is not None:
        nn.init.constant_(model.head.log_slope, math.log(config.head_slope))
    return model
