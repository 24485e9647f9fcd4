"""Batches of sentences with their dependency graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models.batch import Batch, collate, empty_batch
from pdtools.models.dependency.scorer import VALUES, ArcPairs
from pdtools.models.derivations import OTHER_WORDS
from pdtools.trees.graphs import Graph, graph_features


@dataclass(frozen=True, kw_only=True)
class ArcBatch(Batch):
    """Rows of tokens with graphs of words. M is the most words, plus 1.

    Attributes:
        attach: at the first token of a word a number for its arcs, equal for equal arcs only (63 bits).
        word: int64 (B, N), the word of each token, from 1; 0 for ROOT.
        first: int64 (B, M), the position of each word's first token; 0 where there is no word.
        adjacency: bool (B, M, M), arcs from heads to dependents.
        features: uint8 (B, 3, M, M), for words up to each word (:mod:`pdtools.trees.graphs`), within
            the embeddings.
        clamped: int64 (B,), number of features beyond the embeddings.
    """

    word: Tensor
    first: Tensor
    adjacency: Tensor
    features: Tensor
    clamped: Tensor

    @classmethod
    def of_rows(
        cls, rows: Sequence[tuple[NDArray[np.int32], Graph]], begins: NDArray[np.bool_], root: int, pad: int
    ) -> ArcBatch:
        """Make a batch from rows of shards.

        Args:
            rows: tokens, ROOT and end-of-sentence included, and their words' arcs; empty: a batch of nothing.
            begins: bool (V,), tokens that begin words.
            root, pad: numbers of tokens.

        Raises:
            PdtoolsError: if a graph has other words than the tokens.
        """
        plain = empty_batch(root, pad)
        if rows:
            plain = collate([(tokens, np.arange(len(tokens))) for tokens, _ in rows], pad)
        words = [word_numbers(tokens, begins) for tokens, _ in rows] or [np.zeros(2, dtype=np.int64)]
        nodes = max(int(word[-1]) for word in words) + 1
        word = np.zeros(plain.tokens.shape, dtype=np.int64)
        first = np.zeros((len(words), nodes), dtype=np.int64)
        adjacency = np.zeros((len(words), nodes, nodes), dtype=bool)
        for b, own in enumerate(words):
            word[b, : len(own)] = own
            starts = np.flatnonzero(np.diff(own)) + 1
            first[b, 1 : len(starts) + 1] = starts
        attach = plain.attach.numpy()
        for b, (_, graph) in enumerate(rows):
            if graph.n_words != words[b][-1]:
                raise PdtoolsError(OTHER_WORDS)
            adjacency[b, graph.heads, graph.dependents] = True
            attach[b, first[b, 1 : graph.n_words + 1]] = _arc_codes(graph)
        found = np.stack(graph_features(adjacency), axis=1)  # (B, 3, M, M)
        return cls(
            **vars(plain),
            word=torch.from_numpy(word),
            first=torch.from_numpy(first),
            adjacency=torch.from_numpy(adjacency),
            features=torch.from_numpy(np.minimum(found, VALUES - 1).astype(np.uint8)),
            clamped=torch.from_numpy((found >= VALUES).sum((1, 2, 3))),
        )

    @property
    def is_word(self) -> Tensor:
        """Nodes that are words of a row: bool (B, M)."""
        return self.first > 0

    def pairs(self) -> tuple[Tensor, ArcPairs]:
        """The sentence of each word, int64 (G,), and all words with all older nodes, the root among them."""
        of_word, number = torch.nonzero(self.is_word, as_tuple=True)  # (G,) each
        node = torch.arange(self.first.shape[1], device=self.first.device)
        of, older = torch.nonzero(node < number[:, None], as_tuple=True)  # (P,) each
        return of_word, ArcPairs(number, of, of_word[of], older)

    def at_tokens(self) -> tuple[Tensor, Tensor]:
        """The features as tokens see them: (B, 3, N, N), and the rows of their tables that these are of.

        A token of word t sees one of word j by what word j has after t, and ROOT by zeros, as ROOT sees it.

        Returns:
            Places among the rows, uint8 if these are few enough, or int16; and the rows, int64, of tables of
            VALUES rows that stand one after the other.
        """
        batch, nodes = self.first.shape
        n = self.word.shape[1]
        first = VALUES * torch.arange(3, device=self.word.device)
        codes = self.features.flatten(2) + first[:, None]  # (B, 3, M · M)
        is_used = torch.bincount(codes.flatten(), minlength=3 * VALUES) > 0
        is_used[first] = True
        rows = torch.nonzero(is_used)[:, 0]
        place = (is_used.cumsum(0) - 1).to(torch.uint8 if len(rows) <= 256 else torch.int16)
        cell = self.word[:, :, None] * nodes + self.word[:, None]  # (B, N, N), in (M, M)
        found = place[codes].gather(2, cell.view(batch, 1, n * n).expand(-1, 3, -1)).view(batch, 3, n, n)
        found[:, :, 0] = place[first, None]
        found[:, :, :, 0] = place[first, None]
        return found, rows


def _arc_codes(graph: Graph) -> NDArray[np.int64]:
    """A number for the arcs of each word, (m), equal for equal arcs only, as far as 63 bits tell."""
    own: list[list[int]] = [[] for _ in range(graph.n_words)]
    for t, candidate in zip(graph.later.tolist(), graph.candidates.tolist(), strict=True):
        own[t - 1].append(candidate)
    digests = (blake2b(repr(each).encode(), digest_size=8).digest() for each in own)
    return np.array([int.from_bytes(each, "big") >> 1 for each in digests], dtype=np.int64)


def word_numbers(tokens: NDArray[np.int32], begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The word of each token of a row (n + 2), from 1; 0 for ROOT, end-of-sentence has the last one's.

    Args:
        begins: bool (V,), tokens that begin words; the first token always does.
    """
    starts = begins[tokens].copy()
    starts[1:2] = True
    starts[[0, -1]] = False
    return np.cumsum(starts)
