"""A test whether the fused kernels for CUDA work on this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from pdtools.models.kernels.self_test import agrees

# Forms of terms that the kernels compute, with heads of whole tiles of numbers, and depths that fit a byte.
TAKES = ("content_bias", "position_bias", "distance", "table", "tape", "alibi")
HEAD_SIZES = (16, 32, 64, 128)

# Rounding may change this share of the largest number: products may be computed in TF32.
_TOLERANCES = {torch.float32: 1e-2, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_LENGTH = 80  # the length of the rows tried: more than a block of keys


@cache
def kernels_work(device: torch.device, dtype: torch.dtype, d_head: int, has_distances: bool) -> bool:
    """Return whether the kernels compile, run, and agree with torch's operations.

    They fail without Triton, without a C compiler for it, or on a GPU that is too old.

    Raises:
        torch.OutOfMemoryError: if there is no memory even for that.
    """
    depths = 3

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        from pdtools.models.kernels.fused_attention import fused_attention

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=random).to(device, dtype).requires_grad_()

        q, k, v, weight = (normal(1, 1, _LENGTH, d_head) for _ in range(4))
        by_depth = normal(1, 1, _LENGTH, depths)
        p, r = (normal(1, 1, _LENGTH, d_head), normal(1, _LENGTH, d_head)) if has_distances else (None, None)
        tape = torch.randint(depths, (1, _LENGTH, _LENGTH), generator=random).to(device, torch.uint8)
        slopes = torch.full((1,), 0.1, device=device)
        learned = [x for x in (q, k, v, by_depth, p, r) if x is not None]
        found = []
        for attention in (fused_attention, plain_attention):
            mixed = attention(q, k, v, by_depth, tape, slopes, p=p, r=r)
            found.append([mixed, *torch.autograd.grad(mixed, learned, weight.to(mixed.dtype))])
        yield from zip(*found, strict=True)

    tolerance = _TOLERANCES[dtype]
    return agrees(pairs, "attention is", "with fused kernels", tolerance=tolerance, device=device.type)


def plain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    by_depth: Tensor,
    tape: Tensor,
    slopes: Tensor,
    *,
    p: Tensor | None,
    r: Tensor | None,
) -> Tensor:
    """Compute ``fused_attention`` by torch's operations in float32; shapes as there."""
    n, d_head = q.shape[2:]
    scores = q.float() @ k.float().mT + by_depth.float().gather(3, tape[:, None].long())
    position = torch.arange(n, device=q.device)
    distance = position[:, None] - position  # (N, N)
    if p is not None and r is not None:
        scores = scores + torch.einsum("bhqd,hqkd->bhqk", p.float(), r.float()[:, distance.clamp(min=0)])
    scores = scores / math.sqrt(d_head) - slopes[:, None, None] * distance
    return scores.masked_fill(distance < 0, -math.inf).softmax(-1) @ v.float()
