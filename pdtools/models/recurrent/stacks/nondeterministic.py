"""The stack of DuSell and Chiang (2020, 2022): all runs of a pushdown automaton.

The sums over runs are computed in ``nondeterministic_run.py``, and on CPUs in C: torch's products of these
small matrices leave most of a core idle.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from functools import cache

import torch
from torch import Tensor

from pdtools.models.kernels.native import OPTIONS, native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees
from pdtools.models.recurrent.stacks.base import Stack, StackCarry
from pdtools.models.recurrent.stacks.nondeterministic_run import (
    FARTHEST,
    SMALLEST,
    Automaton,
    NondeterministicRun,
    TorchNondeterministicRun,
)

# ``stack`` in nondeterministic_stack.c, in its order.
_SIZES = (
    *("states", "symbols", "time", "first", "times", "later", "next", "by_matrix", "by_row", "by_kind"),
    *("unnormalized", "states_in_reading"),
)
_FORWARD = (
    *("logits", "last_alpha", "weights", "scaled", "log_factor", "columns", "all_pops"),
    *("alpha", "inverse", "total", "reading"),
)
_BACK = ("d_reading", "d_columns", "d_alpha", "d_column", "d_logits")
FUNCTIONS = ("forward", "backward", "sequence_forward", "sequence_backward")
# Zeros behind each row, so that whole vectors of any processor can be read.
LANES = 8
# The number of products that another thread is worth starting for.
PRODUCTS_OF_A_THREAD = 2_000_000


class StackArguments(ctypes.Structure):
    """The struct ``stack`` of the C code."""

    _fields_ = (
        *((name, ctypes.c_long) for name in _SIZES),
        ("smallest", ctypes.c_double),
        ("farthest", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in (*_FORWARD, *_BACK)),
    )


def stack_arguments(stack: Automaton, tensors: Mapping[str, Tensor], **sizes: int) -> StackArguments:
    """The struct for a stack with these tensors and sizes."""
    return StackArguments(
        states=stack.states,
        symbols=stack.symbols,
        unnormalized=stack.unnormalized,
        states_in_reading=stack.states_in_reading,
        smallest=SMALLEST,
        farthest=FARTHEST,
        **sizes,
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
    )


def row_room(numbers: int) -> int:
    """The distance between beginnings of rows of numbers: room for LANES more, in whole vectors.

    The number of vectors is odd, so that beginnings of rows do not share a few sets of the cache.
    """
    return LANES * ((-(-numbers // LANES) + 1) | 1)


def stack_library() -> ctypes.CDLL | None:
    """Return the compiled functions; None if they cannot be compiled."""
    return native_library(__package__, "nondeterministic_stack", FUNCTIONS, *OPTIONS[torch.float32])


class NativeNondeterministicRun(NondeterministicRun):
    """A run of the nondeterministic stack in C, if :func:`stack_library` returns functions.

    Attributes:
        all_pops: in a run with a backward pass, γ' of all steps: [b · S + y, k, t, r, u].
    """

    all_pops: Tensor | None = None

    def _room(self, like: Tensor, rows: int, times: int) -> Tensor:
        q, s, c = self.stack.states, self.stack.symbols, self.stack.configurations
        return like.new_zeros(rows * s, times * q, row_room(times * c))[:, :, : times * c]

    def _advance(self, actions: Tensor) -> None:
        """See :class:`NondeterministicRun`."""
        stack, rows = self.stack, len(self.alpha)
        if actions.shape != (rows, stack.action_size):
            raise ValueError(f"actions must be {(rows, stack.action_size)}, not {tuple(actions.shape)}")
        if self.keep and self.all_pops is None:
            times, q = self._most, stack.states
            self.all_pops = self.alpha.new_zeros(rows * stack.symbols, times, times, q, q)
        logits = actions.double().contiguous()
        last_alpha = self.alpha.contiguous()
        empty = logits.new_empty
        self.alpha, inverse = empty(rows, stack.configurations), empty(rows, stack.configurations)
        self.total, self.log_factor = empty(rows, 1), empty(rows, 1, 1)
        reading = empty(rows, stack.reading_size)
        kept = {"scaled": torch.empty_like(logits), "alpha": self.alpha, "inverse": inverse}
        if not stack.unnormalized:
            kept["weights"] = torch.empty_like(logits)
        self._call(
            "forward",
            {
                **kept,
                "logits": logits,
                "last_alpha": last_alpha,
                "total": self.total,
                "log_factor": self.log_factor,
                "reading": reading,
            },
        )
        self.reading = reading.to(self.dtype)
        if self.keep:
            self._kept.append(kept)

    def prepare_backward(self) -> None:
        """See :meth:`StackRun.prepare_backward`."""
        rows, c = len(self.alpha), self.stack.configurations
        self._last = self.time
        self._d_columns = self._room(self.columns, rows, self._most)
        self._d_alpha = self.columns.new_zeros(rows, self._most * c)
        # The gradient of P[· → t], left by the step after it.
        self._d_column = self.columns.new_empty(rows, c, row_room(self._most * c))
        self._next = 0

    def _retreat(self, d_reading: Tensor) -> Tensor:
        """See :class:`NondeterministicRun`."""
        window, kept = self.stack.window, self._kept.pop()
        readings = (len(self.alpha), self.stack.reading_size)
        if d_reading.shape != readings:
            raise ValueError(f"gradients of readings must be {readings}, not {tuple(d_reading.shape)}")
        d_logits = torch.empty_like(kept["scaled"])
        self._call(
            "backward",
            {
                **kept,
                "d_reading": d_reading.double().contiguous(),
                "d_columns": self._d_columns,
                "d_alpha": self._d_alpha,
                "d_column": self._d_column,
                "d_logits": d_logits,
            },
            # Later times whose pops may have read P[· → t].
            later=1 + (min(self._last, self.time - 1 + window) if window else self._last),
            next=self._next,
            by_kind=self._d_column.shape[2],
        )
        self._next = self.time - 1 - self._first_of(self.time)
        return d_logits.to(self.dtype)

    def select(self, rows: Tensor) -> None:
        """See :meth:`StackRun.select`."""
        columns = self.columns
        self.columns = columns.as_strided((*columns.shape[:2], columns.stride(1)), columns.stride())
        super().select(rows)
        self.columns = self.columns[:, :, : columns.shape[2]]

    def _call(self, function: str, tensors: dict[str, Tensor], **sizes: int) -> None:
        """Call a function of the library, each of torch's threads with some of the rows."""
        tensors["columns"] = self.columns
        if self.all_pops is not None:
            tensors["all_pops"] = self.all_pops
        arguments = stack_arguments(
            self.stack,
            tensors,
            time=self.time,
            first=self._first_of(self.time),
            times=self._most,
            by_matrix=self.columns.stride(0),
            by_row=self.columns.stride(1),
            **sizes,
        )
        # A step is short: starting a thread takes as long as a million products.
        rows, span = len(self.alpha), self.time - self._first_of(self.time)
        products = rows * self.stack.configurations**2 * self.stack.states * span**2 // 2
        most = 1 + products // PRODUCTS_OF_A_THREAD
        share_among_threads(rows, getattr(stack_library(), function), arguments, most=most)


class NondeterministicStack(Automaton, Stack):
    """The stack of all runs of a pushdown automaton; sizes and actions as in :class:`Automaton`."""

    def start(
        self, rows: int, steps: int, like: Tensor, *, keep: bool, carried: StackCarry | None = None
    ) -> NondeterministicRun:
        """See :meth:`Stack.start`.

        A carry holds all times within the window, so that runs over the chunks of a text are one run over it;
        without a window it grows with the text.
        """
        native = like.device.type == "cpu" and _native_works()
        kind = NativeNondeterministicRun if native else TorchNondeterministicRun
        return kind(self, rows, steps, like, keep, carried)


@cache
def _native_works() -> bool:
    """Return whether the functions in C compile, and agree with torch's operations: tried once."""
    return stack_library() is not None and agrees(_pairs, "stacks are", "in C", tolerance=1e-9)


def _pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    for states, symbols, normalized, window in ((2, 3, False, 0), (3, 2, True, 7), (1, 5, False, 3)):
        stack = NondeterministicStack(
            states, symbols, unnormalized=not normalized, states_in_reading=not normalized, window=window
        )
        actions = torch.randn(17, 2, stack.action_size, generator=random, dtype=torch.float64)
        d_readings = torch.randn(17, 2, stack.reading_size, generator=random, dtype=torch.float64)
        ours = _outcome(NativeNondeterministicRun, stack, actions, d_readings)
        yield ours, _outcome(TorchNondeterministicRun, stack, actions, d_readings)


def _outcome(
    kind: type[NondeterministicRun], stack: NondeterministicStack, actions: Tensor, d_readings: Tensor
) -> Tensor:
    """Readings and gradients of a run with actions (T, B, A): (B, …)."""
    run = kind(stack, actions.shape[1], len(actions), actions, True, None)
    readings = [run.step(each) for each in actions]
    run.prepare_backward()
    return torch.cat([*readings, *(run.backward(each) for each in d_readings)], 1)
