"""What is added to attention scores, and which count, as kernels take it: plain tensors, the same for all."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Terms(NamedTuple):
    """Scores are (q_i·k_j + u·k_j + (q_i + v)·r_{i-j} + q_i·e[W_i[j]] - m s_i[j]) / sqrt(d_head) - l |i - j|.

    Attributes:
        content_bias, position_bias: u and v of Transformer-XL (Dai et al. 2019, section 3.3): float
            (H, 1, d_head).
        distance: its r = W_R R: float (H, N, d_head), the farthest first.
        table: e, the depths' vectors (Murty et al. 2023, fig. 7): float (H or 1, depths, d_head).
        tape: W: uint8, or another int for more depths than that, (B, N, N), within the table.
        slopes: m times sqrt(d_head), of open tokens above a key in the stack: float (H).
        open: s, their number: int16 (B, N, N).
        fixed: added to q·k before scaling, with nothing to learn: float (H, N, N).
        innermost: the position of the innermost open constituent's opener after each position, from 1 on; or
            -1: int32 (B, N). Where there is one, head 0 sees keys before it, and head 1 keys from it on
            (PLM-mask of Qian et al. 2021).
        seen: keys that count, of those up to the query, which is always among them: bool (B, N, N).
        alibi: l, ALiBi's slopes (Press et al. 2022), which are not learned: float (H).
        apart: which vector of ``distance`` is r, where their places don't say: int16 (B, N, N). Of steps of
            decoding alone.
    """

    content_bias: Tensor | None = None
    position_bias: Tensor | None = None
    distance: Tensor | None = None
    table: Tensor | None = None
    tape: Tensor | None = None
    slopes: Tensor | None = None
    open: Tensor | None = None
    fixed: Tensor | None = None
    innermost: Tensor | None = None
    seen: Tensor | None = None
    alibi: Tensor | None = None
    apart: Tensor | None = None

    def of_blocks(self) -> list[Tensor | None]:
        """What :mod:`pdtools.models.kernels.block_attention` computes itself, in order."""
        return [term for name, term in self._asdict().items() if name not in ("alibi", "apart")]
