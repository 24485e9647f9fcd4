"""Stack attention as its equations stand (Li et al. 2024, 19 to 23): a list of rows, one tensor a step.

The benchmarks compare with it, and it is an oracle of the tests.
"""

from __future__ import annotations

import torch
from torch import Tensor


def stack_attention(actions: Tensor) -> Tensor:
    """See :func:`pdtools.models.transformer.stack_attention.stack_attention`: (B, N, 3) to (B, N, N)."""
    push, pop, no_op = actions.unsqueeze(-1).unbind(2)  # (B, N, 1) each
    batch, n, _ = push.shape
    one_hot = torch.eye(n, dtype=actions.dtype, device=actions.device)
    rows = [one_hot[0].expand(batch, -1)]
    for i in range(1, n):
        previous = rows[-1]  # (B, N)
        popped = previous[:, :1] * rows[0]
        if i > 1:
            popped = popped + (previous[:, 1:i, None] * torch.stack(rows[: i - 1], dim=1)).sum(1)
        rows.append(push[:, i] * one_hot[i] + pop[:, i] * popped + no_op[:, i] * previous)
    return torch.stack(rows, dim=1)
