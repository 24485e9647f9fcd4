"""Stack attention (Li et al. 2024, section 3.2): where the top of a stack is, as attention over tokens.

Every position pushes itself, pops or does nothing, each with a probability; α_i(j) is the probability that
after position i the token at j is the top of the stack, position 0 standing for the empty stack. Rows depend
on all rows before them, so they are computed one after the other; nothing else is.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdtools.models.cache import Past

PUSH, POP, NO_OP = range(3)

# Rows whose gradients are gathered from all later rows by one product.
GATHERED_ROWS = 16


def stack_attention(actions: Tensor) -> Tensor:
    """The tops of the stacks, equations 19 to 23.

    Args:
        actions: float (B, N, 3), probabilities of push, pop and no-op. Those at position 0 are not used.

    Returns:
        float (B, N, N): row i is α_i, zero above the diagonal. It can be differentiated once.
    """
    return _StackAttention.apply(actions)


class _StackAttention(torch.autograd.Function):
    """α_i = Σ_k c_i(k) α_{k-1} + push_i [i], with α_{-1} = α_0 for the empty stack.

    The coefficients are c_i(k) = pop_i α_{i-1}(k) for k < i, as a pop goes back to what was there before the
    top was pushed, and c_i(i) = no-op_i. So a row is one product of a vector with all rows before it.
    """

    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        batch, n, _ = actions.shape
        push, _, no_op = actions.unbind(-1)  # (B, N) each
        pops = actions[..., POP, None].unbind(1)  # N of (B, 1)
        below = actions.new_zeros(batch, n + 1, n)  # row k is α_{k-1}: what is left when k is popped
        below[:, :2, 0] = 1
        below[:, 2:].diagonal(1, 1, 2).copy_(push[:, 1:])
        coefficients = actions.new_zeros(batch, n, n)
        coefficients.diagonal(0, 1, 2).copy_(no_op)
        last = below[:, 1, :1]  # α_{i-1}
        # Products have a row vector on the left and rows as they lie in memory on the right, and no output
        # in place: whatever else there is to choose from takes several times as long on a CPU.
        for i in range(1, n):
            row = coefficients[:, i, : i + 1]  # (B, i + 1)
            torch.mul(last, pops[i], out=row[:, :i])
            last = below[:, i + 1, : i + 1]
            last[:, :i] = torch.bmm(row[:, None], below[:, : i + 1, :i])[:, 0]
        ctx.save_for_backward(actions, below, coefficients)
        return below[:, 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Row by row from the last: first a row's gradient is complete, then what its coefficients get of it.

        A row is used in two ways. In other rows' sums: those gradients are gathered with the column of its
        coefficients, for the rows after a block by one product for the whole block. And as coefficients of
        the next row.
        """
        actions, below, coefficients = ctx.saved_tensors
        n = actions.shape[1]
        pops = actions[..., POP, None].unbind(1)
        uses = F.pad(coefficients, (0, 1)).transpose(1, 2).contiguous()  # (B, N + 1, N): row k is c(k)
        tops = below[:, :n].transpose(1, 2).contiguous()  # (B, N, N): column k is α_{k-1}
        rows = grad.tril()  # (B, N, N), to be completed
        by_coefficient = torch.zeros_like(rows)  # row i: the gradient of c_i
        first, following = n, None
        for i in range(n - 1, 0, -1):
            if i < first:
                end, first = first, max(1, i + 1 - GATHERED_ROWS)
                # Above the diagonal this leaves numbers that are nobody's gradients, and that nobody reads.
                rows[:, first:end, :end] += uses[:, first + 1 : end + 1, end:] @ rows[:, end:, :end]
            row = rows[:, i, : i + 1]  # (B, i + 1)
            if i + 1 < end:
                used = uses[:, i + 1, None, i + 1 : end]  # (B, 1, end - i - 1)
                row += torch.bmm(used, rows[:, i + 1 : end, : i + 1])[:, 0]
            if following is not None:
                row.addcmul_(following, pops[i + 1])
            following = by_coefficient[:, i, :i]
            following.copy_(torch.bmm(row[:, None, :i], tops[:, :i, :i])[:, 0])
        previous = below[:, :n]  # (B, N, N): row i is α_{i-1}
        grad_push = rows.diagonal(0, 1, 2)
        grad_pop = (previous * by_coefficient).sum(-1)
        grad_no_op = (previous * rows).sum(-1)
        by_action = torch.stack([grad_push, grad_pop, grad_no_op], -1)  # (B, N, 3)
        by_action[:, 0] = 0
        return by_action


class StackAttention(nn.Module):
    """The sub-layer S: from hidden states to those at the tops of the stacks, equation 25."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.actions = nn.Linear(d_model, 3)

    def forward(self, x: Tensor, cache: StackCache | None = None) -> Tensor:
        """(B, N, D) to (B, N, D); with a cache, the next position of every hypothesis (R, 1, D)."""
        if cache is None:
            return self.attention(x).to(x.dtype) @ x
        return cache.step(x[:, 0], self.probabilities(x)[:, 0])[:, None]

    def probabilities(self, x: Tensor) -> Tensor:
        """Of push, pop and no-op, equation 24: (B, N, 3), in at least single precision."""
        scores = self.actions(x)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def attention(self, x: Tensor) -> Tensor:
        """α, (B, N, N), in at least single precision."""
        actions = self.probabilities(x)
        # Rows are sums of products of many probabilities: mixed precision stops here.
        with torch.autocast(x.device.type, enabled=False):
            return stack_attention(actions)


class StackCache:
    """α of every token that hypotheses have read, beside the hidden state at the top: (entries, length + D).

    The hidden state Σ_n α_i(n) h_n follows the same recurrence as α_i, so the two are one vector.

    Args:
        past: the hypotheses.
        length: the most tokens of one hypothesis.
        d_model: D.
    """

    def __init__(self, past: Past, length: int, d_model: int) -> None:
        self._past = past
        self._length = length
        self._cache = past.cache(length + d_model)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._cache.values.nbytes

    def step(self, x: Tensor, actions: Tensor) -> Tensor:
        """Take the next position in.

        Args:
            x: (R, D), its hidden states.
            actions: (R, 3), the probabilities of its actions.

        Returns:
            (R, D), the hidden states at the tops of the stacks.
        """
        position = self._past.entries.shape[1] - 1
        own = x.new_zeros(len(x), self._length)
        own[:, position] = 1
        new = torch.cat([own, x], dim=1)  # (R, length + D): the top after a push
        if position > 0:
            push, pop, no_op = actions.to(x.dtype).split(1, dim=1)  # (R, 1) each
            blocks = []
            for rows in self._cache.blocks():
                read = self._cache.read(rows)[:, :position]  # (r, k, length + D): α_0, …, α_{k-1}
                top = read[:, -1]  # (r, length + D)
                # A pop of token j leaves α_{j-1}, and of the empty stack α_0.
                weights = F.pad(top[:, 1:position], (0, 1))  # (r, k)
                weights[:, 0] += top[:, 0]
                popped = torch.bmm(weights[:, None], read)[:, 0]  # (r, length + D)
                blocks.append(push[rows] * new[rows] + pop[rows] * popped + no_op[rows] * top)
            new = torch.cat(blocks)
        self._cache.write(new)
        return new[:, self._length :]
