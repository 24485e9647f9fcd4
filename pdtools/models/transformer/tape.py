"""The stack tape in torch: for a whole training batch at once, and step by step for a beam of hypotheses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def tape_from_attachments(attach: Tensor) -> Tensor:
    """The stack tape of every position, without a loop over positions (Murty et al. 2023, Algorithm 1).

    Token k, attached to the constituent in stack slot m, adds ``max(0, slot - m + 1)`` to the depth of every
    earlier token, its slot taken in the state after token k - 1. A token's slot is the number of constituents
    that start at or before it, less one.

    Args:
        attach: int (B, N); ``attach[b, k] == k`` is a shift (padding: shifts). Attachments must be legal.

    Returns:
        int16 (B, N, N): row k is W_k, the depths after token k's own reduces; zeros above the diagonal.
    """
    attach = attach.long()
    n = attach.shape[1]
    position = torch.arange(n, device=attach.device)

    # A token starts a constituent when it arrives, until it or a later token attaches to one before it.
    later = position[:, None] >= position[None, :]  # (N, N): k >= a
    swallowed = (attach[:, :, None] < position) & later  # (B, N, N)
    is_start = (swallowed.cumsum(1, dtype=torch.int16) == 0) & later  # (B, N, N)
    slots = is_start.cumsum(2, dtype=torch.int16) - 1  # (B, N, N): slot of token j in the state after token k

    # Row k: the state before token k. Token k itself counts with the top of the stack.
    before = slots.roll(1, dims=1)  # (B, N, N)
    slot = before.gather(2, attach[:, :, None])  # (B, N, 1): m
    attached = (attach != position)[:, :, None] & later  # (B, N, N)
    reduces = (before - slot + 1).clamp(min=0).masked_fill(~attached, 0)  # (B, N, N)
    return reduces.cumsum(1, dtype=torch.int16).masked_fill(~later, 0)


def legal_attachments(tape: Tensor, roots: Tensor | None = None) -> Tensor:
    """Return the tokens that each token may attach to.

    Token j < k is a candidate if it is the last token of a constituent in the state after token k - 1: then,
    and only then, it still has the depth that it had when it arrived. In the sentence layout ROOT is none
    (only EOS attaches to it, with probability 1); in windows the ROOT of the token's own sentence is, and
    nothing before it, so that a ROOT can only shift. k itself, the shift, always is one.

    Args:
        tape: int16 (B, N, N) from :func:`tape_from_attachments`.
        roots: bool (B, N), in windows True for ROOTs; None: rows are sentences.

    Returns:
        bool (B, N, N): ``legal[b, k, j]``.
    """
    n = tape.shape[1]
    legal = torch.eye(n, dtype=torch.bool, device=tape.device).repeat(tape.shape[0], 1, 1)  # (B, N, N)
    arrival = tape.diagonal(dim1=1, dim2=2)  # (B, N): W_j[j]
    unchanged = tape[:, :-1] == arrival[:, None, :]  # (B, N - 1, N)
    legal[:, 1:] |= unchanged.tril()
    if roots is None:
        legal[:, 1:, 0] = False
        return legal
    position = torch.arange(n, device=tape.device)
    root = (position * roots).cummax(1).values  # (B, N): the ROOT that each token is under
    return legal & (position >= root[:, :, None])


def open_tokens_after(tape: Tensor, seen: Tensor | None = None) -> Tensor:
    """Count the tokens after each one in no constituent with others yet: the words on the stack above it.

    Args:
        tape: int (…, K), rows W_k; depth 0 is a token by itself.
        seen: bool, broadcastable to the tape: existing cells (not above the diagonal); None: all.

    Returns:
        int16 (…, K).
    """
    is_open = tape == 0
    if seen is not None:
        is_open = is_open & seen
    counts = is_open.flip(-1).cumsum(-1, dtype=torch.int16).flip(-1)
    return counts - is_open.to(torch.int16)


@dataclass
class StackState:
    """The stacks of R hypotheses in lock-step, as integer tensors; position 0 is ROOT, already shifted.

    Attributes:
        position: k, the last token that was pushed.
        slots: int16 (R, length), the stack slot of every token up to k.
        depths: int16 (R, length), W_k.
        height: int16 (R,), constituents on the stack, ROOT's included.
        root: int64 (R,), in windows the last ROOT, which tokens may attach to; None: rows are sentences.
    """

    position: int
    slots: Tensor
    depths: Tensor
    height: Tensor
    root: Tensor | None = None

    @classmethod
    def start(
        cls, rows: int, length: int, device: torch.device | str = "cpu", *, windows: bool = False
    ) -> StackState:
        """Return stacks that hold only ROOT, with room for ``length`` positions."""
        zeros = torch.zeros(rows, length, dtype=torch.int16, device=device)
        height = torch.ones(rows, dtype=torch.int16, device=device)
        root = torch.zeros(rows, dtype=torch.int64, device=device) if windows else None
        return cls(position=0, slots=zeros, depths=zeros.clone(), height=height, root=root)

    def tape_row(self) -> Tensor:
        """The row W_k of the tape: int16 (R, k + 1)."""
        return self.depths[:, : self.position + 1]

    def legal(self) -> Tensor:
        """Legal attachments of token k + 1, no ROOT: bool (R, k + 2), the shift last."""
        end = self.position + 1
        legal = torch.ones(len(self.slots), end + 1, dtype=torch.bool, device=self.slots.device)  # (R, k + 2)
        legal[:, : end - 1] = self.slots[:, : end - 1] != self.slots[:, 1:end]
        if self.root is None:
            legal[:, 0] = False
            return legal
        return legal & (torch.arange(end + 1, device=self.slots.device) >= self.root[:, None])

    def push(self, attach: Tensor) -> None:
        """Advance to token k + 1 (Algorithm 1), attached to ``attach``: int64 (R,); k + 1 is a shift."""
        self.position += 1
        k = self.position
        shifts = attach == k  # (R,)
        self.slots[:, k] = torch.where(shifts, self.height, self.height - 1)
        slot = self.slots.gather(1, attach[:, None])  # (R, 1): m; its own slot for a shift
        slots = self.slots[:, : k + 1]  # (R, k + 1)
        reduces = (slots - slot + 1).clamp(min=0).masked_fill(shifts[:, None], 0)  # (R, k + 1)
        self.depths[:, : k + 1] += reduces
        self.slots[:, : k + 1] = torch.minimum(slots, slot)
        self.height = slot[:, 0] + 1

    def begin(self, roots: Tensor) -> None:
        """Note the hypotheses whose last token was a ROOT, which begins a sentence: bool (R,)."""
        assert self.root is not None
        self.root = torch.where(roots, self.position, self.root)

    def select(self, rows: Tensor) -> StackState:
        """Return a new state whose hypotheses are copies of the given ones (int64 (R',))."""
        return StackState(
            position=self.position,
            slots=self.slots[rows],
            depths=self.depths[rows],
            height=self.height[rows],
            root=None if self.root is None else self.root[rows],
        )
