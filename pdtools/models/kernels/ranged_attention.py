"""Attention of PLM-mask (Qian et al. 2021): heads that see one side of an opener each, without a mask."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.kernels.block_attention import block_attention
from pdtools.models.kernels.terms import Terms


def ranged_attention(q: Tensor, k: Tensor, v: Tensor, innermost: Tensor, dropout: float = 0.0) -> Tensor:
    """Causal attention; head 0 sees what precedes the innermost open constituent, head 1 what is in it.

    Args:
        q, k, v: float (B, H, N, d_head), two heads or more.
        innermost: int32 (B, N), the position of that constituent's opener after each position, from 1 on; or
            -1, if none is open: then all heads see all keys up to the position.
        dropout: of the attention weights.

    Returns:
        float (B, H, N, d_head).

    Raises:
        IndexError: if a constituent is opened after a position that it is open at (on the CPU).
    """
    if q.device.type == "cpu" and (
        q.dtype in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu")
    ):
        return block_attention(q, k, v, Terms(innermost=innermost), dropout=dropout)
    seen = keys_in_range(innermost, q.shape[1])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)


def keys_in_range(innermost: Tensor, heads: int) -> Tensor:
    """Which keys the heads of :func:`ranged_attention` see: bool (B, H, N, N)."""
    position = torch.arange(innermost.shape[1], device=innermost.device)
    opener = innermost[:, :, None]  # (B, N, 1)
    seen = (position <= position[:, None]).repeat(len(innermost), heads, 1, 1)
    seen[:, 0] &= (position < opener) | (opener <= 0)
    seen[:, 1] &= position >= opener
    return seen
