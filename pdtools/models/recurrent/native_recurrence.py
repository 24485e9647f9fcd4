"""An LSTM with a nondeterministic stack over a whole sequence in C, for CPUs.

It goes row after row, so that a row's stack stays in the processor's cache: with all rows in lock-step, as
in ``recurrence.py``, each step waits for the stacks of all rows to come from memory.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.native import share_among_threads
from pdtools.models.recurrent.stacks import NondeterministicStack, Stack
from pdtools.models.recurrent.stacks.nondeterministic import (
    PRODUCTS_OF_A_THREAD,
    StackArguments,
    row_room,
    stack_arguments,
    stack_library,
)

# ``sequence`` in nondeterministic_stack.c, in its order.
_SIZES = ("steps", "width")
_ARRAYS = (
    *("recurrent", "recurrent_across", "action", "action_across", "action_bias"),
    *("gates", "hidden", "memory", "d_hidden", "d_inputs"),
)
# Wider controllers are faster with products of all rows at once.
WIDEST = 64
ONE_BACKWARD = "gradients of a recurrent model can be computed only once per forward pass"


def native_takes(controller: str, stack: Stack | None, width: int, device: torch.device) -> bool:
    """Return whether :func:`native_sequence` takes a controller of H = ``width`` units and this stack."""
    return (
        controller == "lstm"
        and isinstance(stack, NondeterministicStack)
        and stack.window == 0
        and width <= WIDEST
        and device.type == "cpu"
        and stack_library() is not None
    )


def native_bytes(stack: NondeterministicStack, width: int, steps: int) -> int:
    """Memory of each row in :func:`native_sequence` without gradients; there is one stack a thread."""
    kinds = stack.action_size * (1 if stack.unnormalized else 2)
    return 8 * (steps + 1) * (kinds + 2 * stack.configurations + stack.reading_size + 6 * width)


class _Arguments(ctypes.Structure):
    _fields_ = (
        ("stack", StackArguments),
        *((name, ctypes.c_long) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    )


def native_sequence(
    stack: NondeterministicStack,
    inputs: Tensor,
    recurrent: Tensor,
    action: Tensor,
    action_bias: Tensor,
    hidden: Tensor,
    memory: Tensor,
) -> Tensor:
    """Read a sequence with an LSTM and an empty stack; see :func:`.recurrence.run_sequence`.

    Inputs and outputs are of any precision; in between it is float64.

    Args:
        stack: one that :func:`native_takes`.
        inputs: (T, B, 4 H), the inputs' part of the gates; T at least 1.
        recurrent: (4 H, H + R).
        action: (A, H).
        action_bias: (A).
        hidden, memory: (B, H), at the start; they get no gradient.

    Returns:
        Hidden states (T, B, H).
    """
    keep = torch.is_grad_enabled()
    return _NativeSequence.apply(inputs, recurrent, action, action_bias, hidden, memory, stack, keep)


# Memory that the last backward pass has left for the next sequence: a step takes up to a quarter longer
# if the system gives it anew, page by page. Larger tensors than this are given back.
_spare: list[Tensor] = []
_LARGEST_SPARE = 2**28  # bytes


def _room_for(numbers: int) -> Tensor:
    """Room for this many float64 numbers, or more, with arbitrary content."""
    with contextlib.suppress(IndexError):
        spare = _spare.pop()
        if len(spare) >= numbers:
            return spare
    return torch.empty(numbers, dtype=torch.float64, device="cpu")


class _NativeSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        recurrent: Tensor,
        action: Tensor,
        action_bias: Tensor,
        hidden: Tensor,
        memory: Tensor,
        stack: NondeterministicStack,
        keep: bool,
    ) -> Tensor:
        steps, rows, gates = inputs.shape
        q, s, c, width = stack.states, stack.symbols, stack.configurations, gates // 4
        # Copies: later changes to the weights or to the output do not change the backward pass.
        weights = {
            name: weight.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
            for name, weight in (("recurrent", recurrent), ("action", action))
        }
        empty = weights["action"].new_empty
        arrays = {
            **weights,
            "gates": empty(rows, steps, gates).copy_(inputs.transpose(0, 1)),
            "hidden": empty(rows, steps + 1, width),
            "memory": empty(rows, steps + 1, width),
        }
        arrays["hidden"][:, 0] = hidden
        arrays["memory"][:, 0] = memory
        forward_only = {
            **{f"{name}_across": weight.T.contiguous() for name, weight in weights.items()},
            "action_bias": action_bias.double().contiguous(),
        }
        stacks = {
            "scaled": empty(rows, steps, stack.action_size),
            "alpha": empty(rows, steps, c),
            "inverse": empty(rows, steps, c),
            "reading": empty(rows, steps, stack.reading_size),
        }
        if not stack.unnormalized:
            stacks["weights"] = empty(rows, steps, stack.action_size)
        if keep:
            stacks["columns"] = _room_for(rows * s * steps * q * row_room(steps * c))
            stacks["all_pops"] = empty(rows * s, steps, steps, q, q)
        totals = {"total": empty(rows), "log_factor": empty(rows)}
        _call("sequence_forward", stack, {**arrays, **forward_only}, {**stacks, **totals})
        if keep:
            ctx.stack, ctx.arrays, ctx.stacks, ctx.dtype = stack, arrays, stacks, inputs.dtype
        return arrays["hidden"][:, 1:].transpose(0, 1).to(inputs.dtype, copy=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.arrays is None:
            raise RuntimeError(ONE_BACKWARD)
        stack, arrays, stacks = ctx.stack, ctx.arrays, ctx.stacks
        ctx.arrays = ctx.stacks = None
        hidden, gates = arrays["hidden"], arrays["gates"]
        arrays["d_hidden"] = d_hidden.transpose(0, 1).double().contiguous()
        arrays["d_inputs"] = d_inputs = torch.empty_like(gates)  # (B, T, 4 H)
        stacks["d_logits"] = d_actions = torch.empty_like(
            stacks["scaled"]
        )  # (B, T, A), for the readings after it
        d_actions[:, 0] = 0
        _call("sequence_backward", stack, arrays, stacks)
        if stacks["columns"].nbytes <= _LARGEST_SPARE:
            _spare[:] = [stacks["columns"]]
        before = hidden[:, :-1].flatten(0, 1)  # (B T, H)
        joined = torch.cat([before, stacks["reading"].flatten(0, 1)], 1)  # (B T, H + R)
        d_recurrent = d_inputs.flatten(0, 1).T @ joined
        d_action = d_actions.flatten(0, 1).T @ before
        found = (d_inputs.transpose(0, 1), d_recurrent, d_action, d_actions.sum((0, 1)))
        return *(each.to(ctx.dtype) for each in found), None, None, None, None


def _call(
    function: str, stack: NondeterministicStack, arrays: dict[str, Tensor], stacks: dict[str, Tensor]
) -> None:
    """Call a function of the library, each of torch's threads with some of the rows."""
    rows, steps, _ = arrays["gates"].shape
    by_row = row_room(steps * stack.configurations)
    arguments = _Arguments(
        stack=stack_arguments(
            stack,
            stacks,
            time=steps - 1,
            times=steps,
            by_matrix=steps * stack.states * by_row,
            by_row=by_row,
        ),
        steps=steps,
        width=arrays["hidden"].shape[2],
        **{name: array.data_ptr() for name, array in arrays.items()},
    )
    products = rows * stack.configurations**2 * stack.states * steps**3 // 6
    most = 1 + products // PRODUCTS_OF_A_THREAD
    share_among_threads(rows, getattr(stack_library(), function), arguments, most=most)
