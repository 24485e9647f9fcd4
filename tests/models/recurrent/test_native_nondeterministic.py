"""The nondeterministic stack in C against torch's operations, and when it is not used."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from compilers import another_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pdtools.models import RecurrentConfig, RecurrentLM, collate
from pdtools.models.recurrent import native_recurrence, recurrence
from pdtools.models.recurrent.stacks import NondeterministicStack
from pdtools.models.recurrent.stacks import nondeterministic as module
from pdtools.models.recurrent.stacks.nondeterministic import NativeNondeterministicRun, stack_library
from pdtools.models.recurrent.stacks.nondeterministic_run import NondeterministicRun, TorchNondeterministicRun

needs_compiler = pytest.mark.skipif(stack_library() is None, reason="no C compiler")


def stack_of(
    states: int, symbols: int, window: int = 0, *, normalized: bool = False
) -> NondeterministicStack:
    return NondeterministicStack(
        states, symbols, unnormalized=not normalized, states_in_reading=not normalized, window=window
    )


def done(
    kind: type[NondeterministicRun], stack: NondeterministicStack, actions: Tensor, chunks: int = 1
) -> list[Tensor]:
    """All that runs over chunks of the actions (T, B, A) give, forward and backward."""
    found, carried = [], None
    for part in actions.chunk(chunks):
        run = kind(stack, part.shape[1], len(part), part, True, carried)
        for step in part:
            found += [run.step(step).clone(), run.total.clone(), run.log_factor.clone()]
        carried = run.carried()
        found += [each.clone() for each in carried.values()]
        run.prepare_backward()
        weights = torch.randn(
            part.shape[0], part.shape[1], stack.reading_size, generator=generator(), dtype=part.dtype
        )
        found += [run.backward(weight) for weight in weights]
    return found


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@needs_compiler
@settings(deadline=None)
@given(
    states=st.integers(1, 6),
    symbols=st.integers(1, 6),
    rows=st.integers(1, 4),
    steps=st.integers(1, 30),
    window=st.integers(0, 12),
    normalized=st.booleans(),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_they_are_those_of_torch(
    states: int, symbols: int, rows: int, steps: int, window: int, normalized: bool, scale: float, seed: int
) -> None:
    stack = stack_of(states, symbols, window, normalized=normalized)
    random = torch.Generator().manual_seed(seed)
    actions = scale * torch.randn(steps, rows, stack.action_size, generator=random, dtype=torch.float64)
    chunks = 2 if window and steps > 1 else 1
    ours, theirs = (
        done(kind, stack, actions, chunks) for kind in (NativeNondeterministicRun, TorchNondeterministicRun)
    )
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@needs_compiler
def test_the_precision_is_that_of_the_actions() -> None:
    stack = stack_of(2, 3)
    actions = torch.randn(20, 2, stack.action_size, generator=generator())
    run = NativeNondeterministicRun(stack, 2, 20, actions, True, None)
    exact = NativeNondeterministicRun(stack, 2, 20, actions.double(), True, None)
    for each in actions:
        assert torch.equal(run.step(each), exact.step(each.double()).float())
    run.prepare_backward()
    assert run.backward(torch.ones(2, stack.reading_size)).dtype == torch.float32


@needs_compiler
def test_rows_that_are_copied_go_on_by_themselves() -> None:
    stack = stack_of(2, 3)
    actions = torch.randn(30, 3, stack.action_size, generator=generator(), dtype=torch.float64)
    run = NativeNondeterministicRun(stack, 3, 30, actions, False, None)
    for each in actions[:10]:
        run.step(each)
    rows = torch.tensor([2, 0, 2, 1])
    run.select(rows)
    found = [run.step(each[rows]).clone() for each in actions[10:]]
    whole = TorchNondeterministicRun(stack, 3, 30, actions, False, None)
    wanted = [whole.step(each)[rows] for each in actions]
    torch.testing.assert_close(torch.stack(found), torch.stack(wanted[10:]))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("normalized", [False, True])
def test_rows_are_divided_among_threads(
    normalized: bool, window: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_of(2, 3, window, normalized=normalized)
    actions = torch.randn(12, 5, stack.action_size, generator=generator(), dtype=torch.float64).to(dtype)
    chunks = 2 if window else 1
    alone = done(NativeNondeterministicRun, stack, actions, chunks)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(module, "PRODUCTS_OF_A_THREAD", 1)
    for one, other in zip(done(NativeNondeterministicRun, stack, actions, chunks), alone, strict=True):
        assert torch.equal(one, other)


def kind_of_run() -> type[NondeterministicRun]:
    return type(stack_of(2, 3).start(1, 5, torch.empty(0), keep=True))


@needs_compiler
def test_on_cpus_it_is_used() -> None:
    assert kind_of_run() is NativeNondeterministicRun
    with torch.device("meta"):
        assert kind_of_run() is TorchNondeterministicRun
    with torch.inference_mode():
        module._native_works.cache_clear()
        assert kind_of_run() is NativeNondeterministicRun


# --- whole sequences ----------------------------------------------------------------------------------


def sequence_and_gradients(
    in_c: bool,
    stack: NondeterministicStack,
    rows: int,
    steps: int,
    dtype: torch.dtype = torch.float64,
    scale: float = 1.0,
) -> list[Tensor]:
    """Hidden states of an LSTM with a stack, and the gradients of all that is learned."""
    random, width = generator(), 4

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)

    learned = [
        each.requires_grad_()
        for each in (
            normal(steps, rows, 4 * width),
            normal(4 * width, width + stack.reading_size),
            normal(stack.action_size, width),
            normal(stack.action_size),
        )
    ]
    inputs, recurrent, action, action_bias = learned
    with torch.no_grad():
        action *= scale
    carry = recurrence.Carry(normal(rows, width), normal(rows, width))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrence, "_native_works", lambda: in_c)
        weights = recurrence.Weights(recurrent, action, action_bias)
        hidden, after = recurrence.run_sequence("lstm", stack, weights, inputs, carry)
    assert after is None
    if torch.is_grad_enabled():
        assert (type(hidden.grad_fn).__name__ == "_NativeSequenceBackward") == in_c
    loss = (hidden * normal(steps, rows, width)).sum()
    return [hidden, *torch.autograd.grad(loss, learned)]


@needs_compiler
@settings(deadline=None)
@given(
    states=st.integers(1, 5),
    symbols=st.integers(1, 5),
    rows=st.integers(1, 3),
    steps=st.integers(1, 30),
    normalized=st.booleans(),
)
def test_sequences_are_those_in_lock_step(
    states: int, symbols: int, rows: int, steps: int, normalized: bool
) -> None:
    stack = stack_of(states, symbols, normalized=normalized)
    ours, theirs = (sequence_and_gradients(in_c, stack, rows, steps) for in_c in (True, False))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@needs_compiler
def test_sequences_in_single_precision() -> None:
    stack = stack_of(2, 3)
    exact = sequence_and_gradients(True, stack, 3, 40)
    for one, other in zip(sequence_and_gradients(True, stack, 3, 40, torch.float32), exact, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


@needs_compiler
def test_sequences_without_gradients_and_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(3, 2)
    wanted = sequence_and_gradients(True, stack, 5, 20)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(native_recurrence, "PRODUCTS_OF_A_THREAD", 1)
    for one, other in zip(sequence_and_gradients(True, stack, 5, 20), wanted, strict=True):
        assert torch.equal(one, other)
    with torch.no_grad():
        monkeypatch.setattr(torch.autograd, "grad", lambda loss, learned: learned)
        assert torch.equal(sequence_and_gradients(True, stack, 5, 20)[0], wanted[0])


@needs_compiler
@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("a window", {"stack_window": 4}),
        ("another controller", {"controller": "rnn"}),
        ("a wide controller", {"hidden_size": native_recurrence.WIDEST + 1}),
        ("another stack", {"stack": "superposition"}),
        ("", {}),
    ],
)
def test_what_is_not_a_sequence_for_c(
    reason: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recurrence._native_works()
    reads = []
    native = recurrence.native_sequence
    monkeypatch.setattr(recurrence, "native_sequence", lambda *given: (reads.append(1), native(*given))[1])
    config = RecurrentConfig(vocab_size=5, pad_id=0, root_id=1, eos_id=2, **options)  # type: ignore[arg-type]
    batch = collate([([1, 3, 4, 3, 2], [0, 1, 2, 3, 4])], 0)
    loss = RecurrentLM(config).loss(batch).sums["token_nll"]
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        loss.backward()
    assert bool(reads) != bool(reason)


@needs_compiler
def test_sequences_that_go_on_are_not_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "native_sequence", lambda *_: pytest.fail("a sequence that goes on"))
    stack = stack_of(2, 2)
    weights = recurrence.Weights(
        torch.zeros(8, 2 + 4), torch.zeros(stack.action_size, 2), torch.zeros(stack.action_size)
    )
    inputs = torch.zeros(3, 1, 8)
    start = recurrence.Carry(torch.zeros(1, 2), torch.zeros(1, 2))
    _, after = recurrence.run_sequence("lstm", stack, weights, inputs, start, carries=True)
    assert after is not None
    assert after.stack is not None
    recurrence.run_sequence("lstm", stack, weights, inputs, after)


@needs_compiler
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_is_not_hidden(bad: float, normalized: bool) -> None:
    stack = stack_of(2, 2, normalized=normalized)
    actions = torch.randn(6, 2, stack.action_size, generator=generator(), dtype=torch.float64)
    actions[2, 0, 5] = bad
    for kind in (NativeNondeterministicRun, TorchNondeterministicRun):
        run = kind(stack, 2, 6, actions, True, None)
        readings = torch.stack([run.step(each) for each in actions])
        run.prepare_backward()
        gradients = torch.stack([run.backward(torch.ones(2, stack.reading_size).double()) for _ in actions])
        assert readings[2:, 0].isnan().all()
        assert gradients[-3:, 0].isnan().any()
        assert readings[:, 1].isfinite().all()
        assert gradients[:, 1].isfinite().all()


@needs_compiler
def test_extreme_sequences_are_those_in_lock_step() -> None:
    for scale in (30.0, 1000.0):
        ours, theirs = (
            sequence_and_gradients(in_c, stack_of(2, 3), 2, 25, scale=scale) for in_c in (True, False)
        )
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8, equal_nan=True)


@needs_compiler
def test_nothing_depends_on_what_was_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spare: list[Tensor] = []
    monkeypatch.setattr(native_recurrence, "_spare", spare)
    for sizes in ((2, 3), (1, 2), (3, 1)):
        wanted = sequence_and_gradients(True, stack_of(*sizes), 2, 23)
        spare[:] = [torch.full((100_000,), torch.nan, dtype=torch.float64)]
        monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
        torch.use_deterministic_algorithms(True)
        try:
            found = sequence_and_gradients(True, stack_of(*sizes), 2, 23)
        finally:
            torch.use_deterministic_algorithms(False)
        assert [len(each) for each in spare] == [100_000]  # that it was used
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other)


@needs_compiler
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_vectors_of_other_processors(lanes: int, tmp_path: Path) -> None:
    wanted = sequence_and_gradients(False, stack_of(2, 3), 2, 15)
    change = f"s/^#define LANES .*/#define LANES {lanes}/"
    with another_compiler(tmp_path, "nondeterministic_stack.c", change):
        assert module._native_works()
        found = sequence_and_gradients(True, stack_of(2, 3), 2, 15)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@needs_compiler
def test_a_step_too_many_and_wrong_shapes_are_refused() -> None:
    stack = stack_of(2, 3)
    actions = torch.zeros(2, stack.action_size)
    for kind in (NativeNondeterministicRun, TorchNondeterministicRun):
        run = kind(stack, 2, 1, actions, False, None)
        run.step(actions)
        carried = run.carried()
        with pytest.raises(IndexError, match="no room for another step"):
            run.step(actions)
        with pytest.raises(ValueError, match="2 rows left cannot be carried on by 3"):
            kind(stack, 3, 1, actions, False, carried)
    run = NativeNondeterministicRun(stack, 2, 3, actions, True, None)
    with pytest.raises(ValueError, match="actions must be"):
        run.step(actions[:1])
    run.step(actions)
    run.prepare_backward()
    with pytest.raises(ValueError, match="gradients of readings must be"):
        run.backward(torch.zeros(2, 1))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hidden_states_may_be_changed_and_weights_too(dtype: torch.dtype) -> None:
    stack = stack_of(2, 2)
    *learned, start = (
        torch.ones(shape, dtype=dtype)
        for shape in ((4, 1, 8), (8, 2 + 4), (stack.action_size, 2), (stack.action_size,), (1, 2))
    )
    for each in learned:
        each.requires_grad_()
    wanted = torch.autograd.grad(
        native_recurrence.native_sequence(stack, *learned, start, start).sum(), learned
    )
    hidden = native_recurrence.native_sequence(stack, *learned, start, start)
    hidden.add_(1)
    with torch.no_grad():
        for each in learned:
            each.zero_()
    for one, other in zip(torch.autograd.grad(hidden.sum(), learned), wanted, strict=True):
        assert torch.equal(one, other)


@needs_compiler
def test_memory_that_is_used_again_is_that_of_one_sequence_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(2, 2)
    start = torch.zeros(3, 2)

    def sequence(steps: int) -> tuple[Tensor, list[Tensor]]:
        random = generator()
        learned = [
            torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()
            for shape in ((steps, 3, 8), (8, 2 + 4), (stack.action_size, 2), (stack.action_size,))
        ]
        return native_recurrence.native_sequence(stack, *learned, start, start).square().sum(), learned

    monkeypatch.setattr(native_recurrence, "_spare", [])
    wanted = {}
    for steps in (9, 4, 13):
        native_recurrence._spare.clear()
        wanted[steps] = torch.autograd.grad(*sequence(steps))
    for order in ((9, 4, 13), (13, 9, 4), (4, 4, 9)):
        under_way = [(steps, *sequence(steps)) for steps in order]
        for steps, total, learned in under_way[1:] + under_way[:1]:
            for one, other in zip(torch.autograd.grad(total, learned), wanted[steps], strict=True):
                assert torch.equal(one, other)
    assert len(native_recurrence._spare) == 1
    monkeypatch.setattr(native_recurrence, "_LARGEST_SPARE", 1_000)
    torch.autograd.grad(*sequence(9))
    assert not native_recurrence._spare


@needs_compiler
def test_the_default_device_is_not_that_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(2, 2)
    start = torch.zeros(1, 2)
    learned = [
        torch.ones(shape, requires_grad=True)
        for shape in ((4, 1, 8), (8, 2 + 4), (stack.action_size, 2), (stack.action_size,))
    ]
    monkeypatch.setattr(native_recurrence, "_spare", [])
    with torch.device("meta"):
        hidden = native_recurrence.native_sequence(stack, *learned, start, start)
        gradients = torch.autograd.grad(hidden.sum(), learned)
    assert all(each.device.type == "cpu" for each in (hidden, *gradients))


@needs_compiler
def test_long_texts_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RecurrentConfig(vocab_size=5, pad_id=0, root_id=1, eos_id=2)
    batch = collate([([1, *(300 * [3]), 2], list(range(302)))] * 40, 0)
    assert recurrence._native_works()
    parts = []
    native = recurrence.native_sequence
    monkeypatch.setattr(recurrence, "native_sequence", lambda *given: (parts.append(1), native(*given))[1])
    with torch.no_grad():
        RecurrentLM(config).loss(batch)
    assert len(parts) == 1
