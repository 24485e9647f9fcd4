"""Score terms of graphs in attention: three tapes, each with a factored table."""

from __future__ import annotations

from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.dependency.scorer import VALUES
from pdtools.models.transformer.score_terms import RelativePositions, ScoreInputs, ScoreTerm


class GraphScores(ScoreTerm):
    """The terms Σ_f (q + u)·W_k A_f e_f[F_f]: e_f of all layers, A_f of this one, u its positions' bias.

    Scores of all values are computed once per query and picked by the tapes, as in :class:`DepthScores`.

    Args:
        d_model, heads: the model's.
        tables: embeddings of all features, one after the other, (3 · VALUES, E); owned by the model.
    """

    name = "graph"
    form: ClassVar[tuple[str, ...]] = ("graph_table", "graph")

    def __init__(self, d_model: int, heads: int, tables: nn.Embedding) -> None:
        super().__init__()
        self.heads = heads
        width = tables.embedding_dim
        self.maps = nn.ModuleList(nn.Linear(width, d_model, bias=False) for _ in range(3))  # A
        # Not registered: they belong to others.
        self._tables = (tables,)
        self._positions: tuple[RelativePositions, ...] = ()
        # While nothing is learned: what the vectors were made of, and these.
        self._known: tuple[list[tuple[int, int]], Tensor] | None = None

    def share_bias(self, positions: RelativePositions) -> None:
        """Use the u of a layer's positions."""
        self._positions = (positions,)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        assert inputs.graph is not None
        return {"graph_table": self.vectors(key_map, inputs.graph_rows), "graph": inputs.graph}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.graph is not None
        for positions in self._positions:
            q = q + positions.content_bias
        # einsum folds batch and queries into one matrix; matmul would first copy the table for every row.
        vectors = self.vectors(key_map, inputs.graph_rows)  # (H, rows, d_head)
        by_value = torch.einsum("bhqd,hvd->bhqv", q, vectors)  # (B, H, Q, rows)
        tapes = (each[:, None].long().expand(-1, self.heads, -1, -1) for each in inputs.graph.unbind(1))
        first, *others = (by_value.gather(3, tape) for tape in tapes)  # (B, H, Q, K) each
        return sum(others, first)

    def vectors(self, key_map: Tensor, rows: Tensor | None) -> Tensor:
        """Vectors that values of features add to keys, all or some rows: (H, rows, d_head).

        Steps of decoding, which need all, make them once.
        """
        sources = [self._tables[0].weight, *(cast(Tensor, each.weight) for each in self.maps), key_map]
        if rows is not None or torch.is_grad_enabled() or any(each.is_inference() for each in sources):
            return self._vectors(key_map, rows)
        made_of = [(each.data_ptr(), each._version) for each in sources]
        if self._known is None or self._known[0] != made_of:
            self._known = made_of, self._vectors(key_map, None).contiguous()
        return self._known[1]

    def _vectors(self, key_map: Tensor, rows: Tensor | None) -> Tensor:
        table = self._tables[0].weight  # (3 · VALUES, E)
        counts = [VALUES] * 3
        if rows is not None:
            table, counts = table[rows], torch.bincount(rows // VALUES, minlength=3).tolist()
        parts = zip(self.maps, table.split(counts), strict=True)
        mapped = F.linear(torch.cat([map_(part) for map_, part in parts]), key_map)  # (rows, D)
        return mapped.view(len(mapped), self.heads, -1).transpose(0, 1)
