"""The attachment head: a distribution of the next token's reduction (Murty et al. 2023, eq. 5 and fig. 8)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.transformer.cache import Cache


def _mlp(d_in: int, d_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d_in, d_out), nn.GELU(), nn.Linear(d_out, d_out))


def _legal_logprobs(scores: Tensor, legal: Tensor) -> Tensor:
    """Normalise over the legal candidates (masked before the softmax), in at least single precision."""
    precise = torch.promote_types(scores.dtype, torch.float32)
    return scores.masked_fill(~legal, float("-inf")).log_softmax(-1, dtype=precise)


class AttachmentHead(nn.Module):
    """A distribution over the legal candidates, conditioned on the next token.

    Figure 8 runs its key network on every pair of token and depth. A legal candidate j still has the depth
    W_j[j] that it had when it arrived, so here the network runs once per token.

    Args:
        d_model: width of hidden states, and of the next token's representation.
        depths: rows of the head's own depth table; None for a model without a tape, whose keys then
            have no depth.
        stack_distances: whether candidates get a learned penalty on their distance from the top of the stack
            (:class:`pdtools.models.transformer.score_terms.StackDistances`).
        next_norm: norm of the next token's representation, if that is not its embedding.
    """

    def __init__(
        self,
        d_model: int,
        depths: int | None,
        *,
        stack_distances: bool = False,
        next_norm: nn.LayerNorm | None = None,
    ) -> None:
        super().__init__()
        self.query_and_key = nn.Linear(d_model, 2 * d_model)
        self.next_query = _mlp(2 * d_model, d_model)
        self.next_key = _mlp(2 * d_model, d_model)
        self.depth_embedding = None if depths is None else nn.Embedding(depths, d_model)
        self.key = _mlp(d_model if depths is None else 2 * d_model, d_model)
        self.log_slope = nn.Parameter(torch.zeros(())) if stack_distances else None
        self.next_norm = next_norm
        self.scale = 1 / math.sqrt(d_model)

    def queries_and_keys(self, hidden: Tensor, depth: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the part that depends on tokens already read.

        Args:
            hidden: (…, D), final hidden states.
            depth: int (…), W_j[j], within the table; None without a depth table.

        Returns:
            q and keys, each (…, D).
        """
        q, k = self.query_and_key(hidden).chunk(2, dim=-1)
        if self.depth_embedding is not None:
            assert depth is not None
            k = torch.cat([k, self.depth_embedding(depth.long())], dim=-1)  # (…, 2D)
        return q, self.key(k)

    def next_queries_and_keys(self, q: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the part for the next token: its query, and its key, for the shift; (…, D) each."""
        seen = seen if self.next_norm is None else self.next_norm(seen)
        both = torch.cat([q, seen], dim=-1)  # (…, 2D)
        return self.next_query(both), self.next_key(both)

    def logprobs(
        self,
        hidden: Tensor,
        depth: Tensor | None,
        seen: Tensor,
        legal: Tensor,
        stack_distance: Tensor | None = None,
    ) -> Tensor:
        """Attachment log-probabilities of whole sentences (eq. 5, fig. 8).

        Args:
            hidden: (B, N, D).
            depth: int (B, N), W_j[j]; None without a depth table.
            seen: (B, N, D), the representation of each token as it attaches: its embedding, or one computed
                from it and the tokens before.
            legal: bool (B, N, N), its diagonal (the shift) true.
            stack_distance: (B, N, N), after each token; None will do for a head without stack distances.

        Returns:
            float (B, N, N), -inf where illegal. Nothing predicts row 0: ROOT shifts.
        """
        q, keys = self.queries_and_keys(hidden, depth)  # (B, N, D)
        q = F.pad(q[:, :-1], (0, 0, 1, 0))  # (B, N, D): row k holds q_{k-1}
        next_q, next_k = self.next_queries_and_keys(q, seen)  # (B, N, D)
        scores = next_q @ keys.transpose(1, 2)  # (B, N, N)
        shift = (next_q * next_k).sum(-1)  # (B, N)
        scores = scores.diagonal_scatter(shift.to(scores.dtype), dim1=1, dim2=2) * self.scale
        if self.log_slope is not None:
            assert stack_distance is not None
            before = F.pad(
                stack_distance[:, :-1], (0, 0, 1, 0)
            )  # (B, N, N): row k is for the stack after k - 1
            scores = scores - self.log_slope.exp() * before  # nothing for the shift: no token comes after it
        return _legal_logprobs(scores, legal)

    def next_logprobs(
        self, q: Tensor, keys: Cache, seen: Tensor, legal: Tensor, stack_distance: Tensor | None = None
    ) -> Tensor:
        """Attachment log-probabilities of one next token per hypothesis.

        Args:
            q: (R, D), the last token's.
            keys: D wide, of all tokens so far.
            seen: (R, D), the representation of the next token.
            legal: bool (R, k + 2), the shift last.
            stack_distance: (R, k + 1); None will do for a head without stack distances.

        Returns:
            float (R, k + 2).
        """
        next_q, next_k = self.next_queries_and_keys(q, seen)  # (R, D)
        scores = keys.times(next_q)  # (R, k + 1)
        shift = (next_q * next_k).sum(-1, keepdim=True)  # (R, 1)
        scores = torch.cat([scores, shift], dim=1) * self.scale  # (R, k + 2)
        if self.log_slope is not None:
            assert stack_distance is not None
            scores = scores - F.pad(self.log_slope.exp() * stack_distance, (0, 1))
        return _legal_logprobs(scores, legal)
