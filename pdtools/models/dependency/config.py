"""The shape of GiLT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pdtools.models.base import bad_config, check_at_least
from pdtools.models.dependency.derivations import ArcKind
from pdtools.models.derivations import DerivationKind
from pdtools.models.transformer.config import TransformerConfig

Counts = Literal["masked", "all"]
Arcs = Literal["released", "set"]


@dataclass(frozen=True, kw_only=True)
class GiltConfig(TransformerConfig):
    """Shape of GiLT, a transformer whose attention sees a dependency graph (Huang et al. 2026).

    Attributes:
        counts: possible numbers of a word's arcs; with "all" 30 of them, as released, and some probability is
            lost.
        arcs: the best-scored candidates, or a "set" with a probability (not in the paper).
        best_counts: most probable counts that a search follows; 0: all. Released: 5, of all 30.
        scorer_width: width of the scorer of arcs, whose cost grows with its square; 0: d_model.
        feature_width: width of the embeddings of degrees, depths and distances.
    """

    counts: Counts = "masked"
    arcs: Arcs = "released"
    best_counts: int = 0
    scorer_width: int = 0
    feature_width: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "best_counts", "scorer_width")
        check_at_least(self, 1, "feature_width")
        if self.layout == "window" or self.objective == "masked":
            raise bad_config("gilt reads sentences from left to right: no windows, no masked objective")
        if self.attachment_head or self.treereg_layer or self.as_released or self.stack_layers != "none":
            raise bad_config("gilt has no attachment_head, treereg_layer, stack_layers or as_released")
        if self.positions == "rotary":
            raise bad_config(
                "rotary positions do not go with features of graphs: these are scored by queries as they are"
            )

    @property
    def derivation_kind(self) -> DerivationKind:
        """Arcs, which make the graph that tokens are read with; without sets the scores choose them."""
        return ArcKind(conditions_tokens=True, scores_given=self.arcs == "set")

    @property
    def width(self) -> int:
        """Width of the scorer."""
        return self.scorer_width or self.d_model
