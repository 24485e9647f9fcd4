"""GiLT's memory of hypotheses that it reads in lock-step."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from pdtools.models.base import DecoderState
from pdtools.models.dependency.graph_state import GraphState
from pdtools.models.dependency.scorer import best_candidates
from pdtools.models.transformer.cache import Cache, Past


@dataclass(frozen=True)
class WordChoice:
    """The possible choices for the words that the next tokens of R hypotheses begin.

    Columns are candidates: heads 0 to W - 1, then dependents 0 to W - 1; legal ones have
    scores above -inf.

    Attributes:
        tokens: int64 (R,), these tokens.
        starts: bool (R,), tokens that begin a word; for others 0 arcs have probability 1.
        counts: log p of 0, 1, … arcs, float64 (R, COUNTS), nats.
        followed: bool (R, COUNTS), numbers that a beam search follows.
        scores: float (R, 2W).
        networks: float (R, 4w), the outputs of the scorer's first networks for the word.
    """

    tokens: Tensor
    starts: Tensor
    counts: Tensor
    followed: Tensor
    scores: Tensor
    networks: Tensor

    def best(self, number: Tensor) -> Tensor:
        """The ``number`` (R,) best candidates: bool (R, 2W)."""
        return best_candidates(self.scores, number)

    def of(self, rows: Tensor) -> WordChoice:
        """The choices of some of the hypotheses: int64 (R',)."""
        return WordChoice(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass
class ArcState(DecoderState):
    """GiLT's memory of R hypotheses, with room for W nodes.

    Attributes:
        position: the last position that was read; -1 at the start.
        past: the entries that each hypothesis has read.
        caches: each layer's.
        hidden: (R, D), final state of the last token.
        layers: (R, 2D), outputs of the two layers that the scorer reads, for the last token.
        word: int64 (R, position + 1), the word of each token, from 1; 0 for ROOT.
        networks: (R, W, 4w), the outputs of the scorer's first networks for each node.
        graphs: the hypotheses' graphs.
    """

    position: int
    past: Past
    caches: list[Cache]
    hidden: Tensor
    layers: Tensor
    word: Tensor
    networks: Tensor
    graphs: GraphState

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        self.past.select(rows)
        self.graphs.select(rows)
        for name in ("hidden", "layers", "word", "networks"):
            setattr(self, name, getattr(self, name)[rows])

    @property
    def nbytes(self) -> int:
        """Memory of the caches and graphs."""
        return self.past.nbytes + self.graphs.paths.nbytes + self.networks.nbytes
