"""Score terms of graphs in attention: three tapes, each with a factored table."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.dependency.scorer import VALUES
from pdtools.models.transformer.score_terms import DepthScores, RelativePositions, ScoreInputs
from pdtools.trees.graph_features import FEATURES


class GraphScores(DepthScores):
    """A feature's term (q + u)·W_k A e[F]: e is shared by all layers, A this layer's, u its positions'.

    Args:
        d_model, heads: the model's.
        feature: its index in :data:`FEATURES`.
        tables: embeddings of all features, concatenated, (3 · VALUES, E); owned by the model.
    """

    form = ()

    def __init__(self, d_model: int, heads: int, feature: int, tables: nn.Embedding) -> None:
        nn.Module.__init__(self)
        self.space, self.heads = "hidden", heads
        self.name = f"graph-{FEATURES[feature]}"
        self.feature = feature
        self.map = nn.Linear(tables.embedding_dim, d_model, bias=False)  # A
        # Not registered: it belongs to the model.
        self._tables = (tables,)
        self._positions: tuple[RelativePositions, ...] = ()

    def share_bias(self, positions: RelativePositions) -> None:
        """Use the u of a layer's positions."""
        self._positions = (positions,)

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.graph is not None
        for positions in self._positions:
            q = q + positions.content_bias
        tape = inputs.graph[:, self.feature, None].expand(-1, self.heads, -1, -1)  # (B, H, Q, K)
        by_value = q @ self.vectors(key_map).transpose(1, 2)  # (B, H, Q, VALUES)
        return by_value.gather(3, tape)

    def vectors(self, key_map: Tensor) -> Tensor:
        """The vector that each value adds to keys: (H, VALUES, d_head)."""
        first = self.feature * VALUES
        table = self.map(self._tables[0].weight[first : first + VALUES])  # (VALUES, D)
        return F.linear(table, key_map).view(VALUES, self.heads, -1).transpose(0, 1)
