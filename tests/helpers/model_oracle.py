"""The paper's algorithm and figures, written plainly and slowly, to test the models against."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pdtools.models import TransformerLM, build_model, make_config
from pdtools.models.transformer.attachment import AttachmentHead
from pdtools.models.transformer.block import Attention
from pdtools.models.transformer.score_terms import (
    DepthScores,
    LinearPositions,
    RelativePositions,
    StackDistances,
)

PAD, ROOT, EOS = 0, 1, 2


class PlainStack:
    """Algorithm 1 of the paper: a stack of lists, and a tape that is a list."""

    def __init__(self) -> None:
        self.stack = [[0]]
        self.tape = [0]

    def legal(self) -> list[int]:
        """Last tokens of the constituents on the stack, except ROOT's, and the next token itself."""
        return [c[-1] for c in self.stack if c != [0]] + [len(self.tape)]

    def push(self, attach: int) -> None:
        k = len(self.tape)
        self.tape.append(0)
        constituent = [k]
        while attach != k:
            top = self.stack.pop()
            constituent = top + constituent
            for token in constituent:
                self.tape[token] += 1
            if top[-1] == attach:
                break
        self.stack.append(constituent)


def derivations(n: int) -> Iterator[list[int]]:
    """Attachments of all derivations of a string of n tokens, in the sentence layout."""
    for choice in itertools.product(*(range(1, k + 1) for k in range(1, n + 1))):
        stack = PlainStack()
        for attach in choice:
            if attach not in stack.legal():
                break
            stack.push(attach)
        else:
            yield [0, *choice, 0]


def random_attach(n: int, rng: random.Random) -> list[int]:
    """One derivation of a string of n tokens, in the sentence layout."""
    stack, attach = PlainStack(), [0]
    for _ in range(n):
        attach.append(rng.choice(stack.legal()))
        stack.push(attach[-1])
    return [*attach, 0]


def random_row(n: int, vocab_size: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """Tokens and attachments of a random sentence of n tokens."""
    tokens = [ROOT, *(rng.randrange(EOS + 1, vocab_size) for _ in range(n)), EOS]
    return tokens, random_attach(n, rng)


def small_model(name: str, seed: int = 0, **settings: Any) -> TransformerLM:
    """A small model in evaluation mode with weights large enough to matter."""
    values = {
        "vocab_size": 11,
        "pad_id": PAD,
        "root_id": ROOT,
        "eos_id": EOS,
        "layers": 2,
        "d_model": 16,
        "heads": 4,
        "d_ff": 24,
        "max_length": 24,
    }
    model = build_model(name, make_config(name, {**values, **settings}))
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    assert isinstance(model, TransformerLM)
    return model.eval()


def plain_attention(layer: Attention, x: Tensor, tape: Tensor) -> Tensor:
    """Figure 7 (and Transformer-XL's scores), a key per pair of positions; x (B, N, D), tape (B, N, N)."""
    batch, n, d_model = x.shape
    d_head = d_model // layer.heads
    q, k, v = (t.view(batch, n, layer.heads, d_head).transpose(1, 2) for t in layer.qkv(x).split(d_model, 2))
    keys = k.unsqueeze(2).expand(-1, -1, n, -1, -1)  # (B, H, N, N, d_head)
    scores = torch.zeros(batch, layer.heads, n, n, dtype=x.dtype)
    for term in layer.terms:
        if isinstance(term, DepthScores) and term.space == "key":
            keys = keys + term.embedding(tape).unsqueeze(1)
        elif isinstance(term, DepthScores):
            key_map = layer.qkv.weight[d_model : 2 * d_model]
            mapped = term.embedding(tape) @ key_map.T  # (B, N, N, D)
            keys = keys + mapped.view(batch, n, n, layer.heads, d_head).permute(0, 3, 1, 2, 4)
        elif isinstance(term, RelativePositions):
            scores = scores + plain_relative(term, q, k)
    scores = scores + (q.unsqueeze(3) @ keys.transpose(-2, -1)).squeeze(3)  # (B, H, N, N)
    scores = scores / math.sqrt(d_head)
    if any(isinstance(term, LinearPositions) for term in layer.terms):
        for h, i, j in itertools.product(range(layer.heads), range(n), range(n)):
            scores[:, h, i, j] -= 2 ** (-8 * (h + 1) / layer.heads) * (i - j)
    for term in layer.terms:
        if isinstance(term, StackDistances):
            above = torch.zeros(batch, 1, n, n)
            for i, j in itertools.product(range(n), range(n)):
                above[:, 0, i, j] = (tape[:, i, j + 1 : i + 1] == 0).sum(1)
            scores = scores - term.log_slopes.exp() * above
    scores = scores.masked_fill(torch.ones(n, n).tril() == 0, float("-inf"))
    mixed = scores.softmax(-1) @ v  # (B, H, N, d_head)
    return layer.output(mixed.transpose(1, 2).reshape(batch, n, d_model))


def plain_relative(term: RelativePositions, q: Tensor, k: Tensor) -> Tensor:
    """Terms b, c and d of Dai et al. (2019), one pair of positions at a time."""
    batch, heads, n, d_head = q.shape
    rows = []
    for i in range(n):
        for j in range(n):
            distance = max(i - j, 0)
            rate = torch.tensor([10000 ** (-2 * m / term.d_model) for m in range(term.d_model // 2)])
            sinusoid = torch.cat([(distance * rate).sin(), (distance * rate).cos()]).to(q.dtype)
            r = term.distance_map(sinusoid).view(heads, d_head)
            content = (term.content_bias[:, 0] * k[:, :, j]).sum(-1)  # (B, H)
            position = ((q[:, :, i] + term.position_bias[:, 0]) * r).sum(-1)  # (B, H)
            rows.append(content + position)
    return torch.stack(rows, dim=-1).view(batch, heads, n, n)


def plain_head(head: AttachmentHead, x: Tensor, tape: Tensor, next_word: Tensor, legal: Tensor) -> Tensor:
    """Figure 8, with the key network on every pair, and the softmax over the legal candidates.

    Args:
        x: (B, T, D), hidden states of the tokens before the ones that attach.
        tape: int (B, T, T), row t is W_t.
        next_word: (B, T, D), embeddings of the tokens that attach.
        legal: bool (B, T, T + 1): whether token t + 1 may attach to j.
    """
    batch, n, d_model = x.shape
    q, k = head.query_and_key(x).split(d_model, dim=2)
    next_q = head.next_query(torch.cat([q, next_word], dim=-1))
    next_k = head.next_key(torch.cat([q, next_word], dim=-1))
    pairs = k.unsqueeze(1).repeat(1, n, 1, 1)  # (B, T, T, D)
    if head.depth_embedding is not None:
        pairs = torch.cat([pairs, head.depth_embedding(tape)], dim=-1)
    keys = head.key(pairs) / math.sqrt(d_model)  # (B, T, T, D)
    logits = (next_q.unsqueeze(2) @ keys.transpose(-2, -1)).squeeze(2)  # (B, T, T)
    own = (next_q * next_k).sum(-1, keepdim=True) / math.sqrt(d_model)  # (B, T, 1)
    logits = torch.cat([logits, torch.zeros(batch, n, 1, dtype=x.dtype)], dim=-1)
    logits = logits.scatter(2, torch.arange(1, n + 1).view(1, n, 1).expand(batch, -1, -1), own)
    return logits.masked_fill(~legal, float("-inf")).log_softmax(-1)
