"""Stack attention (Li et al. 2024, section 3.2): the position of a stack's top, as attention over tokens.

Every position pushes itself, pops or does nothing, each with a probability; α_i(j) is the probability that
after position i the token at j is the top of the stack, position 0 standing for the empty stack. Rows depend
on all rows before them, so they are computed one after the other; nothing else is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdtools.models import kernels
from pdtools.models.kernels.native import native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees, with_gradients
from pdtools.models.transformer.cache import Past

# The longest rows that the fused kernels take.
MOST_FUSED = 1024

# Rows whose gradients are gathered by one product, from all rows that are later than the last by NEAR_ROWS:
# those are gathered one by one, and torch's products of a few rows are slow.
GATHERED_ROWS = 16
NEAR_ROWS = 5


def stack_attention(actions: Tensor) -> Tensor:
    """Return the distributions of the stacks' tops, eq. 19 to 23.

    Args:
        actions: float (B, N, 3), probabilities of push, pop and no-op. Position 0's are not used.

    Returns:
        float (B, N, N): row i is α_i, zero above the diagonal. It can be differentiated once.
    """
    if actions.device.type == "cpu" and _native_works(actions.dtype):
        return native_stack_attention(actions)
    if actions.is_cuda and actions.dtype == torch.float32 and fused_takes(actions.device, actions.shape[1]):
        from pdtools.models.kernels.fused_stack_attention import fused_stack_attention

        return fused_stack_attention(actions)
    return stepwise_stack_attention(actions)


def fused_takes(device: torch.device, n: int) -> bool:
    """Return whether the fused kernels take rows of n positions, and work on a device."""
    return n <= MOST_FUSED and _fused_works(device)


@cache
def _native_works(dtype: torch.dtype) -> bool:
    """Return whether the functions in C agree with torch's operations: tried once, which takes some 10 ms."""
    if dtype not in (torch.float32, torch.float64) or stack_library(dtype) is None:
        return False
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    pairs = partial(_pairs, form=lambda: native_stack_attention, n=30, dtype=dtype)
    return agrees(pairs, "stack attention is", "in C", tolerance=tolerance)


@cache
def _fused_works(device: torch.device) -> bool:
    """Return whether the fused kernels work: tried once."""

    def form() -> Callable[[Tensor], Tensor]:
        from pdtools.models.kernels.fused_stack_attention import fused_stack_attention

        return fused_stack_attention

    pairs = partial(_pairs, form=form, n=150, dtype=torch.float32, device=device)
    return agrees(pairs, "stack attention is", "with fused kernels", tolerance=1e-3, device=device.type)


def _pairs(
    random: torch.Generator,
    *,
    form: Callable[[], Callable[[Tensor], Tensor]],
    n: int,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[Tensor, Tensor]]:
    scores = torch.randn(3, n, 3, generator=random, dtype=dtype).to(device)
    weight = torch.randn(3, n, n, generator=random, dtype=dtype).to(device)
    actions = scores.softmax(-1).requires_grad_()
    both = (each(actions) for each in (form(), stepwise_stack_attention))
    yield from zip(*(with_gradients(rows, weight, [actions]) for rows in both), strict=True)


def stepwise_stack_attention(actions: Tensor) -> Tensor:
    """Compute :func:`stack_attention` in torch's own operations, on any device."""
    return _StackAttention.apply(actions)


class _StackAttention(torch.autograd.Function):
    """α_i = Σ_k c_i(k) α_{k-1} + push_i [i], with α_{-1} = α_0 for the empty stack.

    The coefficients are c_i(k) = pop_i α_{i-1}(k) for k < i, as a pop goes back to the state before the
    top was pushed, and c_i(i) = no-op_i. So a row is one product of a vector with all rows before it.

    Arrays computed in every step have rows first, so that a product can be added to a row in place:
    rows are of full length for that, though most of it is zero. On a CPU the number of calls counts.
    """

    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        batch, n, _ = actions.shape
        push, pop, no_op = actions.permute(2, 1, 0).contiguous()  # (N, B) each
        below = actions.new_zeros(n + 1, batch, n)  # row k is α_{k-1}: the state after k is popped
        below[:2, :, 0] = 1
        below[2:].diagonal(1, 0, 2).copy_(push[1:].T)
        coefficients = actions.new_zeros(n, batch, n)
        coefficients.diagonal(0, 0, 2).copy_(no_op.T)
        last, pops, row = below.unbind(0), pop[..., None].unbind(0), coefficients.unbind(0)
        new, vector = below[:, :, None].unbind(0), coefficients[:, :, None].unbind(0)  # (B, 1, N) each
        before = below.transpose(0, 1)  # (B, N + 1, N)
        for i in range(1, n):
            torch.mul(last[i].narrow(1, 0, i), pops[i], out=row[i].narrow(1, 0, i))
            new[i + 1].baddbmm_(vector[i].narrow(2, 0, i + 1), before.narrow(1, 0, i + 1))
        ctx.save_for_backward(pop, below, coefficients)
        return before[:, 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Compute gradients: g_i of rows, from the last to the first, and from them the actions'.

        A row is used in two ways. In the sums of later rows: g_i gets those rows' gradients times the column
        of its coefficients, c_{i'}(i + 1); for all rows after a block that is one product for the block. And
        as coefficients of the next row: g_i gets pop_{i+1} times the products of g_{i+1} with earlier rows.

        Above the diagonal are numbers that are no gradients: they meet zeros only.
        """
        pop, below, coefficients = ctx.saved_tensors
        n = len(pop)
        gradients = grad.transpose(0, 1).contiguous()  # (N, B, N)
        uses = coefficients.permute(2, 1, 0).contiguous()  # (N, B, N): row k is the column c(k)
        previous = below[:n].transpose(0, 1)  # (B, N, N): row i is α_{i-1}
        tops = previous.transpose(1, 2).contiguous()  # (B, N, N): column i is α_{i-1}
        whole, pops = gradients.unbind(0), pop[..., None].unbind(0)
        row, column = gradients[:, :, None].unbind(0), uses[:, :, None].unbind(0)  # (B, 1, N) each
        rows, columns = gradients.transpose(0, 1), uses.transpose(0, 1)  # (B, N, N) each
        scaled = torch.empty_like(row[0])  # (B, 1, N)
        first = n
        for i in range(n - 1, 0, -1):
            if i < first:
                end, first = first, max(1, i + 1 - GATHERED_ROWS)
                far = min(end + NEAR_ROWS, n)
                if far < n:
                    rows[:, first:end, :end] += columns[:, first + 1 : end + 1, far:] @ rows[:, far:, :end]
            if i + 1 < n:
                near = far - (i + 1)
                row[i].baddbmm_(column[i + 1].narrow(2, i + 1, near), rows.narrow(1, i + 1, near))
                torch.mul(whole[i + 1], pops[i + 1], out=scaled[:, 0])
                row[i].baddbmm_(scaled.narrow(2, 0, i + 1), tops.narrow(1, 0, i + 1))
        grad_push = rows.diagonal(0, 1, 2)  # (B, N)
        grad_pop = (rows * (previous @ previous)).sum(-1)
        grad_no_op = (rows * previous).sum(-1)
        by_action = torch.stack([grad_push, grad_pop, grad_no_op], -1)  # (B, N, 3)
        by_action[:, 0] = 0
        return by_action


# --- in C -------------------------------------------------------------------------------------

_LANES = 16  # as in stack_attention.c: rows begin at multiples of it


def stack_library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """Return the compiled functions for float32 or float64; None if they cannot be compiled."""
    options = ["-DDOUBLE"] if dtype == torch.float64 else []
    return native_library(kernels.__name__, "stack_attention", ("forward", "backward"), *options)


def native_stack_attention(actions: Tensor) -> Tensor:
    """Compute :func:`stack_attention` in C: its many small steps cost torch more than their numbers."""
    return _NativeStackAttention.apply(actions)


class _NativeStackAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, actions: Tensor) -> Tensor:
        actions = actions.contiguous()
        batch, n, _ = actions.shape
        rows = actions.new_zeros(batch, n, -(-n // _LANES) * _LANES)
        _call("forward", actions, rows)
        ctx.save_for_backward(actions, rows)
        return rows[..., :n]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        actions, rows = ctx.saved_tensors
        by_row = torch.zeros_like(rows)
        by_row[..., : rows.shape[1]] = grad
        by_action = torch.empty_like(actions)
        _call("backward", actions, rows, by_row, by_action)
        return by_action


def _call(name: str, *arrays: Tensor) -> None:
    """Call a function on arrays (B, N, …); the second has rows of a multiple of ``_LANES`` numbers."""
    batch, n, size = arrays[1].shape
    function = getattr(stack_library(arrays[0].dtype), name)
    share_among_threads(batch if n else 0, function, n, size, *arrays)


# --- in a model -------------------------------------------------------------------------------


class StackAttention(nn.Module):
    """The sub-layer S: from hidden states to the states at the tops of the stacks, eq. 25."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.actions = nn.Linear(d_model, 3)

    def forward(self, x: Tensor, cache: StackCache | None = None) -> Tensor:
        """Map (B, N, D) to (B, N, D); with a cache, the next position of every hypothesis (R, 1, D)."""
        if cache is None:
            return self.attention(x).to(x.dtype) @ x
        return cache.step(x[:, 0], self.probabilities(x)[:, 0])[:, None]

    def probabilities(self, x: Tensor) -> Tensor:
        """The probabilities of push, pop and no-op, eq. 24: (B, N, 3), in at least single precision."""
        scores = self.actions(x)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def attention(self, x: Tensor) -> Tensor:
        """The distributions α, (B, N, N), in at least single precision."""
        actions = self.probabilities(x)
        # Rows are sums of products of many probabilities: mixed precision stops here.
        with torch.autocast(x.device.type, enabled=False):
            return stack_attention(actions)


class StackCache:
    """A cache of α of every token read, beside the hidden state at the top: (entries, length + D).

    The hidden state Σ_n α_i(n) h_n follows the same recurrence as α_i, so the two are one vector, in at least
    single precision: errors of a row go on to all rows after it.

    Args:
        past: the hypotheses.
        length: the maximal number of tokens of one hypothesis.
        like: (…, D), a tensor with the D and dtype of hidden states.
    """

    def __init__(self, past: Past, length: int, like: Tensor) -> None:
        self._past = past
        self._length = length
        self._cache = past.cache(length + like.shape[-1], torch.promote_types(like.dtype, torch.float32))

    def step(self, x: Tensor, actions: Tensor) -> Tensor:
        """Take in the next position.

        Args:
            x: (R, D), its hidden states.
            actions: (R, 3), the probabilities of its actions, in at least single precision.

        Returns:
            (R, D), the hidden states at the tops of the stacks.
        """
        position = self._past.entries.shape[1] - 1
        own = self._cache.values.new_zeros(len(x), self._length)
        own[:, position] = 1
        new = torch.cat([own, x.to(own.dtype)], dim=1)  # (R, length + D): the top after a push
        if position > 0:
            push, pop, no_op = actions.split(1, dim=1)  # (R, 1) each
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
        return new[:, self._length :].to(x.dtype)
