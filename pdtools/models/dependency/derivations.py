"""Derivations of arcs: a token, then the number of arcs of the word it begins, and perhaps the arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models.dependency.scorer import COUNTS
from pdtools.models.derivations import NO_ARCS
from pdtools.models.tokenwise import TokenwiseKind
from pdtools.trees import Tree
from pdtools.trees.graphs import Graph, graph_tree

if TYPE_CHECKING:
    from pdtools.shards.rows import ShardRow


@dataclass(frozen=True, slots=True)
class ArcDerivation:
    """A string with a graph of its words.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
        graph: the graph of the tokens' words.
    """

    tokens: NDArray[np.int32]
    graph: Graph

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`~pdtools.models.derivations.AnyDerivation`: a head spans its descendants."""
        return graph_tree(self.graph, words)


class ArcKind(TokenwiseKind):
    """Arcs between words, any: several heads of a word or none, several roots, cycles, crossings."""

    name = "arcs"
    has_arcs = True
    has_counts = True
    unit = "arc"

    # --- rows of shards -----------------------------------------------------------------------

    # --- graphs that are given ----------------------------------------------------------------

    def of_sentence(self, row: ShardRow) -> Graph | str:
        """See :meth:`DerivationKind.of_sentence`: constituents do not determine dependencies."""
        return NO_ARCS if row.graph is None else row.graph

    def content(self, given: Graph) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return str(given).encode()

    def read(self, tokens: NDArray[np.int32], given: Graph) -> ArcDerivation:
        """See :meth:`DerivationKind.read`."""
        return ArcDerivation(tokens[1:-1], given)


def noted(starts: Tensor, chosen: Tensor, words: Tensor) -> Tensor:
    """A token's entry in a history: int32 (R, COUNTS).

    Args:
        starts: bool (R,), tokens that begin words.
        chosen: bool (R, 2W).
        words: int64 (R,), indices of the words.
    """
    nodes = chosen.shape[1] // 2
    column = torch.arange(2 * nodes, device=chosen.device)
    candidate = torch.where(column < nodes, column, words[:, None] + column - nodes - 1)  # (R, 2W)
    first = candidate.masked_fill(~chosen, 2 * nodes).sort(dim=1).values[:, : COUNTS - 1]
    first = first.masked_fill(first == 2 * nodes, 0)
    found = torch.zeros(len(chosen), COUNTS, dtype=torch.int32, device=chosen.device)
    found[:, 0] = (1 + chosen.sum(1)) * starts
    found[:, 1 : 1 + first.shape[1]] = first
    return found


def graph_of_history(history: NDArray[np.int32]) -> Graph:
    """The graph of a history, int32 (N, COUNTS); see :class:`ArcDerivations`."""
    heads, dependents, t = [], [], 0
    for number, *candidates in history[history[:, 0] > 0].tolist():
        t += 1
        for candidate in candidates[: number - 1]:
            heads.append(candidate if candidate < t else t)
            dependents.append(t if candidate < t else candidate - t + 1)
    return Graph.of(t, heads, dependents)
