"""TreeReg (Nandi, Manning and Murty 2025): a loss that separates hidden states where a tree splits.

The loss is added to a plain language model's, in training only: p(x) is not changed. For the states h_j after
tokens j = 1..n, ``O[i, j] = ‖h_j − (h_j · ĥ_i) ĥ_i‖``, ĥ = h / ‖h‖, is the norm of h_j's part orthogonal to
h_i; ``O[0, ·]`` is 0. A node over tokens a..b that splits after token q is scored ``s(q) = O[a − 1, q] + O[q,
q + 1] + O[q, b]``, and the gold split competes, by a softmax, with all splits at word edges. A binary node is
known by where it splits: the gap k, between tokens k and k + 1.

In windows every sentence is taken by itself: its own ROOT, whose state is not used, is its beginning.

States are not normalised: their scale is the temperature of the softmax. The formula is taken from the
released code (``O[q, q + 1]`` included) and from figure 1 of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

# Squares below this count as 0, for which a root has no gradient.
_ZERO = 1e-30


@dataclass(frozen=True)
class TreeRegParts:
    """Sums over a batch, 0-dimensional tensors; they add up over batches and workers.

    Attributes:
        treereg_sum: float64, the sum over sentences of the mean cross-entropy of their nodes' splits, nats.
        n_trees: sentences that have a node with two candidates or more.
        n_splits: the number of such nodes.
        n_splits_correct: nodes among these whose best candidate (the first of equal ones) is the gold split.
    """

    treereg_sum: Tensor
    n_trees: Tensor
    n_splits: Tensor
    n_splits_correct: Tensor


def treereg(
    states: Tensor, attach: Tensor, lengths: Tensor, edges: Tensor, places: Tensor | None = None
) -> TreeRegParts:
    """Return the loss of a batch.

    Args:
        states: float (B, N, d), of each position; ROOT's is not used.
        attach: int64 (B, N); padding shifts.
        lengths: int64 (B,), positions of each row, ROOT and end-of-sentence included.
        edges: bool (B, N), see :func:`word_edges`.
        places: for windows, see :func:`sentence_places`; None: rows are sentences.
    """
    if places is not None:
        states = states.flatten(0, 1)[places.clamp(min=0)]  # (S, L, d)
        attach, lengths, edges = _sentences(attach, edges, places)
    start, end = gold_nodes(attach, lengths)
    candidates = split_candidates(start, end, edges)  # (B, N, N)
    scored = candidates.sum(2) >= 2  # (B, N)
    scores = split_scores(residual_norms(states), start, end)
    # Rows that are not scored stay as they are: a softmax over nothing has no gradient.
    scores = scores.masked_fill(~candidates & scored[:, :, None], -torch.inf)
    nll = scores.logsumexp(2) - scores.diagonal(dim1=1, dim2=2)  # (B, N)
    means = nll.masked_fill(~scored, 0).sum(1) / scored.sum(1).clamp(min=1)  # (B,)
    gap = torch.arange(scores.shape[1], device=scores.device)
    return TreeRegParts(
        treereg_sum=means.sum(),
        n_trees=scored.any(1).sum(),
        n_splits=scored.sum(),
        n_splits_correct=((scores.argmax(2) == gap) & scored).sum(),
    )


def count_trees(attach: Tensor, lengths: Tensor, edges: Tensor, places: Tensor | None = None) -> Tensor:
    """Count the sentences that have a loss, int64 (), as :func:`treereg` does, without states."""
    if places is not None:
        attach, lengths, edges = _sentences(attach, edges, places)
    candidates = split_candidates(*gold_nodes(attach, lengths), edges)
    return (candidates.sum(2) >= 2).any(1).sum()


def word_edges(words: Sequence[NDArray[np.int32]], width: int) -> Tensor:
    """Return the tokens after which a node may split: those whose next token begins another word.

    Args:
        words: for each row int32, the word that each token belongs to; -1 for ROOTs and end-of-sentence.
        width: N, at least the longest row's.

    Returns:
        bool (B, N).
    """
    edges = np.zeros((len(words), width), dtype=bool)
    for row, word in zip(edges, words, strict=True):
        found = (word[:-1] != word[1:]) & (word[:-1] >= 0) & (word[1:] >= 0)
        row[: len(found)] = found
    return torch.from_numpy(edges)


def sentence_places(words: Sequence[NDArray[np.int32]], width: int) -> Tensor:
    """Return the positions of the sentences in windows.

    Args:
        words, width: see :func:`word_edges`.

    Returns:
        int64 (S, L): positions of each sentence's ROOT and tokens, counted on through all rows (B · N);
        -1 where it has no more.
    """
    of_row = np.repeat(np.arange(len(words)), [len(word) for word in words])  # (P) all positions
    within = np.concatenate([np.arange(len(word)) for word in words])  # (P)
    roots = np.flatnonzero(np.concatenate(words) < 0)  # (S)
    lengths = np.diff(np.append(roots, len(within)))  # (S)
    column = np.arange(lengths.max(initial=1))
    first = of_row[roots] * width + within[roots]  # (S)
    return torch.from_numpy(np.where(column < lengths[:, None], first[:, None] + column, -1))


def _sentences(attach: Tensor, edges: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attachments (S, L), lengths (S,) and edges (S, L) of windows' sentences, as if each had its own row.

    The last token attaches to ROOT: whatever is on the stack there branches to the right, as at
    end-of-sentence, which is counted in the lengths, but is no position here.
    """
    is_real = places >= 0  # (S, L)
    flat = places.clamp(min=0)
    root = places[:, :1] % attach.shape[1]  # (S, 1): its position in its row
    position = torch.arange(places.shape[1], device=places.device)
    own = torch.where(is_real, attach.flatten()[flat] - root, position)  # (S, L)
    return own, is_real.sum(1) + 1, edges.flatten()[flat] & is_real


def gold_nodes(attach: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The node of every gap of a tree; items left on the stack at the end branch to the right.

    The left child of gap k's node is the widest constituent that ends at k. It begins where attachments,
    followed from k on, come to an end; the node ends at the first token after k that attaches to k or before.

    Args:
        attach, lengths: see :func:`treereg`.

    Returns:
        First and last token of the node that splits between k and k + 1, each int64 (B, N); for k that are
        no gap of the row, some positions.
    """
    n = attach.shape[1]
    start = attach
    for _ in range((n - 1).bit_length()):  # each round follows twice as many attachments
        start = start.gather(1, start)
    position = torch.arange(n, device=attach.device)
    is_after = position > position[:, None]  # (N, N): gap k, token t
    closes = (attach[:, None] <= position[:, None]) & is_after  # (B, N, N)
    end = closes.to(torch.uint8).argmax(2)  # the first one
    return start, torch.minimum(end, lengths[:, None] - 2).clamp(min=0)


def split_candidates(start: Tensor, end: Tensor, edges: Tensor) -> Tensor:
    """Return the splits allowed for each gap's node: at word edges, bool (B, N, N); none within words."""
    position = torch.arange(edges.shape[1], device=edges.device)
    is_inside = (position >= start[:, :, None]) & (position < end[:, :, None])  # (B, N, N)
    return is_inside & edges[:, None] & edges[:, :, None]


def residual_norms(states: Tensor) -> Tensor:
    """O: the norm of each state's part orthogonal to each other one, float64 (B, N, N).

    ``O[i, j]² = G_jj − G_ij² / G_ii``, G the states' products: in single precision that errs by 13% at an
    angle of .001.

    Args:
        states: float (B, N, d); row 0 of the result is 0, whatever the state of ROOT is.
    """
    h = states[:, 1:].double()
    products = h @ h.mT  # (B, N - 1, N - 1)
    squares = products.diagonal(dim1=1, dim2=2)  # (B, N - 1)
    residuals = squares[:, None] - products.square() / squares.clamp(min=_ZERO)[:, :, None]
    return F.pad(residuals.clamp(min=_ZERO).sqrt(), (1, 0, 1, 0))


def split_scores(norms: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """S[k, q], the score of gap k's node if it splits after q instead: float64 (B, N, N).

    Args:
        norms: :func:`residual_norms`.
        start, end: :func:`gold_nodes`.
    """
    n = norms.shape[1]

    def rows(values: Tensor, places: Tensor) -> Tensor:
        return values.gather(1, places[:, :, None].expand(-1, -1, n))

    before = rows(norms, (start - 1).clamp(min=0))  # (B, N, N): O[a − 1, q]
    after = rows(norms.mT, end)  # (B, N, N): O[q, b]
    across = F.pad(norms.diagonal(offset=1, dim1=1, dim2=2), (0, 1))  # (B, N): O[q, q + 1]
    return before + across[:, None] + after


# --- parsing ----------------------------------------------------------------------------------

# A binary node over words first..past − 1, and the word that its right child begins with.
Node = tuple[int, int, int]


class SentenceScores:
    """Scores of all splits of all nodes over a sentence's m words, counted from 0.

    Args:
        norms: float64 (N, N), O of the row.
        ends: int (m), the last token of each word.
    """

    def __init__(self, norms: NDArray[np.float64], ends: NDArray[np.integer]) -> None:
        places = np.concatenate([[0], ends])  # (m + 1): the last token before each word, and the last of all
        self.words = len(ends)
        self._outer = norms[np.ix_(places, places)]  # (m + 1, m + 1)
        self._across = norms[places[:-1], places[:-1] + 1]  # (m)

    def of(self, first: int, past: int) -> NDArray[np.float64]:
        """Scores s of the node over words first..past − 1, for right children from first + 1..past − 1 on."""
        splits = slice(first + 1, past)
        scores: NDArray[np.float64] = (
            self._outer[first, splits] + self._across[splits] + self._outer[splits, past]
        )
        return scores


def greedy_tree(scores: SentenceScores) -> list[Node]:
    """The nodes that result from the best split of each, from the top down, in pre-order; O(m²)."""
    return _top_down(scores.words, lambda first, past: first + 1 + int(scores.of(first, past).argmax()))


def best_tree(scores: SentenceScores) -> list[Node]:
    """The nodes of the tree with the largest sum of scores, by CKY, in pre-order; O(m³)."""
    m = scores.words
    best = np.zeros((m + 1, m + 1))
    split = np.zeros((m + 1, m + 1), dtype=np.int64)
    for width in range(2, m + 1):
        for first in range(m - width + 1):
            past = first + width
            inside = slice(first + 1, past)
            sums = scores.of(first, past) + best[first, inside] + best[inside, past]  # (width - 1)
            split[first, past] = first + 1 + sums.argmax()
            best[first, past] = sums.max()
    return _top_down(m, lambda first, past: int(split[first, past]))


def _top_down(words: int, choose: Callable[[int, int], int]) -> list[Node]:
    nodes: list[Node] = []
    waiting = [(0, words)]
    while waiting:
        first, past = waiting.pop()
        if past - first > 1:
            split = choose(first, past)
            nodes.append((first, past, split))
            waiting += [(split, past), (first, split)]
    return nodes
