"""Scores of a word's possible arcs, and the distribution of their number (Huang et al. 2026).

Shapes: G scored words, P pairs of a word t and an older node j, D the model's width, w the scorer's
width, E the width of a feature's embedding.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.transformer.score_terms import sinusoids_of

# Possible numbers of arcs of a word: 0 to 29.
COUNTS = 30
# Number of values of a feature that have embeddings; greater ones use the last.
VALUES = 151


class ArcPairs(NamedTuple):
    """Words with all their older nodes.

    Attributes:
        number: int64 (G,), t of each of the words.
        of: int64 (P,), the index of each pair's word.
        row, node: int64 (P,), the sentence of each pair's older node, and its number.
    """

    number: Tensor
    of: Tensor
    row: Tensor
    node: Tensor


class Scores(NamedTuple):
    """The scores of pairs, and of words.

    Attributes:
        to_word: (P,), of the arc from the node to the word.
        to_node: (P,), of the arc from the word to the node.
        own: (G,), of the arc from a word to itself, which is only in the loss.
        counts: (G, COUNTS), logits of the number of arcs.
    """

    to_word: Tensor
    to_node: Tensor
    own: Tensor
    counts: Tensor


class Role(nn.Module):
    """The scorer's networks for words in one role, heads or dependents."""

    def __init__(self, d_model: int, width: int, feature_width: int) -> None:
        super().__init__()
        self.width = width
        self.word = _perceptron(3 * d_model, 3 * width, 2 * width)
        self.distance = nn.Linear(d_model, 2 * width, bias=False)  # P
        self.features = nn.Linear(3 * feature_width, 2 * width, bias=False)  # Q
        self.pair = _perceptron(2 * width, 2 * width, width)

    def table(self, distances: int, embeddings: Tensor) -> Tensor:
        """P π of distances 0, 1, …, then the parts of Q φ by feature and value: (distances + 3 · VALUES, 2w).

        Args:
            embeddings: (3, VALUES, E).
        """
        position = torch.arange(distances, device=embeddings.device)
        sinusoids = sinusoids_of(position, self.distance.in_features).to(embeddings.dtype)
        by_feature = self.features.weight.view(2 * self.width, 3, -1).permute(1, 2, 0)  # (3, E, 2w)
        return torch.cat([self.distance(sinusoids), (embeddings @ by_feature).flatten(0, 1)])


class GiltScorer(nn.Module):
    """The scorer: head and dependent networks, whose products are weighed.

    Args:
        d_model, width, feature_width: D, w, E.
    """

    def __init__(self, d_model: int, width: int, feature_width: int) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.zeros(3 * d_model))  # z_0
        self.embedding = nn.Embedding(3 * VALUES, feature_width)
        self.head = Role(d_model, width, feature_width)
        self.dependent = Role(d_model, width, feature_width)
        self.arc_weight = nn.Parameter(torch.zeros(width))
        self.count_weight = nn.Parameter(torch.zeros(width))
        self.count = nn.Linear(width, COUNTS)

    def initialize(self) -> None:
        """Draw the first weights as released: Kaiming's for first linear layers, w and w' from U(0, 1)."""
        for role in (self.head, self.dependent):
            for network in (role.word, role.pair):
                nn.init.kaiming_normal_(cast(Tensor, network[1].weight), nonlinearity="relu")
        nn.init.uniform_(self.arc_weight)
        nn.init.uniform_(self.count_weight)
        nn.init.normal_(self.root, std=0.02)

    def networks(self, z: Tensor) -> Tensor:
        """The first networks of words (…, 3D), as heads and then as dependents: (…, 4w)."""
        return torch.cat([self.head.word(z), self.dependent.word(z)], -1)

    def forward(self, words: Tensor, old: Tensor, pairs: ArcPairs, features: Tensor) -> Scores:
        """Score the arcs between words and older nodes.

        Args:
            words: the words' first networks, (G, 4w).
            old: the first networks of each pair's node, (P, 4w).
            pairs: the pairs.
            features: int64 (P, 3), the nodes' before the word, within the embeddings.
        """
        embeddings = self.embedding.weight.view(3, VALUES, -1)
        distance = pairs.number[pairs.of] - pairs.node  # (P,)
        distances = int(distance.max()) + 1 if len(distance) else 1
        first = distances + VALUES * torch.arange(3, device=features.device)  # rows of the table
        place = torch.cat([distance[:, None], features + first], 1)  # (P, 4)
        table = torch.cat([role.table(distances, embeddings) for role in (self.head, self.dependent)], 1)
        # One look-up of both roles: (P, 4w), (G, 4w).
        old = old + F.embedding_bag(place, table, mode="sum")
        new = words + table[0] + table[first].sum(0)
        (old_head, head), (old_dependent, dependent) = (
            (role.pair(of_old), role.pair(of_new))
            for role, of_old, of_new in zip(
                (self.head, self.dependent), old.chunk(2, 1), new.chunk(2, 1), strict=True
            )
        )  # (P, w), (G, w) each
        is_word = (pairs.node > 0)[:, None].to(head.dtype)  # the root is no dependent
        olds = torch.cat([old_head, old_dependent * is_word], 1)  # (P, 2w)
        sums = olds.new_zeros(len(new), olds.shape[1]).index_add(0, pairs.of, olds)  # over older nodes
        others = torch.cat([dependent, head], 1)  # (G, 2w), what heads and dependents are multiplied with
        mixed = sum((sums * others).chunk(2, 1), head * dependent)  # (G, w)
        weighted = others * self.arc_weight.repeat(2)
        to_word, to_node = (olds * weighted.index_select(0, pairs.of)).unflatten(1, (2, -1)).sum(2).unbind(1)
        size = pairs.number.mul(2).sqrt()[:, None].to(head.dtype)  # √(2t)
        return Scores(
            to_word=to_word,
            to_node=to_node,
            own=(head * self.arc_weight * dependent).sum(1),
            counts=self.count(mixed * self.count_weight / size),
        )


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """M of the specification: norm, linear, ReLU, linear."""
    return nn.Sequential(
        nn.LayerNorm(inputs), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


def count_logprobs(logits: Tensor, words: Tensor, *, masked: bool) -> Tensor:
    """Compute log p of each number of arcs, (…, COUNTS), nats; -inf for illegal numbers.

    Args:
        logits: (…, COUNTS).
        words: int64 (…), t; a word has up to 2t - 1 arcs.
        masked: whether illegal numbers are masked before the softmax, or after it.
    """
    number = torch.arange(COUNTS, device=logits.device)
    illegal = number > (2 * words[..., None] - 1)
    if masked:
        logits = logits.masked_fill(illegal, -torch.inf)
    return logits.log_softmax(-1).masked_fill(illegal, -torch.inf)


def followed_counts(logits: Tensor, counts: Tensor, number: int) -> Tensor:
    """The numbers of arcs that a beam search follows: bool (…, COUNTS).

    Args:
        logits: (…, COUNTS), of which the best are taken, legal or not.
        counts: log p, -inf for illegal numbers; the best one is followed in any case.
        number: how many; 0: all.
    """
    if not number:
        return torch.ones_like(counts, dtype=torch.bool)
    size = torch.full(logits.shape[:-1], number, device=logits.device)
    return best_candidates(logits, size) | best_candidates(counts, size.clamp(max=1))


def set_logprobs(scores: Tensor, chosen: Tensor) -> Tensor:
    """Compute log p of sets given their size, float64 (…), nats: their scores' sum minus log e_a(exp s).

    Args:
        scores: (…, C), of candidates; -inf for others.
        chosen: bool (…, C), at most COUNTS - 1 of them.
    """
    scores = scores.double()
    size = chosen.sum(-1, keepdim=True)
    total = scores.masked_fill(~chosen, 0).sum(-1)
    return total - log_set_sums(scores).gather(-1, size)[..., 0]


def log_set_sums(scores: Tensor) -> Tensor:
    """Compute log e_k(exp s), over all sets of size k of candidates (…, C): float64 (…, COUNTS)."""
    return log_polynomials(scores.double())[..., -1, :]


def log_polynomials(scores: Tensor) -> Tensor:
    """Compute log e_k(exp s) of the first 0, 1, … candidates: (…, C) to (…, C + 1, COUNTS), k from 0."""
    found = [torch.full((*scores.shape[:-1], COUNTS), -torch.inf, dtype=scores.dtype, device=scores.device)]
    found[0][..., 0] = 0
    for score in scores.unbind(-1):
        longer = F.pad(found[-1][..., :-1] + score[..., None], (1, 0), value=-torch.inf)
        found.append(torch.logaddexp(found[-1], longer))
    return torch.stack(found, -2)


def candidate_scores(scores: Scores, pairs: ArcPairs, nodes: int) -> Tensor:
    """Scores of words' candidates in canonical order, heads 0 to M - 1, then dependents: (G, 2M).

    Nodes that are no candidates, such as the root as a dependent, have -inf.
    """
    found = scores.own.new_full((len(pairs.number), 2 * nodes), -torch.inf)
    is_dependent = pairs.node > 0
    found[pairs.of, pairs.node] = scores.to_word
    found[pairs.of[is_dependent], nodes + pairs.node[is_dependent]] = scores.to_node[is_dependent]
    return found


def best_candidates(scores: Tensor, number: Tensor) -> Tensor:
    """The ``number`` (…) best candidates of (…, C), the first of equal ones: bool (…, C)."""
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    rank = torch.arange(scores.shape[-1], device=scores.device)
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, rank < number[..., None])


def best_sets(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The sets with the highest sums of each size.

    Args:
        scores: (R, C); -inf for nodes that are no candidates.
        number: K, the number of sets of each size.

    Returns:
        Sums (R, COUNTS, K), best first, -inf where there are fewer, and bool (R, COUNTS, K, C).
    """
    rows, device = len(scores), scores.device
    (known,) = torch.nonzero((scores > -torch.inf).any(0), as_tuple=True)  # in any row
    sizes = min(COUNTS, len(known) + 1)
    sums = torch.full((rows, sizes, number), -torch.inf, dtype=torch.float64, device=device)
    sums[:, 0, 0] = 0
    places = []  # (R, sizes, K) of each candidate: the set's place among K without it, then K with it
    for score in scores[:, known].double().unbind(1):
        longer = F.pad(sums[:, :-1] + score[:, None, None], (0, 0, 1, 0), value=-torch.inf)
        both, order = torch.cat([sums, longer], 2).sort(dim=2, descending=True, stable=True)
        sums = both[..., :number]
        places.append(order[..., :number])
    chosen = torch.zeros(rows, COUNTS, number, scores.shape[1], dtype=torch.bool, device=device)
    at = torch.arange(sizes * number, device=device).expand(rows, -1)  # (R, sizes · K), followed back
    for candidate, place in zip(reversed(known.tolist()), reversed(places), strict=True):
        found = place.flatten(1).gather(1, at)
        taken = found >= number
        chosen[:, :sizes, :, candidate] = taken.view(rows, sizes, number)
        at = (at // number - taken.long()) * number + found % number
    return F.pad(sums, (0, 0, 0, COUNTS - sizes), value=-torch.inf), chosen


def arc_loss(scores: Scores, pairs: ArcPairs, adjacency: Tensor) -> Tensor:
    """Binary cross-entropy of all pairs, including words with themselves: the sum, nats.

    Args:
        adjacency: bool (B, M, M), from heads to dependents.
    """
    word, is_dependent = pairs.number[pairs.of], pairs.node > 0
    parts = (
        (scores.to_word, adjacency[pairs.row, pairs.node, word]),
        (scores.to_node[is_dependent], adjacency[pairs.row, word, pairs.node][is_dependent]),
        (scores.own, torch.zeros_like(scores.own)),
    )
    losses = [
        F.binary_cross_entropy_with_logits(each.float(), there.float(), reduction="sum")
        for each, there in parts
    ]
    return torch.stack(losses).sum()
