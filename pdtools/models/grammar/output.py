"""The actions that may follow a prefix, and the output layer, in parts that are allowed as a whole.

So there are no masks over the vocabulary.

Shapes: R prefixes, D numbers of a hidden state, V tokens, S openers and closers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pdtools.models.kernels.decoding import blocks_of, logsumexp, product
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

    In-order: after the start a token; after it and after closers an opener; while something is open tokens
    and the closer; FINISH once nothing is.

    Args:
        prefix: S of them, not at the end.
        ids: numbers of actions.
        start: the start token's number.
        max_open: the most constituents that are open at once.
    """
    last, n_open, label = prefix
    is_start = last == start
    is_opener = (last >= ids.tokens) & (last < ids.first_closer)
    if ids.in_order:
        opens = ~is_start & ~is_opener & (n_open < max_open)
        finishes = (n_open == 0) & (last == ids.first_closer)
        closers = torch.stack([n_open > 0, finishes], 1)
        structure = torch.cat([opens[:, None].expand(-1, ids.labels), closers], 1)
        return Allowed(structure, is_start | (n_open > 0), ~is_start & (last < ids.tokens))
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


def ending(n_open: Tensor, ids: ActionIds) -> Tensor:
    """The openers and closers that would end the string: closers of the last open constituent, or word.

    In-order it is FINISH.

    Args:
        n_open: int64 (S,).
        ids: numbers of actions.

    Returns:
        bool (S, labels + closers).
    """
    column = torch.arange(ids.labels + ids.closers, device=n_open.device)
    if ids.in_order:
        return (column == column[-1]).expand(len(n_open), -1)
    is_closer = column >= ids.labels
    return is_closer & (n_open == 1)[:, None]


def fitting(n_open: Tensor, ends: Tensor, ids: ActionIds) -> Tensor:
    """The openers and closers that fit a string: without its end while tokens follow; then closers.

    In-order also openers.

    Args:
        n_open: int64 (S,).
        ends: bool (S or 1,), whether no token follows.
        ids: numbers of actions.

    Returns:
        bool (S, labels + closers).
    """
    may_end = torch.arange(ids.labels + ids.closers, device=n_open.device) >= ids.labels
    return torch.where(ends[:, None], may_end | ids.in_order, ~ending(n_open, ids))


@torch.no_grad()
def rule_out_tokens(logits: Tensor, may: Allowed, continuing: Tensor, special: Sequence[int]) -> None:
    """Make logits (S, V or more) -inf, in place, for tokens that are not allowed.

    Args:
        logits: fresh ones; no gradient comes back from what is ruled out.
        may: the actions allowed after S prefixes.
        continuing: bool (V,), tokens that continue a word.
        special: tokens that are never generated.
    """
    logits = logits.detach()
    logits[:, special] = -torch.inf
    for rows, tokens in ((~may.continuing, continuing), (~may.tokens, ~continuing)):
        # Added, which is faster than a mask (S, V).
        row = torch.nonzero(rows)[:, 0]
        if len(row) and bool(tokens.any()):
            never = torch.where(tokens, -torch.inf, 0.0).to(logits.dtype)
            logits[:, : len(continuing)].index_add_(0, row, never.expand(len(row), -1))


class Linear(NamedTuple):
    """Rows of an output layer: weight (A, D), bias (A,)."""

    weight: Tensor
    bias: Tensor | None

    def rows(self, which: Tensor | slice) -> Linear:
        """Some of its rows."""
        return Linear(self.weight[which], None if self.bias is None else self.bias[which])

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits float (R, A)."""
        return product(hidden, self.weight, self.bias).float()

    def sums(self, hidden: Tensor) -> Tensor:
        """Logarithms of the sums of exp of the logits, in blocks of rows: float (R,)."""
        blocks = blocks_of(len(hidden), len(self.weight), hidden.device)
        return torch.cat([logsumexp(self.logits(hidden[rows])) for rows in blocks])


class OutputLayer(NamedTuple):
    """An output layer and copies of its parts.

    Attributes:
        whole: all of it, tokens first.
        structure: openers and closers.
        beginning, continuing: tokens that begin a word, and the others; special tokens are in neither.
        begins, continues: bool (V,), which tokens are in these.
    """

    whole: Linear
    structure: Linear
    beginning: Linear
    continuing: Linear
    begins: Tensor
    continues: Tensor

    @classmethod
    def of(cls, whole: Linear, begins: Tensor, continues: Tensor) -> OutputLayer:
        """The parts of a layer.

        Args:
            whole: (V + S, D).
            begins, continues: see the attributes.
        """
        structure = whole.rows(slice(len(begins), None))
        beginning, continuing = (whole.rows(torch.nonzero(of)[:, 0]) for of in (begins, continues))
        return cls(whole, structure, beginning, continuing, begins, continues)

    def logprobs(self, hidden: Tensor, may: Allowed, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of structure and of one token for each prefix, over the allowed actions.

        Args:
            hidden: (R, D).
            may: the actions allowed after R prefixes.
            tokens: int64 (R,).

        Returns:
            float (R, S) and (R,), nats; -inf if not allowed.
        """
        structure = self.structure.logits(hidden).masked_fill(~may.structure, -torch.inf)
        sums = torch.stack([structure.logsumexp(1), *hidden.new_full((2, len(hidden)), -torch.inf).float()])
        for part, place, allowed in ((self.beginning, 1, may.tokens), (self.continuing, 2, may.continuing)):
            rows = torch.nonzero(allowed)[:, 0]
            if len(rows) and len(part.weight):
                sums[place, rows] = part.sums(hidden[rows])
        total = sums.logsumexp(0)  # (R,)
        chosen = self.whole.rows(tokens)
        logit = (hidden.float() * chosen.weight.float()).sum(1)
        if chosen.bias is not None:
            logit = logit + chosen.bias.float()
        # Rounded as the logits in the total are: else in bfloat16 what is nearly certain would be above 1.
        logit = logit.to(hidden.dtype).float()
        fits = (self.begins[tokens] & may.tokens) | (self.continues[tokens] & may.continuing)
        return structure - total[:, None], logit.masked_fill(~fits, -torch.inf) - total
