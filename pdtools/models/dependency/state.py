"""GiLT's memory of hypotheses that it reads in lock-step, and their graphs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pdtools.models.base import DecoderState
from pdtools.models.dependency.scorer import best_candidates
from pdtools.models.transformer.cache import Cache, Past
from pdtools.trees.graphs import COSTS, FAR


@dataclass
class GraphState:
    """The graphs of R hypotheses, of nodes 0 to W - 1; see :mod:`pdtools.trees.graphs`.

    Attributes:
        words: int64 (R,), t, the newest word.
        paths: int16 (2, R, W, W), shortest paths, and cheapest paths, from row to column.
        degree: int16 (R, W).
    """

    words: Tensor
    paths: Tensor
    degree: Tensor

    @classmethod
    def start(cls, rows: int, nodes: int, device: torch.device) -> GraphState:
        """Graphs with only the root, and room for ``nodes`` nodes."""
        paths = torch.full((2, rows, nodes, nodes), FAR, dtype=torch.int16, device=device)
        paths[:, :, 0, 0] = 0
        degree = torch.zeros(rows, nodes, dtype=torch.int16, device=device)
        return cls(torch.zeros(rows, dtype=torch.int64, device=device), paths, degree)

    def features(self) -> Tensor:
        """Degree, depth and distance of each node after word t: int16 (R, 3, W)."""
        row = torch.arange(len(self.words), device=self.words.device)
        depth, distance = self.paths[0, :, 0] + 1, self.paths[1, row, self.words]  # (R, W)
        lengths = torch.stack([depth, distance], 1)
        return torch.cat([self.degree[:, None], lengths.masked_fill_(lengths >= FAR, 0)], 1)

    def push(self, starts: Tensor, heads: Tensor, dependents: Tensor) -> None:
        """Add a word with its arcs to hypotheses.

        Args:
            starts: bool (R,), hypotheses that get a word.
            heads, dependents: bool (R, W), nodes before the new word.
        """
        self.words = self.words + starts
        (row,) = torch.nonzero(starts, as_tuple=True)  # (r,)
        if not len(row):
            return
        t, heads, dependents = self.words[row], heads[row], dependents[row]
        self.degree[row] += (10 * heads + dependents).to(torch.int16)
        self.degree[row, t] = (10 * dependents.sum(1) + heads.sum(1)).to(torch.int16)
        for x, (down, up) in zip(self.paths, COSTS, strict=True):
            out = _costs(dependents, down, heads, up)  # (r, W)
            back = _costs(heads, down, dependents, up)
            before = x[row]  # (r, W, W)
            f = (out[:, :, None] + before).amin(1).clamp(max=FAR)  # (r, W)
            g = (before + back[:, None]).amin(2).clamp(max=FAR)
            f.scatter_(1, t[:, None], 0)
            g.scatter_(1, t[:, None], 0)
            x[row] = torch.minimum(before, g[:, :, None] + f[:, None])

    def select(self, rows: Tensor) -> None:
        """Continue with copies of the given hypotheses: int64 (R',)."""
        self.words, self.paths, self.degree = self.words[rows], self.paths[:, rows], self.degree[rows]


def _costs(one: Tensor, of_one: int, other: Tensor, of_other: int) -> Tensor:
    """Costs of steps along arcs one way, or the other, whichever is cheaper: int16 (r, W)."""
    far = torch.full(one.shape, FAR, dtype=torch.int16, device=one.device)
    return far.masked_fill(one, of_one).masked_fill(other, of_other)


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
