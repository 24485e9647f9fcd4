"""The actions that may follow a prefix."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pdtools.trees.actions import ActionIds
from pdtools.trees.arc_standard import ArcIds


class Prefix(NamedTuple):
    """The state that the next action depends on, besides the model: tensors of one shape (S,).

    Attributes:
        last: int64, the last action.
        n_open: int, constituents open after it; for arcs, words on the stack.
        label: int64, the innermost one's label; any value if none is open.
    """

    last: Tensor
    n_open: Tensor
    label: Tensor


class Allowed(NamedTuple):
    """The actions that may follow prefixes, whatever the rest of the string.

    Attributes:
        structure: bool (S, labels + closers).
        tokens: bool (S,), whether a token may; for arcs, one that begins a word.
        continuing: bool (S,), whether a token that continues a word may.
    """

    structure: Tensor
    tokens: Tensor
    continuing: Tensor


def allowed(prefix: Prefix, ids: ActionIds, start: int, max_open: int) -> Allowed:
    """The allowed actions: after the start an opener; after an opener another or a token; then also closers.

    Args:
        prefix: S of them, not at the end.
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


def allowed_transitions(prefix: Prefix, ids: ArcIds, start: int, max_open: int) -> Allowed:
    """The arc-standard actions that may follow: arcs between two words, pop_root of a single one, tokens.

    Args:
        prefix: S of them, not after pop_root.
        ids: numbers of actions; the columns of structure are pop_root, left_arc and right_arc.
        start: the start token's number.
        max_open: the most words on the stack.
    """
    last, n_open, _ = prefix
    arcs = n_open > 1
    structure = torch.stack([n_open == 1, arcs, arcs], 1)
    return Allowed(structure, n_open < max_open, (last < ids.tokens) & (last != start))
