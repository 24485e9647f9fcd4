"""The attachment head: a distribution of the next token's reduction (Murty et al. 2023, eq. 5 and fig. 8)."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.kernels.dropout import Dropout
from pdtools.models.transformer.cache import Cache
from pdtools.models.transformer.score_terms import shift_to_keys, sinusoids_of


def _mlp(d_in: int, d_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d_in, d_out), nn.GELU(), nn.Linear(d_out, d_out))


def _legal_logprobs(scores: Tensor, legal: Tensor, among: Tensor | None = None) -> Tensor:
    """Normalise over the legal candidates (masked before the softmax), in at least single precision.

    Args:
        among: bool like ``legal``; the normaliser is over these, and the mass of illegal ones is lost.
    """
    precise = torch.promote_types(scores.dtype, torch.float32)
    masked = scores.masked_fill(~(legal if among is None else among), float("-inf"))
    logprobs = masked.log_softmax(-1, dtype=precise)
    return logprobs if among is None else logprobs.masked_fill(~legal, float("-inf"))


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

    Attributes:
        query_width, key_width: the numbers kept of each token, by :meth:`queries_and_keys`.
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
        self.query_width = self.key_width = d_model

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


class ReleasedHead(nn.Module):
    """The attachment head as it was released: 2 D wide, with positions, and nothing scaled.

    Candidates have their depths at the moment, which for closed constituents are others than on arrival, and
    any token before may be a candidate. The key network W2 relu(W1 [k; e] + b1) + b2 runs once for each token
    and depth that it has, and its W2 is multiplied with the query instead.

    Args:
        d_model: width of hidden states.
        depths: rows of the depth table; None for a model without a tape.
        depth_width: width of the depth table.
        dropout: within the networks.
        normalize: see :class:`pdtools.models.TransformerConfig`.

    Attributes:
        query_width, key_width: as in :class:`AttachmentHead`.
    """

    log_slope = None

    def __init__(
        self, d_model: int, depths: int | None, *, depth_width: int, dropout: float, normalize: str
    ) -> None:
        super().__init__()
        wide = 2 * d_model

        def network(d_in: int, d_between: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(d_in, d_between), nn.ReLU(), Dropout(dropout), nn.Linear(d_between, wide)
            )

        self.d_model = d_model
        self.normalize = normalize
        self.query_map = nn.Linear(d_model, wide, bias=False)
        self.key_map = nn.Linear(d_model, wide, bias=False)
        self.distance_map = nn.Linear(d_model, wide, bias=False)
        self.next_query = network(wide + d_model, wide)
        self.next_key = network(wide + d_model, wide)
        self.depth_embedding = self.key = None
        self.query_width = self.key_width = wide
        if depths is not None:
            self.key_width = wide + depth_width
            self.depth_embedding = nn.Embedding(depths, depth_width)
            self.key = network(self.key_width, self.key_width)

    @property
    def _key_maps(self) -> tuple[nn.Linear, nn.Linear]:
        """The two maps of the key network."""
        assert self.key is not None
        return cast(nn.Linear, self.key[0]), cast(nn.Linear, self.key[3])

    def _of_depth(self) -> Tensor:
        """The part of the key network's inner values that depends on depths: (depths, key_width)."""
        assert self.depth_embedding is not None
        table = self.depth_embedding.weight
        return F.linear(table, self._key_maps[0].weight[:, -table.shape[1] :])

    def queries_and_keys(self, hidden: Tensor, depth: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Compute the part that depends on tokens already read: (…, D) to (…, 2 D) and (…, key_width).

        Keys lack their depths, and are those of the key network before its activation.
        """
        keys = self.key_map(hidden)
        if self.key is not None:
            first, _ = self._key_maps
            keys = F.linear(keys, first.weight[:, : keys.shape[-1]], first.bias)
        return self.query_map(hidden), keys

    def next_queries_and_keys(self, q: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the part for the next token: its query, and its key, for the shift; (…, 2 D) each."""
        next_q = self.next_query(torch.cat([q, seen], dim=-1))
        return next_q, self.next_key(torch.cat([next_q, seen], dim=-1))

    def logprobs(
        self, hidden: Tensor, depth: Tensor | None, seen: Tensor, legal: Tensor, tape: Tensor | None = None
    ) -> Tensor:
        """Attachment log-probabilities of whole sentences, see :meth:`AttachmentHead.logprobs`.

        Args:
            tape: int (B, N, N), depths after each token, within the table; None without one.
        """
        q, keys = self.queries_and_keys(hidden)
        q = F.pad(q[:, :-1], (0, 0, 1, 0))  # (B, N, 2D): row k holds q_{k-1}
        next_q, next_k = self.next_queries_and_keys(q, seen)  # (B, N, 2D)
        n = hidden.shape[1]
        before = torch.ones(n, n, dtype=torch.bool, device=hidden.device).tril(-1)
        if self.key is None:
            scores = next_q @ keys.transpose(1, 2)  # (B, N, N)
        else:
            assert tape is not None
            # Row k is for the stack after k - 1; cells that are no candidates count as ROOT alone.
            depths = F.pad(tape[:, :-1].long(), (0, 0, 1, 0)).masked_fill(~before, 0)
            scores = self._by_pairs(next_q, keys, depths, before)
        distances = sinusoids_of(torch.arange(n - 1, -1, -1, device=hidden.device), self.d_model)
        by_distance = next_q @ self.distance_map(distances.to(hidden.dtype)).T  # (B, N, N)
        shift = (next_q * next_k).sum(-1)  # (B, N)
        scores = scores.diagonal_scatter(shift.to(scores.dtype), dim1=1, dim2=2)
        scores = scores + shift_to_keys(by_distance[:, None])[:, 0]
        everything = before | torch.eye(n, dtype=torch.bool, device=hidden.device)
        among = None if self.normalize == "allowed" else everything.expand_as(legal)
        return _legal_logprobs(scores, legal, among)

    def _by_pairs(self, q: Tensor, keys: Tensor, depths: Tensor, before: Tensor) -> Tensor:
        """Scores without positions, (B, N, N): each key network runs once for a token and a depth.

        Args:
            q: (B, N, 2D).
            keys: (B, N, key_width).
            depths: int64 (B, N, N), of candidates.
            before: bool (N, N), the cells that are candidates.
        """
        assert self.key is not None
        rows, n, width = keys.shape
        of_depth, (_, last) = self._of_depth(), self._key_maps
        depths_there = len(of_depth)
        # The number of a pair: token times depths, plus depth.
        place = torch.arange(n, device=q.device) * depths_there
        pair = (depths + place).masked_fill(~before, 0).flatten(1)  # (B, N N)
        there = torch.zeros(rows, n * depths_there, dtype=torch.uint8, device=q.device).scatter_(1, pair, 1)
        most = int(there.sum(1).max())
        pairs = there.sort(dim=1, descending=True, stable=True).indices[:, :most]  # (B, M)
        number = there.cumsum(1).sub(1).gather(1, pair).view(rows, n, n)  # among the M of its row
        token = (pairs // depths_there)[:, :, None].expand(-1, -1, width)
        active = self.key[2](
            torch.relu(keys.gather(1, token) + of_depth[pairs % depths_there])
        )  # (B, M, width)
        folded = q @ last.weight  # (B, N, width)
        scores = folded @ active.transpose(1, 2)  # (B, N, M)
        return scores.gather(2, number) + (q @ last.bias)[:, :, None]

    def next_logprobs(
        self, q: Tensor, keys: Cache, seen: Tensor, legal: Tensor, tape: Tensor | None = None
    ) -> Tensor:
        """Attachment log-probabilities of one next token per hypothesis.

        Arguments are as in :meth:`AttachmentHead.next_logprobs`, with ``tape``, int (R, k + 1), depths now.
        """
        next_q, next_k = self.next_queries_and_keys(q, seen)  # (R, 2D)
        if self.key is None:
            scores = keys.times(next_q)  # (R, k + 1)
        else:
            assert tape is not None
            of_depth, (_, last) = self._of_depth(), self._key_maps
            folded = next_q @ last.weight  # (R, key_width)
            blocks = [
                torch.einsum(
                    "rkw,rw->rk", torch.relu(keys.read(rows) + of_depth[tape[rows].long()]), folded[rows]
                )
                for rows in keys.blocks()
            ]
            scores = torch.cat(blocks) + (next_q @ last.bias)[:, None]
        scores = torch.cat([scores, (next_q * next_k).sum(-1, keepdim=True)], dim=1)  # (R, k + 2)
        distances = sinusoids_of(torch.arange(scores.shape[1] - 1, -1, -1, device=q.device), self.d_model)
        scores = scores + next_q @ self.distance_map(distances.to(q.dtype)).T
        among = None if self.normalize == "allowed" else torch.ones_like(legal)
        return _legal_logprobs(scores, legal, among)
