"""``as_released``: whole models against the released code of stack attention, written out by positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pdtools.formal.transduction_data import RowLayout, task_tokenizer
from pdtools.formal.transductions import make_task
from pdtools.models import build_model, make_config
from pdtools.models.transformer.model import TransformerLM
from pdtools.training import read_recipe

D, HEADS, LAYERS = 16, 4, 2
# The models of the study, but smaller.
CONFIG = {**read_recipe("dcf").options, "layers": LAYERS, "d_model": D, "heads": HEADS, "d_ff": 4 * D}
POSITIONS = ("none", "sincos", "relative", "rotary", "alibi")


def wave(position: int) -> Tensor:
    """Sines, then cosines, of one position: wavelengths from 2π up to nearly 2π · 256."""
    rates = [256 ** (-2 * k / D) for k in range(D // 2)]
    return torch.tensor(
        [math.sin(position * rate) for rate in rates] + [math.cos(position * rate) for rate in rates],
        dtype=torch.float64,
    )


def turned(vector: Tensor, position: int) -> Tensor:
    """Neighbouring pairs turned by position · 10000^(-2k/d), as complex numbers."""
    pairs = torch.view_as_complex(vector.reshape(-1, 2))
    angles = position * 10000.0 ** (-torch.arange(len(pairs), dtype=torch.float64) / len(pairs))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten()


def score(
    block: Any, positions: str, i: int, j: int, q: Tensor, k: Tensor, *, head: int, causal: bool
) -> Tensor:
    """Of the key at j for the query at i, scaled."""
    extra = torch.zeros((), dtype=torch.float64)
    if positions == "rotary":
        q, k = turned(q, i), turned(k, j)
    elif positions == "relative":
        term = block.attention.terms[0]
        distance = i - j + 1 if causal else i - j  # the causal model's own position is at distance 1
        r = term.distance_map(wave(distance)).view(HEADS, -1)[head]
        extra = (q + term.position_bias[head, 0]) @ r
        q = q + term.content_bias[head, 0]
    total = (q @ k + extra) / math.sqrt(D // HEADS)
    if positions == "alibi":
        slope = 2.0 ** (-8 * (head + 1) / HEADS)
        total = total - slope * (abs(i - j) - (0.5 if i > j else 0.0))
    return total


def stacked(h: Tensor, actions: Tensor) -> Tensor:
    """Expected top of the stack after each position: α over the positions before, from certain emptiness."""
    n = len(h)
    alpha = torch.zeros(n, n, dtype=torch.float64)
    alpha[0, 0] = 1  # the first token stands for the empty stack
    for i in range(1, n):
        push, pop, no_op = actions[i]
        alpha[i, i] += push
        for j in range(i):
            alpha[i] += no_op * alpha[i - 1, j] * torch.eye(n, dtype=torch.float64)[j]
            below = alpha[j - 1] if j > 0 else alpha[0]
            alpha[i] += pop * alpha[i - 1, j] * below
    return alpha @ h


def logits(model: Any, tokens: Tensor) -> Tensor:
    """After each of the tokens (N,) that the released code feeds: (N, V)."""
    positions, causal = model.config.positions, model.objective == "causal"
    n = len(tokens)
    h: Tensor = model.embedding.weight[tokens] * math.sqrt(D)
    if positions == "sincos":
        h = h + torch.stack([wave(n - i) for i in range(n)])
    for block in model.blocks:
        q, k, v = (part.view(n, HEADS, -1) for part in (h @ block.attention.qkv.weight.T).split(D, 1))
        mixed = torch.zeros(n, HEADS, D // HEADS, dtype=torch.float64)
        for head in range(HEADS):
            for i in range(n):
                keys = range(i + 1 if causal else n)
                scores = [
                    score(block, positions, i, j, q[i, head], k[j, head], head=head, causal=causal)
                    for j in keys
                ]
                mixed[i, head] = torch.stack(scores).softmax(0) @ v[: len(keys), head]
        h = block.attention_norm(h + mixed.view(n, D) @ block.attention.output.weight.T)
        first, last = block.feed_forward[0], block.feed_forward[2]
        h = block.feed_forward_norm(h + last(first(h).clamp(min=0)))
        h = h + stacked(h, block.stack.actions(h).softmax(1))
    found: Tensor = h @ model.output.weight.T + model.output_bias
    return found


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_models_as_released_are_the_released_ones(objective: str, positions: str) -> None:
    task = make_task("sm", as_released=True)
    tokenizer = task_tokenizer(task)
    special = {name: getattr(tokenizer, name) for name in ("vocab_size", "pad_id", "root_id", "eos_id")}
    torch.manual_seed(0)
    options = {**CONFIG, **special, "objective": objective, "positions": positions, "as_released": True}
    model = build_model("transformer", make_config("transformer", options)).double().eval()
    assert isinstance(model, TransformerLM)
    with torch.no_grad():  # what is 0 at first, or small, would show no differences
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
        layout = RowLayout(task=task, tokenizer=tokenizer, objective=model.objective)
        batch = layout.batch(task.draw(6, 3, np.random.default_rng(1)))
        found = model.position_logprobs(batch)[:, layout.first_position(6) :]
        for tokens, ours in zip(batch.tokens, found, strict=True):
            if objective == "masked":  # no token for the empty stack; all of y at once
                wanted = logits(model, tokens[1:])[-len(ours) :]
            else:  # shifted twice: the last token before y_t that is read is y_{t-2}
                wanted = logits(model, torch.cat([tokens[:1], tokens[:-1]]))[-len(ours) - 1 : -1]
            torch.testing.assert_close(ours, wanted.log_softmax(1).to(ours.dtype))
