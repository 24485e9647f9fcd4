"""Differentiable stacks against plain ones: values, gradients, limits, and runs in chunks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from stack_oracle import best_run, enumerated_alphas
from torch import Tensor

from pdtools.models import Batch, RecurrentConfig, RecurrentLM, collate
from pdtools.models.recurrent import recurrence
from pdtools.models.recurrent.stacks import (
    NondeterministicStack,
    Stack,
    StratificationStack,
    SuperpositionStack,
)
from pdtools.models.recurrent.stacks import nondeterministic as module
from pdtools.models.recurrent.stacks.nondeterministic import stack_library
from pdtools.models.recurrent.stacks.viterbi import heaviest_run

REPOSITORY = Path(__file__).resolve().parents[3]
SPECIAL = {"vocab_size": 7, "pad_id": 0, "root_id": 1, "eos_id": 2}
MODELS: dict[str, dict[str, Any]] = {
    "LSTM": {"stack": "none"},
    "Gref": {"stack": "stratification", "stack_vector": 3},
    "JM learned": {"stack": "superposition", "stack_vector": 3},
    "JM hidden": {"stack": "superposition", "stack_push": "hidden"},
    "JM depth": {"stack": "superposition", "stack_vector": 3, "stack_depth": 3},
    "JM simple": {"controller": "rnn", "stack": "superposition", "stack_vector": 2, "embedding_size": 3},
    "JM as released": {
        "controller": "rnn-relu",
        "stack": "superposition",
        "stack_push": "linear",
        "stack_vector": 2,
        "stack_depth": 4,
    },
    "NS": {"stack_unnormalized": False, "stack_states_in_reading": False},
    "NS+S": {"stack_unnormalized": False},
    "NS+U": {"stack_states_in_reading": False},
    "RNS": {},
    "RNS 3,2": {"stack_states": 3, "stack_symbols": 2},
    "RNS 1,1": {"stack_states": 1, "stack_symbols": 1},
}


@pytest.fixture(params=["C", "C in lock-step", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nondeterministic stacks computed in C, row by row or step by step, and by torch's operations."""
    if request.param != "C":
        monkeypatch.setattr(recurrence, "_native_works", lambda: False)
    if request.param == "torch":
        monkeypatch.setattr(module, "_native_works", lambda: False)
    elif stack_library() is None:
        pytest.skip("no C compiler")


def model_of(seed: int = 0, **options: Any) -> RecurrentLM:
    torch.manual_seed(seed)
    model = RecurrentLM(RecurrentConfig(**SPECIAL, **{"hidden_size": 5, **options})).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def batch_of(*lengths: int) -> Batch:
    """Random strings of so many symbols."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for n in lengths:
        tokens = torch.randint(3, 7, (n,), generator=generator).tolist()
        rows.append(([1, *tokens, 2], list(range(n + 2))))
    return collate(rows, 0)


def gradients(model: RecurrentLM, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("plainest", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_the_plain_ones(name: str, plainest: bool) -> None:
    from plain import stacks as plain_stacks

    model = model_of(**MODELS[name])
    batch = batch_of(13, 1, 6)
    loss = model.loss(batch).sums["token_nll"]
    plain = plain_stacks.loss(model, batch, plainest=plainest)
    torch.testing.assert_close(loss, plain)
    expected = gradients(model, plain)
    found = gradients(model, loss)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.usefixtures("way")
def test_long_products_are_taken_in_chunks_without_a_trace() -> None:
    from plain import stacks as plain_stacks

    model = model_of()
    batch = batch_of(60, 55)
    loss, plain = model.loss(batch).sums["token_nll"], plain_stacks.loss(model, batch)
    torch.testing.assert_close(loss, plain)
    expected, found = gradients(model, plain), gradients(model, loss)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value)


def readings(stack: Stack, actions: Tensor, chunks: list[int] | None = None) -> Tensor:
    """All readings (T + 1, B, R) of runs with the actions (T, B, A), as a differentiable function of them."""
    if chunks is None:
        return _Readings.apply(actions, stack)
    found, carried = [], None
    for part in actions.split(chunks):
        run = stack.start(part.shape[1], len(part), actions, keep=False, carried=carried)
        if not found:
            found.append(run.reading.clone())
        found += [run.step(step).clone() for step in part]
        carried = run.carried()
    return torch.stack(found)


class _Readings(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, actions: Tensor, stack: Stack) -> Tensor:
        ctx.save_for_backward(actions)
        ctx.stack = stack
        run = stack.start(actions.shape[1], len(actions), actions, keep=False)
        return torch.stack([run.reading.clone(), *(run.step(step).clone() for step in actions)])

    @staticmethod
    def backward(ctx: Any, d_readings: Tensor) -> tuple[Tensor, None]:
        (actions,) = ctx.saved_tensors
        # There is one backward pass: another run for every time that it is asked for.
        run = ctx.stack.start(actions.shape[1], len(actions), actions, keep=True)
        for step in actions:
            run.step(step)
        run.prepare_backward()
        return torch.stack([run.backward(d) for d in d_readings[1:].flip(0)]).flip(0), None


def nondeterministic(states: int, symbols: int, **options: Any) -> NondeterministicStack:
    settings = {"unnormalized": True, "states_in_reading": True, "window": 0}
    return NondeterministicStack(states, symbols, **{**settings, **options})


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("unnormalized", [True, False])
@pytest.mark.parametrize(("states", "symbols", "steps"), [(1, 2, 6), (2, 1, 6), (2, 2, 5), (1, 3, 5)])
def test_the_nondeterministic_stack_sums_over_all_runs(
    states: int, symbols: int, steps: int, unnormalized: bool
) -> None:
    stack = nondeterministic(states, symbols, unnormalized=unnormalized)
    actions = torch.randn(steps, 1, stack.action_size, dtype=torch.float64, requires_grad=True)
    logits = actions.view(steps, stack.configurations, -1)
    weights = logits.exp() if unnormalized else logits.softmax(2)
    alphas = torch.stack(enumerated_alphas(weights, states, symbols))  # (T + 1, C)
    expected = alphas / alphas.sum(1, keepdim=True)
    found = readings(stack, actions)[:, 0]
    torch.testing.assert_close(found, expected)
    factors = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad((expected * factors).sum(), actions)
    (given,) = torch.autograd.grad((found * factors).sum(), actions)
    torch.testing.assert_close(given, wanted)


STACKS: dict[str, Stack] = {
    "stratification": StratificationStack(3, 0),
    "stratification, depth 2": StratificationStack(2, 2),
    "superposition": SuperpositionStack(3, 0, "learned"),
    "superposition, depth 2": SuperpositionStack(2, 2, "learned"),
    "superposition, linear": SuperpositionStack(2, 0, "linear"),
    "nondeterministic": nondeterministic(2, 2),
    "nondeterministic, distributions": nondeterministic(2, 2, unnormalized=False, states_in_reading=False),
    "nondeterministic, window 3": nondeterministic(2, 1, window=3),
    "nondeterministic, window 1": nondeterministic(1, 2, window=1),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", STACKS)
def test_gradients_are_those_of_small_differences(name: str) -> None:
    stack = STACKS[name]
    torch.manual_seed(1)
    actions = torch.randn(6, 2, stack.action_size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: readings(stack, given), (actions,))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", STACKS)
def test_a_run_in_chunks_is_one_run(name: str) -> None:
    stack = STACKS[name]
    torch.manual_seed(2)
    actions = torch.randn(12, 2, stack.action_size, dtype=torch.float64)
    whole = readings(stack, actions)
    torch.testing.assert_close(readings(stack, actions, [1, 4, 5, 2]), whole)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", STACKS)
def test_what_is_carried_on_is_read_before_the_first_step(name: str) -> None:
    stack = STACKS[name]
    torch.manual_seed(4)
    actions = torch.randn(5, 2, stack.action_size, dtype=torch.float64)
    run = stack.start(2, 5, actions, keep=False)
    for step in actions:
        run.step(step)
    following = stack.start(2, 3, actions, keep=False, carried=run.carried())
    torch.testing.assert_close(following.reading, run.reading)


def test_a_carry_is_as_long_as_the_window() -> None:
    stack = nondeterministic(2, 2, window=4)
    actions = torch.randn(20, 2, stack.action_size)
    run = stack.start(2, 15, actions, keep=False)
    for step in actions[:15]:
        run.step(step)
    carried = run.carried()
    assert carried is not None
    assert carried["columns"].shape == (2 * 2, 4 * 2, 4 * 4)
    again = stack.start(2, 5, actions, keep=False, carried=carried)
    torch.testing.assert_close(
        torch.stack([again.step(step) for step in actions[15:]]), readings(stack, actions)[16:]
    )


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("window", [8, 20])
def test_a_window_over_the_whole_sequence_is_no_limit(window: int) -> None:
    actions = torch.randn(8, 2, nondeterministic(2, 2).action_size, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(9, 2, 4, dtype=torch.float64)
    found = []
    for stack in (nondeterministic(2, 2), nondeterministic(2, 2, window=window)):
        given = readings(stack, actions)
        (gradient,) = torch.autograd.grad((given * factors).sum(), actions)
        found.append((given, gradient))
    for unlimited, limited in zip(*found, strict=True):
        torch.testing.assert_close(limited, unlimited)


@pytest.mark.usefixtures("way")
def test_within_a_window_only_near_symbols_are_popped_to() -> None:
    """Section 5.1, equation by equation: γ without what spans more than D, α over the last D times."""
    states, symbols, window, steps = 2, 2, 3, 9
    c = states * symbols
    stack = nondeterministic(states, symbols, window=window)
    actions = torch.randn(steps, 1, stack.action_size, dtype=torch.float64)
    weights = actions.view(steps, c, -1).exp()
    gamma = torch.zeros(steps + 1, steps + 1, c, c, dtype=torch.float64)
    alpha = torch.zeros(steps + 1, c, dtype=torch.float64)
    alpha[0, 0] = 1
    for t in range(1, steps + 1):
        push, replace, pop = weights[t - 1].split([c, c, states], 1)
        gamma[t - 1, t] = push
        for i in range(max(0, t - window), t - 1):
            gamma[i, t] = gamma[i, t - 1] @ replace
            for k in range(i + 1, t - 1):
                through = gamma[k, t - 1] @ pop  # ((y, u), r)
                below = gamma[i, k].view(c, symbols, states)  # (c, y, u)
                gamma[i, t] += torch.einsum(
                    "cyu,yur->cyr", below, through.view(symbols, states, states)
                ).flatten(1)
        for i in range(max(0, t - window), t):
            alpha[t] += alpha[i] @ gamma[i, t]
    torch.testing.assert_close(readings(stack, actions)[:, 0], alpha / alpha.sum(1, keepdim=True))


@pytest.mark.usefixtures("way")
def test_extreme_weights_stay_exact_and_finite() -> None:
    from plain import stacks as plain_stacks

    model = model_of()
    with torch.no_grad():
        model.actions.weight *= 30
    batch = batch_of(50)
    loss, plain = model.loss(batch).sums["token_nll"], plain_stacks.loss(model, batch)
    torch.testing.assert_close(loss, plain)
    expected, found = gradients(model, plain), gradients(model, loss)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("unnormalized", [True, False])
def test_far_apart_weights_are_as_in_log_space(unnormalized: bool) -> None:
    from plain import stacks as plain_stacks

    stack = nondeterministic(2, 3, unnormalized=unnormalized)
    random = torch.Generator().manual_seed(1)
    actions = 200 * torch.randn(30, 3, stack.action_size, dtype=torch.float64, generator=random)
    actions.requires_grad_()
    config = SimpleNamespace(
        stack_states=2, stack_symbols=3, stack_unnormalized=unnormalized, stack_states_in_reading=True
    )
    plain = plain_stacks.Nondeterministic(SimpleNamespace(config=config), 3, actions)  # type: ignore[arg-type]
    expected = [plain.reading]
    for step in actions:
        plain.step(step, step)
        expected.append(plain.reading)
    found = readings(stack, actions)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)
    factors = torch.randn(found.shape, dtype=torch.float64)
    (wanted,) = torch.autograd.grad((torch.stack(expected) * factors).sum(), actions)
    (got,) = torch.autograd.grad((found * factors).sum(), actions)
    torch.testing.assert_close(got, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("unnormalized", [True, False])
def test_absurd_weights_give_distributions(unnormalized: bool) -> None:
    stack = nondeterministic(2, 3, unnormalized=unnormalized)
    actions = 5000 * torch.randn(40, 2, stack.action_size)
    found = readings(stack, actions)
    torch.testing.assert_close(found.sum(2), torch.ones(41, 2))


def test_superposition_pushes_pops_and_forgets_below_its_depth() -> None:
    stack = SuperpositionStack(1, 2, "learned")
    run = stack.start(1, 9, torch.empty(0), keep=False)

    def act(kind: int, value: float = 0.0) -> float:
        mixture = [-100.0, -100.0, -100.0]
        mixture[kind] = 100.0
        return float(run.step(torch.tensor([[*mixture, value]])))

    sigmoid = torch.tensor([1.0, 2.0, 3.0]).sigmoid().tolist()
    assert act(0, 1.0) == pytest.approx(sigmoid[0])
    assert act(0, 2.0) == pytest.approx(sigmoid[1])
    assert act(1) == pytest.approx(sigmoid[1])
    assert act(2) == pytest.approx(sigmoid[0])
    assert act(0, 2.0) == pytest.approx(sigmoid[1])
    assert act(0, 3.0) == pytest.approx(sigmoid[2])
    assert act(2) == pytest.approx(sigmoid[1])
    assert act(2) == pytest.approx(0)  # the first is lost


def test_stratification_pops_through_layers_and_reads_a_thickness_of_one() -> None:
    stack = StratificationStack(1, 0)
    run = stack.start(1, 9, torch.empty(0, dtype=torch.float64), keep=False)

    def act(pop: float, push: float, value: float) -> float:
        logit = torch.tensor([pop, push], dtype=torch.float64).logit(eps=1e-12).tolist()
        return float(run.step(torch.tensor([[*logit, value]], dtype=torch.float64)))

    a, b, c = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64).tanh().tolist()
    assert act(0, 0.8, 1.0) == pytest.approx(0.8 * a)
    assert act(0, 0.5, -2.0) == pytest.approx(0.5 * b + 0.5 * a)
    assert act(0.7, 0.1, 0.5) == pytest.approx(0.1 * c + 0.6 * a)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_stratification_reads_so_many_layers_at_most(depth: int) -> None:
    torch.manual_seed(0)
    actions = torch.randn(6, 1, 4, dtype=torch.float64)
    actions[:, :, 0] = -100  # nothing is popped, and layers of a tenth are pushed
    actions[:, :, 1] = torch.logit(torch.tensor(0.1))
    found = readings(StratificationStack(2, depth), actions)
    layers = actions[:, :, 2:].tanh()
    for t in range(1, 7):
        kept = layers[max(0, t - depth) : t]
        torch.testing.assert_close(found[t], 0.1 * kept.sum(0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("states", "symbols", "steps"), [(1, 2, 6), (2, 1, 6), (2, 2, 5), (1, 3, 5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_heaviest_run_is_the_heaviest_of_all(states: int, symbols: int, steps: int, seed: int) -> None:
    c = states * symbols
    torch.manual_seed(seed)
    # Pops are liked, so that they are part of it.
    weights = torch.randn(steps, c, 2 * c + states, dtype=torch.float64)
    weights[:, :, 2 * c :] += 2
    log_weight, path = best_run(weights.exp(), states, symbols)
    found = heaviest_run(weights.numpy(), states, symbols)
    assert found.log_weight == pytest.approx(log_weight)
    assert [(step.state, step.stack) for step in found.steps] == path[1:]


@pytest.mark.parametrize(("states", "symbols", "steps", "window"), [(1, 2, 6, 2), (2, 1, 7, 3), (1, 2, 7, 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_heaviest_run_within_a_window(
    states: int, symbols: int, steps: int, window: int, seed: int
) -> None:
    c = states * symbols
    torch.manual_seed(seed)
    weights = torch.randn(steps, c, 2 * c + states, dtype=torch.float64)
    weights[:, :, c:] += 2
    log_weight, path = best_run(weights.exp(), states, symbols, window)
    assert log_weight < best_run(weights.exp(), states, symbols)[0]
    found = heaviest_run(weights.numpy(), states, symbols, window)
    assert found.log_weight == pytest.approx(log_weight)
    assert [(step.state, step.stack) for step in found.steps] == path[1:]


def test_heaviest_runs_of_long_sequences_are_runs() -> None:
    weights = torch.randn(30, 4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weights[:, :, 8:] += 2
    found = heaviest_run(weights.numpy(), 2, 2)
    state, stack, total, kinds = 0, (0,), 0.0, set()
    for step, row in zip(found.steps, weights, strict=True):
        options = row[stack[-1] * 2 + state]
        top = step.stack[-1] * 2 + step.state
        if step.kind == "push":
            assert step.stack[:-1] == stack
            total += float(options[top])
        elif step.kind == "replace":
            assert step.stack[:-1] == stack[:-1]
            assert len(stack) > 1
            total += float(options[4 + top])
        else:
            assert step.stack == stack[:-1]
            assert len(step.stack) > 1
            total += float(options[8 + step.state])
        state, stack = step.state, step.stack
        kinds.add(step.kind)
    assert total == pytest.approx(found.log_weight)
    assert kinds == {"push", "replace", "pop"}
