"""Attention of grammar language models beside causal attention over as many positions: forward and backward.

    python benchmarks/grammar_attention.py

Rows are trees of the bundled treebank, those whose length is the nearest to the mean of newspapers, as
Transformer Grammars (two closers) and PLM-mask (one) read them; a batch is as long as its longest row.
*Dense* is torch's attention with a boolean mask, and a tensor for the scores by relative position.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from measure import Figure, Options, Run, main, peak_memory, seconds
from torch import Tensor

from pdtools import data
from pdtools.files import Rejects
from pdtools.models.kernels.grammar_attention import DISTANCES, NEAREST, grammar_attention, visible_keys
from pdtools.models.transformer.backends import attend
from pdtools.models.transformer.score_terms import ScoreInputs
from pdtools.trees import Tree, normalize, read_trees

ROWS, HEADS, D_HEAD = 64, 8, 32
LENGTHS = {"TG": 81, "PLM-mask": 63}  # means of the Penn Treebank's sample in nltk
BAR = 1.0


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory of both kinds of models."""
    trees = [normalize(sourced.tree) for sourced in read_trees([str(data.treebank("test"))], Rejects())]
    base: dict[str, float] = {}
    for model, closers in (("TG", 2), ("PLM-mask", 1)):
        rows = [integers(tree, closers) for tree in trees if tree is not None]
        rows = sorted(rows, key=lambda row: abs(len(row) - LENGTHS[model]))[:ROWS]
        batch = torch.zeros(ROWS, max(map(len, rows)), 4, dtype=torch.int32)
        batch[..., 3] = -1
        for b, row in enumerate(rows):
            batch[b, : len(row)] = torch.tensor(row)
        runs = (tg_runs if closers == 2 else plm_mask_runs)(batch.to(options.device), options)
        times = seconds(runs, options)
        mean = sum(map(len, rows)) / ROWS
        settings = {
            "rows": ROWS,
            "positions": mean,
            "longest": batch.shape[1],
            "heads": HEADS,
            "d_head": D_HEAD,
        }
        for name, run in runs.items():
            for what, value, unit, bar in (
                ("time", times[name] * 1000, "ms", BAR if name == "ours" else None),
                ("peak memory", peak_memory(run, options.device), "MiB", None),
            ):
                if name == "causal":
                    base[what] = value
                yield Figure(
                    name=f"attention of {model}, {what}, {name}",
                    value=value,
                    unit=unit,
                    ratio=None if name == "causal" else value / base[what],
                    against=None if name == "causal" else "causal",
                    bar=bar,
                    settings={**settings, **options.settings},
                )


def integers(tree: Tree, closers: int) -> list[list[int]]:
    """For each position of a tree's actions: pop, whether it is COMPOSE, depth, the innermost open opener."""
    row: list[list[int]] = []
    stack: list[int] = []
    opened: list[tuple[int, int]] = []  # the opener's position, and where its constituent ends

    def add(pops: int = 0) -> None:
        for j in stack[len(stack) - pops :]:
            row[j][0] = len(row)
        del stack[len(stack) - pops :]
        stack.append(len(row))
        row.append([1 << 30, int(pops > 0), len(opened), opened[-1][0] if opened else -1])

    add()
    constituents = iter(zip(tree.starts.tolist(), tree.ends.tolist(), strict=True))
    upcoming = next(constituents, None)
    for word in range(len(tree.words)):
        while upcoming and upcoming[0] == word:
            opened.append((len(row), upcoming[1]))
            add()
            upcoming = next(constituents, None)
        add()
        row[-1][2] += 1  # a word is one deeper than its constituent's opener
        while opened and opened[-1][1] == word + 1:
            pops = len(stack) - stack.index(opened[-1][0])
            depth = len(opened)
            opened.pop()
            for closer in range(closers):
                add(pops if closer == 0 else 0)
                row[-1][2] = depth
            if closers == 2:
                row[stack.pop()][0] = 0
    return row


def _layer(batch: Tensor, options: Options) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    made = {"device": options.device, "dtype": options.dtype}
    qkv = torch.randn(*batch.shape[:2], 3, HEADS, D_HEAD, **made, requires_grad=True)  # as a layer makes it
    return qkv, torch.randn(ROWS, batch.shape[1], HEADS, D_HEAD, **made).transpose(1, 2)


def _causal(qkv: Tensor, grad: Tensor) -> Run:
    def causal() -> None:
        mixed = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        torch.autograd.grad(mixed, qkv, grad)

    return causal


def tg_runs(batch: Tensor, options: Options) -> dict[str, Run]:
    """Runs of Transformer Grammars over the same random tensors; batch: int32 (B, N, 4)."""
    pop, compose, depth = batch[..., 0], batch[..., 1].bool(), batch[..., 2]
    qkv, grad = _layer(batch, options)
    made = {"device": options.device, "dtype": options.dtype, "requires_grad": True}
    r, u, v_bias = (torch.randn(HEADS, length, D_HEAD, **made) for length in (DISTANCES, 1, 1))
    visible = visible_keys(pop, compose, depth)
    position = torch.arange(batch.shape[1], device=batch.device)
    before = torch.where(
        compose[:, :, None], pop[:, None] == position[:, None], pop[:, None] > position[:, None]
    )
    seen = (before & (position < position[:, None])) | (position == position[:, None])  # (B, N, N)
    relative = (depth[:, :, None] - depth[:, None]).clamp(NEAREST, DISTANCES + NEAREST - 1).long() - NEAREST

    def ours() -> None:
        mixed = grammar_attention(*qkv.permute(2, 0, 3, 1, 4), visible, (r, u, v_bias))
        torch.autograd.grad(mixed, (qkv, r, u, v_bias), grad)

    def dense() -> None:
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        by_distance = ((q + v_bias) @ r.transpose(1, 2)) / math.sqrt(D_HEAD)
        bias = by_distance.gather(3, relative[:, None].expand(-1, HEADS, -1, -1))
        bias = bias.masked_fill(~seen[:, None], -math.inf)
        mixed = F.scaled_dot_product_attention(q + u, k, v, attn_mask=bias)
        torch.autograd.grad(mixed, (qkv, r, u, v_bias), grad)

    def lists() -> None:
        visible_keys(pop, compose, depth)

    return {"causal": _causal(qkv, grad), "ours": ours, "dense": dense, "lists of keys": lists}


def plm_mask_runs(batch: Tensor, options: Options) -> dict[str, Run]:
    """Runs of PLM-mask over the same random tensors; batch: int32 (B, N, 4)."""
    innermost = batch[..., 3].contiguous()
    inputs = ScoreInputs(causal=None, tape=None, innermost=innermost)
    qkv, grad = _layer(batch, options)
    position = torch.arange(batch.shape[1], device=batch.device)
    seen = (position <= position[:, None]).repeat(ROWS, HEADS, 1, 1)  # (B, H, N, N)
    opener = innermost[:, :, None]
    seen[:, 0] &= (position < opener) | (opener < 0)
    seen[:, 1] &= position >= opener

    def ours() -> None:
        mixed = attend(*qkv.permute(2, 0, 3, 1, 4), [], torch.empty(0), inputs)
        torch.autograd.grad(mixed, qkv, grad)

    def dense() -> None:
        mixed = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), attn_mask=seen)
        torch.autograd.grad(mixed, qkv, grad)

    return {"causal": _causal(qkv, grad), "ours": ours, "dense": dense}


if __name__ == "__main__":
    main(__doc__, figures, repeats=15)
