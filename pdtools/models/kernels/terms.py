"""Terms of attention scores, and visible keys, as kernels take them: plain tensors, the same for all."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Terms(NamedTuple):
    """The terms of attention scores beside q·k, and the keys that count.

    Scores are (q_i·k_j + u·k_j + (q_i + v)·r_{i-j} + q_i·e[W_i[j]] - m s_i[j]) / sqrt(d_head) - l |i - j|.

    Attributes:
        content_bias, position_bias: u and v of Transformer-XL (Dai et al. 2019, section 3.3): float
            (H, 1, d_head).
        distance: its r = W_R R: float (H, N, d_head), the farthest first.
        table: e, the depths' vectors (Murty et al. 2023, fig. 7): float (H or 1, depths, d_head).
        tape: W: uint8, or another int for more depths than that, (B, N, N), within the table.
        slopes: m times sqrt(d_head), for open tokens above a key in the stack: float (H).
        open: s, their number: int16 (B, N, N).
        bias: added to q·k before scaling, with nothing to learn: float (H, N, N); in decoding steps
            (H, 1, N).
        innermost: the position of the innermost open constituent's opener after each position, from 1 on, or
            -1: int32 (B, N). If it is given, head 0 sees keys before it, and head 1 keys from it on
            (PLM-mask of Qian et al. 2021).
        seen: keys that count, of those up to the query, which is always among them: bool (B, N, N).
        alibi: l, ALiBi's slopes (Press et al. 2022), which are not learned: float (H).
        apart: the index of r in ``distance``, if it does not follow from the positions: int16 (B, N, N).
            Given in decoding steps alone.
        graph_table: vectors of values of three features of graphs (Huang et al. 2026), which with u are added
            to keys, (q_i + u)·e: float (H, rows, d_head).
        graph: indices of its rows, one for each feature: uint8 (B, 3, N, N).
    """

    content_bias: Tensor | None = None
    position_bias: Tensor | None = None
    distance: Tensor | None = None
    table: Tensor | None = None
    tape: Tensor | None = None
    slopes: Tensor | None = None
    open: Tensor | None = None
    bias: Tensor | None = None
    innermost: Tensor | None = None
    seen: Tensor | None = None
    alibi: Tensor | None = None
    apart: Tensor | None = None
    graph_table: Tensor | None = None
    graph: Tensor | None = None

    def given(self) -> dict[str, Tensor]:
        """The tensors that are present, by name."""
        return {name: term for name, term in self._asdict().items() if term is not None}

    def with_penalties(self, queries: int, keys: int, d_head: int) -> Terms:
        """ALiBi's penalties as ``bias``, of the last queries, as kernels for CPUs take them."""
        if self.alibi is None:
            return self
        assert self.bias is None
        position = torch.arange(keys, device=self.alibi.device)
        distance = (position[keys - queries :, None] - position).abs()  # (Q, K)
        bias = -self.alibi[:, None, None] * distance * math.sqrt(d_head)  # (H, Q, K)
        return self._replace(bias=bias, alibi=None)


class TermForm(NamedTuple):
    """The form of a tensor, on which kernels in C rely.

    Attributes:
        shape: its dimensions: ``B`` sentences, ``H`` heads, ``N`` positions, ``D`` numbers of a head,
            ``3`` and ``1``; None if there are several.
        dtype: the type of integers; None for the type of queries.
        learned: True if it has a gradient.
    """

    shape: str | None
    dtype: torch.dtype | None = None
    learned: bool = False


FORMS = {
    "content_bias": TermForm("H1D", learned=True),
    "position_bias": TermForm("H1D", learned=True),
    "distance": TermForm("HND", learned=True),
    "table": TermForm(None, learned=True),
    "tape": TermForm("BNN", torch.uint8),
    "slopes": TermForm("H", learned=True),
    "open": TermForm("BNN", torch.int16),
    "bias": TermForm("HNN"),
    "innermost": TermForm("BN", torch.int32),
    "seen": TermForm("BNN", torch.bool),
    "alibi": TermForm("H"),
    "apart": TermForm("BNN", torch.int16),
    "graph_table": TermForm(None, learned=True),
    "graph": TermForm("B3NN", torch.uint8),
}
