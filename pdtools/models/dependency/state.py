"""What GiLT remembers of hypotheses that it reads in lock-step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pdtools.models.base import DecoderState
from pdtools.models.dependency.graph_state import GraphState
from pdtools.models.dependency.scorer import best_candidates
from pdtools.models.transformer.cache import Cache, Past
from pdtools.trees.graphs import Graph


@dataclass(frozen=True)
class WordChoice:
    """What may be chosen for the words that the next tokens of R hypotheses begin.

    Columns are candidates: heads 0 to W - 1, then dependents 0 to W - 1, of which those that are legal have
    scores above -inf.

    Attributes:
        starts: bool (R,), tokens that begin a word; of others 0 arcs have probability 1.
        counts: log p of 0, 1, … arcs, float64 (R, COUNTS), nats.
        scores: float (R, 2W).
        networks: float (R, 2, 2w), what the scorer's first networks make of the word.
    """

    starts: Tensor
    counts: Tensor
    scores: Tensor
    networks: Tensor

    def best(self, number: Tensor) -> Tensor:
        """The best candidates, so many (R,): bool (R, 2W)."""
        return best_candidates(self.scores, number)

    def of(self, rows: Tensor) -> WordChoice:
        """Of some of the hypotheses: int64 (R',)."""
        return WordChoice(self.starts[rows], self.counts[rows], self.scores[rows], self.networks[rows])


@dataclass
class ArcState(DecoderState):
    """What GiLT remembers of R hypotheses; W nodes have room.

    Attributes:
        position: the last position that was read; -1 at the start.
        past: what each hypothesis has read.
        caches: of each layer.
        hidden: (R, D), final state of the last token.
        layers: (R, 2D), outputs of the two layers that the scorer reads, of the last token.
        word: int64 (R, position + 1), the word of each token, from 1; 0 for ROOT.
        networks: (R, W, 2, 2w), what the scorer's first networks make of each node.
        graphs: theirs.
        arcs: bool (R, W, 2W), of each word those of its candidates (see :class:`WordChoice`) that are arcs.
    """

    position: int
    past: Past
    caches: list[Cache]
    hidden: Tensor
    layers: Tensor
    word: Tensor
    networks: Tensor
    graphs: GraphState
    arcs: Tensor

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        self.past.select(rows)
        self.graphs.select(rows)
        for name in ("hidden", "layers", "word", "networks", "arcs"):
            setattr(self, name, getattr(self, name)[rows])

    def graph(self, row: int) -> Graph:
        """The graph of a hypothesis."""
        words = int(self.graphs.words[row])
        return graph_of(self.arcs[row], words)

    @property
    def nbytes(self) -> int:
        """Memory of the caches and graphs."""
        return self.past.nbytes + self.graphs.paths.nbytes + self.networks.nbytes + self.arcs.nbytes


def graph_of(arcs: Tensor, words: int) -> Graph:
    """The graph of the first so many words, from :attr:`ArcState.arcs` of one hypothesis, (W, 2W)."""
    nodes = len(arcs)
    word, column = (each.cpu().numpy() for each in torch.nonzero(arcs[: words + 1], as_tuple=True))
    is_head = column < nodes
    heads, dependents = column.copy(), word.copy()
    heads[~is_head], dependents[~is_head] = word[~is_head], column[~is_head] - nodes
    return Graph.of(words, heads, dependents)
