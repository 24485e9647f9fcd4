"""What a position may see of the actions before it, and which action may follow it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pdtools.models.grammar.actions import ActionIds
from pdtools.models.grammar.batch import ActionBatch


def stack_mask(batch: ActionBatch, ids: ActionIds) -> Tensor:
    """What is on the stack (Sartran et al. 2022, section 3.2): bool (B, 1, N, N).

    A COMPOSE sees what it takes off the stack; whoever else what stays on it. Both see themselves.
    """
    pop, n = batch.pop, batch.pop.shape[1]
    position = torch.arange(n, device=pop.device)
    is_compose = (batch.tokens >= ids.first_closer) & (pop != position)  # (B, N)
    until = position[:, None]  # (N, 1), the query
    popped = torch.where(is_compose[:, :, None], pop[:, None] == until, pop[:, None] > until)  # (B, N, N)
    return ((popped & (until > position)) | (until == position))[:, None]


def constituent_mask(innermost: Tensor, heads: int) -> Tensor:
    """PLM-mask (Qian et al. 2021, section 3.2): of two heads one sees what is before the innermost open
    constituent, the other what is in it; the rest, and all where none is open, see all before: bool (B, H,
    N, N).

    Args:
        innermost: int (B, N), its opener; -1 for none.
        heads: H.
    """
    position = torch.arange(innermost.shape[1], device=innermost.device)
    causal = position[:, None] >= position  # (N, N)
    inside = position >= innermost[:, :, None]  # (B, N, N)
    before = ~inside | (innermost < 0)[:, :, None]
    return (
        torch.stack([before & causal, inside & causal], 1).expand(-1, 2, -1, -1)
        if heads == 2
        else torch.cat(
            [
                torch.stack([before & causal, inside & causal], 1),
                causal.expand(len(innermost), heads - 2, -1, -1),
            ],
            1,
        )
    )


class Prefix(NamedTuple):
    """What the next action depends on, beside the model: tensors of one shape (S,).

    Attributes:
        last: int64, the last action.
        n_open: int, constituents that are open after it.
        label: int64, of the innermost one of them; anything where none is open.
    """

    last: Tensor
    n_open: Tensor
    label: Tensor


class Allowed(NamedTuple):
    """Which actions may follow prefixes; never a question of what the string goes on with.

    Attributes:
        structure: bool (S, labels + closers).
        tokens: bool (S,), whether a token may.
        continuing: bool (S,), whether one may that continues a word.
    """

    structure: Tensor
    tokens: Tensor
    continuing: Tensor


def allowed(prefix: Prefix, ids: ActionIds, start: int, max_open: int) -> Allowed:
    """What may follow: after the start an opener; after an opener another or a token; then also a closer.

    Args:
        prefix: S of them, nothing after the end.
        ids: numbers of actions.
        start: the start token's number.
        max_open: the most constituents that are open at once.
    """
    last, n_open, label = prefix
    is_start = last == start
    is_opener = (last >= ids.tokens) & (last < ids.first_closer)
    may_open = (n_open < max_open) & (is_start | (n_open > 0))
    may_close = ~is_opener & (n_open > 0)
    closers = may_close[:, None]
    if ids.typed:
        closers = closers & (label[:, None] == torch.arange(ids.labels, device=last.device))
    structure = torch.cat([may_open[:, None].expand(-1, ids.labels), closers], 1)
    return Allowed(structure, n_open > 0, (last < ids.tokens) & ~is_start)
