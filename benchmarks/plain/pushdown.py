"""The Pushdown LM as figures 7 and 8 of its paper print it, to measure pdtools' formulation against.

Every pair of positions has its own key, in each layer (N x N x d_head a sentence) and in the attachment head,
whose key network runs on all pairs. Weights and results are the given model's.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models import Batch, TransformerLM, legal_attachments, tape_from_attachments
from pdtools.models.transformer.attachment import AttachmentHead
from pdtools.models.transformer.block import Attention
from pdtools.models.transformer.score_terms import DepthScores


def attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor, tape: Tensor) -> Tensor:
    """Attention by figure 7.

    Args:
        q, k, v: (B, H, N, d_head).
        table: (depths, d_head).
        tape: int64 (B, N, N), within the table.

    Returns:
        (B, H, N, d_head).
    """
    n, d_head = q.shape[2:]
    keys = k[:, :, None] + F.embedding(tape, table)[:, None]  # (B, H, N, N, d_head)
    scores = (keys @ q[:, :, :, :, None])[..., 0] / math.sqrt(d_head)  # (B, H, N, N)
    causal = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~causal, -torch.inf).softmax(-1) @ v


def attach(head: AttachmentHead, hidden: Tensor, tape: Tensor, embedding: Tensor, legal: Tensor) -> Tensor:
    """Attachment scores by figure 8, with the softmax over the legal candidates.

    Args:
        hidden: (B, N, D), of the tokens before the ones that attach.
        tape: int64 (B, N, N), row k is W_k.
        embedding: (B, N, D), of the tokens that attach.
        legal: bool (B, N, N + 1): whether the token after k may attach to j.

    Returns:
        log-probabilities (B, N, N + 1).
    """
    n, d_model = hidden.shape[1:]
    assert head.depth_embedding is not None
    q, k = head.query_and_key(hidden).chunk(2, dim=-1)  # (B, N, D)
    both = torch.cat([q, embedding], dim=-1)  # (B, N, 2D)
    next_q, next_k = head.next_query(both), head.next_key(both)  # (B, N, D)
    pairs = torch.cat([k[:, None].expand(-1, n, -1, -1), head.depth_embedding(tape)], dim=-1)  # (B, N, N, 2D)
    keys = head.key(pairs)  # (B, N, N, D)
    scores = (keys @ next_q[:, :, :, None])[..., 0]  # (B, N, N)
    shift = (next_q * next_k).sum(-1)  # (B, N)
    scores = F.pad(scores, (0, 1)).diagonal_scatter(shift, offset=1, dim1=1, dim2=2) / math.sqrt(d_model)
    return scores.masked_fill(~legal, -torch.inf).log_softmax(-1)


def loss(model: TransformerLM, batch: Batch) -> Tensor:
    """-log p of all tokens and attachments of rows without padding, in nats, without dropout."""
    assert model.depths is not None
    assert model.head is not None
    tape = tape_from_attachments(batch.attach)  # (B, N, N)
    depths = tape.clamp(max=model.depths - 1).long()
    embedding = model.embedding(batch.tokens)  # (B, N, D)
    x = embedding
    if model.position_embedding is not None:
        x = x + model.position_embedding.weight[: x.shape[1]]
    for block in model.blocks:
        layer = cast(Attention, block.attention)
        (term,) = cast(list[DepthScores], layer.terms)
        qkv = layer.qkv(block.attention_norm(x)).unflatten(2, (3, layer.heads, -1))
        mixed = attend(*qkv.permute(2, 0, 3, 1, 4), term.embedding.weight, depths)  # (B, H, N, d_head)
        x = x + layer.output(mixed.transpose(1, 2).flatten(2))
        x = x + block.feed_forward(block.feed_forward_norm(x))
    hidden = model.final_norm(x)[:, :-1]  # (B, N - 1, D): nothing is predicted from EOS

    weight = model.embedding.weight if model.output is None else model.output.weight
    logits = (hidden @ weight.T).flatten(0, 1)  # (B·(N - 1), V)
    tokens = F.cross_entropy(logits, batch.tokens[:, 1:].flatten(), reduction="sum")
    legal = legal_attachments(tape)[:, 1:]  # (B, N - 1, N)
    every = attach(model.head, hidden, depths[:, :-1, :-1], embedding[:, 1:], legal)  # (B, N - 1, N)
    chosen = every.gather(2, batch.attach[:, 1:, None])[:, :-1]  # EOS attaches with probability 1
    return tokens - chosen.sum()
